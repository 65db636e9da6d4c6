use std::{collections::BTreeSet, fs, path::Path};

use leasehold_crds::definitions::files;

#[test]
fn the_generated_files_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("generated");
    let made = files().unwrap();
    for (name, content) in &made {
        let stored = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            stored == *content,
            "crds/generated/{name} is not up to date: cargo run -p leasehold-crds --bin generate"
        );
    }
    let stored: BTreeSet<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(stored, made.into_iter().map(|(name, _)| name).collect());
}

#[test]
fn a_definition_says_the_same_after_a_round_through_yaml() {
    for definition in leasehold_crds::definitions::definitions() {
        let text = serde_yaml::to_string(&definition.object).unwrap();
        let again: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(again, definition.object, "{}", definition.kind);
    }
}
