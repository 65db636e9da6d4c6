//! What users copy and clusters install, read by the parser that kubectl and git controllers use.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use leasehold_tests::{playground::project, suite::Stage};
use serde_json::Value;

pub(crate) fn examples_survive_gos_yaml_parser(stage: &Stage) {
    read_alike(stage, "examples");
}

pub(crate) fn definitions_survive_gos_yaml_parser(stage: &Stage) {
    read_alike(stage, "crds/generated");
}

pub(crate) fn examples_are_accepted(stage: &Stage) {
    for file in yaml_files("examples") {
        let file = file.to_string_lossy().into_owned();
        let dry = ["apply", "--dry-run=server", "--validate=strict", "-n", "default", "-f", &file];
        stage.playground.kubectl(&dry).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

/// Both parsers see the same documents in every file of the folder.
fn read_alike(stage: &Stage, folder: &str) {
    let files = yaml_files(folder);
    assert!(files.len() >= 3, "{folder}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let ours: Vec<Value> = serde_yaml::from_multiple(&text).unwrap();
        let theirs = as_go_reads_it(&stage.playground.environment().playground, &text);
        assert_eq!(ours, theirs, "{}", file.display());
    }
}

fn as_go_reads_it(playground: &Path, text: &str) -> Vec<Value> {
    let mut child = Command::new(playground)
        .arg("to-json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(project().join(folder)).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}
