//! The agent of leasehold inside the user's pod: one static binary for every image.
//!
//! ```text
//! init   agent-install   install DIR   copies the agent (and uv), notes since when the card is held
//! init   preflight       preflight     the container's cards are the lease's cards
//! init   prepare         prepare       restores the Python environment, where the job has one
//! main                   run           PID 1 of the user's program, ends it on time
//! ```
//!
//! Each subcommand tells its state in the container's termination message, see
//! [`leasehold_core::report`]. Rules are in `leasehold-core`; this crate does the I/O. Read [`run`]
//! for what happens to a program, [`prepare`] for its environment. The environment is read in [`environment`] and the clock in
//! [`clock`] only.
//!
//! # Exit codes
//!
//! | code | meaning |
//! |---|---|
//! | the program's, 128 + number for a signal | `run`, also when the program was stopped |
//! | 0 | `install`, `preflight` and `prepare`: done, passed, restored |
//! | 1 | `preflight`: the cards were refused; `prepare`: the environment cannot be restored |
//! | 125 | the agent failed, be it for a full disk, or was called wrongly |
//! | 126 | `run`: the command cannot be executed |
//! | 127 | `run`: the command, the script's interpreter or the working directory is not in the image |
//! | 143 | `run`: stopped before the program was started; `prepare`: stopped |

pub mod arguments;
pub mod clock;
pub mod environment;
pub mod failure;
pub mod install;
pub mod notice;
pub mod preflight;
pub mod prepare;
pub mod probe;
pub mod run;
pub mod signals;
pub mod termination;
pub mod trust;

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::Parser;
use leasehold_core::report::{Report, Stage};
use signal_hook::consts::SIGTERM;

use crate::{
    arguments::{Arguments, Subcommand},
    failure::Failure,
    termination::TerminationLog,
};

/// Exit code when the agent itself failed.
pub const AGENT_FAILED: i32 = 125;

/// Exit code when cards or an environment were refused.
pub const REFUSED: i32 = 1;

/// Runs the agent with the process' arguments and environment.
#[must_use]
pub fn main() -> ExitCode {
    let mut log = TerminationLog::at(environment::termination_log());
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) if !usage.use_stderr() => usage.exit(),
        Err(usage) => return conclude(&mut log, Stage::Run, Err(usage.into())),
    };
    match arguments.subcommand {
        Subcommand::Version => {
            println!("leasehold-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Subcommand::Install { directory } => {
            end_on_sigterm();
            conclude(&mut log, Stage::Install, install::install(&directory))
        }
        Subcommand::Preflight { devices, toolkit, patience } => {
            end_on_sigterm();
            let patience = Duration::from_secs(patience);
            let report = preflight::preflight(&devices, &toolkit, patience);
            conclude(&mut log, Stage::Preflight, report.map_err(Failure::from))
        }
        Subcommand::Prepare => {
            let report = prepare::prepare(&mut log);
            conclude(&mut log, Stage::Prepare, report)
        }
        Subcommand::Run(wish) => {
            let report = run::run(&wish, &mut log);
            conclude(&mut log, Stage::Run, report)
        }
    }
}

/// Ends the process on SIGTERM: the kernel ignores it for a PID 1 without a handler, and the pod
/// would hold its cards until the kubelet kills it.
fn end_on_sigterm() {
    let always = Arc::new(AtomicBool::new(true));
    if let Err(error) = signal_hook::flag::register_conditional_shutdown(SIGTERM, 143, always) {
        notice::say(&format!("SIGTERM cannot be handled: {error}"));
    }
}

/// Writes the last report and makes the exit code.
fn conclude(log: &mut TerminationLog, stage: Stage, result: Result<Report, Failure>) -> ExitCode {
    let report = result.unwrap_or_else(|failure| {
        let finding = failure.finding(stage, &environment::restore::mask());
        notice::say(&format!("{}: {}", finding.reason, finding.message()));
        Report {
            reason: Some(finding.reason),
            exit_code: Some(AGENT_FAILED),
            evidence: finding.evidence,
            ..Report::new(stage)
        }
    });
    log.write(&report);
    let code = report.exit_code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(u8::MAX))
}
