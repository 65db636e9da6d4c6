//! The only place that reads the clocks of the machine. No I/O beyond that; cannot fail.

use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

/// Tells the time; life tests give one that follows their virtual time.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// The time since some instant that stays the same while the process runs. It knows no steps,
    /// and goes on while the process is stopped and while the machine sleeps.
    fn uptime(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one module that reads the clock"
        )]
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        // Linux has had this clock since 2.6.39. Without it everything is long past, so that
        // nothing is done in the belief that time stands still.
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
    }
}
