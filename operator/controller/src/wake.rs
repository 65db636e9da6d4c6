//! When to look again. Pure.

use std::time::Duration;

use jiff::Timestamp;
use leasehold_core::plan::{Plan, Wake};

use crate::queue::Next;

/// Bounds what clock steps and lost watches can do to a holder with a deadline.
const HEARTBEAT: Duration = Duration::from_mins(10);

/// The time until the plan wants to be looked at again.
#[must_use]
pub fn wake(plan: &Plan, now: Timestamp) -> Next {
    match plan.wake {
        // A free card rings; the heartbeat is for a change that was missed.
        Wake::OnChange if plan.waits_for_supply() => Next::After(HEARTBEAT),
        Wake::OnChange => Next::OnChange,
        Wake::At(at) => {
            let wait = Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
            Next::After(wait.min(HEARTBEAT))
        }
    }
}
