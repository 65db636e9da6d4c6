//! A number that grows, and those who wait for that. They are woken in the order in which they began
//! to wait: tokio's `watch` wakes them in a random one, and a story would not go the same way twice.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Notify;

/// The number. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Versions(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    newest: AtomicU64,
    grown: Notify,
}

impl Versions {
    /// It is this now.
    pub(super) fn set(&self, version: u64) {
        if self.0.newest.swap(version, Ordering::SeqCst) != version {
            self.0.grown.notify_waiters();
        }
    }

    /// It grows by one.
    pub(super) fn grow(&self) {
        self.set(self.newest() + 1);
    }

    pub(super) fn newest(&self) -> u64 {
        self.0.newest.load(Ordering::SeqCst)
    }

    /// Waits for what follows.
    #[must_use]
    pub(super) fn follow(&self) -> Follower {
        Follower { versions: self.clone(), seen: self.newest() }
    }
}

/// Somebody who waits.
#[derive(Debug)]
pub struct Follower {
    versions: Versions,
    seen: u64,
}

impl Follower {
    /// The newest number, which is seen now.
    pub fn newest(&mut self) -> u64 {
        self.seen = self.versions.newest();
        self.seen
    }

    /// Waits until the number is another one than the last that was seen.
    pub async fn changed(&mut self) {
        loop {
            let grown = self.versions.0.grown.notified();
            let newest = self.versions.newest();
            if newest != self.seen {
                self.seen = newest;
                return;
            }
            grown.await;
        }
    }
}
