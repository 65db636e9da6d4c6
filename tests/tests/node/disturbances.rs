//! What happens to nodes, their programs and pods while a job runs: each has one reason, one payer,
//! and the card comes back.

use leasehold_crds::lease::GpuLeaseStatus;
use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::{LIMIT, NODE};

/// A job that runs until something happens, and its namespace.
fn running(stage: &Stage, namespace: &str, program: &str) -> String {
    let namespace = jobs::namespace(stage, namespace);
    Job::named("train").running(program).within("maxRuntime: 20m").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    namespace
}

const FOR_EVER: &str = "command: [sleep, infinity]";

/// How the only lease of the job ended; nothing else was started.
fn end(stage: &Stage, namespace: &str) -> GpuLeaseStatus {
    let lease = jobs::closed_lease(stage, namespace, "train-r0-a1", LIMIT);
    assert_eq!(stage.playground.list(namespace, "gpuleases").unwrap().len(), 1);
    let status = lease.status.unwrap();
    assert!(status.message.as_deref().is_some_and(|message| !message.is_empty()));
    status
}

fn ends_as(stage: &Stage, namespace: &str, reason: &str, payer: &str) {
    jobs::until_ready_is(stage, namespace, "train", reason, LIMIT);
    let status = end(stage, namespace);
    assert_eq!(status.released_because.as_deref(), Some(reason));
    assert_eq!(status.paid_by.as_deref(), Some(payer), "{status:?}");
    let is_free = status.charged.as_deref() == Some("0.00");
    assert_eq!(is_free, payer == "Infrastructure", "{status:?}");
}

/// A program that ran through whatever happened is paid for its time.
fn succeeds(stage: &Stage, namespace: &str) {
    jobs::until_ready_is(stage, namespace, "train", "Succeeded", LIMIT);
    let lease = jobs::closed_lease(stage, namespace, "train-r0-a1", LIMIT);
    jobs::charge_is_rate_times_held_time(&lease);
    assert_eq!(stage.playground.list(namespace, "gpuleases").unwrap().len(), 1);
}

/// Waits in real time: what is waited for is that nothing happens.
fn pass(seconds: i64) {
    let since = jobs::now();
    wait_for(&format!("{seconds} s are over"), LIMIT, || {
        let passed = jobs::now().duration_since(since).as_secs();
        if passed >= seconds { Ok(()) } else { Err(passed) }
    });
}

pub(crate) fn pods_that_are_deleted(stage: &Stage) {
    let operator = Operator::start(&stage.playground).unwrap();
    let kubectl = |arguments: &[&str]| stage.playground.kubectl(arguments).unwrap();
    let namespace = running(stage, "by-hand", FOR_EVER);
    kubectl(&["delete", "pod", "train-r0-a1", "-n", &namespace]);
    ends_as(stage, &namespace, "PodDeleted", "User");

    let namespace = running(stage, "by-force", FOR_EVER);
    kubectl(&["delete", "pod", "train-r0-a1", "-n", &namespace, "--force", "--grace-period=0"]);
    ends_as(stage, &namespace, "PodDeleted", "User");

    let namespace = running(stage, "by-drain", FOR_EVER);
    let drain = ["drain", NODE, "--force", "--ignore-daemonsets", "--delete-emptydir-data"];
    kubectl(&drain);
    ends_as(stage, &namespace, "PodDisrupted", "Infrastructure");
    kubectl(&["uncordon", NODE]);
    operator.kill().unwrap();
}

pub(crate) fn jobs_that_are_deleted(stage: &Stage) {
    for (name, cascade) in [("foreground", "foreground"), ("orphan", "orphan")] {
        let namespace = running(stage, name, FOR_EVER);
        let cascade = format!("--cascade={cascade}");
        stage
            .playground
            .kubectl(&["delete", "gpujob", "train", "-n", &namespace, &cascade])
            .unwrap();
        assert_eq!(end(stage, &namespace).released_because.as_deref(), Some("HolderDeleted"));
        jobs::until_no_pod_is_left(stage, &namespace, LIMIT);
    }
    let namespace = running(stage, "with-namespace", FOR_EVER);
    let delete = ["delete", "namespace", &namespace, "--timeout=180s"];
    stage.playground.kubectl(&delete).unwrap();
}

pub(crate) fn a_program_that_uses_too_much_memory(stage: &Stage) {
    let namespace = jobs::namespace(stage, "memory");
    Job::named("train")
        .running("script: \"tail /dev/zero\"")
        .within("maxRuntime: 20m\nresources: {memory: 64Mi, sharedMemory: 64Mi}")
        .apply(stage, &namespace);
    ends_as(stage, &namespace, "HostOutOfMemory", "User");
}

pub(crate) fn a_minute_without_kubelet_api_server_or_containerd(stage: &Stage) {
    let operator = Operator::start(&stage.playground).unwrap();
    let minute = "command: [sleep, \"75\"]";
    let namespace = running(stage, "kubelet", minute);
    let hanging = stage.playground.hang_kubelet(NODE).unwrap();
    jobs::until_ready_is(stage, &namespace, "train", "NodeSilent", LIMIT);
    pass(15);
    drop(hanging);
    succeeds(stage, &namespace);

    let namespace = running(stage, "containerd", "command: [sleep, \"15\"]");
    stage.playground.kill_containerd(NODE).unwrap();
    succeeds(stage, &namespace);

    let namespace = running(stage, "api-server", "command: [sleep, \"40\"]");
    let hanging = stage.playground.hang_api_server().unwrap();
    pass(60);
    drop(hanging);
    succeeds(stage, &namespace);
    let lease = jobs::closed_lease(stage, &namespace, "train-r0-a1", LIMIT);
    assert_eq!(jobs::ran_for(&lease), 40, "the kubelet's times count, not the operator's");
    operator.kill().unwrap();
}

pub(crate) fn a_node_that_stays_silent_and_one_that_is_deleted(stage: &Stage) {
    let operator = Operator::start_with(&stage.playground, "nodeLostAfter: 1m\n").unwrap();
    let namespace = running(stage, "silent", FOR_EVER);
    let hanging = stage.playground.hang_kubelet(NODE).unwrap();
    ends_as(stage, &namespace, "NodeLost", "Infrastructure");
    drop(hanging);
    jobs::until_no_pod_runs(stage, &namespace, LIMIT);

    let namespace = running(stage, "gone", FOR_EVER);
    stage.playground.kubectl(&["delete", "node", NODE]).unwrap();
    ends_as(stage, &namespace, "PodDisrupted", "Infrastructure");
    // A kubelet that starts registers its node again.
    stage.playground.kill_kubelet(NODE).unwrap();
    wait_for("the node is back", LIMIT, || {
        let nodes = stage.playground.list("", "nodes").map_err(|error| error.to_string())?;
        let cards = |node: &Value| node.pointer("/status/allocatable/nvidia.com~1gpu").cloned();
        let found: Vec<_> = nodes.iter().filter_map(cards).collect();
        if found == ["8"] { Ok(()) } else { Err(format!("{found:?}")) }
    });
    let namespace = running(stage, "again", FOR_EVER);
    stage.playground.kubectl(&["delete", "gpujob", "train", "-n", &namespace]).unwrap();
    assert_eq!(end(stage, &namespace).released_because.as_deref(), Some("HolderDeleted"));
    operator.kill().unwrap();
}
