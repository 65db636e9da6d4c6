//! The command line of the benchmark. Pure; clap parses it.

use std::path::PathBuf;

/// Measures leasehold beside the Job controller and Kueue, and writes what was found.
///
/// Nothing else should run on the machine meanwhile.
#[derive(Debug, clap::Parser)]
#[command(name = "bench")]
pub(crate) struct Options {
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "rounds,restart,quiet")]
    pub(crate) parts: Vec<Part>,
    /// How often each contender has its turn.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Objects that a contender gets in one turn; each needs a card.
    #[arg(long, default_value_t = 300)]
    pub(crate) objects: usize,
    /// Ended jobs, each with its sealed lease, that are there when the operator is started again.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) ended: usize,
    /// Held leases whose quiet is measured; each needs a card.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) held: usize,
    /// How long it is listened to the quiet, in seconds.
    #[arg(long, default_value_t = 120)]
    pub(crate) quiet_seconds: u64,
    /// Simulated nodes.
    #[arg(long, default_value_t = 125)]
    pub(crate) nodes: u32,
    /// Cards of each node.
    #[arg(long, default_value_t = 40)]
    pub(crate) cards: u32,
    /// Where the figures are kept.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: PathBuf,
    /// The page whose table is written.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: PathBuf,
    /// What cargo tells every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Contenders in turn.
    Rounds,
    /// The operator is started again with many ended jobs.
    Restart,
    /// Held leases, and nothing happens.
    Quiet,
}
