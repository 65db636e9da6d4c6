//! `make bench`: how fast leasehold is and what it costs, on one control plane with what users would
//! pick instead: the native Job controller, and Kueue.
//!
//! [`rounds`] lets the [`contender`]s take turns; [`restart`] and [`quiet`] measure what many objects
//! cost. [`ground`] has the processes, [`load`] makes objects, [`watching`] takes the time,
//! [`counting`] and [`processes`] count. [`report`] keeps what was measured, [`table`] words it for
//! `docs/speed.md`.

mod contender;
mod counting;
mod ground;
mod kinds;
mod kueue;
mod load;
mod machine;
mod options;
mod processes;
mod quiet;
mod report;
mod restart;
mod rounds;
mod table;
mod watching;

use std::process::ExitCode;

use clap::Parser;
use ground::Ground;
use leasehold_tests::environment::Environment;
use options::{Options, Part};
use report::Report;

/// A failed step, in words.
type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> ExitCode {
    // kube's TLS needs one process-wide provider; it fails only when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match measure(&Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What one part has found is kept before the next begins.
async fn measure(options: &Options) -> Result<(), Failure> {
    let environment = Environment::read("bench")?;
    let mut report = Report::read(&options.json)?;
    report.machine = machine::describe()?;
    for part in &options.parts {
        // An API server that has served many objects is slower: each part has its own.
        let ground = Ground::up(&environment, options).await?;
        match part {
            Part::Rounds => report.rounds = Some(rounds::run(&ground, options).await?),
            Part::Restart => report.restart = Some(restart::run(&ground, options).await?),
            Part::Quiet => report.quiet = Some(quiet::run(&ground, options).await?),
        }
        ground.down()?;
        report.write(&options.json)?;
        table::write(&report, &options.page)?;
    }
    println!("written: {} and {}", options.json.display(), options.page.display());
    Ok(())
}
