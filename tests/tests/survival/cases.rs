//! The operator dies at the worst moments: deadlines hold, nothing is started twice, and the
//! ledger has the true times afterwards.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use leasehold_crds::GpuJob;
use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
    waiting::wait_for,
};

use crate::LIMIT;

/// How much later than its deadline a pod may end without the operator, beside its grace period.
const LATENESS_SECONDS: i64 = 5;
const GRACE_SECONDS: i64 = 4;

/// The pod of the first attempt, and its lease.
pub(crate) const POD: &str = "train-r0-a1";

fn pod(stage: &Stage, namespace: &str) -> Option<Pod> {
    stage.playground.get(namespace, "pod", POD).unwrap()
}

fn deaf(max_runtime: i64) -> Job<'static> {
    Job::named("train")
        .running("script: \"trap '' TERM; while :; do sleep 1; done\"")
        .within(&format!("maxRuntime: {max_runtime}s\ngracePeriod: {GRACE_SECONDS}s"))
}

/// When the program started and ended, once the kubelet says that the pod is over.
pub(crate) fn times_of_the_program(stage: &Stage, namespace: &str) -> (Timestamp, Timestamp) {
    wait_for("the pod is over", LIMIT, || {
        let pod = pod(stage, namespace).ok_or("no pod")?;
        let status = pod.status.as_ref().ok_or("no status")?;
        let main = status.container_statuses.as_ref().and_then(|all| all.first());
        let container = main.and_then(|main| main.state.as_ref());
        let ended = container.and_then(|state| state.terminated.as_ref()).ok_or("still running")?;
        let at = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
            time.as_ref().map(|time| time.0).ok_or("no time")
        };
        Ok::<_, &str>((at(&ended.started_at)?, at(&ended.finished_at)?))
    })
}

/// The pod ended at its deadline by itself; a new operator closes the lease with the true times.
fn ends_alone_and_is_closed_truly(stage: &Stage, namespace: &str, max_runtime: i64) {
    let (started, finished) = times_of_the_program(stage, namespace);
    let ran = finished.duration_since(started).as_secs();
    let latest = max_runtime + GRACE_SECONDS + LATENESS_SECONDS;
    assert!((max_runtime..=latest).contains(&ran), "ran {ran} s of {max_runtime} s");
    let operator = Operator::start(&stage.playground).unwrap();
    let end = ("MaxRuntimeReached", "User");
    let status = jobs::ended_as(stage, namespace, "train", end, LIMIT);
    let at = |text: &Option<String>| text.as_deref().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(at(&status.running_at), started);
    assert_eq!(at(&status.ended_at), finished);
    jobs::until_ready_is(stage, namespace, "train", "MaxRuntimeReached", LIMIT);
    operator.kill().unwrap();
}

pub(crate) fn killed_after_the_pod_was_created(stage: &Stage) {
    let namespace = jobs::namespace(stage, "killed-early");
    let operator = Operator::start(&stage.playground).unwrap();
    deaf(20).apply(stage, &namespace);
    wait_for("the pod is there", LIMIT, || pod(stage, &namespace).map(|_| ()).ok_or("no pod"));
    operator.kill().unwrap();
    ends_alone_and_is_closed_truly(stage, &namespace, 20);
}

pub(crate) fn killed_before_the_deadline(stage: &Stage) {
    let namespace = jobs::namespace(stage, "killed-late");
    let operator = Operator::start(&stage.playground).unwrap();
    deaf(30).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    let job: GpuJob = stage.playground.get(&namespace, "gpujob", "train").unwrap().unwrap();
    let ends_at = job.status.unwrap().lease.unwrap().ends_at.unwrap();
    let ends_at: Timestamp = ends_at.parse().unwrap();
    wait_for("20 s are left", LIMIT, || {
        let left = ends_at.duration_since(jobs::now()).as_secs();
        if left <= 20 { Ok(()) } else { Err(left) }
    });
    operator.kill().unwrap();
    ends_alone_and_is_closed_truly(stage, &namespace, 30);
}

pub(crate) fn examples_run_once(stage: &Stage) {
    let namespace = jobs::namespace(stage, "examples");
    let folder = leasehold_tests::playground::project().join("examples");
    let folder = folder.to_string_lossy();
    let apply = || stage.playground.kubectl(&["apply", "-n", &namespace, "-f", &folder]).unwrap();
    let operator = Operator::start(&stage.playground).unwrap();
    apply();
    jobs::until_ready_is(stage, &namespace, "endless", "Running", LIMIT);
    apply();
    jobs::until_ready_is(stage, &namespace, "quickstart", "Succeeded", LIMIT);
    jobs::until_ready_is(stage, &namespace, "endless", "MaxRuntimeReached", LIMIT);
    apply();
    operator.kill().unwrap();
    let _again = Operator::start(&stage.playground).unwrap();
    apply();
    // A job that comes after all this has been served, so everything before it has been looked at.
    Job::named("last").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "last", "Succeeded", LIMIT);
    for name in ["quickstart", "endless"] {
        let reason = if name == "endless" { "MaxRuntimeReached" } else { "Completed" };
        jobs::ended_as(stage, &namespace, name, (reason, "User"), LIMIT);
    }
}
