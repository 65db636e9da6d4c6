//! Pods with many containers, which share what the kubelet keeps of their last words.

use k8s_openapi::api::core::v1::Pod;
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::{LIMIT, policies};

/// The kubelet keeps 12 KiB of a pod (`pkg/kubelet/kuberuntime`, `MaxPodTerminationMessageLogLength`):
/// with so many containers fewer bytes for each than an agent's report may have.
const SIDECARS: usize = 20;

/// Keeps the pod, which the operator deletes to end its sidecars, until the test has read it.
const KEPT: &str = "leasehold.test/kept";

/// Sidecars in the pods of a namespace, as meshes and log collectors put them there.
fn sidecars() -> Vec<String> {
    let sidecar = |number| {
        format!(
            "JSONPatch{{op: \"add\", path: \"/spec/initContainers/-\", value: Object.spec.initContainers{{\
             name: \"side-{number}\", image: \"python:3.11-slim\", restartPolicy: \"Always\", \
             command: [\"sleep\", \"infinity\"]}}}}"
        )
    };
    let kept =
        format!("JSONPatch{{op: \"add\", path: \"/metadata/finalizers/-\", value: \"{KEPT}\"}}");
    (0..SIDECARS).map(sidecar).chain([kept]).collect()
}

const PROBE: &str = "apiVersion: v1
kind: Pod
metadata: {name: probe, finalizers: [leasehold.test/probe]}
spec:
  initContainers: [{name: first, image: none}]
  containers: [{name: main, image: none}]
";

pub(crate) fn reports_that_are_cut(stage: &Stage) {
    let namespace = jobs::namespace(stage, "crowd");
    policies::put_into_force(stage, &namespace, &sidecars(), (PROBE, "side-0"));
    let program = "/xxx".repeat(225);
    Job::named("train").running(&format!("command: [{program}]")).apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "CommandNotFound", LIMIT);
    assert!(message.contains("xxx") && message.contains("What to do"), "{message}");
    let report = last_words(stage, &namespace);
    // A report is one object of JSON: without its end it was cut.
    assert!(report.starts_with('{'), "{report}");
    assert!(serde_json::from_str::<Value>(&report).is_err(), "it is whole: {report}");
    jobs::ended_as(stage, &namespace, "train", ("CommandNotFound", "User"), LIMIT);
    policies::lift(stage, &namespace);
}

/// What the kubelet keeps of the agent's report. Then the pod goes.
fn last_words(stage: &Stage, namespace: &str) -> String {
    let pod = wait_for("the operator lets go of the pod", LIMIT, || {
        let pod: Option<Pod> = stage
            .playground
            .get(namespace, "pod", "train-r0-a1")
            .map_err(|error| error.to_string())?;
        let pod = pod.ok_or("there is none")?;
        let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
        if finalizers == [KEPT] { Ok(pod) } else { Err(format!("{finalizers:?}")) }
    });
    let free = ["patch", "pod", "train-r0-a1", "-n", namespace, "--type=merge"];
    let none = ["-p", "{\"metadata\": {\"finalizers\": null}}"];
    stage.playground.kubectl(&[&free[..], &none].concat()).unwrap();
    let mut containers = pod.status.unwrap().container_statuses.unwrap().into_iter();
    let main = containers.find(|container| container.name == "main").unwrap();
    main.state.unwrap().terminated.unwrap().message.unwrap()
}
