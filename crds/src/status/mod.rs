//! A job's status between the wire and the core's value. Pure and total in both directions.
//!
//! Writing fits every text into the bounds of the schema, so that an API server never refuses a
//! status. Reading survives anything: what it cannot read it names in [`Reading::unread`], and it
//! never forgets that a run ended, that an attempt took place or what was charged.

pub(crate) mod read;
#[cfg(test)]
mod tests;
pub(crate) mod write;

use leasehold_core::status::Status;

pub use read::status_from_wire;
pub use write::status_to_wire;

/// A status as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The status.
    pub status: Status,
    /// Fields that could not be read, with their values, for the log.
    pub unread: Vec<String>,
}

/// The text in at most `most` characters; a cut shows as an ellipsis.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}
