//! A pod is changed by somebody who may edit pods, and leasehold did not.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use leasehold_crds::{GpuLease, GpuLeaseStatus};
use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
    waiting::wait_for,
};

use crate::LIMIT;

const POD: &str = "train-r0-a1";
/// Another name of the image that the job runs; both are on the node.
const OTHER_NAME: &str = "leasehold.local/python:3";

/// The lease, once it knows when the program started.
fn running_lease(stage: &Stage, namespace: &str) -> GpuLeaseStatus {
    wait_for("the lease knows the start", LIMIT, || {
        let lease: Option<GpuLease> =
            stage.playground.get(namespace, "gpulease", POD).map_err(|error| error.to_string())?;
        let status = lease.and_then(|lease| lease.status).ok_or("no status")?;
        if status.running_at.is_some() { Ok(status) } else { Err(status.state) }
    })
}

/// A kubelet starts a container again whose image was changed, whatever the pod's `restartPolicy`
/// says: that is no run of the job any more, and the first start counts.
pub(crate) fn of_the_image(stage: &Stage) {
    let namespace = jobs::namespace(stage, "changed-image");
    Job::named("train").running("command: [sleep, infinity]").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    let before = running_lease(stage, &namespace);
    let image = format!("main={OTHER_NAME}");
    let changed_at = jobs::now();
    stage.playground.kubectl(&["set", "image", "pod", POD, &image, "-n", &namespace]).unwrap();
    let message = jobs::until_ready_is(stage, &namespace, "train", "PodChanged", LIMIT);
    assert!(message.contains(POD) && message.contains("What to do"), "{message}");
    let after = jobs::ended_as(stage, &namespace, "train", ("PodChanged", "User"), LIMIT);
    assert_eq!((&after.held_at, &after.running_at), (&before.held_at, &before.running_at));
    let held_at: Timestamp = after.held_at.as_deref().unwrap().parse().unwrap();
    assert!(
        after.billed_seconds >= Some(changed_at.duration_since(held_at).as_secs()),
        "{after:?}"
    );
    // Its agent obeyed: the operator did not have to delete the pod, which it does much later.
    let pod: Pod = stage.playground.get(&namespace, "pod", POD).unwrap().expect("it was deleted");
    assert_eq!(pod.metadata.deletion_timestamp, None);
}
