//! The command line of the demo. Pure; clap parses it, with the environment variables that `make`
//! passes on.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use leasehold_tests::environment::Environment;

/// What the jobs of the tour ask for, with some to spare.
pub(crate) const THE_TOURS_CARDS: &str = "rtx4090:4";

/// A tour of leasehold: two jobs, from YAML to the receipt; one ends by itself, one is stopped.
///
/// It starts a control plane of its own, with a real node where that can be, and takes it down in
/// the end. The exit code is 0 only if everything was as promised.
#[derive(Debug, clap::Parser)]
#[command(name = "demo")]
pub(crate) struct Options {
    /// Use the cluster of this context of your kubeconfig, which has leasehold; only the namespace
    /// leasehold-demo is touched.
    #[arg(long, env = "CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Leave everything up, the operator too, and say how to go on.
    #[arg(long, env = "KEEP", value_parser = FalseyValueParser::new())]
    pub(crate) keep: bool,
    /// Where the playground lies; by default run/playground in the cache folder.
    #[arg(long, value_name = "DIR", global = true)]
    directory: Option<PathBuf>,
    /// What to do instead of the tour.
    #[command(subcommand)]
    pub(crate) instead: Option<Instead>,
}

/// What to do instead of the tour.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Instead {
    /// Only start the playground and leave it up; print the lines with which a shell uses it.
    Playground {
        /// The cards of a node: id:count.
        #[arg(long, value_name = "CARDS", default_value = THE_TOURS_CARDS)]
        cards: String,
    },
}

impl Options {
    /// The context, if one is named.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref().filter(|context| !context.is_empty())
    }

    /// Where the playground lies.
    pub(crate) fn directory(&self, environment: &Environment) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| usual_directory(environment))
    }
}

/// Where the playground lies unless another place is named.
pub(crate) fn usual_directory(environment: &Environment) -> PathBuf {
    environment.cache.join("run/playground")
}
