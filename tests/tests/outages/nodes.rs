//! What happens to nodes, their programs and pods while a job runs: each has one reason, one payer,
//! and the card comes back. Each case has a node to itself, chosen by its card.

use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::{Value, json};

use crate::LIMIT;

/// A node, and the job that only it can run.
pub(crate) struct Place {
    pub(crate) node: &'static str,
    pub(crate) gpu: &'static str,
    turn: Mutex<()>,
}

impl Place {
    const fn new(node: &'static str, gpu: &'static str) -> Self {
        Self { node, gpu, turn: Mutex::new(()) }
    }

    /// Waits for the cases that have it now.
    pub(crate) fn alone(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static FIRST: Place = Place::new("node-2", "gpu: {cards: [rtx3090]}");
static SECOND: Place = Place::new("node-3", "gpu: {cards: [a100-pcie-40]}");
static THIRD: Place = Place::new("node-4", "gpu: {cards: [a100-sxm4-40]}");
pub(crate) static FOURTH: Place = Place::new("node-5", "gpu: {cards: [a100-pcie-80]}");

pub(crate) const FOR_EVER: &str = "command: [sleep, infinity]";

/// A job that runs there, and its namespace.
pub(crate) fn running(stage: &Stage, namespace: &str, place: &Place, program: &str) -> String {
    let namespace = jobs::namespace(stage, namespace);
    Job::named("train")
        .on(place.gpu)
        .running(program)
        .within("maxRuntime: 20m")
        .apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    namespace
}

pub(crate) fn ends_as(stage: &Stage, namespace: &str, reason: &str, payer: &str) {
    jobs::until_ready_is(stage, namespace, "train", reason, LIMIT);
    jobs::ended_as(stage, namespace, "train", (reason, payer), LIMIT);
}

/// A program that ran through whatever happened is paid for its time.
fn succeeds(stage: &Stage, namespace: &str, seconds: i64) {
    jobs::until_ready_is(stage, namespace, "train", "Succeeded", LIMIT);
    let status = jobs::ended_as(stage, namespace, "train", ("Completed", "User"), LIMIT);
    // The kubelet's times count: whole seconds, and a busy machine takes some of its own.
    let ran = jobs::ran_for(&status);
    assert!((seconds..=seconds + 10).contains(&ran), "{ran} s of {seconds} s: {status:?}");
}

/// Waits in real time: what is waited for is that nothing happens.
fn pass(seconds: i64) {
    let since = jobs::now();
    wait_for(&format!("{seconds} s are over"), LIMIT, || {
        let passed = jobs::now().duration_since(since).as_secs();
        if passed >= seconds { Ok(()) } else { Err(passed) }
    });
}

/// The kubelet is away until its node counts as silent, and comes back before it counts as lost.
pub(crate) fn a_minute_without_kubelet(stage: &Stage) {
    let namespace = running(stage, "kubelet", &FIRST, "command: [sleep, \"90\"]");
    let hanging = stage.playground.hang_kubelet(FIRST.node).unwrap();
    let message = jobs::until_ready_is(stage, &namespace, "train", "NodeSilent", LIMIT);
    assert!(message.contains(FIRST.node), "{message}");
    drop(hanging);
    succeeds(stage, &namespace, 90);
}

pub(crate) fn a_kubelet_that_never_comes_back(stage: &Stage) {
    let namespace = running(stage, "silent", &SECOND, FOR_EVER);
    let hanging = stage.playground.hang_kubelet(SECOND.node).unwrap();
    jobs::until_ready_is(stage, &namespace, "train", "NodeLost", LIMIT);
    // One that does comes back to a pod that it has to end.
    drop(hanging);
    ends_as(stage, &namespace, "NodeLost", "Infrastructure");
    runs_again(stage, "after-silence", &SECOND);
}

pub(crate) fn containerd_is_killed(stage: &Stage) {
    let _turn = THIRD.alone();
    let namespace = running(stage, "containerd", &THIRD, "command: [sleep, \"20\"]");
    stage.playground.kill_containerd(THIRD.node).unwrap();
    succeeds(stage, &namespace, 20);
}

pub(crate) fn pods_that_are_deleted(stage: &Stage) {
    let _turn = FOURTH.alone();
    let kubectl = |arguments: &[&str]| stage.playground.kubectl(arguments).unwrap();
    let namespace = running(stage, "by-hand", &FOURTH, FOR_EVER);
    kubectl(&["delete", "pod", "train-r0-a1", "-n", &namespace]);
    ends_as(stage, &namespace, "PodDeleted", "User");

    let namespace = running(stage, "by-force", &FOURTH, FOR_EVER);
    kubectl(&["delete", "pod", "train-r0-a1", "-n", &namespace, "--force", "--grace-period=0"]);
    ends_as(stage, &namespace, "PodDeleted", "User");

    let namespace = running(stage, "by-drain", &FOURTH, FOR_EVER);
    kubectl(&["drain", FOURTH.node, "--force", "--ignore-daemonsets", "--delete-emptydir-data"]);
    ends_as(stage, &namespace, "PodDisrupted", "Infrastructure");
    kubectl(&["uncordon", FOURTH.node]);
}

pub(crate) fn a_minute_without_api_server(stage: &Stage) {
    let operator = Operator::start(&stage.playground).unwrap();
    let namespace = running(stage, "api-server", &FIRST, "command: [sleep, \"30\"]");
    let hanging = stage.playground.hang_api_server().unwrap();
    pass(60);
    drop(hanging);
    succeeds(stage, &namespace, 30);
    operator.kill().unwrap();
}

pub(crate) fn a_node_is_deleted(stage: &Stage) {
    let _turn = THIRD.alone();
    let namespace = running(stage, "gone", &THIRD, FOR_EVER);
    stage.playground.kubectl(&["delete", "node", THIRD.node]).unwrap();
    ends_as(stage, &namespace, "PodDisrupted", "Infrastructure");
    // A kubelet that starts registers its node again.
    stage.playground.kill_kubelet(THIRD.node).unwrap();
    offers(stage, THIRD.node, "2");
    runs_again(stage, "after-deletion", &THIRD);
}

fn runs_again(stage: &Stage, namespace: &str, place: &Place) {
    let namespace = running(stage, namespace, place, FOR_EVER);
    stage.playground.kubectl(&["delete", "gpujob", "train", "-n", &namespace]).unwrap();
    jobs::ended_as(stage, &namespace, "train", ("HolderDeleted", "User"), LIMIT);
}

/// Waits until the node's device plugin offers so many cards.
fn offers(stage: &Stage, node: &str, count: &str) {
    wait_for(&format!("{node} offers {count} cards"), LIMIT, || {
        let node: Option<Value> =
            stage.playground.get("", "node", node).map_err(|error| error.to_string())?;
        let offered = node.and_then(|node| {
            node.pointer("/status/allocatable/nvidia.com~1gpu")?.as_str().map(str::to_owned)
        });
        if offered.as_deref() == Some(count) { Ok(()) } else { Err(format!("{offered:?}")) }
    });
}

/// A sick card leaves what the node offers: it is not leased, and who needs it waits.
pub(crate) fn a_sick_card(stage: &Stage) {
    let _turn = FOURTH.alone();
    stage.playground.scenario(FOURTH.node, &json!({"unhealthy": ["0"]})).unwrap();
    offers(stage, FOURTH.node, "1");
    let namespace = jobs::namespace(stage, "sick-card");
    let both = "gpu: {cards: [a100-pcie-80], count: 2}";
    Job::named("both").on(both).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "both", "CountExceedsNodes", LIMIT);
    Job::named("one").on(FOURTH.gpu).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "one", "Succeeded", LIMIT);
    stage.playground.well(FOURTH.node).unwrap();
    offers(stage, FOURTH.node, "2");
    jobs::until_ready_is(stage, &namespace, "both", "Succeeded", LIMIT);
    jobs::ended_as(stage, &namespace, "both", ("Completed", "User"), LIMIT);
}
