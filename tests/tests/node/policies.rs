//! Policies that change pods as they are created, as meshes, log collectors and administrators have
//! them.

use leasehold_tests::{suite::Stage, waiting::wait_for};

use crate::LIMIT;

/// The policies of the API server that change objects as they are created.
const KINDS: &str = "mutatingadmissionpolicy,mutatingadmissionpolicybinding";

/// A policy of the namespace's name, which does this to every pod that is created there: patches in
/// the language of admission policies (CEL), each a `JSONPatch`.
fn manifest(namespace: &str, patches: &[String]) -> String {
    let patches = patches.join(", ");
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {namespace}}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[{patches}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {namespace}}}
spec:
  policyName: {namespace}
  matchResources:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
"
    )
}

/// Puts it into force: `probe` is a pod that it changes, `sign` what that pod then contains.
pub(crate) fn put_into_force(
    stage: &Stage,
    namespace: &str,
    patches: &[String],
    (probe, sign): (&str, &str),
) {
    stage.playground.apply("default", &manifest(namespace, patches)).unwrap();
    // The API server takes policies in after a moment.
    wait_for("the policy is in force", LIMIT, || {
        let arguments = ["create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-"];
        let made =
            stage.playground.kubectl_with(&arguments, probe).map_err(|error| error.to_string())?;
        if made.contains(sign) { Ok(()) } else { Err(format!("no {sign}")) }
    });
}

pub(crate) fn lift(stage: &Stage, namespace: &str) {
    stage.playground.kubectl(&["delete", KINDS, namespace]).unwrap();
}
