//! Programs that are run to their end, and what they said when they failed.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

/// A program that failed, with what it said.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing}: {said}")]
pub struct Failure {
    pub(crate) doing: String,
    pub(crate) said: String,
}

/// Runs a program with this input and gives its output.
///
/// # Errors
/// A program that does not start, or an exit code other than 0.
pub fn answer(command: &mut Command, input: &str, doing: &str) -> Result<String, Failure> {
    let fail = |said: String| Failure { doing: doing.to_owned(), said };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| fail(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| fail(error.to_string()))?;
    text_of(&output).map_err(fail)
}

fn text_of(output: &Output) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        Ok(text.into_owned())
    } else {
        Err(format!("{}\n{}", said.trim(), text.trim()).trim().to_owned())
    }
}

/// Runs a program whose output goes to a file: what it leaves running must hold no pipe of ours
/// open.
pub(crate) fn run(command: &mut Command, doing: &str, log: &Path) -> Result<(), Failure> {
    let fail = |said: String| Failure { doing: doing.to_owned(), said };
    let file = std::fs::File::create(log).map_err(|error| fail(error.to_string()))?;
    let errors = file.try_clone().map_err(|error| fail(error.to_string()))?;
    let status =
        command.stdout(file).stderr(errors).status().map_err(|error| fail(error.to_string()))?;
    if status.success() {
        Ok(())
    } else {
        Err(fail(std::fs::read_to_string(log).unwrap_or_default()))
    }
}
