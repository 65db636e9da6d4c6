//! Wall clocks that follow tokio's clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use leasehold::clock::Clock;
use tokio::time::Instant;

/// When every world begins, in seconds: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

/// A wall clock. All clones are the same one.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    began: Instant,
    /// How far it is ahead, in seconds.
    ahead: Arc<AtomicI64>,
    /// How long its machine slept, in seconds.
    slept: Arc<AtomicU64>,
}

impl VirtualClock {
    /// One that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), ahead: Arc::default(), slept: Arc::default() }
    }

    /// Another one that shows the same time, until one of them is put forward or back.
    #[must_use]
    pub fn another(&self) -> Self {
        let ahead = self.ahead.load(Ordering::SeqCst);
        let slept = self.slept.load(Ordering::SeqCst);
        Self {
            began: self.began,
            ahead: Arc::new(AtomicI64::new(ahead)),
            slept: Arc::new(AtomicU64::new(slept)),
        }
    }

    /// Puts it forward, or back.
    pub fn step(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Its machine sleeps through this time, in which everybody else stands still.
    pub fn sleep_through(&self, seconds: u32) {
        self.step(i64::from(seconds));
        self.slept.fetch_add(u64::from(seconds), Ordering::SeqCst);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap_or(SignedDuration::MAX);
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::SeqCst));
        let since =
            SignedDuration::from_secs(BEGINNING).saturating_add(passed.saturating_add(ahead));
        Timestamp::from_duration(since).unwrap_or(Timestamp::MAX)
    }

    fn uptime(&self) -> Duration {
        self.began.elapsed() + Duration::from_secs(self.slept.load(Ordering::SeqCst))
    }
}
