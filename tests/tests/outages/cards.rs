//! What is wrong with cards is found before the program starts, named, and paid by nobody.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
};
use serde_json::{Value, json};

use crate::LIMIT;

/// The only node with these cards.
const NODE: &str = "node-1";

/// What `nvidia-smi` answers, the reason that it has, and words that people find there. The failures
/// by name are those of the playground.
fn faults() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let failure = |name: &str| json!({"failure": {"name": name}});
    let text = |text: &str, code: i32| json!({"failure": {"text": text, "exitCode": code}});
    let all = |field: &str, value: &str| json!({"allCards": {field: value}});
    vec![
        ("no-program", json!({"withoutProgram": true}), "NvidiaSmiMissing", "nvidia-smi"),
        ("no-device-files", json!({"withoutDevices": true}), "DevicesMissing", "/dev/nvidia"),
        ("no-driver", failure("driver-not-loaded"), "DriverNotLoaded", "communicate"),
        ("mismatch", failure("version-mismatch"), "DriverLibraryMismatch", "mismatch"),
        ("no-library", failure("library-missing"), "NvmlLibraryMissing", "libnvidia-ml"),
        ("lost", failure("gpu-lost"), "GpuLost", "lost"),
        ("no-handle", failure("handle-unknown-error"), "GpuLost", "device handle"),
        ("reset", text("GPU requires reset", 16), "GpuNeedsReset", "reset"),
        ("reset-of-one", all("memory.total", "[GPU requires reset]"), "GpuNeedsReset", "reset"),
        ("power", failure("external-power-missing"), "GpuPowerMissing", "Power"),
        ("no-devices", failure("no-devices"), "NoDevicesFound", "No devices were found"),
        ("forbidden", failure("insufficient-permissions"), "DevicePermissionDenied", "Permissions"),
        ("blocked", failure("blocked-by-system"), "DevicePermissionDenied", "operating system"),
        ("denied", failure("nvml-unknown-error"), "DevicePermissionDenied", "Unknown Error"),
        ("interrupts", failure("interrupt-problem"), "NvidiaSmiFailed", "interrupt problem"),
        ("function", failure("function-missing"), "NvidiaSmiFailed", "Function Not Found"),
        ("unknown", text("the moon is full", 42), "NvidiaSmiFailed", "the moon is full"),
        ("hangs", json!({"hang": true}), "NvidiaSmiTimeout", "20"),
        ("fewer", json!({"show": 1}), "TooFewCards", "2"),
        ("more", json!({"show": 3}), "TooManyCards", "3"),
        ("other", all("name", "NVIDIA GeForce RTX 3090"), "WrongCard", "RTX 3090"),
        ("larger", all("memory.total", "49140"), "WrongMemory", "49140"),
    ]
}

pub(crate) fn each_fault(stage: &Stage) {
    let namespace = jobs::namespace(stage, "card-faults");
    let job = |name| Job::named(name).on("gpu: {cards: [4090], count: 2}");
    for (name, scenario, reason, words) in faults() {
        stage.playground.scenario(NODE, &scenario).unwrap();
        job(name).apply(stage, &namespace);
        let message = jobs::until_ready_is(stage, &namespace, name, reason, LIMIT);
        assert!(message.contains(words), "{name}: {message}");
        assert!(message.contains(NODE) && message.contains("What to do"), "{name}: {message}");
        jobs::ended_as(stage, &namespace, name, (reason, "Infrastructure"), LIMIT);
    }
    // What is only slow, or only a warning, is no fault.
    for (name, scenario) in [
        ("slow", json!({"sleepSeconds": 3.0})),
        ("inforom", json!({"failure": {"name": "inforom-corrupted"}})),
    ] {
        stage.playground.scenario(NODE, &scenario).unwrap();
        job(name).apply(stage, &namespace);
        jobs::until_ready_is(stage, &namespace, name, "Succeeded", LIMIT);
        jobs::ended_as(stage, &namespace, name, ("Completed", "User"), LIMIT);
    }
    stage.playground.well(NODE).unwrap();
    // All eight cards are free again.
    job("well").on("gpu: {cards: [4090], count: 8}").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "well", "Succeeded", LIMIT);
}
