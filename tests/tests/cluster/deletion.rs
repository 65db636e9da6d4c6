//! Deleting a job in every state, in every way: the card comes back, the lease is final, no pod
//! stays.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
};

use crate::LIMIT;

/// Brings a job into a state and deletes it with these options.
fn delete(stage: &Stage, namespace: &str, job: &Job<'_>, when: &str, options: &[&str]) {
    job.apply(stage, namespace);
    if !when.is_empty() {
        jobs::until_ready_is(stage, namespace, "train", when, LIMIT);
    }
    let command = [&["delete", "gpujob", "train", "-n", namespace], options].concat();
    stage.playground.kubectl(&command).unwrap();
    jobs::until_no_pod_is_left(stage, namespace, LIMIT);
}

fn reasons(stage: &Stage, namespace: &str) -> Vec<String> {
    let leases = stage.playground.list(namespace, "gpuleases").unwrap();
    let names = leases.iter().filter_map(|lease| lease.pointer("/metadata/name")?.as_str());
    names
        .map(|name| {
            let lease = jobs::closed_lease(stage, namespace, name, LIMIT);
            lease.status.unwrap().released_because.unwrap_or_default()
        })
        .collect()
}

pub(crate) fn of_a_running_job(stage: &Stage) {
    for (namespace, options) in [
        ("deleted-background", &["--cascade=background"][..]),
        ("deleted-foreground", &["--cascade=foreground"]),
        ("deleted-orphan", &["--cascade=orphan"]),
    ] {
        let namespace = jobs::namespace(stage, namespace);
        delete(stage, &namespace, &Job::named("train").simulated_for("600s"), "Running", options);
        assert_eq!(reasons(stage, &namespace), ["HolderDeleted"], "{options:?}");
    }
}

pub(crate) fn of_a_job_that_has_just_been_made(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-new");
    delete(stage, &namespace, &Job::named("train").simulated_for("600s"), "", &[]);
    let reasons = reasons(stage, &namespace);
    assert!(reasons.iter().all(|reason| reason == "HolderDeleted"), "{reasons:?}");
}

pub(crate) fn of_a_waiting_job(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-waiting");
    delete(
        stage,
        &namespace,
        &Job::named("train").on("gpu: {cards: [a100]}"),
        "WaitingForCard",
        &[],
    );
    assert!(reasons(stage, &namespace).is_empty());
}

pub(crate) fn of_an_ended_job(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-ended");
    delete(stage, &namespace, &Job::named("train").simulated_for("1s"), "Succeeded", &[]);
    assert_eq!(reasons(stage, &namespace), ["Completed"]);
}

pub(crate) fn of_its_pod(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-pod");
    Job::named("train").simulated_for("600s").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    stage.playground.kubectl(&["delete", "pod", "train-r0-a1", "-n", &namespace]).unwrap();
    jobs::until_ready_is(stage, &namespace, "train", "PodDeleted", LIMIT);
    assert_eq!(reasons(stage, &namespace), ["PodDeleted"]);
}

pub(crate) fn of_the_namespace(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-namespace");
    Job::named("train").simulated_for("600s").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    stage.playground.kubectl(&["delete", "namespace", &namespace, "--timeout=120s"]).unwrap();
}
