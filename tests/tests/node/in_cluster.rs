//! The operator in a pod of its cluster, as it is installed: its image, its account, a namespace
//! that allows restricted pods only. Two nodes and a user who may edit one namespace.

use std::{collections::BTreeSet, path::Path};

use k8s_openapi::api::rbac::v1::ClusterRole;
use leasehold_tests::{
    jobs::{self, Job},
    playground::{OPERATOR, Playground, Shape, project},
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

const SYSTEM: &str = "leasehold-system";
const USER: &str = "--as=jane";

pub(crate) fn operator(stage: &Stage) {
    let shape = Shape { real_nodes: 2, simulated_nodes: 0, cards: "rtx4090:1" };
    let stage = stage.apart("in-cluster", shape).unwrap();
    let environment = stage.playground.environment();
    let image = environment.operator_image.as_deref().expect("`make operator` has built it");
    install(&stage.playground, image, environment.agent_image.as_deref().unwrap());
    let namespace = jobs::namespace(&stage, "team");
    let kubectl = |arguments: &[&str]| stage.playground.kubectl(arguments);
    kubectl(&["create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane", "-n", "team"])
        .unwrap();
    wait_for("editors may write jobs", LIMIT, || {
        kubectl(&["auth", "can-i", "create", "gpujobs.leasehold.dev", USER, "-n", "team"])
    });

    as_user(&stage.playground, &Job::named("short").yaml());
    jobs::until_ready_is(&stage, &namespace, "short", "Succeeded", LIMIT);
    as_user(&stage.playground, &Job::named("long").running("command: [sleep, '15']").yaml());
    jobs::until_ready_is(&stage, &namespace, "long", "Running", LIMIT);
    let before = operators(&stage.playground);
    let pods = ["delete", "pods", "--all", "-n", SYSTEM, "--force", "--grace-period=0"];
    kubectl(&pods).unwrap();
    jobs::until_ready_is(&stage, &namespace, "long", "Succeeded", LIMIT);
    assert!(before.is_disjoint(&operators(&stage.playground)), "the operator is still the old one");
    for name in ["short-r0-a1", "long-r0-a1"] {
        let lease = jobs::closed_lease(&stage, &namespace, name, LIMIT);
        jobs::charge_is_rate_times_held_time(&lease);
    }
    assert_eq!(stage.playground.list(&namespace, "gpuleases").unwrap().len(), 2);
    uses_only_what_it_may(&stage.playground);
    stage.playground.down().unwrap();
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

/// The audit log has no refusal, and nothing that the rules of its role do not name.
fn uses_only_what_it_may(playground: &Playground) {
    let log = std::fs::read_to_string(playground.directory().join("audit.log")).unwrap();
    let role: ClusterRole =
        playground.get("", "clusterrole", "leasehold-operator").unwrap().unwrap();
    let rules = role.rules.unwrap_or_default();
    let mut used = BTreeSet::new();
    for line in log.lines() {
        // The last line may still be being written.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(text("/user/username"), OPERATOR);
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        assert_ne!(code, Some(403), "refused: {line}");
        if event.get("objectRef").is_some() {
            let sub = text("/objectRef/subresource");
            let resource = text("/objectRef/resource");
            let resource =
                if sub.is_empty() { resource.to_owned() } else { format!("{resource}/{sub}") };
            let group = text("/objectRef/apiGroup").to_owned();
            used.insert((group, resource, text("/verb").to_owned()));
        }
    }
    assert!(!used.is_empty(), "the audit log is empty");
    println!("the operator used {used:?}");
    for (group, resource, verb) in &used {
        let named = rules.iter().any(|rule| {
            rule.api_groups.as_ref().is_some_and(|all| all.contains(group))
                && rule.resources.as_ref().is_some_and(|all| all.contains(resource))
                && rule.verbs.contains(verb)
        });
        assert!(named, "no rule of charts/leasehold/rbac.yaml names {verb} {group}/{resource}");
    }
}
