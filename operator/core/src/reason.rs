//! Every reason that leasehold gives, with who pays and what to change. Pure data.
//!
//! A reason is one `PascalCase` word in conditions, Events, leases and metrics. Its doc comment is
//! the user's documentation of it; its cure is what the user is told to change.
//!
//! What an agent's report is believed is in [`own_findings`].

pub mod own_findings;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who pays for the time that a card was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Payer {
    /// The holder: its image, code, request or wish ended the lease.
    User,
    /// Nobody is charged: node, driver, toolkit, device or leasehold itself failed.
    Infrastructure,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident => $payer:ident, $cure:literal;)+) => {
        /// Why something waits, runs, was refused or ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $($(#[doc = $doc])+ $name,)+ }

        impl Reason {
            /// All reasons, in the order of their documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word as it stands in conditions and Events.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What it means, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Who pays for a lease that ended for this reason.
            #[must_use]
            pub const fn payer(self) -> Payer {
                match self { $(Self::$name => Payer::$payer,)+ }
            }

            /// What to change; empty when there is nothing to change.
            #[must_use]
            pub const fn cure(self) -> &'static str {
                match self { $(Self::$name => $cure,)+ }
            }

            /// The reason with this name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name { $(stringify!($name) => Some(Self::$name),)+ _ => None }
            }
        }
    };
}

reasons! {
    // Before a card is held.
    /// The specification is in order.
    Accepted => User, "";
    /// A field has a value that leasehold cannot use.
    InvalidSpec => User, "correct the field named in the message and apply again";
    /// No card of this name is in the catalog.
    UnknownCard => User, "use one of the names listed, or describe the card in a GpuCard object";
    /// No price is known for the card, so no budget can be kept.
    Unpriced => User, "ask for a GpuCard object with a price, or set budget.limit to Unlimited";
    /// The budget and the price are in different currencies.
    CurrencyMismatch => User, "set budget.currency to the currency of the card's price";
    /// The budget does not pay for the shortest possible lease.
    BudgetTooSmall => User, "raise budget.limit, shorten gracePeriod, or ask for fewer or cheaper cards";
    /// The money for the worst case is set aside.
    Funded => User, "";
    /// No card of the wanted kind is free; the job starts by itself when one is.
    WaitingForCard => User, "wait, or allow more kinds of cards in gpu.cards";
    /// No node has as many cards as were asked for in one pod.
    CountExceedsNodes => User, "lower gpu.count, or add a node with more cards";
    /// The pod was created and waits for the scheduler.
    WaitingForScheduler => User, "";
    /// The scheduler left the pod unbound; the choice is made again after a pause.
    PodUnbound => Infrastructure, "see the scheduler's words in the message; often a taint, or too little CPU or memory beside the card";
    /// The API server refused the lease or the pod.
    PodRefused => User, "change what the API server's words in the message name";
    /// A lease and a pod are being created.
    Placing => User, "";
    /// The card is held; images are pulled and the card is checked.
    Preparing => User, "";
    /// The image cannot be pulled yet; the card is held meanwhile, and given back after some minutes.
    WaitingForImage => User, "check the image's name and tag, and imagePullSecrets";
    /// A container cannot be created yet; the card is held meanwhile, and given back after some minutes.
    WaitingForContainer => User, "create or correct what the kubelet's words in the message name";
    /// The card passed its checks.
    Prepared => User, "";
    /// The program runs.
    Running => User, "";
    /// The node does not report; when it stays silent, the lease is closed and costs nothing.
    NodeSilent => Infrastructure, "look at the kubelet, the power and the network of the node named in the message";
    /// The program was told to stop; the card comes back when it has ended.
    Releasing => User, "";
    /// Nothing was started, because this run is in the ledger already.
    AlreadyRan => User, "to run again, set spec.rerun to a number that has not run yet";
    /// Another run took the place of this one.
    Superseded => User, "to run again, set spec.rerun to a number that has not run yet";

    // Ends that somebody wanted.
    /// The program ended with exit code 0.
    Completed => User, "";
    /// The job reached its end with success.
    Succeeded => User, "";
    /// The running time reached maxRuntime.
    MaxRuntimeReached => User, "raise maxRuntime and change spec.rerun to run again";
    /// The charge would have exceeded budget.limit.
    BudgetExhausted => User, "raise budget.limit and change spec.rerun to run again";
    /// The job was stopped by state: Stopped or by a `GpuRequest`.
    Stopped => User, "to go on, set state to Running, or ask for a Start in a GpuRequest where one stopped it";
    /// The job's object was deleted.
    HolderDeleted => User, "";
    /// Somebody deleted or evicted the pod or told its agent to stop, and leasehold did not.
    PodDeleted => User, "change spec.rerun to run again; use state: Stopped to stop a job";
    /// Somebody changed a container of the pod while it ran, so that it ran what the job does not say.
    PodChanged => User, "change the job, together with spec.rerun, and never its pod";

    // Ends by the program.
    /// The program ended with an exit code other than 0.
    CommandFailed => User, "see the program's last lines in the pod's log";
    /// The command is not in the image.
    CommandNotFound => User, "check the spelling of command, and that the image contains it; PATH is the image's";
    /// The command is in the image but cannot be executed.
    CommandNotExecutable => User, "make the file executable (chmod +x) and check that it was built for this CPU";
    /// The working directory does not exist in the image.
    WorkingDirMissing => User, "create the directory in the image, or correct workingDir";
    /// A signal that leasehold did not send ended the program.
    CommandKilled => User, "see the signal in the message and the program's last lines in the pod's log";
    /// The kernel killed the program because it used more memory than its limit.
    HostOutOfMemory => User, "raise resources.memory, or use less host memory (fewer loader workers, smaller batches)";
    /// The pod wrote more to local disk or shared memory than its own limits allow.
    StorageLimitExceeded => User, "write less to local disk and /dev/shm, or raise the limit named in the message (resources.sharedMemory, a LimitRange of the namespace)";

    // Ends of the start.
    /// The program had not started when startupTimeout was over.
    StartupTimeout => User, "see in the message what the pod was waiting for";
    /// The image cannot be pulled.
    ImagePullFailed => User, "check the image's name and tag, and imagePullSecrets";
    /// The container cannot be created from its specification.
    ContainerCreateFailed => User, "correct what the kubelet's words in the message name";
    /// The image says that it needs a newer driver than the node has.
    ImageRequiresNewerDriver => User, "use an image for an older CUDA, or cards on nodes with a newer driver; the condition in the message is the image's NVIDIA_REQUIRE_CUDA";

    // Ends by the restore of the environment.
    /// The image has no Python, so no environment can be restored in it.
    NoPythonInImage => User, "use an image with Python 3, or drop environment";
    /// A requirements file is not where the job says.
    EnvironmentFileMissing => User, "correct the name of the file, or bring it along";
    /// A requirements file has lines that cannot be understood.
    RequirementsInvalid => User, "correct the lines named in the message";
    /// A requirements file has paths of another machine.
    RequirementsNotPortable => User, "write name==version instead of a path; `pip list --format=freeze` prints lines without paths";
    /// No index has a package of this name.
    PackageNotFound => User, "check the spelling of the package, and which index should have it";
    /// No versions of the packages fit together, or none fits the image's Python.
    RequirementsConflict => User, "change the versions named in the message, or use an image with another Python";
    /// A downloaded package is not the one that its hash stands for.
    PackageHashMismatch => User, "correct the hash if the package was published anew; otherwise find out who changed it in the index";
    /// A package has to be built from source, and the build failed.
    PackageBuildFailed => User, "use a version that has a wheel for this Python, or an image with what the build lacks (compiler, headers, CUDA toolkit)";
    /// An index does not answer, or its certificate is not trusted.
    IndexUnreachable => Infrastructure, "check the address of the index in the message and the way to it from the nodes: DNS, proxy, certificates";
    /// An index or a git server that only the job names, or to which only variables of the job or its image lead, does not answer or is not trusted.
    OwnIndexUnreachable => User, "correct or leave out what the message names: an address in the requirements file, or a variable of the job's env or its image (proxy, certificates, timeouts); without any, this installation's index is used. The nodes must be able to reach the address";
    /// An index or a git server refused the credentials, or wants some.
    IndexRefused => User, "check user name, password or token for the address in the message";
    /// The node's disk was full before the environment was restored.
    DiskFull => Infrastructure, "free or add disk on the node named in the message, or restore less";
    /// The environment could not be restored, for a cause that is not known.
    RestoreFailed => User, "see uv's words in the message, and its whole output in the log of the container prepare";

    // Ends by the infrastructure.
    /// The kubelet refused the pod after it was bound.
    NodeRefusedPod => Infrastructure, "look at the device plugin and the kubelet of the node named in the message";
    /// The node did not bring a container of the pod as far as its start.
    NodeCouldNotStart => Infrastructure, "see the pod's events (kubectl describe pod), then look at the container runtime of the node named in the message, its runtime handler, network plugin and disk";
    /// The node's container runtime does not know the device that the device plugin handed out.
    CdiDeviceUnresolved => Infrastructure, "write the node's CDI specification anew (nvidia-ctk cdi generate), or use the runtime class that fits the device plugin's strategy";
    /// The kubelet evicted the pod to protect its node.
    Evicted => Infrastructure, "look at the node named in the message: it ran out of memory, disk or process numbers";
    /// The cluster ended the pod: its node was emptied, something more important came, or the node was lost.
    PodDisrupted => Infrastructure, "see the cluster's words in the message; change spec.rerun to run again";
    /// The kubelet ended the pod at its ceiling, because neither agent nor operator did.
    CeilingReached => User, "look at the operator and at the agent's log in the pod";
    /// The node was silent for too long; nobody knows what became of the pod.
    NodeLost => Infrastructure, "look at the node named in the message; change spec.rerun to run again on another one";
    /// The pod vanished without a trace of its end.
    PodLost => Infrastructure, "find out who removed the pod's finalizer";
    /// Leasehold's agent could not be brought into the pod, or failed there.
    AgentFailed => Infrastructure, "show the words in the message to whoever runs leasehold here";

    // Findings of the preflight.
    /// The container got no NVIDIA device files.
    DevicesMissing => Infrastructure, "look at the device plugin and the container toolkit of the node: the pod asked for cards and got none";
    /// nvidia-smi is not in the container.
    NvidiaSmiMissing => Infrastructure, "install the NVIDIA container toolkit on the node, make nvidia its default runtime or name the RuntimeClass, and keep utility in gpu.capabilities";
    /// The image has no glibc, which nvidia-smi and CUDA need.
    ImageLacksGlibc => User, "use an image with glibc (Debian, Ubuntu, RHEL and their like); CUDA does not run on Alpine or in images without a C library";
    /// nvidia-smi did not answer in time.
    NvidiaSmiTimeout => Infrastructure, "look at the node's kernel log for NVRM and Xid lines; a hanging driver needs a reboot";
    /// nvidia-smi failed in a way that is not known.
    NvidiaSmiFailed => Infrastructure, "look at nvidia-smi on the node named in the message";
    /// The driver is not loaded on the node.
    DriverNotLoaded => Infrastructure, "load or install the NVIDIA driver on the node; changing the image does not help";
    /// The driver's libraries and its kernel module have different versions.
    DriverLibraryMismatch => Infrastructure, "reboot the node or reload its NVIDIA modules; changing the image does not help";
    /// The NVML library is not in the container.
    NvmlLibraryMissing => Infrastructure, "repair the NVIDIA container toolkit on the node: it mounts libnvidia-ml.so";
    /// The container may not use the devices.
    DevicePermissionDenied => Infrastructure, "check the modes of /dev/nvidia* and the device cgroup on the node";
    /// The driver sees no device.
    NoDevicesFound => Infrastructure, "look for RmInitAdapter lines in the node's kernel log; reset the card or reboot the node";
    /// A card has fallen off the bus.
    GpuLost => Infrastructure, "drain and reboot the node; replace the card when it happens again";
    /// A card must be reset before it works.
    GpuNeedsReset => Infrastructure, "reset the card with nvidia-smi --gpu-reset, or reboot the node";
    /// The infoROM of a card is damaged; the card works, but what it says about itself may be wrong.
    InforomCorrupted => Infrastructure, "watch the card and have it repaired; the job goes on";
    /// The power supply of a card is not connected or too weak.
    GpuPowerMissing => Infrastructure, "check the card's power connectors";
    /// Fewer cards are in the container than were leased.
    TooFewCards => Infrastructure, "compare the node's device plugin with the cards that nvidia-smi shows there";
    /// More cards are in the container than were leased.
    TooManyCards => Infrastructure, "the image's NVIDIA_VISIBLE_DEVICES wins over the device plugin: set the plugin's device-list strategy to volume-mounts or cdi-cri";
    /// The card is of another model than the lease says.
    WrongCard => Infrastructure, "correct the node's nvidia.com/gpu.product label, or do not mix models in one node";
    /// The card has another memory size than the lease says.
    WrongMemory => Infrastructure, "correct the node's labels, or describe this variant in a GpuCard object";
}

impl Reason {
    /// Whether a job that ended for this reason has done what it was for.
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Completed | Self::Succeeded)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A finding in the three parts that people need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is.
    pub reason: Reason,
    /// What was seen, with the values.
    pub evidence: String,
}

impl Finding {
    /// A finding with its evidence.
    #[must_use]
    pub fn new(reason: Reason, evidence: impl Into<String>) -> Self {
        Self { reason, evidence: evidence.into() }
    }

    /// Evidence and cure for a condition's message.
    #[must_use]
    pub fn message(&self) -> String {
        let cure = self.reason.cure();
        let (said, end) = match self.evidence.as_str() {
            "" => (self.reason.meaning(), ""),
            evidence if cure.is_empty() || evidence.ends_with(['.', '?', '!']) => (evidence, ""),
            evidence => (evidence, "."),
        };
        if cure.is_empty() { said.to_owned() } else { format!("{said}{end} What to do: {cure}.") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_meaning_and_its_name_is_found_again() {
        for reason in Reason::ALL {
            assert!(reason.meaning().ends_with('.'), "{reason}");
            assert_eq!(Reason::parse(reason.name()), Some(*reason));
            assert!(reason.name().bytes().all(|byte| byte.is_ascii_alphabetic()));
        }
        assert_eq!(Reason::parse("Nonsense"), None);
    }

    #[test]
    fn a_message_is_evidence_and_cure() {
        let said = |reason, evidence: &str| Finding::new(reason, evidence).message();
        assert_eq!(said(Reason::Placing, ""), "A lease and a pod are being created.");
        assert_eq!(said(Reason::Running, "1 × l4"), "1 × l4");
        assert!(said(Reason::Unpriced, "no price").starts_with("no price. What to do: ask for"));
        assert!(said(Reason::UnknownCard, "l4?").starts_with("l4? What to do: use one"));
        assert!(
            said(Reason::UnknownCard, "").starts_with("No card of this name is in the catalog. ")
        );
    }

    #[test]
    fn infrastructure_reasons_say_what_to_look_at() {
        for reason in Reason::ALL.iter().filter(|reason| reason.payer() == Payer::Infrastructure) {
            assert!(!reason.cure().is_empty(), "{reason}");
        }
    }
}
