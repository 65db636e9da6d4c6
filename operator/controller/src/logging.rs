//! How the operator writes its log: to standard error, one line each, as text or JSON.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, filter::ParseError};

/// The shape of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, module, words, then `field=value`.
    Text,
    /// For collectors: one JSON object with the same fields.
    Json,
}

/// The levels when nothing is said.
pub const DEFAULT_LEVEL: &str = "info";

const QUIET_CLIENT: &str = "kube_client::client::builder=off";

/// Levels that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to read the log levels {levels:?}: {source}; write for example info, or info,leasehold=debug"
)]
pub struct UnreadableLevels {
    levels: String,
    source: ParseError,
}

/// Begins the log of the process; call it once.
///
/// # Errors
/// Levels that cannot be read.
pub fn begin(format: LogFormat, levels: &str) -> Result<(), UnreadableLevels> {
    // A variable that is set to nothing says nothing.
    let wanted = if levels.trim().is_empty() { DEFAULT_LEVEL } else { levels };
    let unreadable = |source| UnreadableLevels { levels: levels.to_owned(), source };
    let mut filter = EnvFilter::try_new(wanted).map_err(unreadable)?;
    if !wanted.contains("kube_client") {
        // The client logs each failure as an error of its own; whoever called says more.
        filter = filter.add_directive(QUIET_CLIENT.parse().map_err(unreadable)?);
    }
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).init(),
    }
    // A panic is a line like any other.
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a bug: the code panicked")));
    Ok(())
}
