//! Jobs in real containers.

use std::time::Duration;

use leasehold_crds::GpuLease;
use leasehold_tests::{jobs, suite::Stage};

const LIMIT: Duration = Duration::from_mins(3);

pub(crate) fn quickstart(stage: &Stage) {
    let namespace = jobs::namespace(stage, "quickstart");
    let example = leasehold_tests::playground::project().join("examples/quickstart.yaml");
    stage
        .playground
        .kubectl(&["apply", "-n", &namespace, "-f", &example.to_string_lossy()])
        .unwrap();
    jobs::until_ready_is(stage, &namespace, "quickstart", "Succeeded", LIMIT);
    let log = stage.playground.kubectl(&["logs", "-n", &namespace, "quickstart-r0-a1"]).unwrap();
    assert!(log.contains("NVIDIA GeForce RTX 4090"), "{log}");
    let lease: GpuLease =
        stage.playground.get(&namespace, "gpulease", "quickstart-r0-a1").unwrap().unwrap();
    assert_eq!(lease.status.as_ref().unwrap().released_because.as_deref(), Some("Completed"));
    jobs::charge_is_rate_times_held_time(&lease);
}
