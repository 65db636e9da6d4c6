//! A tour: two jobs on a control plane of our own (or on `CONTEXT`), from YAML to the receipt.
//!
//! What it shows it has read from the objects and logs, and it ends with 0 only if all of it is
//! as promised. [`options`] is its command line, [`ground`] is where it runs, [`watch`] shows
//! progress, [`findings`] compares.

mod findings;
mod ground;
mod options;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use findings::Findings;
use ground::Ground;
use options::{Instead, Options};

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
    prints: &'static [&'static str],
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.instead {
        Some(Instead::Playground { cards }) => ground::playground(&options, cards).map(|()| true),
        None => tour(&options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whatever happens on it, the ground is left as its options say.
fn tour(options: &Options) -> Result<bool, Failure> {
    let ground = Ground::prepare(options)?;
    let shown = show(&ground);
    ground.leave()?;
    shown
}

fn show(ground: &Ground) -> Result<bool, Failure> {
    let acts = ground.acts();
    for act in acts {
        ground.apply(act)?;
    }
    watch::until_ended(ground, acts)?;
    let mut findings = Findings::default();
    for act in acts {
        findings.read(ground, act)?;
    }
    findings.print();
    Ok(findings.all_hold())
}
