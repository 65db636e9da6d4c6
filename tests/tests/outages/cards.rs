//! What is wrong with cards is found before the program starts, named, and paid by nobody.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
};
use serde_json::{Value, json};

use crate::LIMIT;

/// The only node with these cards.
const NODE: &str = "node-1";

fn scenarios() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let failure = |name: &str| json!({"failure": {"name": name}});
    vec![
        ("no-program", json!({"withoutProgram": true}), "NvidiaSmiMissing", "nvidia-smi"),
        ("no-devices", json!({"withoutDevices": true}), "DevicesMissing", "/dev/nvidia"),
        ("no-driver", failure("driver-not-loaded"), "DriverNotLoaded", "communicate"),
        ("mismatch", failure("version-mismatch"), "DriverLibraryMismatch", "mismatch"),
        ("no-library", failure("library-missing"), "NvmlLibraryMissing", "libnvidia-ml"),
        ("lost", failure("gpu-lost"), "GpuLost", "lost"),
        (
            "denied",
            failure("nvml-unknown-error"),
            "DevicePermissionDenied",
            "Failed to initialize NVML: Unknown Error",
        ),
        (
            "unknown",
            json!({"failure": {"text": "the moon is full", "exitCode": 42}}),
            "NvidiaSmiFailed",
            "the moon is full",
        ),
        ("hangs", json!({"hang": true}), "NvidiaSmiTimeout", "20"),
        ("fewer", json!({"show": 1}), "TooFewCards", "2"),
        (
            "other",
            json!({"allCards": {"name": "NVIDIA GeForce RTX 3090"}}),
            "WrongCard",
            "RTX 3090",
        ),
        ("larger", json!({"allCards": {"memory.total": "49140"}}), "WrongMemory", "49140"),
    ]
}

pub(crate) fn each_fault(stage: &Stage) {
    let namespace = jobs::namespace(stage, "card-faults");
    for (name, scenario, reason, words) in scenarios() {
        stage.playground.scenario(NODE, &scenario).unwrap();
        Job::named(name).on("gpu: {cards: [4090], count: 2}").apply(stage, &namespace);
        let message = jobs::until_ready_is(stage, &namespace, name, reason, LIMIT);
        assert!(message.contains(words), "{name}: {message}");
        assert!(message.contains(NODE) && message.contains("What to do"), "{name}: {message}");
        let lease = jobs::closed_lease(stage, &namespace, &format!("{name}-r0-a1"), LIMIT);
        let status = lease.status.unwrap();
        let paid = (status.paid_by.as_deref(), status.charged.as_deref());
        assert_eq!(paid, (Some("Infrastructure"), Some("0.00")), "{name}");
    }
    stage.playground.well(NODE).unwrap();
    // All eight cards are free again.
    Job::named("well").on("gpu: {cards: [4090], count: 8}").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "well", "Succeeded", LIMIT);
    let leases = stage.playground.list(&namespace, "gpuleases").unwrap();
    assert_eq!(leases.len(), scenarios().len() + 1, "something was started twice");
}
