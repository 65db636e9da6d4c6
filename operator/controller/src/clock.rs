//! The only place that reads the wall clock. No I/O beyond that; cannot fail.

use jiff::Timestamp;

/// Tells the time; life tests give one that follows their virtual time.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
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
}
