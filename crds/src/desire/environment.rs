//! The files of an environment. Pure checks; the controller takes the texts from the specification
//! as they are.

use leasehold_core::reason::Finding;

use super::{invalid, program::fits_the_kernel};
use crate::{
    job::Environment,
    schema::{LONGEST_FILE, MOST_FILES, says},
};

/// The file that is restored when `files` names none.
pub const DEFAULT_FILE: &str = "requirements.txt";

/// Names of the files to restore, defaults applied.
#[must_use]
pub fn file_names(environment: &Environment) -> Vec<String> {
    environment.files.clone().unwrap_or_else(|| vec![DEFAULT_FILE.to_owned()])
}

pub(super) fn check(environment: Option<&Environment>) -> Result<(), Finding> {
    let Some(environment) = environment else {
        return Ok(());
    };
    let files = file_names(environment);
    if !(1..=MOST_FILES).contains(&files.len()) {
        let given = files.len().to_string();
        return Err(invalid("spec.environment.files", &given, "name 1 to 8 files"));
    }
    for (index, file) in files.iter().enumerate() {
        let field = format!("spec.environment.files[{index}]");
        if !is_path(file) {
            return Err(invalid(&field, file, says::FILE_PATH));
        }
        if [".yml", ".yaml", ".toml", ".lock"].iter().any(|end| file.ends_with(end)) {
            return Err(invalid(&field, file, says::FILE_FORMAT));
        }
    }
    if environment.inline.is_some() && environment.from.is_some() {
        return Err(invalid("spec.environment", "inline and from", says::ONE_SOURCE));
    }
    if environment.from.as_ref().is_some_and(|from| from.config_map.is_empty()) {
        return Err(invalid("spec.environment.from.configMap", "", "name the ConfigMap"));
    }
    inline(environment)
}

fn inline(environment: &Environment) -> Result<(), Finding> {
    const FIELD: &str = "spec.environment.inline";
    let Some(files) = &environment.inline else {
        return Ok(());
    };
    if !(1..=MOST_FILES).contains(&files.len()) {
        return Err(invalid(FIELD, &files.len().to_string(), "write 1 to 8 files"));
    }
    if let Some(name) = files.keys().find(|name| !is_name(name)) {
        return Err(invalid(FIELD, name, says::FILE_NAME));
    }
    if files.values().map(|text| text.chars().count()).sum::<usize>() > LONGEST_FILE {
        return Err(invalid(FIELD, "", says::INLINE_SIZE));
    }
    // Each travels in a variable, with its name and that of the variable.
    for (name, text) in files {
        fits_the_kernel(&format!("{FIELD}.{name}"), &format!("LEASEHOLD_FILE_0={name}\n{text}"))?;
    }
    let missing = file_names(environment).into_iter().find(|name| !files.contains_key(name));
    match missing {
        Some(name) => Err(invalid("spec.environment.files", &name, says::NOT_INLINE)),
        None => Ok(()),
    }
}

/// A path in the image, or the name of a file in `inline` or `from`.
fn is_path(path: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "._+/-".contains(letter);
    (1..=253).contains(&path.len())
        && path.chars().all(allowed)
        && !path.split('/').any(|part| part == "..")
        && !path.starts_with('-')
}

/// A name that a key of a `ConfigMap` could have.
fn is_name(name: &str) -> bool {
    is_path(name) && !name.contains(['/', '+']) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fits_the_definition_has_to_fit_into_a_variable_too() {
        let environment = |text: String| Environment {
            inline: Some([(DEFAULT_FILE.to_owned(), text)].into()),
            ..Environment::default()
        };
        assert_eq!(inline(&environment("é".repeat(LONGEST_FILE - 100))), Ok(()));
        let refusal = inline(&environment("🦀".repeat(LONGEST_FILE))).unwrap_err();
        assert!(refusal.evidence.contains("requirements.txt"), "{refusal:?}");
        assert!(inline(&environment("six\0".to_owned())).is_err());
    }
}
