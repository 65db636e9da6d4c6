//! Packages are restored before the program starts; what cannot be restored is named.

use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    playground::AGENT_IMAGE,
    suite::Stage,
};

use crate::{LIMIT, programs::log_of};

/// A job that needs these packages.
pub(crate) fn needing(environment: &str) -> Job<'static> {
    Job::named("train")
        .running("command: [python, -c, \"import einops; print('einops', einops.__version__)\"]")
        .within(&format!("maxRuntime: 20m\n{environment}"))
}

fn fails(stage: &Stage, namespace: &str, job: &Job<'_>, reason: &str, words: &str, payer: &str) {
    let namespace = jobs::namespace(stage, namespace);
    job.apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", reason, LIMIT);
    assert!(message.contains(words) && message.contains("What to do"), "{reason}: {message}");
    let status = jobs::ended_as(stage, &namespace, "train", (reason, payer), LIMIT);
    assert_eq!(status.running_at, None, "{reason}: the program did not start");
}

pub(crate) fn from_a_config_map(stage: &Stage) {
    let namespace = jobs::namespace(stage, "packages");
    let files = "apiVersion: v1
kind: ConfigMap
metadata: {name: packages}
data:
  all.txt: |
    -r base.txt
  base.txt: |
    einops==0.8.0
";
    stage.playground.apply(&namespace, files).unwrap();
    needing("environment: {files: [all.txt], from: {configMap: packages}}")
        .apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    assert!(log_of(stage, &namespace, "train-r0-a1").contains("einops 0.8.0"));
}

pub(crate) fn that_cannot_be_restored(stage: &Stage) {
    let inline =
        |text: &str| needing(&format!("environment: {{inline: {{requirements.txt: \"{text}\"}}}}"));
    for (namespace, job, reason, words, payer) in [
        (
            "no-package",
            inline("einops==0.8.0\\nno-such-package-anywhere-at-all==1.0"),
            "PackageNotFound",
            "no-such-package-anywhere-at-all",
            "User",
        ),
        (
            "broken-line",
            inline("einops==0.8.0\\nnumpy ===== 1"),
            "RequirementsInvalid",
            "requirements.txt:2",
            "User",
        ),
        (
            "other-machine",
            inline("idna @ file:///croot/idna/work"),
            "RequirementsNotPortable",
            "requirements.txt:1",
            "User",
        ),
        (
            "no-file",
            needing("environment: {from: {configMap: absent}}"),
            "EnvironmentFileMissing",
            "requirements.txt; looked in ConfigMap absent",
            "User",
        ),
        (
            // An image with one static program and nothing else.
            "no-python",
            inline("einops").from_image(AGENT_IMAGE),
            "NoPythonInImage",
            "Python",
            "User",
        ),
        (
            "no-own-index",
            needing(
                "environment: {inline: {requirements.txt: a}}\nenv: [{name: UV_DEFAULT_INDEX, value: \"http://127.0.0.1:9/simple\"}]",
            ),
            "OwnIndexUnreachable",
            "127.0.0.1:9",
            "User",
        ),
    ] {
        fails(stage, namespace, &job, reason, words, payer);
    }
}

/// Nobody but the installation named the index, so nobody pays.
pub(crate) fn from_an_index_that_is_away(stage: &Stage) {
    let settings = "mirrors: {pypi: {index: \"http://127.0.0.1:9/simple\"}}\n";
    let operator = Operator::start_as_set(&stage.playground, settings).unwrap();
    let job = needing("environment: {inline: {requirements.txt: einops}}");
    fails(stage, "no-index", &job, "IndexUnreachable", "127.0.0.1:9", "Infrastructure");
    operator.kill().unwrap();
}
