//! When a program has to end: everything that limits it is a deadline with its reason. Pure.

use std::time::Duration;

use leasehold_core::reason::Reason;

use super::readable;

/// What limits a running program. All times are those of [`crate::clock`].
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// When the program started.
    pub started: Duration,
    /// How long it may run.
    pub runtime: Duration,
    /// Since when its cards are held, and how long the money lasts.
    pub held: Option<(Duration, Duration)>,
}

/// A deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub at: Duration,
    /// Why.
    pub reason: Reason,
    /// Why, in words.
    pub why: String,
}

impl Ends {
    /// The earliest deadline; of two at the same time, the running time.
    #[must_use]
    pub fn earliest(&self) -> End {
        let runtime = self.started.saturating_add(self.runtime);
        match self.held {
            Some((since, longest)) if since.saturating_add(longest) < runtime => End {
                at: since.saturating_add(longest),
                reason: Reason::BudgetExhausted,
                why: format!(
                    "the budget pays for holding the card {}, and for gracePeriod after it",
                    readable(longest)
                ),
            },
            _ => End {
                at: runtime,
                reason: Reason::MaxRuntimeReached,
                why: format!("maxRuntime {} reached", readable(self.runtime)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_wins_with_its_reason() {
        let seconds = Duration::from_secs;
        for (runtime, held, at, reason) in [
            (60, None, 1_060, Reason::MaxRuntimeReached),
            (60, Some((900, 100)), 1_000, Reason::BudgetExhausted),
            (60, Some((900, 159)), 1_059, Reason::BudgetExhausted),
            (60, Some((900, 160)), 1_060, Reason::MaxRuntimeReached),
            (0, Some((900, 100)), 1_000, Reason::MaxRuntimeReached),
            (60, Some((900, u64::MAX)), 1_060, Reason::MaxRuntimeReached),
            (u64::MAX, Some((900, 100)), 1_000, Reason::BudgetExhausted),
        ] {
            let ends = Ends {
                started: seconds(1_000),
                runtime: seconds(runtime),
                held: held.map(|(since, longest)| (seconds(since), seconds(longest))),
            };
            let end = ends.earliest();
            assert_eq!((end.at, end.reason), (seconds(at), reason), "{ends:?}");
        }
    }
}
