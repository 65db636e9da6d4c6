//! What waits to be looked at, since when, and whether the loop that serves it still turns. No
//! I/O; [`crate::queue`] writes it, metrics and the watchdog read it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::observed::Holder;
use tokio::{sync::Notify, time::Instant};
use tokio_util::time::delay_queue;

/// A loop that owes an answer for so long is stuck: a pass waits for the API server without holding it
/// up, so nothing that is right takes a fraction of this.
pub const STUCK_AFTER: Duration = Duration::from_mins(1);

/// The holders that a queue knows, with when each is due.
#[derive(Default)]
pub struct Backlog {
    inner: Mutex<Inner>,
    questions: Notify,
}

#[derive(Default)]
struct Inner {
    due: HashMap<Holder, (delay_queue::Key, Instant)>,
    loop_has_begun: bool,
    /// Since when the loop owes the answer that it turns.
    asked: Option<Instant>,
}

/// Holders that are due and have no pass yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub count: usize,
    /// How long the first of them has been due.
    pub oldest: Duration,
}

impl Backlog {
    /// What waits at this instant. Holders that are due later do not wait.
    #[must_use]
    pub fn waiting(&self, now: Instant) -> Waiting {
        let inner = self.lock();
        let ages = inner.due.values().filter_map(|(_, at)| now.checked_duration_since(*at));
        ages.fold(Waiting::default(), |sum, age| Waiting {
            count: sum.count + 1,
            oldest: sum.oldest.max(age),
        })
    }

    /// Asks the loop whether it turns, and tells for how long it has owed the answer when that is
    /// longer than it may be. A loop that has not begun is not stuck: it waits for the watches.
    #[must_use]
    pub fn stuck_for(&self, now: Instant) -> Option<Duration> {
        let mut inner = self.lock();
        if !inner.loop_has_begun {
            return None;
        }
        let asked = *inner.asked.get_or_insert(now);
        self.questions.notify_one();
        let silent = now.saturating_duration_since(asked);
        (silent > STUCK_AFTER).then_some(silent)
    }

    /// Somebody asks whether the loop turns.
    pub(crate) async fn is_asked(&self) {
        self.questions.notified().await;
    }

    /// The loop turns.
    pub(crate) fn turns(&self) {
        let mut inner = self.lock();
        inner.loop_has_begun = true;
        inner.asked = None;
    }

    /// When this holder is due, if it is known.
    pub(crate) fn due(&self, holder: &Holder) -> Option<(delay_queue::Key, Instant)> {
        self.lock().due.get(holder).copied()
    }

    /// This holder is due then.
    pub(crate) fn set(&self, holder: Holder, key: delay_queue::Key, at: Instant) {
        self.lock().due.insert(holder, (key, at));
    }

    /// A pass looks at this holder now.
    pub(crate) fn begun(&self, holder: &Holder) {
        self.lock().due.remove(holder);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::time::DelayQueue;

    #[tokio::test(start_paused = true)]
    async fn only_what_is_due_waits_and_the_oldest_counts() {
        let backlog = Backlog::default();
        let mut timers = DelayQueue::new();
        let now = Instant::now();
        for (name, after) in [("a", 0), ("b", 10), ("c", 60)] {
            let holder = Holder { namespace: "ml".into(), name: name.into() };
            let at = now + Duration::from_secs(after);
            let key = timers.insert_at(holder.clone(), at);
            backlog.set(holder, key, at);
        }
        let later = now + Duration::from_secs(15);
        let waiting = Waiting { count: 2, oldest: Duration::from_secs(15) };
        assert_eq!(backlog.waiting(later), waiting);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_has_begun_and_does_not_answer_is_stuck() {
        let backlog = Backlog::default();
        let now = Instant::now();
        let later = now + STUCK_AFTER + Duration::from_secs(1);
        assert_eq!((backlog.stuck_for(now), backlog.stuck_for(later)), (None, None));
        backlog.turns();
        // What lies before the question says nothing.
        assert_eq!(backlog.stuck_for(later), None);
        let longest = later + STUCK_AFTER;
        assert_eq!(backlog.stuck_for(longest), None);
        let too_long = longest + Duration::from_secs(1);
        assert_eq!(backlog.stuck_for(too_long), Some(Duration::from_secs(61)));
        backlog.is_asked().await;
        backlog.turns();
        assert_eq!(backlog.stuck_for(too_long), None);
    }
}
