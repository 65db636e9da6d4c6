//! What runs in the container: image, script or command, environment, paths. Pure checks; the
//! controller takes the values from the specification as they are.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::EnvVar;
use leasehold_core::reason::Finding;

use super::invalid;
use crate::{
    job::GpuJobSpec,
    names::ENVIRONMENT_PREFIX,
    schema::{
        LONGEST_ARGUMENT, LONGEST_IMAGE, LONGEST_PATH, LONGEST_SCRIPT, LONGEST_VARIABLE_NAME,
        LONGEST_VARIABLE_VALUE, MOST_ARGS, MOST_COMMAND_ITEMS, MOST_PULL_SECRETS, MOST_VARIABLES,
        says,
    },
};

pub(super) fn check(spec: &GpuJobSpec) -> Result<(), Finding> {
    image(&spec.image)?;
    script_or_command(spec)?;
    environment(&spec.env)?;
    working_dir(spec.working_dir.as_deref())?;
    pulling(spec)
}

fn image(image: &str) -> Result<(), Finding> {
    let length = image.chars().count();
    if length == 0
        || length > LONGEST_IMAGE
        || image.contains(|letter: char| letter.is_ascii_whitespace())
    {
        return Err(invalid("spec.image", image, says::IMAGE));
    }
    Ok(())
}

fn script_or_command(spec: &GpuJobSpec) -> Result<(), Finding> {
    match (&spec.script, &spec.command) {
        (Some(_), Some(_)) | (None, None) => {
            let given = if spec.script.is_some() { "script and command" } else { "" };
            return Err(invalid("spec.script", given, says::ONE_PROGRAM));
        }
        (Some(script), None) => {
            let length = script.chars().count();
            if length == 0 || length > LONGEST_SCRIPT {
                return Err(invalid(
                    "spec.script",
                    script,
                    "script has 1 to 65536 characters; put longer ones into the image",
                ));
            }
            fits_the_kernel("spec.script", script)?;
        }
        (None, Some(command)) => {
            if command.is_empty() {
                return Err(invalid("spec.command", "[]", "command names at least the program"));
            }
            bounded("spec.command", command, MOST_COMMAND_ITEMS)?;
        }
    }
    match &spec.args {
        Some(_) if spec.command.is_none() => Err(invalid("spec.args", "", says::ARGS)),
        Some(args) => bounded("spec.args", args, MOST_ARGS),
        None => Ok(()),
    }
}

/// The API server counts characters, Linux bytes: one argument or variable has at most 128 KiB with
/// its NUL (`MAX_ARG_STRLEN`, `man 2 execve`).
pub(super) fn fits_the_kernel(field: &str, argument: &str) -> Result<(), Finding> {
    const MOST_BYTES: usize = 131_071;
    if argument.contains('\0') {
        return Err(invalid(field, "a NUL character", "Linux takes none in arguments; remove it"));
    }
    if argument.len() <= MOST_BYTES {
        return Ok(());
    }
    let given = format!("{} bytes", argument.len());
    Err(invalid(field, &given, "Linux takes at most 131071 bytes; put it into a file of the image"))
}

fn bounded(field: &str, items: &[String], most: usize) -> Result<(), Finding> {
    if items.len() > most {
        return Err(invalid(field, &items.len().to_string(), &format!("at most {most} items")));
    }
    match items.iter().position(|item| item.chars().count() > LONGEST_ARGUMENT) {
        Some(index) => Err(invalid(
            &format!("{field}[{index}]"),
            "",
            "an argument has at most 65536 characters",
        )),
        None => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| fits_the_kernel(&format!("{field}[{index}]"), item)),
    }
}

fn environment(variables: &[EnvVar]) -> Result<(), Finding> {
    if variables.len() > MOST_VARIABLES {
        return Err(invalid("spec.env", &variables.len().to_string(), "at most 256 variables"));
    }
    let mut seen = BTreeSet::new();
    for (index, variable) in variables.iter().enumerate() {
        let field = format!("spec.env[{index}].name");
        let name = variable.name.as_str();
        let head = |letter: char| letter.is_ascii_alphabetic() || matches!(letter, '-' | '.' | '_');
        let tail = |letter: char| head(letter) || letter.is_ascii_digit();
        if !name.starts_with(head) || !name.chars().all(tail) || name.len() > LONGEST_VARIABLE_NAME
        {
            return Err(invalid(&field, name, says::VARIABLE_NAME));
        }
        let text = variable.value.as_deref().unwrap_or_default();
        fits_the_kernel(&format!("spec.env[{index}].value"), text)?;
        if name == "NVIDIA_VISIBLE_DEVICES" {
            return Err(invalid(&field, name, says::VISIBLE_DEVICES));
        }
        if name.starts_with(ENVIRONMENT_PREFIX) {
            return Err(invalid(&field, name, says::RESERVED_VARIABLE));
        }
        if !seen.insert(name) {
            return Err(invalid(
                &format!("spec.env[{index}]"),
                name,
                "this name stands twice: keep one of them",
            ));
        }
        value(index, variable)?;
    }
    Ok(())
}

fn value(index: usize, variable: &EnvVar) -> Result<(), Finding> {
    let text = variable.value.as_deref().unwrap_or_default();
    if !text.is_empty() && variable.value_from.is_some() {
        return Err(invalid(&format!("spec.env[{index}].value"), text, says::ONE_VALUE));
    }
    if text.chars().count() > LONGEST_VARIABLE_VALUE {
        return Err(invalid(
            &format!("spec.env[{index}].value"),
            text,
            "a value has at most 32768 characters",
        ));
    }
    let Some(source) = &variable.value_from else {
        return Ok(());
    };
    let sources = [
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
    ];
    if sources.iter().filter(|given| **given).count() == 1 {
        return Ok(());
    }
    let cure = "give exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef";
    Err(invalid(&format!("spec.env[{index}].valueFrom"), "", cure))
}

fn working_dir(path: Option<&str>) -> Result<(), Finding> {
    match path {
        Some(path) if !path.starts_with('/') || path.chars().count() > LONGEST_PATH => {
            Err(invalid("spec.workingDir", path, says::WORKING_DIR))
        }
        Some(_) | None => Ok(()),
    }
}

fn pulling(spec: &GpuJobSpec) -> Result<(), Finding> {
    let policy = spec.image_pull_policy.as_deref();
    if let Some(other) =
        policy.filter(|policy| !matches!(*policy, "Always" | "IfNotPresent" | "Never"))
    {
        return Err(invalid(
            "spec.imagePullPolicy",
            other,
            "imagePullPolicy is Always, IfNotPresent or Never",
        ));
    }
    let secrets = &spec.image_pull_secrets;
    if secrets.len() > MOST_PULL_SECRETS {
        return Err(invalid(
            "spec.imagePullSecrets",
            &secrets.len().to_string(),
            "at most 16 Secrets",
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, secret) in secrets.iter().enumerate() {
        let field = format!("spec.imagePullSecrets[{index}]");
        if secret.name.is_empty() {
            return Err(invalid(&format!("{field}.name"), "", "name the Secret"));
        }
        if !seen.insert(secret.name.as_str()) {
            return Err(invalid(&field, &secret.name, "this name stands twice: keep one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_has_to_fit_in_bytes_too() {
        let wide = "☂".repeat(50_000);
        let spec = |script: Option<&String>, args: Option<&String>| GpuJobSpec {
            script: script.cloned(),
            command: args.map(|_| vec!["true".to_owned()]),
            args: args.map(|args| vec![args.clone()]),
            ..GpuJobSpec::default()
        };
        for (spec, field) in
            [(spec(Some(&wide), None), "spec.script"), (spec(None, Some(&wide)), "spec.args[0]")]
        {
            let evidence = script_or_command(&spec).unwrap_err().evidence;
            assert!(evidence.contains(field) && evidence.contains("150000 bytes"), "{evidence}");
        }
        assert!(script_or_command(&spec(Some(&"☂".repeat(40_000)), None)).is_ok());
        assert!(script_or_command(&spec(Some(&"a\0b".to_owned()), None)).is_err());
        let variable = |value: &str| EnvVar {
            name: "WIDE".into(),
            value: Some(value.to_owned()),
            value_from: None,
        };
        assert!(environment(&[variable(&wide)]).is_err());
        assert!(environment(&[variable("narrow")]).is_ok());
    }
}
