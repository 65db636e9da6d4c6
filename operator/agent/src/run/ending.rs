//! Why a program ended, and what the agent's exit code says of it. Pure.

use std::time::Duration;

use leasehold_core::{
    reason::Reason,
    report::{Report, Stage},
};
use nix::sys::signal::Signal;

use super::{ends::End, readable, whole_seconds};

/// Shells and container runtimes add this to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Exit code of a program that was stopped before it was started: as if by SIGTERM.
const STOPPED_BEFORE_START: i32 = 143;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an exit code.
    Code(i32),
    /// By a signal; `None` for a real-time signal.
    Signal(Option<Signal>),
}

/// A stop under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub why: String,
    /// When the grace period is over.
    pub kill_at: Duration,
}

impl Stop {
    /// The operator ordered it.
    #[must_use]
    pub fn by_order(reason: Reason, now: Duration, grace: Duration) -> Self {
        let why = format!("the operator ordered it ({reason})");
        Self { reason, why, kill_at: now.saturating_add(grace) }
    }

    /// A deadline was reached.
    #[must_use]
    pub fn by_end(end: &End, now: Duration, grace: Duration) -> Self {
        Self { reason: end.reason, why: end.why.clone(), kill_at: now.saturating_add(grace) }
    }

    /// SIGTERM came without an order: the kubelet ends the pod.
    #[must_use]
    pub fn by_sigterm(now: Duration, grace: Duration) -> Self {
        let why = "the pod is being deleted (SIGTERM)".to_owned();
        Self { reason: Reason::PodDeleted, why, kill_at: now.saturating_add(grace) }
    }
}

/// What explains an ending.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The command.
    pub name: &'a str,
    /// How long it ran.
    pub ran: Duration,
    /// The stop that was under way.
    pub stop: Option<&'a Stop>,
    /// The last signal that came from outside.
    pub passed_on: Option<i32>,
    /// The kernel has killed a process of this container for memory.
    pub oom_killed: bool,
}

impl Ending {
    /// The agent's exit code.
    #[must_use]
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(Some(signal)) => SIGNALLED + signal as i32,
            // The first real-time signal; the kernel's number is not known here.
            Self::Signal(None) => SIGNALLED + 34,
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(out, "ended with exit code {code}"),
            Self::Signal(Some(signal)) => write!(out, "was ended by {signal}"),
            Self::Signal(None) => out.write_str("was ended by a real-time signal"),
        }
    }
}

/// The last report of a program.
#[must_use]
pub fn report(ending: Ending, circumstances: &Circumstances<'_>) -> Report {
    let Circumstances { name, ran, .. } = circumstances;
    let facts = format!("{name} {ending} after {}", readable(*ran));
    let (reason, evidence) = match (circumstances.stop, ending) {
        (Some(stop), _) => (stop.reason, format!("{}; {facts}", stop.why)),
        (None, Ending::Code(0)) => (Reason::Completed, facts),
        (None, _) if circumstances.oom_killed => (
            Reason::HostOutOfMemory,
            format!("{facts}; the kernel killed a process of this container for memory"),
        ),
        (None, Ending::Code(_)) => (Reason::CommandFailed, facts),
        (None, Ending::Signal(signal)) => {
            let from_outside =
                signal.is_some_and(|signal| circumstances.passed_on == Some(signal as i32));
            let source = if from_outside {
                "which came from outside"
            } else {
                "which leasehold did not send"
            };
            (Reason::CommandKilled, format!("{facts}, {source}"))
        }
    };
    Report {
        reason: Some(reason),
        exit_code: Some(ending.exit_code()),
        ran_seconds: Some(whole_seconds(*ran)),
        evidence,
        ..Report::new(Stage::Run)
    }
}

/// The report of a program that was stopped before it was started.
#[must_use]
pub fn before_the_start(stop: &Stop) -> Report {
    Report {
        reason: Some(stop.reason),
        exit_code: Some(STOPPED_BEFORE_START),
        ran_seconds: Some(0),
        evidence: format!("{}; the program was not started", stop.why),
        ..Report::new(Stage::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_has_its_reason_and_exit_code() {
        let stop = Stop::by_sigterm(Duration::ZERO, Duration::ZERO);
        let killed = Ending::Signal(Some(Signal::SIGKILL));
        let table = [
            (Ending::Code(0), None, false, Reason::Completed, 0),
            (Ending::Code(3), None, false, Reason::CommandFailed, 3),
            (killed, None, false, Reason::CommandKilled, 137),
            (killed, None, true, Reason::HostOutOfMemory, 137),
            (Ending::Code(1), None, true, Reason::HostOutOfMemory, 1),
            (Ending::Code(0), None, true, Reason::Completed, 0),
            (killed, Some(&stop), true, Reason::PodDeleted, 137),
            (Ending::Code(0), Some(&stop), false, Reason::PodDeleted, 0),
            (Ending::Signal(None), None, false, Reason::CommandKilled, 162),
        ];
        for (ending, stop, oom_killed, reason, code) in table {
            let ran = Duration::from_secs(61);
            let circumstances =
                Circumstances { name: "train", ran, stop, passed_on: None, oom_killed };
            let report = report(ending, &circumstances);
            assert_eq!((report.reason, report.exit_code), (Some(reason), Some(code)), "{ending}");
            assert_eq!(report.ran_seconds, Some(61));
            assert!(report.evidence.contains("train") && report.evidence.contains("1m1s"));
        }
    }

    #[test]
    fn a_signal_from_outside_is_told_from_one_of_unknown_source() {
        let ran = Duration::ZERO;
        for (passed_on, words) in
            [(Some(2), "came from outside"), (Some(1), "did not send"), (None, "did not send")]
        {
            let circumstances =
                Circumstances { name: "train", ran, stop: None, passed_on, oom_killed: false };
            let report = report(Ending::Signal(Some(Signal::SIGINT)), &circumstances);
            assert!(report.evidence.contains(words), "{}", report.evidence);
        }
    }
}
