//! A job's life through the API server, as `kubectl` shows it.

use std::time::Duration;

use leasehold_crds::{GpuJob, GpuLease};
use leasehold_tests::{jobs, suite::Stage, waiting::wait_for};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(2);

fn job(stage: &Stage, namespace: &str, name: &str) -> GpuJob {
    let found = stage.playground.get(namespace, "gpujob", name).unwrap();
    found.unwrap_or_else(|| panic!("job {namespace}/{name} is gone"))
}

pub(crate) fn a_job_runs_and_gives_its_card_back(stage: &Stage) {
    let namespace = jobs::namespace(stage, "runs");
    jobs::apply(stage, &namespace, "train", "gpu: {cards: [4090]}");
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    let lease: GpuLease =
        stage.playground.get(&namespace, "gpulease", "train-r0-a1").unwrap().unwrap();
    jobs::charge_is_rate_times_held_time(&lease);
    let pods = stage.playground.list(&namespace, "pods").unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].pointer("/metadata/finalizers"), None::<&Value>);
}

pub(crate) fn refusals_and_waits_say_why(stage: &Stage) {
    let namespace = jobs::namespace(stage, "says-why");
    for (name, gpu, reason, words) in [
        ("typo", "gpu: {cards: [rtx4900]}", "UnknownCard", "rtx4090"),
        ("many", "gpu: {cards: [4090], count: 9}", "CountExceedsNodes", "largest node has 4"),
        ("absent", "gpu: {cards: [a100]}", "WaitingForCard", "no node has a100"),
        ("unpriced", "gpu: {cards: [l20]}", "Unpriced", "no price is known for l20"),
    ] {
        jobs::apply(stage, &namespace, name, gpu);
        let message = jobs::until_ready_is(stage, &namespace, name, reason, LIMIT);
        assert!(message.contains(words), "{name}: {message}");
    }
    assert!(stage.playground.list(&namespace, "pods").unwrap().is_empty());
    assert!(stage.playground.list(&namespace, "gpuleases").unwrap().is_empty());
}

pub(crate) fn deleting_a_job_closes_its_lease(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted");
    jobs::apply_running_for(stage, &namespace, "train", "gpu: {cards: [4090]}", "600s");
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    assert!(job(stage, &namespace, "train").status.unwrap().lease.is_some());
    stage
        .playground
        .kubectl(&["delete", "gpujob", "train", "-n", &namespace, "--wait=false"])
        .unwrap();
    let lease: GpuLease = wait_for("the lease is closed", LIMIT, || {
        let lease: GpuLease =
            stage.playground.get(&namespace, "gpulease", "train-r0-a1").unwrap().unwrap();
        let word = lease.status.as_ref().map(|status| status.state.clone()).unwrap_or_default();
        if word == "Closed" { Ok(lease) } else { Err(word) }
    });
    assert_eq!(lease.status.unwrap().released_because.as_deref(), Some("HolderDeleted"));
    wait_for("the pod is gone", LIMIT, || {
        let pods = stage.playground.list(&namespace, "pods").unwrap();
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
}
