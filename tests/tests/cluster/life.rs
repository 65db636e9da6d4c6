//! A job's life through the API server, as `kubectl` shows it.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

pub(crate) fn a_job_runs_and_gives_its_card_back(stage: &Stage) {
    let namespace = jobs::namespace(stage, "runs");
    Job::named("train").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    jobs::ended_as(stage, &namespace, "train", ("Completed", "User"), LIMIT);
    let pods = stage.playground.list(&namespace, "pods").unwrap();
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0].pointer("/metadata/finalizers"), None::<&Value>);
}

pub(crate) fn refusals_and_waits_say_why(stage: &Stage) {
    let namespace = jobs::namespace(stage, "says-why");
    for (name, gpu, reason, words) in [
        ("typo", "gpu: {cards: [rtx4900]}", "UnknownCard", "rtx4090"),
        ("many", "gpu: {cards: [4090], count: 9}", "CountExceedsNodes", "largest node has 4"),
        ("absent", "gpu: {cards: [h20]}", "CurrencyMismatch", "priced in CNY"),
        ("family", "gpu: {cards: [a100]}", "WaitingForCard", "no node has a100"),
        ("unpriced", "gpu: {cards: [l20]}", "Unpriced", "no price is known for l20"),
    ] {
        Job::named(name).on(gpu).apply(stage, &namespace);
        let message = jobs::until_ready_is(stage, &namespace, name, reason, LIMIT);
        assert!(message.contains(words), "{name}: {message}");
    }
    assert!(stage.playground.list(&namespace, "pods").unwrap().is_empty());
    assert!(stage.playground.list(&namespace, "gpuleases").unwrap().is_empty());
}

pub(crate) fn applying_again_starts_nothing(stage: &Stage) {
    let namespace = jobs::namespace(stage, "again");
    let job = Job::named("train").simulated_for("3s");
    job.apply(stage, &namespace);
    job.apply(stage, &namespace);
    // It may run and end before anybody looks; its pod stays.
    wait_for("a pod is there", LIMIT, || {
        let pods = stage.playground.list(&namespace, "pods").map_err(|error| error.to_string())?;
        if pods.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    });
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    job.apply(stage, &namespace);
    stage.playground.kubectl(&["delete", "gpujob", "train", "-n", &namespace]).unwrap();
    jobs::until_no_pod_is_left(stage, &namespace, LIMIT);
    job.apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "AlreadyRan", LIMIT);
    let paid = jobs::ended_as(stage, &namespace, "train", ("Completed", "User"), LIMIT);
    for words in ["train-r0-a1", "Completed", &paid.charged.unwrap()] {
        assert!(message.contains(words), "{words}: {message}");
    }
    let again = job.within("maxRuntime: 20m\nrerun: 1");
    again.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    assert_eq!(stage.playground.list(&namespace, "gpuleases").unwrap().len(), 2);
    let other = again.running("command: [\"true\", other]");
    let refused = stage.playground.apply(&namespace, &other.yaml()).unwrap_err().to_string();
    assert!(refused.contains("command says what is run"), "{refused}");
    stage.playground.kubectl(&["delete", "gpujob", "train", "-n", &namespace]).unwrap();
    other.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    jobs::closed_lease(stage, &namespace, "train-r1-a2", LIMIT);
}

pub(crate) fn a_stopped_job_goes_on_later(stage: &Stage) {
    let namespace = jobs::namespace(stage, "stopped");
    // The operator has to delete the pod.
    let job = Job::named("train").simulated_for("600s").deaf();
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    job.clone().within("maxRuntime: 20m\ngracePeriod: 0s\nstate: Stopped").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Stopped", LIMIT);
    jobs::ended_as(stage, &namespace, "train", ("Stopped", "User"), LIMIT);
    job.within("maxRuntime: 20m\nstate: Running").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    let second = stage.playground.list(&namespace, "gpuleases").unwrap();
    assert_eq!(second.len(), 2);
}

pub(crate) fn jobs_wait_for_cards_and_start_by_themselves(stage: &Stage) {
    let namespace = jobs::namespace(stage, "queue");
    let all = "gpu: {cards: [rtx3090], count: 4}";
    for name in ["first", "second", "third"] {
        Job::named(name).on(all).simulated_for("2s").apply(stage, &namespace);
    }
    for name in ["first", "second", "third"] {
        jobs::until_ready_is(stage, &namespace, name, "Succeeded", LIMIT);
    }
    assert_eq!(stage.playground.list(&namespace, "gpuleases").unwrap().len(), 3);
}
