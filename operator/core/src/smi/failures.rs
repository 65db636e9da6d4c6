//! What the failures of `nvidia-smi` mean: tables of texts and exit codes. Pure.

use crate::reason::Reason;

/// Texts of a failure, in lower case, in the order in which they are looked for: the first that
/// occurs explains the failure.
const TEXTS: &[(&str, Reason)] = &[
    ("driver/library version mismatch", Reason::DriverLibraryMismatch),
    ("error while loading shared libraries: libnvidia-ml", Reason::NvmlLibraryMissing),
    ("error while loading shared libraries", Reason::ImageLacksGlibc),
    ("error relocating", Reason::ImageLacksGlibc),
    ("libnvidia-ml.so", Reason::NvmlLibraryMissing),
    ("couldn't communicate with the nvidia driver", Reason::DriverNotLoaded),
    ("driver not loaded", Reason::DriverNotLoaded),
    ("gpu requires reset", Reason::GpuNeedsReset),
    ("gpu is lost", Reason::GpuLost),
    ("unable to determine the device handle", Reason::GpuLost),
    ("insufficient permissions", Reason::DevicePermissionDenied),
    ("access blocked by the operating system", Reason::DevicePermissionDenied),
    // A reload of systemd takes the devices out of the container's cgroup.
    ("failed to initialize nvml: unknown error", Reason::DevicePermissionDenied),
    ("insufficient power", Reason::GpuPowerMissing),
    ("insufficient external power", Reason::GpuPowerMissing),
    ("no devices were found", Reason::NoDevicesFound),
];

/// Exit codes, for failures without a known text.
const CODES: &[(i32, Reason)] = &[
    (4, Reason::DevicePermissionDenied),
    (6, Reason::NoDevicesFound),
    (8, Reason::GpuPowerMissing),
    (9, Reason::DriverNotLoaded),
    (12, Reason::NvmlLibraryMissing),
    (15, Reason::GpuLost),
    (16, Reason::GpuNeedsReset),
    (17, Reason::DevicePermissionDenied),
    (18, Reason::DriverLibraryMismatch),
    (127, Reason::NvidiaSmiMissing),
];

/// What explains an exit code and the output, when it is known.
pub(super) fn explain(code: i32, stdout: &str, stderr: &str) -> Option<Reason> {
    let text = format!("{stdout}\n{stderr}").to_lowercase();
    let by_text = TEXTS.iter().find(|(needle, _)| text.contains(needle)).map(|(_, reason)| *reason);
    by_text.or_else(|| CODES.iter().find(|(known, _)| *known == code).map(|(_, reason)| *reason))
}

#[cfg(test)]
mod tests {
    use crate::{
        reason::Reason,
        smi::{Answer, read},
    };

    #[test]
    fn failures_are_explained_by_their_text_and_then_by_their_code() {
        let table: &[(i32, &str, Reason)] = &[
            (
                9,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
                Reason::DriverNotLoaded,
            ),
            (
                18,
                "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159",
                Reason::DriverLibraryMismatch,
            ),
            (
                1,
                "Failed to initialize NVML: Driver/library version mismatch",
                Reason::DriverLibraryMismatch,
            ),
            (
                12,
                "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.",
                Reason::NvmlLibraryMissing,
            ),
            (
                15,
                "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU",
                Reason::GpuLost,
            ),
            (
                255,
                "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
                Reason::GpuLost,
            ),
            (255, "Failed to initialize NVML: Unknown Error", Reason::DevicePermissionDenied),
            (
                4,
                "Failed to initialize NVML: Insufficient Permissions",
                Reason::DevicePermissionDenied,
            ),
            (
                17,
                "Failed to initialize NVML: GPU access blocked by the operating system",
                Reason::DevicePermissionDenied,
            ),
            (6, "No devices were found", Reason::NoDevicesFound),
            (0, "No devices were found", Reason::NoDevicesFound),
            (0, "", Reason::NoDevicesFound),
            (8, "", Reason::GpuPowerMissing),
            (16, "", Reason::GpuNeedsReset),
            (127, "nvidia-smi: command not found", Reason::NvidiaSmiMissing),
            (
                127,
                "nvidia-smi: error while loading shared libraries: libdl.so.2: cannot open shared object file",
                Reason::ImageLacksGlibc,
            ),
            (
                127,
                "nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object file",
                Reason::NvmlLibraryMissing,
            ),
            (
                127,
                "Error relocating /usr/bin/nvidia-smi: __strdup: symbol not found",
                Reason::ImageLacksGlibc,
            ),
            (2, "Field \"uuid\" is not a valid field to query.", Reason::NvidiaSmiFailed),
            (99, "something new", Reason::NvidiaSmiFailed),
            (139, "", Reason::NvidiaSmiFailed),
        ];
        for (code, text, reason) in table {
            let (text, code) = ((*text).to_owned(), *code);
            for (stdout, stderr) in [(text.clone(), String::new()), (String::new(), text.clone())] {
                let answer = Answer::Exited { code, stdout, stderr };
                let finding = read(&answer).unwrap_err();
                assert_eq!(finding.reason, *reason, "{code} {text}");
                assert!(finding.evidence.contains(&code.to_string()), "{}", finding.evidence);
            }
        }
    }
}
