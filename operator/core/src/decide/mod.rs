//! What to do in which situation. Pure and total: it cannot fail, panic, read a clock or do I/O.
//!
//! [`decide`] reads what is wanted and what was seen, and answers with a [`Plan`]. A holder with
//! a lease that is not final is in [`attempt`]; without one it is in [`start`]. Both end in a
//! [`Situation`], from which [`conditions`] words the status.

mod attempt;
mod close;
mod conditions;
mod held;
mod requests;
mod start;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::{
    condition::{ConditionType, Truth},
    desired::{Desired, defaults},
    lease::Bounds,
    money::Money,
    observed::{Holder, LeaseFacts, Object, Observed},
    plan::{Command, Notice, Plan, Severity, Wake},
    reason::{Finding, Reason},
    status::{Effective, Outcome, Status},
};

/// How long a pod may stay unbound before the choice is made again.
pub const UNBOUND_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);
/// The first pause after a pod that stayed unbound; it doubles each time.
pub const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// The longest pause.
pub const LONGEST_PAUSE: SignedDuration = SignedDuration::from_mins(10);
/// Kubernetes cuts times to whole seconds: a deadline counted from one is up to this early, and a
/// program must not lose time for it. The agent, which counts exactly, acts first. Money has no
/// such allowance: the second would be charged.
pub const STAMP_RESOLUTION: SignedDuration = SignedDuration::from_secs(1);
/// How long the check of cards may take. The agent gives nvidia-smi 20 s; what takes longer hangs
/// in the driver, where no kill reaches it, and keeps its container from ending.
pub const PREFLIGHT_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// What a check of cards takes that does not hang: those 20 s, and a slow node.
pub const LONGEST_CHECK: SignedDuration = SignedDuration::from_mins(1);
/// How long after an eviction its node's cordon may be seen: nodes and pods are watched apart, and a
/// watch that broke off is back within seconds.
pub const NODE_IS_SEEN_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// How long after the end of the grace period the operator waits for the agent before it deletes
/// the pod.
pub const AGENT_MARGIN: SignedDuration = SignedDuration::from_secs(20);

/// Where a holder stands, as its conditions tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Situation {
    /// The specification cannot be used.
    Refused(Finding),
    /// No card, no price, a pause: it goes on by itself.
    Waiting(Finding),
    /// Told not to run, and it does not.
    Stopped(Finding),
    /// Lease and pod are being made, or the scheduler has the pod.
    Placing(Finding),
    /// The card is held, the program has not started.
    Preparing(Finding),
    /// The program runs.
    Running(Finding),
    /// The end was ordered.
    Releasing(Finding),
    /// The run is over.
    Ended(Outcome),
}

/// Decides what a holder's status shall say and what to do now.
///
/// `desired` is `None` when the holder's object is gone, and a refusal when its specification
/// cannot be used.
#[must_use]
pub fn decide(
    holder: &Holder,
    desired: Option<&Result<Desired, Finding>>,
    seen: &Observed<'_>,
    now: Timestamp,
) -> Plan {
    let mut draft = Draft::of(seen, desired);
    let answers = match (&seen.lease, &seen.object) {
        (Some(lease), Some(object)) if lease.holder_uid != object.uid => {
            attempt::go_on(&mut draft, desired, seen, lease, now);
            draft.wait_for_another(object, lease);
            Vec::new()
        }
        (Some(lease), _) => {
            let answers = requests::take_in(&mut draft, desired, seen, now);
            attempt::go_on(&mut draft, desired, seen, lease, now);
            answers
        }
        (None, _) => {
            let answers = requests::take_in(&mut draft, desired, seen, now);
            start::begin(&mut draft, holder, desired, seen, now);
            answers
        }
    };
    let seals = seen.unsealed.iter().map(|lease| Command::SealLease { lease: lease.clone() });
    draft.commands.extend(seals);
    draft.commands.extend(answers);
    draft.finish(seen.object.as_ref(), now)
}

/// A plan in the making.
struct Draft {
    status: Status,
    situation: Option<Situation>,
    commands: Vec<Command>,
    wake: Wake,
}

impl Draft {
    fn of(seen: &Observed<'_>, desired: Option<&Result<Desired, Finding>>) -> Self {
        let mut status =
            seen.object.as_ref().map(|object| object.status.clone()).unwrap_or_default();
        if let Some(object) = &seen.object {
            status.observed_generation = object.generation;
        }
        if let Some(Ok(desired)) = desired {
            // Money that was spent keeps its currency.
            if status.lease.is_none() && status.cost.charged == Money::ZERO {
                status.cost.currency.clone_from(&desired.currency);
            }
            status.cost.limit = Some(desired.limit);
            status.effective = Some(Effective {
                count: desired.count.get(),
                max_runtime: desired.max_runtime,
                grace_period: desired.grace_period,
                startup_timeout: defaults::STARTUP_TIMEOUT,
                keep_logs: desired.keep_logs,
                cards: crate::placement::acceptable(desired, seen.market)
                    .map(|cards| cards.into_iter().map(|card| card.id.clone()).collect())
                    .unwrap_or_default(),
            });
        }
        Self { status, situation: None, commands: Vec::new(), wake: Wake::OnChange }
    }

    fn stands(&mut self, situation: Situation) {
        self.situation = Some(situation);
    }

    fn wake_by(&mut self, at: Timestamp) {
        self.wake = match self.wake {
            Wake::At(earlier) if earlier <= at => Wake::At(earlier),
            Wake::At(_) | Wake::OnChange => Wake::At(at),
        };
    }

    /// What the run has left: time and money.
    fn bounds(&self, desired: &Desired) -> Bounds {
        let left = desired.max_runtime.saturating_sub(self.status.runtime_used);
        Bounds {
            startup: defaults::STARTUP_TIMEOUT,
            runtime: left.max(SignedDuration::ZERO),
            grace: desired.grace_period,
        }
    }

    /// What the run may still cost; `None` without a limit.
    fn money_left(&self, desired: &Desired) -> Option<Money> {
        desired.limit.left_after(self.status.cost.charged)
    }

    /// The lease is that of an earlier object of the same name: this one has not begun, and its
    /// status stays unseen, so that the ledger is asked once the lease is final.
    fn wait_for_another(&mut self, object: &Object, lease: &LeaseFacts) {
        self.status = object.status.clone();
        let evidence =
            format!("lease {} of a deleted job of this name is still open", lease.terms.name);
        self.stands(Situation::Waiting(Finding::new(Reason::Releasing, evidence)));
    }

    fn finish(mut self, object: Option<&Object>, now: Timestamp) -> Plan {
        let Some(object) = object else {
            return Plan {
                status: None,
                commands: self.commands,
                notices: Vec::new(),
                wake: self.wake,
            };
        };
        if let Some(situation) = &self.situation {
            self.status.conditions = conditions::word(situation, &self.status, object, now);
        }
        let notices = notices(&object.status, &self.status);
        Plan { status: Some(self.status), commands: self.commands, notices, wake: self.wake }
    }
}

/// One Event for each change of the word that people read.
fn notices(last: &Status, next: &Status) -> Vec<Notice> {
    let ready = |status: &Status| {
        status.conditions.iter().find(|condition| condition.kind == ConditionType::Ready).cloned()
    };
    let (before, Some(after)) = (ready(last), ready(next)) else {
        return Vec::new();
    };
    if before.is_some_and(|before| before.reason == after.reason) {
        return Vec::new();
    }
    let alarming = after.truth == Truth::False
        || matches!(
            after.reason,
            Reason::PodUnbound
                | Reason::PodRefused
                | Reason::NodeSilent
                | Reason::WaitingForImage
                | Reason::WaitingForContainer
        );
    let severity = if alarming { Severity::Warning } else { Severity::Normal };
    vec![Notice { severity, finding: Finding::new(after.reason, after.message) }]
}
