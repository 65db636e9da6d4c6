//! `preflight` against drivers that answer from a script, and `install`.
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod agent;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use agent::{Agent, Seen, file};
use leasehold_core::{
    reason::Reason,
    report::{Report, Stage},
};
use tempfile::TempDir;

const TWO_CARDS: &str =
    "0, GPU-aaaa, NVIDIA L4, 23034, 580.65.06\n1, GPU-bbbb, NVIDIA L4, 23034, 580.65.06";

/// Two L4 are leased; nvidia-smi is this shell script, or missing.
fn preflight(devices: &[&str], nvidia_smi: Option<&str>) -> Seen {
    let node = a_node(devices);
    if let Some(script) = nvidia_smi {
        nvidia_smi_in(&node, "toolkit", script);
    }
    preflight_on(&node, &[])
}

/// The agent's preflight on this node. Nothing of this machine is a place of the toolkit or in PATH,
/// because the machine could have an nvidia-smi.
fn preflight_on(node: &TempDir, arguments: &[&str]) -> Seen {
    let place = |name: &str| node.path().join(name).display().to_string();
    let (devices, toolkit) = (place("dev"), place("toolkit"));
    Agent::called(
        &[&["preflight", "--devices", &devices, "--toolkit", &toolkit], arguments].concat(),
    )
    .with("PATH", &place("path"))
    .with("LEASEHOLD_CARD", "l4")
    .with("LEASEHOLD_CARD_PRODUCTS", r#"["NVIDIA L4"]"#)
    .with("LEASEHOLD_CARD_MEMORY_MIB", "23034")
    .with("LEASEHOLD_COUNT", "2")
    .ends()
}

fn a_node(devices: &[&str]) -> TempDir {
    let node = tempfile::tempdir().unwrap();
    for directory in ["dev", "toolkit", "path"] {
        fs::create_dir(node.path().join(directory)).unwrap();
    }
    for device in devices {
        fs::write(node.path().join("dev").join(device), "").unwrap();
    }
    node
}

/// Puts this shell script where the toolkit or the image has nvidia-smi. It has a search path of its
/// own.
fn nvidia_smi_in(node: &TempDir, place: &str, script: &str) {
    let text = format!("#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n");
    file(&node.path().join(place), "nvidia-smi", &text, 0o755);
}

const DEVICES: &[&str] = &["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"];

#[test]
fn the_leased_cards_pass() {
    let seen = preflight(DEVICES, Some(&format!("echo '{TWO_CARDS}'")));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let expected = Report {
        reason: Some(Reason::Completed),
        exit_code: Some(0),
        cards: vec!["GPU-aaaa".to_owned(), "GPU-bbbb".to_owned()],
        ..Report::new(Stage::Preflight)
    };
    assert_eq!(seen.report, expected);
    assert!(
        seen.stderr_text().contains("NVIDIA L4 (GPU-bbbb, 23034 MiB), driver 580.65.06"),
        "{seen:?}"
    );
}

#[test]
fn nvidia_smi_is_asked_for_the_core_fields() {
    let script = format!(
        "test \"$*\" = '--query-gpu=index,uuid,name,memory.total,driver_version --format=csv,noheader,nounits' && echo '{TWO_CARDS}'"
    );
    assert_eq!(preflight(DEVICES, Some(&script)).code, Some(0));
}

#[test]
fn the_toolkits_nvidia_smi_is_believed_before_the_images_own() {
    let node = a_node(DEVICES);
    let answers = format!("echo '{TWO_CARDS}'");
    nvidia_smi_in(&node, "path", &answers);
    assert_eq!(preflight_on(&node, &[]).code, Some(0));
    nvidia_smi_in(&node, "toolkit", "echo 'No devices were found'; exit 6");
    let seen = preflight_on(&node, &[]);
    assert_eq!(seen.report.reason, Some(Reason::NoDevicesFound), "{seen:?}");
    nvidia_smi_in(&node, "path", "exit 77");
    nvidia_smi_in(&node, "toolkit", &answers);
    assert_eq!(preflight_on(&node, &[]).code, Some(0));
}

#[test]
fn each_failure_is_refused_with_its_reason_and_cure() {
    let fails = |code: i32, text: &str| Some(format!("echo \"{text}\"; exit {code}"));
    let prints = |text: &str| Some(format!("echo '{text}'"));
    let one = "0, GPU-aaaa, NVIDIA L4, 23034, 580.65.06";
    let table = [
        (&["nvidiactl"][..], prints(TWO_CARDS), Reason::DevicesMissing, "2 × l4"),
        (DEVICES, None, Reason::NvidiaSmiMissing, "/toolkit, PATH (/"),
        (
            DEVICES,
            fails(
                9,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            ),
            Reason::DriverNotLoaded,
            "communicate",
        ),
        (
            DEVICES,
            fails(18, "Failed to initialize NVML: Driver/library version mismatch"),
            Reason::DriverLibraryMismatch,
            "mismatch",
        ),
        (
            DEVICES,
            fails(12, "NVIDIA-SMI couldn't find libnvidia-ml.so library"),
            Reason::NvmlLibraryMissing,
            "find",
        ),
        (DEVICES, fails(6, "No devices were found"), Reason::NoDevicesFound, "No devices"),
        (
            DEVICES,
            fails(15, "GPU 0000:3B:00.0: GPU is lost.  Reboot the system"),
            Reason::GpuLost,
            "3B",
        ),
        (
            DEVICES,
            fails(4, "Insufficient Permissions"),
            Reason::DevicePermissionDenied,
            "Permissions",
        ),
        (DEVICES, fails(77, "Something new"), Reason::NvidiaSmiFailed, "Something new"),
        (DEVICES, Some("kill -SEGV $$".to_owned()), Reason::NvidiaSmiFailed, "139"),
        (DEVICES, prints(one), Reason::TooFewCards, "GPU-aaaa"),
        (
            DEVICES,
            prints(&TWO_CARDS.replace("1, GPU-bbbb, NVIDIA L4", "1, GPU-bbbb, NVIDIA L40")),
            Reason::WrongCard,
            "NVIDIA L40",
        ),
        (DEVICES, prints(&TWO_CARDS.replace("23034", "46068")), Reason::WrongMemory, "46068"),
        (
            DEVICES,
            prints("0, GPU-aaaa, NVIDIA L4, [GPU requires reset], 580"),
            Reason::GpuNeedsReset,
            "reset",
        ),
    ];
    for (devices, script, reason, words) in table {
        let seen = preflight(devices, script.as_deref());
        assert_eq!((seen.code, seen.report.reason), (Some(1), Some(reason)), "{seen:?}");
        assert_eq!((seen.report.stage, seen.report.exit_code), (Stage::Preflight, Some(1)));
        assert!(seen.report.evidence.contains(words), "{words}: {seen:?}");
        assert!(seen.stderr_text().contains(reason.cure()), "{seen:?}");
    }
}

#[test]
fn a_tool_without_its_loader_is_the_images_fault() {
    let node = a_node(DEVICES);
    let toolkit = node.path().join("toolkit");
    file(&toolkit, "nvidia-smi", "#!/lib64/no-such-loader.so\n", 0o755);
    let seen = preflight_on(&node, &[]);
    assert_eq!(seen.report.reason, Some(Reason::ImageLacksGlibc), "{seen:?}");
}

#[test]
fn a_driver_that_hangs_is_left_alone_after_its_time() {
    // The child of the script keeps the output open, as a process in the driver would.
    let hangs = "trap '' TERM; sleep 600 & sleep 600";
    let node = a_node(DEVICES);
    nvidia_smi_in(&node, "toolkit", hangs);
    let seen = preflight_on(&node, &["--patience", "2"]);
    assert_eq!(
        (seen.code, seen.report.reason),
        (Some(1), Some(Reason::NvidiaSmiTimeout)),
        "{seen:?}"
    );
    assert!(seen.report.evidence.contains("2 s"), "{seen:?}");
}

#[test]
fn a_lease_that_cannot_be_read_is_the_agents_failure() {
    let seen = Agent::called(&["preflight"]).with("LEASEHOLD_CARD", "l4").ends();
    assert_eq!((seen.code, seen.report.reason), (Some(125), Some(Reason::AgentFailed)), "{seen:?}");
    assert_eq!(seen.report.stage, Stage::Preflight);
    assert!(seen.report.evidence.contains("LEASEHOLD_CARD_PRODUCTS"), "{seen:?}");
}

#[test]
fn install_leaves_a_working_agent_and_keeps_its_first_time() {
    let shared = tempfile::tempdir().unwrap();
    let directory = shared.path().join("new");
    let install =
        |directory: &Path| Agent::called(&["install", &directory.display().to_string()]).ends();
    let seen = install(&directory);
    assert_eq!((seen.code, seen.report.stage), (Some(0), Stage::Install), "{seen:?}");
    let copy = directory.join("leasehold-agent");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::read(&copy).unwrap(), fs::read(env!("CARGO_BIN_EXE_leasehold-agent")).unwrap());
    fs::write(directory.join("held-since"), "1\n").unwrap();
    assert_eq!(install(&directory).code, Some(0));
    assert_eq!(fs::read_to_string(directory.join("held-since")).unwrap(), "1\n");
    let mut names: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["held-since", "leasehold-agent"]);
}

#[test]
fn an_agent_that_cannot_be_installed_says_where() {
    let seen = Agent::called(&["install", "/proc/nowhere"]).ends();
    assert_eq!((seen.code, seen.report.reason), (Some(125), Some(Reason::AgentFailed)), "{seen:?}");
    assert!(seen.report.evidence.contains("/proc/nowhere"), "{seen:?}");
}
