//! The only place that reads a clock. Reading fails where a sandbox forbids it.
//!
//! `CLOCK_BOOTTIME` is the same in all containers of a node, goes on during suspend and knows no
//! steps: a program cannot gain time by a changed wall clock.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Why the time is not known.
#[derive(Debug, thiserror::Error)]
#[error("failed to read CLOCK_BOOTTIME")]
pub struct NoClock(#[source] nix::Error);

/// The time since the node was started.
pub fn now() -> Result<Duration, NoClock> {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).map_err(NoClock)
}
