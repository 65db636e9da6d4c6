//! Pods with many containers, which share what the kubelet keeps of their last words.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};

use crate::LIMIT;

/// The kubelet keeps 12 KiB of a pod (`pkg/kubelet/kuberuntime`, `MaxPodTerminationMessageLogLength`):
/// with so many containers fewer bytes for each than an agent's report may have.
const SIDECARS: usize = 20;

/// A policy that puts sidecars into the pods of a namespace, as meshes and log collectors do.
fn policy(namespace: &str) -> String {
    let sidecars: Vec<String> = (0..SIDECARS)
        .map(|number| {
            format!(
                "JSONPatch{{op: \"add\", path: \"/spec/initContainers/-\", value: Object.spec.initContainers{{\
                 name: \"side-{number}\", image: \"python:3.11-slim\", restartPolicy: \"Always\", \
                 command: [\"sleep\", \"infinity\"]}}}}"
            )
        })
        .collect();
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: crowd}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[{}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: crowd}}
spec:
  policyName: crowd
  matchResources:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
",
        sidecars.join(", ")
    )
}

pub(crate) fn reports_that_are_cut(stage: &Stage) {
    let namespace = jobs::namespace(stage, "crowd");
    stage.playground.apply("default", &policy(&namespace)).unwrap();
    // The API server takes policies in after a moment.
    wait_for("the policy is in force", LIMIT, || {
        let probe = "apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  initContainers: [{name: first, image: none}]
  containers: [{name: main, image: none}]
";
        let arguments = ["create", "-n", &namespace, "--dry-run=server", "-o", "json", "-f", "-"];
        let made =
            stage.playground.kubectl_with(&arguments, probe).map_err(|error| error.to_string())?;
        if made.contains("side-0") { Ok(()) } else { Err("no sidecar".to_owned()) }
    });
    let program = "/xxx".repeat(225);
    Job::named("train").running(&format!("command: [{program}]")).apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "CommandNotFound", LIMIT);
    assert!(message.contains("xxx") && message.contains("What to do"), "{message}");
    jobs::ended_as(stage, &namespace, "train", ("CommandNotFound", "User"), LIMIT);
    let arguments = ["delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", "crowd"];
    stage.playground.kubectl(&arguments).unwrap();
}
