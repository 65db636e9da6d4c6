//! A tour: two jobs on a control plane of our own (or on `CONTEXT`), from YAML to the receipt.
//!
//! What it shows it has read from the objects and logs, and it ends with 0 only if all of it is
//! as promised. [`ground`] is where it runs, [`watch`] shows progress, [`findings`] compares.

mod findings;
mod ground;
mod watch;

use std::process::ExitCode;

use findings::Findings;
use ground::Ground;

/// A failed step, in words.
type Failure = Box<dyn std::error::Error>;

/// A job of the tour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Act {
    /// Its name, which is also that of its file in `examples/`.
    name: &'static str,
    /// Why its card shall come back.
    released_because: &'static str,
    /// What its pod shall have printed; empty where nothing is executed.
    prints: &'static str,
}

fn main() -> ExitCode {
    match tour() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tour() -> Result<bool, Failure> {
    let ground = Ground::prepare()?;
    let acts = ground.acts();
    for act in acts {
        ground.apply(act)?;
    }
    watch::until_ended(&ground, acts)?;
    let mut findings = Findings::default();
    for act in acts {
        findings.read(&ground, act)?;
    }
    findings.print();
    ground.leave()?;
    Ok(findings.all_hold())
}
