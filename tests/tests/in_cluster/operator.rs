//! The operator in a pod of its cluster, as it is installed: its image, its account, a namespace
//! that allows restricted pods only. Two nodes and a user who may edit one namespace.

use std::{collections::BTreeSet, path::Path};

use k8s_openapi::api::rbac::v1::PolicyRule;
use leasehold_tests::{
    jobs::{self, Job},
    playground::{OPERATOR, Playground, project},
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

const SYSTEM: &str = "leasehold-system";
const USER: &str = "--as=jane";

pub(crate) fn runs_in_its_cluster(stage: &Stage) {
    let environment = stage.playground.environment();
    let image = environment.operator_image.as_deref().expect("`make operator` has built it");
    install(&stage.playground, image, environment.agent_image.as_deref().unwrap());
    let namespace = jobs::namespace(stage, "team");
    let kubectl = |arguments: &[&str]| stage.playground.kubectl(arguments);
    kubectl(&["create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane", "-n", "team"])
        .unwrap();
    wait_for("editors may write jobs", LIMIT, || {
        kubectl(&["auth", "can-i", "create", "gpujobs.leasehold.dev", USER, "-n", "team"])
    });

    as_user(&stage.playground, &Job::named("short").yaml());
    jobs::until_ready_is(stage, &namespace, "short", "Succeeded", LIMIT);
    as_user(&stage.playground, &Job::named("long").running("command: [sleep, '15']").yaml());
    jobs::until_ready_is(stage, &namespace, "long", "Running", LIMIT);
    let before = operators(&stage.playground);
    assert_eq!(before.len(), 2, "one leads and one waits");
    let pods = ["delete", "pods", "--all", "-n", SYSTEM, "--force", "--grace-period=0"];
    kubectl(&pods).unwrap();
    jobs::until_ready_is(stage, &namespace, "long", "Succeeded", LIMIT);
    assert!(before.is_disjoint(&operators(&stage.playground)), "the operator is still the old one");
    for name in ["short", "long"] {
        jobs::ended_as(stage, &namespace, name, ("Completed", "User"), LIMIT);
    }
    by_request_and_by_deletion(stage);
    across_nodes(stage);
    uses_what_it_may_and_nothing_else(&stage.playground);
}

/// What is asked for by a request, and the end of a job that is deleted.
fn by_request_and_by_deletion(stage: &Stage) {
    as_user(&stage.playground, &Job::named("endless").running("command: [sleep, infinity]").yaml());
    jobs::until_ready_is(stage, "team", "endless", "Running", LIMIT);
    let stop = "apiVersion: leasehold.dev/v1alpha1
kind: GpuRequest
metadata: {name: stop}
spec: {target: {kind: GpuJob, name: endless}, action: Stop}
";
    as_user(&stage.playground, stop);
    jobs::until_ready_is(stage, "team", "endless", "Stopped", LIMIT);
    jobs::ended_as(stage, "team", "endless", ("Stopped", "User"), LIMIT);
    as_user(&stage.playground, &Job::named("gone").running("command: [sleep, infinity]").yaml());
    jobs::until_ready_is(stage, "team", "gone", "Running", LIMIT);
    stage.playground.kubectl(&["delete", "gpujob", "gone", USER, "-n", "team"]).unwrap();
    jobs::ended_as(stage, "team", "gone", ("HolderDeleted", "User"), LIMIT);
}

/// A Service of a pod on one node is found by name from a pod on the other.
fn across_nodes(stage: &Stage) {
    let pod = |name: &str, node: &str, command: &str| {
        format!(
            "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  containers: [{{name: main, image: \"python:3.11-slim\", command: {command}}}]
"
        )
    };
    let url = "http://web.default.svc.cluster.local/etc/hostname";
    let ask = format!(
        "[python3, -c, \"import urllib.request as u; print(u.urlopen('{url}', timeout=60).read().decode())\"]"
    );
    let service = "apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8000}]}
";
    let web = pod("web", "node-1", "[python3, -m, http.server, \"8000\", --directory, /]");
    stage.playground.apply("default", &format!("{service}{web}")).unwrap();
    let ready = ["wait", "pod/web", "-n", "default", "--for=condition=Ready", "--timeout=120s"];
    stage.playground.kubectl(&ready).unwrap();
    stage.playground.apply("default", &pod("asks", "node-2", &ask)).unwrap();
    let over = ["wait", "pod/asks", "-n", "default", "--for=jsonpath={.status.phase}=Succeeded"];
    stage.playground.kubectl(&[&over[..], &["--timeout=120s"]].concat()).unwrap();
    let said = stage.playground.kubectl(&["logs", "asks", "-n", "default"]).unwrap();
    assert_eq!(said.trim(), "web");
}

/// As the deployment says, with the images under the names that it has.
fn install(playground: &Playground, operator: &Path, agent: &Path) {
    let deployment = project().join("charts/leasehold/deployment.yaml");
    let text = std::fs::read_to_string(&deployment).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for (image, name) in [(operator, "operator"), (agent, "agent")] {
        let name = format!("leasehold.dev/{name}:{version}");
        assert!(text.contains(&name), "the deployment does not use {name}");
        playground.load(image, &[&name]).unwrap();
    }
    playground.kubectl(&["apply", "-f", &deployment.to_string_lossy()]).unwrap();
    playground
        .kubectl(&["rollout", "status", "deployment/leasehold", "-n", SYSTEM, "--timeout=120s"])
        .unwrap();
}

fn as_user(playground: &Playground, yaml: &str) {
    playground.kubectl_with(&["apply", USER, "-n", "team", "-f", "-"], yaml).unwrap();
}

/// The operator's pods by UID.
fn operators(playground: &Playground) -> BTreeSet<String> {
    let pods = playground.list(SYSTEM, "pods").unwrap();
    let uid = |pod: &Value| pod.pointer("/metadata/uid")?.as_str().map(str::to_owned);
    pods.iter().filter_map(uid).collect()
}

/// Rights that only other circumstances need, which other tests bring about.
const UNUSED: &[(&str, &str)] = &[
    // A request is cleared away a week after its answer.
    ("delete", "gpurequests.leasehold.dev"),
    // Reads at the server of what the watches do not show, before anything starts or ends by it.
    ("get", "gpujobs.leasehold.dev"),
    ("get", "gpuleases.leasehold.dev"),
    ("get", "pods"),
    // An Event that is repeated.
    ("patch", "events.events.k8s.io"),
];

/// A verb on a resource, with the namespace where a rule grants it there alone.
type Right = (String, String, String);

/// The audit log has no refusal; what it names is what the rules of the roles name.
fn uses_what_it_may_and_nothing_else(playground: &Playground) {
    let log = std::fs::read_to_string(playground.directory().join("audit.log")).unwrap();
    let granted = granted(playground);
    let mut used = BTreeSet::new();
    for line in log.lines() {
        // The last line may still be being written.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(text("/user/username"), OPERATOR);
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        assert_ne!(code, Some(403), "refused: {line}");
        if event.get("objectRef").is_some() {
            let resource = match text("/objectRef/subresource") {
                "" => text("/objectRef/resource").to_owned(),
                sub => format!("{}/{sub}", text("/objectRef/resource")),
            };
            let resource = in_group(&resource, text("/objectRef/apiGroup"));
            let right = |namespace: &str| {
                (text("/verb").to_owned(), resource.clone(), namespace.to_owned())
            };
            let rights = [right(""), right(text("/objectRef/namespace"))];
            let by = rights.into_iter().find(|right| granted.contains(right));
            used.insert(
                by.unwrap_or_else(|| panic!("no rule of charts/leasehold/rbac.yaml: {line}")),
            );
        }
    }
    let unused = |(verb, resource, _): &Right| {
        UNUSED.iter().any(|(unused, of)| unused == verb && of == resource)
    };
    let idle: Vec<_> = granted.difference(&used).filter(|right| !unused(right)).collect();
    assert!(idle.is_empty(), "granted by charts/leasehold/rbac.yaml and not used: {idle:?}");
}

/// What the operator's roles grant.
fn granted(playground: &Playground) -> BTreeSet<Right> {
    let mut granted = BTreeSet::new();
    for (kind, namespace) in [("clusterrole", ""), ("role", SYSTEM)] {
        let role: Value = playground.get(namespace, kind, "leasehold-operator").unwrap().unwrap();
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let right = |verb: &String| {
                        (verb.clone(), in_group(resource, group), namespace.to_owned())
                    };
                    granted.extend(rule.verbs.iter().map(right));
                }
            }
        }
    }
    granted
}

fn in_group(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
