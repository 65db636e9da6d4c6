//! Pods that are evicted by a request to the API server, as `kubectl drain` does it. Whether its node
//! is being emptied then decides who pays.

use leasehold_crds::{GpuLease, lease::LeaseStop};
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};

use crate::{
    LIMIT,
    nodes::{FOR_EVER, FOURTH, ends_as, running},
};

const POD: &str = "train-r0-a1";

fn evict(stage: &Stage, namespace: &str) {
    let eviction = format!(
        "{{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \
         \"metadata\": {{\"name\": \"{POD}\", \"namespace\": \"{namespace}\"}}}}"
    );
    let path = format!("/api/v1/namespaces/{namespace}/pods/{POD}/eviction");
    stage.playground.kubectl_with(&["create", "--raw", &path, "-f", "-"], &eviction).unwrap();
}

/// Why the pod ends, as the lease has recorded it.
fn recorded_stop(stage: &Stage, namespace: &str) -> LeaseStop {
    wait_for(&format!("the lease of {namespace} has a stop"), LIMIT, || {
        let lease: Option<GpuLease> =
            stage.playground.get(namespace, "gpulease", POD).map_err(|error| error.to_string())?;
        let status = lease.and_then(|lease| lease.status).ok_or("no lease")?;
        status.stop.clone().ok_or_else(|| format!("{status:?}"))
    })
}

/// Nobody empties the node: it is a deletion by another name.
pub(crate) fn from_a_node_that_stays(stage: &Stage) {
    let _turn = FOURTH.alone();
    let namespace = running(stage, "by-eviction", &FOURTH, FOR_EVER);
    evict(stage, &namespace);
    ends_as(stage, &namespace, "PodDeleted", "User");
}

/// Ends once it is told so from inside, and not by the signal of its eviction.
const UNTIL_TOLD: &str = "script: \"trap '' TERM; until [ -e /tmp/enough ]; do sleep 0.2; done\"";

/// The node is open again before the pod has ended: what counts is how it was when the pod was evicted.
pub(crate) fn from_a_node_that_is_open_again_by_the_end(stage: &Stage) {
    let _turn = FOURTH.alone();
    let kubectl = |arguments: &[&str]| stage.playground.kubectl(arguments).unwrap();
    let namespace = jobs::namespace(stage, "by-drain-cut-short");
    Job::named("train")
        .on(FOURTH.gpu)
        .running(UNTIL_TOLD)
        // Longer than all that happens before it is told.
        .within("maxRuntime: 20m\ngracePeriod: 5m")
        .apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    kubectl(&["cordon", FOURTH.node]);
    evict(stage, &namespace);
    assert_eq!(recorded_stop(stage, &namespace).reason, "PodDisrupted");
    kubectl(&["uncordon", FOURTH.node]);
    // The operator knows that the node is open again: it places a job there.
    Job::named("other").on(FOURTH.gpu).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "other", "Succeeded", LIMIT);
    // Only in a container that still runs.
    kubectl(&["exec", POD, "-n", &namespace, "-c", "main", "--", "touch", "/tmp/enough"]);
    ends_as(stage, &namespace, "PodDisrupted", "Infrastructure");
}
