//! What keeps a container from starting: the words of kubelet and container runtime. Pure.
//!
//! [`obstacle`] reads a container that waits, [`explain`] the error of one that could not start;
//! both look into the same table. [`crate::decide`] gives a card back by the first,
//! [`crate::diagnosis`] explains an end by the second.

use jiff::SignedDuration;

use crate::{
    pod::container,
    reason::{Payer, Reason},
};

/// Texts in lower case, in the order in which they are looked for. What an image itself demands
/// comes first: its words stand in the message, and may be any.
const TEXTS: &[(&str, Reason)] = &[
    // nvidia-container-cli: `requirement error: unsatisfied condition: cuda>=12.8, please update
    // your driver to a newer version, or use an earlier cuda container`
    // <https://github.com/NVIDIA/nvidia-container-toolkit/issues/152>.
    ("unsatisfied condition", Reason::ImageRequiresNewerDriver),
    // nvidia-container-cli: `initialization error: nvml error: driver/library version mismatch`
    // <https://github.com/NVIDIA/nvidia-container-toolkit/issues/394>.
    ("driver/library version mismatch", Reason::DriverLibraryMismatch),
    // nvidia-container-cli: `initialization error: nvml error: driver not loaded`, the text of
    // NVML's code 9.
    ("nvml error: driver not loaded", Reason::DriverNotLoaded),
    // nvidia-container-cli: `initialization error: load library failed: libnvidia-ml.so.1`, which
    // is the node's library <https://github.com/NVIDIA/nvidia-container-toolkit/issues/154>.
    ("load library failed: libnvidia-ml", Reason::DriverNotLoaded),
    // The CDI library, in containerd (`CDI device injection failed: …`, the container waits) and in
    // the nvidia runtime (`failed to inject CDI devices: …`, its start fails)
    // <https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/736>,
    // <https://github.com/NVIDIA/nvidia-container-toolkit/issues/1239>.
    ("unresolvable cdi devices", Reason::CdiDeviceUnresolved),
    // containerd: the first try hangs, each later one finds its name taken
    // <https://github.com/containerd/containerd/issues/4604>.
    ("failed to reserve container name", Reason::NodeCouldNotStart),
    // The kubelet's call to a container runtime that hangs, same place.
    ("context deadline exceeded", Reason::NodeCouldNotStart),
    // runc, `libcontainer/process_linux.go`.
    ("memory limit too low", Reason::HostOutOfMemory),
    // execve(2), E2BIG.
    ("argument list too long", Reason::ContainerCreateFailed),
];

/// What is known to be behind these words.
#[must_use]
pub fn explain(words: &str) -> Option<Reason> {
    let words = words.to_lowercase();
    TEXTS.iter().find(|(text, _)| words.contains(text)).map(|(_, reason)| *reason)
}

/// A container that cannot start, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// How long its card is held for it.
    pub patience: SignedDuration,
    /// Why the lease ends then.
    pub ends_as: Reason,
    /// The word for it meanwhile.
    pub shown_as: Reason,
}

/// Reads why a container waits, by the kubelet's word (`pkg/kubelet/images/types.go`,
/// `pkg/kubelet/container/sync_result.go`) and message. Registries come back, secrets are created
/// late; a name that is no name stays one. `None` when it only waits for its turn.
#[must_use]
pub fn obstacle(name: &str, word: &str, message: &str) -> Option<Obstacle> {
    let minutes = SignedDuration::from_mins;
    let image = |patience| Obstacle {
        patience,
        ends_as: Reason::ImagePullFailed,
        shown_as: Reason::WaitingForImage,
    };
    let found = match word {
        "InvalidImageName" | "ErrImageNeverPull" => image(SignedDuration::ZERO),
        "ErrImagePull" | "ImagePullBackOff" | "ImageInspectError" | "RegistryUnavailable" => {
            image(minutes(5))
        }
        "CreateContainerConfigError" | "CreateContainerError" => Obstacle {
            patience: minutes(5),
            ends_as: explain(message).unwrap_or(Reason::ContainerCreateFailed),
            shown_as: Reason::WaitingForContainer,
        },
        _ => return None,
    };
    // Image and container are leasehold's there, so that the failure is not the holder's.
    if name == container::INSTALL && found.ends_as.payer() == Payer::User {
        return Some(Obstacle {
            ends_as: Reason::AgentFailed,
            shown_as: Reason::Preparing,
            ..found
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Real messages: those of the issues that [`TEXTS`] names, and of runc.
    #[test]
    fn the_words_of_runtimes_are_known() {
        let hook = "failed to create containerd task: failed to create shim task: OCI runtime \
                    create failed: runc create failed: unable to start container process: error \
                    during container init: error running prestart hook #0: exit status 1, \
                    stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: ";
        let spec = "failed to create containerd task: failed to create shim task: OCI runtime \
                    create failed: could not apply required modification to OCI specification: \
                    error modifying OCI spec: ";
        let table = [
            (
                hook,
                "requirement error: unsatisfied condition: cuda>=12.8, please update your driver \
                 to a newer version, or use an earlier cuda container: unknown",
                Reason::ImageRequiresNewerDriver,
            ),
            (
                hook,
                "requirement error: unsatisfied condition: brand = driver/library version mismatch",
                Reason::ImageRequiresNewerDriver,
            ),
            (
                hook,
                "initialization error: nvml error: driver/library version mismatch: unknown",
                Reason::DriverLibraryMismatch,
            ),
            (
                "",
                "Failed to initialize NVML: Driver/library version mismatch",
                Reason::DriverLibraryMismatch,
            ),
            (
                hook,
                "initialization error: nvml error: driver not loaded: unknown",
                Reason::DriverNotLoaded,
            ),
            (
                hook,
                "initialization error: load library failed: libnvidia-ml.so.1: cannot open \
                 shared object file: no such file or directory: unknown",
                Reason::DriverNotLoaded,
            ),
            (
                spec,
                "failed to inject CDI devices: unresolvable CDI devices \
                 management.nvidia.com/gpu=0: unknown",
                Reason::CdiDeviceUnresolved,
            ),
            (
                "failed to create containerd container: CDI device injection failed: ",
                "unresolvable CDI devices k8s.gpu.nvidia.com/device=gpu-1",
                Reason::CdiDeviceUnresolved,
            ),
            (
                "failed to reserve container name \"main_train\": ",
                "name \"main_train\" is reserved for \"6a37ff\"",
                Reason::NodeCouldNotStart,
            ),
            ("", "context deadline exceeded", Reason::NodeCouldNotStart),
            ("", "container init was OOM-killed (memory limit too low?)", Reason::HostOutOfMemory),
            (
                "exec /leasehold/bin/leasehold-agent: ",
                "argument list too long",
                Reason::ContainerCreateFailed,
            ),
        ];
        for (before, words, reason) in table {
            assert_eq!(explain(&format!("{before}{words}")), Some(reason), "{words}");
        }
        assert_eq!(explain("no such device"), None);
        for (text, _) in TEXTS {
            assert_eq!(*text, text.to_lowercase());
        }
    }

    #[test]
    fn a_container_that_waits_has_its_patience_and_its_payer() {
        use Reason::{
            AgentFailed, CdiDeviceUnresolved, ContainerCreateFailed, ImagePullFailed, Preparing,
            WaitingForContainer, WaitingForImage,
        };
        let (main, install) = (container::MAIN, container::INSTALL);
        let cdi = "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all";
        let secret = "secret \"token\" not found";
        let table = [
            (main, "ErrImagePull", "not found", 5, ImagePullFailed, WaitingForImage),
            (main, "InvalidImageName", "", 0, ImagePullFailed, WaitingForImage),
            (install, "ErrImagePull", "not found", 5, AgentFailed, Preparing),
            (
                main,
                "CreateContainerConfigError",
                secret,
                5,
                ContainerCreateFailed,
                WaitingForContainer,
            ),
            (main, "CreateContainerError", cdi, 5, CdiDeviceUnresolved, WaitingForContainer),
            (install, "CreateContainerError", cdi, 5, CdiDeviceUnresolved, WaitingForContainer),
            (install, "CreateContainerError", "no space", 5, AgentFailed, Preparing),
        ];
        for (name, word, message, patience, ends_as, shown_as) in table {
            let patience = SignedDuration::from_mins(patience);
            let expected = Obstacle { patience, ends_as, shown_as };
            assert_eq!(obstacle(name, word, message), Some(expected), "{name} {word} {message}");
        }
        assert_eq!(obstacle(main, "PodInitializing", ""), None);
    }
}
