//! Deleting a job on a real node in every state: its program ends, its bill is right, its card comes
//! back.

use k8s_openapi::api::core::v1::Pod;
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};

use crate::LIMIT;

/// Ends only when it is killed.
const DEAF: &str = "script: \"trap '' TERM; while :; do sleep 1; done\"";

/// A job in a namespace of its own, in this state.
fn job_that_is(stage: &Stage, namespace: &str, job: &Job<'_>, word: &str) -> String {
    let namespace = jobs::namespace(stage, namespace);
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", word, LIMIT);
    namespace
}

fn delete(stage: &Stage, namespace: &str, options: &[&str]) {
    let command = [&["delete", "gpujob", "train", "-n", namespace], options].concat();
    stage.playground.kubectl(&command).unwrap();
}

/// The bill of a job that is gone.
fn is_billed_as(stage: &Stage, namespace: &str, reason: &str) {
    jobs::ended_as(stage, namespace, "train", (reason, "User"), LIMIT);
    jobs::until_no_pod_is_left(stage, namespace, LIMIT);
}

pub(crate) fn of_a_running_job(stage: &Stage) {
    let job = Job::named("train").running("command: [sleep, infinity]");
    for cascade in ["foreground", "background", "orphan"] {
        let namespace = job_that_is(stage, cascade, &job, "Running");
        delete(stage, &namespace, &[&format!("--cascade={cascade}")]);
        is_billed_as(stage, &namespace, "HolderDeleted");
    }
}

/// An index that takes connections and never answers.
const SILENT: &str = "apiVersion: v1
kind: Pod
metadata: {name: silent}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: index
    image: python:3.11-slim
    command: [python3, -c, \"import socket, time; s = socket.create_server(('', 8000)); time.sleep(600)\"]
";

pub(crate) fn of_a_job_that_prepares(stage: &Stage) {
    let namespace = jobs::namespace(stage, "deleted-preparing");
    stage.playground.apply(&namespace, SILENT).unwrap();
    let address = wait_for("the index has an address", LIMIT, || {
        let pod = pod(stage, &namespace, "silent")?;
        let address = pod.status.and_then(|status| status.pod_ip);
        address.ok_or_else(|| "none".to_owned())
    });
    let environment = format!(
        "environment: {{inline: {{requirements.txt: einops}}}}
env: [{{name: UV_DEFAULT_INDEX, value: \"http://{address}:8000/simple\"}}]"
    );
    Job::named("train").within(&format!("maxRuntime: 20m\n{environment}")).apply(stage, &namespace);
    wait_for("packages are being restored", LIMIT, || {
        let status = pod(stage, &namespace, "train-r0-a1")?.status.unwrap_or_default();
        let mut inits = status.init_container_statuses.into_iter().flatten();
        let prepare = inits.find(|init| init.name == "prepare").ok_or("no such container")?;
        let runs = prepare.state.is_some_and(|state| state.running.is_some());
        if runs { Ok(()) } else { Err("not yet".to_owned()) }
    });
    jobs::until_ready_is(stage, &namespace, "train", "Preparing", LIMIT);
    delete(stage, &namespace, &[]);
    let status = jobs::ended_as(stage, &namespace, "train", ("HolderDeleted", "User"), LIMIT);
    assert_eq!(status.running_at, None);
}

fn pod(stage: &Stage, namespace: &str, name: &str) -> Result<Pod, String> {
    let pod = stage.playground.get(namespace, "pod", name).map_err(|error| error.to_string())?;
    pod.ok_or_else(|| format!("no pod {name}"))
}

/// It was stopped, and its program uses its grace period: the reason is the first.
pub(crate) fn of_a_job_that_is_released(stage: &Stage) {
    let job = Job::named("train").running(DEAF);
    let namespace = job_that_is(stage, "deleted-releasing", &job, "Running");
    job.within("maxRuntime: 20m\ngracePeriod: 15s\nstate: Stopped").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Releasing", LIMIT);
    delete(stage, &namespace, &[]);
    is_billed_as(stage, &namespace, "Stopped");
}

pub(crate) fn of_a_job_that_holds_nothing(stage: &Stage) {
    let stopped = Job::named("train").within("maxRuntime: 20m\nstate: Stopped");
    let refused = Job::named("train").on("gpu: {cards: [rtx4900]}");
    for (name, job, word) in
        [("deleted-stopped", stopped, "Stopped"), ("deleted-refused", refused, "UnknownCard")]
    {
        let namespace = job_that_is(stage, name, &job, word);
        delete(stage, &namespace, &[]);
        jobs::until_no_pod_is_left(stage, &namespace, LIMIT);
        assert!(stage.playground.list(&namespace, "gpuleases").unwrap().is_empty());
    }
}

/// As long as one of the eight cards is held, a job for all of them waits.
pub(crate) fn of_a_job_that_waits(stage: &Stage) {
    let holder = Job::named("train").running("command: [sleep, infinity]");
    let held = job_that_is(stage, "holds-a-card", &holder, "Running");
    let all = Job::named("train").on("gpu: {cards: [4090], count: 8}");
    let namespace = job_that_is(stage, "deleted-waiting", &all, "WaitingForCard");
    delete(stage, &namespace, &[]);
    assert!(stage.playground.list(&namespace, "gpuleases").unwrap().is_empty());
    // The card that it waited for comes back, and starts nothing.
    delete(stage, &held, &[]);
    is_billed_as(stage, &held, "HolderDeleted");
    assert_eq!(jobs::pods_made(stage, &namespace), 0);
}

/// No node has so many CPUs beside its cards: the scheduler leaves the pod where it is.
pub(crate) fn of_a_job_that_is_unbound(stage: &Stage) {
    let job = Job::named("train").within("maxRuntime: 20m\nresources: {cpu: 500}");
    let namespace = job_that_is(stage, "deleted-unbound", &job, "WaitingForScheduler");
    wait_for("the scheduler cannot place the pod", LIMIT, || {
        let status = pod(stage, &namespace, "train-r0-a1")?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let said =
            conditions.find(|condition| condition.reason.as_deref() == Some("Unschedulable"));
        said.map(|_| ()).ok_or_else(|| "it has not said so".to_owned())
    });
    delete(stage, &namespace, &[]);
    let lease = jobs::closed_lease(stage, &namespace, "train-r0-a1", LIMIT).status.unwrap();
    let end = (lease.state.as_str(), lease.released_because.as_deref(), lease.charged.as_deref());
    assert_eq!(end, ("Void", Some("HolderDeleted"), Some("0.00")), "{lease:?}");
    assert_eq!((lease.held_at, lease.running_at), (None, None));
    jobs::until_no_pod_is_left(stage, &namespace, LIMIT);
    assert_eq!(jobs::pods_made(stage, &namespace), 1);
}

/// Its end stays in the ledger when it is deleted, and a job that comes back does not run again.
pub(crate) fn of_a_job_that_has_ended(stage: &Stage) {
    let job = Job::named("train");
    let namespace = job_that_is(stage, "deleted-ended", &job, "Succeeded");
    delete(stage, &namespace, &[]);
    is_billed_as(stage, &namespace, "Completed");
    job.apply(stage, &namespace);
    let message = jobs::until_ready_is(stage, &namespace, "train", "AlreadyRan", LIMIT);
    let paid = jobs::ended_as(stage, &namespace, "train", ("Completed", "User"), LIMIT);
    for words in ["train-r0-a1", "Completed", &paid.charged.unwrap(), "What to do"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    delete(stage, &namespace, &[]);
    is_billed_as(stage, &namespace, "Completed");
    assert_eq!(jobs::pods_made(stage, &namespace), 1);
}

/// The bill of a namespace goes with it; the operator's log keeps it.
pub(crate) fn of_the_namespace(stage: &Stage) {
    let job = Job::named("train").running("command: [sleep, infinity]");
    let namespace = job_that_is(stage, "with-namespace", &job, "Running");
    stage.playground.kubectl(&["delete", "namespace", &namespace, "--timeout=180s"]).unwrap();
    let closed = wait_for("the lease is told to be closed", LIMIT, || {
        let log = stage.playground.directory().join("operator.log");
        let log = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
        let of_it = format!("namespace=\"{namespace}\"");
        let line = log.lines().find(|line| line.contains("lease closed") && line.contains(&of_it));
        line.map(str::to_owned).ok_or_else(|| "not told".to_owned())
    });
    // Kubernetes deletes what is in a namespace in any order.
    let reasons = ["reason=\"HolderDeleted\"", "reason=\"PodDeleted\""];
    assert!(reasons.iter().any(|reason| closed.contains(reason)), "{closed}");
    assert!(closed.contains("payer=\"User\"") && closed.contains("charged=\"0.0"), "{closed}");
    assert!(!closed.contains("charged=\"0.00\""), "{closed}");
}
