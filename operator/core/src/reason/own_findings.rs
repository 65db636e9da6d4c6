//! What an agent can find by itself, by the stage of its container. Pure data.
//!
//! [`crate::diagnosis`] believes nothing else without a stop in the lease: what the agent reports
//! can have come from an annotation, which whoever may edit pods writes, or from the program, which
//! can write the container's termination message itself.

use jiff::SignedDuration;

use super::{Payer, Reason};
use crate::{pod::Ended, report::Stage};

/// How long after the start of its container an agent can still fail to start the program. Later
/// than that the program has run, and what infrastructure pays is not believed from there: the
/// report may be the program's own.
pub const PROGRAM_STARTS_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// The reasons that an agent can come to in this stage without having been told.
#[must_use]
pub const fn of(stage: Stage) -> &'static [Reason] {
    match stage {
        Stage::Install => &[Reason::Completed, Reason::AgentFailed, Reason::DiskFull],
        Stage::Preflight => PREFLIGHT,
        Stage::Prepare => PREPARE,
        Stage::Run => RUN,
    }
}

/// The judges of [`crate::preflight`] and the failures of [`crate::smi`].
const PREFLIGHT: &[Reason] = &[
    Reason::Completed,
    Reason::AgentFailed,
    Reason::DevicesMissing,
    Reason::NvidiaSmiMissing,
    Reason::ImageLacksGlibc,
    Reason::NvidiaSmiTimeout,
    Reason::NvidiaSmiFailed,
    Reason::DriverNotLoaded,
    Reason::DriverLibraryMismatch,
    Reason::NvmlLibraryMissing,
    Reason::DevicePermissionDenied,
    Reason::NoDevicesFound,
    Reason::GpuLost,
    Reason::GpuNeedsReset,
    Reason::GpuPowerMissing,
    Reason::TooFewCards,
    Reason::TooManyCards,
    Reason::WrongCard,
    Reason::WrongMemory,
];

/// What [`crate::restore`] finds, the kernel's kill, and the ends that the agent knows.
const PREPARE: &[Reason] = &[
    Reason::Completed,
    Reason::AgentFailed,
    Reason::BudgetExhausted,
    Reason::PodDeleted,
    Reason::HostOutOfMemory,
    Reason::NoPythonInImage,
    Reason::EnvironmentFileMissing,
    Reason::RequirementsInvalid,
    Reason::RequirementsNotPortable,
    Reason::PackageNotFound,
    Reason::RequirementsConflict,
    Reason::PackageHashMismatch,
    Reason::PackageBuildFailed,
    Reason::IndexUnreachable,
    Reason::OwnIndexUnreachable,
    Reason::IndexRefused,
    Reason::DiskFull,
    Reason::RestoreFailed,
];

/// How a program ends or fails to start, and the ends that the agent knows.
const RUN: &[Reason] = &[
    Reason::Completed,
    Reason::AgentFailed,
    Reason::MaxRuntimeReached,
    Reason::BudgetExhausted,
    Reason::PodDeleted,
    Reason::CommandFailed,
    Reason::CommandKilled,
    Reason::CommandNotFound,
    Reason::CommandNotExecutable,
    Reason::WorkingDirMissing,
    Reason::HostOutOfMemory,
];

/// Whether a report of this reason is believed, from a container of this stage that ended so.
#[must_use]
pub fn is_believed(reason: Reason, stage: Stage, ended: &Ended) -> bool {
    let before_the_program = || match (ended.started_at, ended.finished_at) {
        (Some(start), Some(end)) => end.duration_since(start) <= PROGRAM_STARTS_WITHIN,
        (None, _) | (_, None) => false,
    };
    of(stage).contains(&reason)
        && (stage != Stage::Run || reason.payer() == Payer::User || before_the_program())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    /// The reasons of one part of the documentation, whose order is that of the enumeration.
    fn part(first: Reason, last: Reason) -> impl Iterator<Item = Reason> {
        Reason::ALL.iter().copied().filter(move |reason| (first..=last).contains(reason))
    }

    #[test]
    fn every_finding_of_a_stage_is_believed_from_it() {
        // A damaged infoROM is only warned of.
        let refusals = part(Reason::DevicesMissing, Reason::WrongMemory)
            .filter(|reason| *reason != Reason::InforomCorrupted);
        let table = [
            (Stage::Preflight, refusals.collect::<Vec<_>>()),
            (Stage::Prepare, part(Reason::NoPythonInImage, Reason::RestoreFailed).collect()),
            (Stage::Run, part(Reason::CommandFailed, Reason::HostOutOfMemory).collect()),
        ];
        for (stage, findings) in table {
            assert!(findings.len() > 4);
            for reason in findings {
                assert!(of(stage).contains(&reason), "{reason} in {stage:?}");
            }
        }
    }

    #[test]
    fn what_infrastructure_pays_is_believed_of_a_program_only_before_it_can_have_run() {
        let ended = |seconds| Ended {
            started_at: Timestamp::from_second(0).ok(),
            finished_at: Timestamp::from_second(seconds).ok(),
            exit_code: 1,
            reason: "Error".to_owned(),
            message: String::new(),
            report: None,
        };
        let table = [
            (Reason::AgentFailed, Stage::Run, 60, true),
            (Reason::AgentFailed, Stage::Run, 61, false),
            (Reason::AgentFailed, Stage::Prepare, 900, true),
            (Reason::CommandFailed, Stage::Run, 61, true),
            (Reason::GpuLost, Stage::Preflight, 61, true),
            (Reason::GpuLost, Stage::Prepare, 1, false),
            (Reason::GpuLost, Stage::Run, 1, false),
        ];
        for (reason, stage, after, believed) in table {
            let told = is_believed(reason, stage, &ended(after));
            assert_eq!(told, believed, "{reason} in {stage:?} after {after} s");
        }
        let without_times = Ended { started_at: None, ..ended(1) };
        assert!(!is_believed(Reason::AgentFailed, Stage::Run, &without_times));
    }

    #[test]
    fn no_stage_comes_to_an_order_by_itself() {
        for stage in Stage::ALL {
            for order in [Reason::Stopped, Reason::Superseded, Reason::HolderDeleted] {
                assert!(!of(stage).contains(&order), "{order} in {stage:?}");
            }
        }
        let free = of(Stage::Run).iter().filter(|reason| reason.payer() == Payer::Infrastructure);
        assert_eq!(free.collect::<Vec<_>>(), [&Reason::AgentFailed]);
    }
}
