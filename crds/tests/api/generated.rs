use std::{collections::BTreeSet, fs, path::Path};

use leasehold_crds::definitions::files;

#[test]
fn the_generated_files_are_up_to_date() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let made = files().unwrap();
    for (path, content) in &made {
        let stored = fs::read_to_string(project.join(path)).unwrap_or_default();
        assert!(
            stored == *content,
            "{path} is not up to date: cargo run -p leasehold-crds --bin generate"
        );
    }
    // People apply this folder as a whole.
    let stored: BTreeSet<_> = fs::read_dir(project.join("crds/generated"))
        .unwrap()
        .map(|entry| format!("crds/generated/{}", entry.unwrap().file_name().display()))
        .collect();
    let made = made.into_iter().map(|(path, _)| path);
    assert_eq!(stored, made.filter(|path| path.starts_with("crds/generated/")).collect());
}

#[test]
fn a_definition_says_the_same_after_a_round_through_yaml() {
    for definition in leasehold_crds::definitions::definitions() {
        let text = serde_yaml::to_string(&definition.object).unwrap();
        let again: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(again, definition.object, "{}", definition.kind);
    }
}
