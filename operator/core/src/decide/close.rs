//! The end of a held lease: what it cost, who pays, and what the run knows afterwards. Pure.
//!
//! The bill depends on the lease and the pod alone, never on what a holder's status or
//! specification says by now: whichever pass computes it, and however often, it is the same.

use jiff::{SignedDuration, Timestamp};

use super::{Draft, Situation, attempt::Run, start};
use crate::{
    desired::defaults::STARTUP_TIMEOUT,
    diagnosis::End,
    lease::{self, EndKnown, Held},
    money::Money,
    plan::{Closing, Command},
    pod::{Bound, PodFacts},
    reason::{Finding, Reason},
    status::{Attempt, MOST_ATTEMPTS, Outcome},
};

/// Closes the lease of a pod that is over.
pub(super) fn ended(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    held: Held,
    end: &End,
) {
    let until = chargeable_until(run, pod, held);
    close(draft, run, held, Some(&bound.node), Some(&pod.uid), until, end);
    draft.commands.push(start::forget(pod));
}

/// Closes the lease of a pod whose node is lost; nobody pays, because nobody knows. The pod is deleted,
/// so that a kubelet that comes back ends it.
pub(super) fn node_lost(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    held: Held,
    since: Timestamp,
) {
    let evidence = format!("node {} has not reported since {since}", bound.node);
    let end = End {
        at: since.max(held.at),
        known: EndKnown::NodeLost,
        finding: Finding::new(Reason::NodeLost, evidence),
        exit_code: None,
    };
    close(draft, run, held, Some(&bound.node), Some(&pod.uid), end.at, &end);
    draft.commands.push(start::forget(pod));
    if !pod.deletion_requested {
        draft.commands.push(start::delete(pod));
    }
}

/// Closes the lease of a pod that vanished; nobody pays, because nobody knows.
pub(super) fn lost(draft: &mut Draft, run: &Run<'_>, held: Held, now: Timestamp) {
    let lease = run.lease;
    let end = End {
        at: now,
        known: EndKnown::Lost,
        finding: Finding::new(Reason::PodLost, format!("pod {} vanished", lease.terms.name)),
        exit_code: None,
    };
    close(draft, run, held, lease.node.as_deref(), lease.pod_uid.as_deref(), now, &end);
}

/// Up to when the holder pays: the stop in the lease, or the latest that the pod was made for,
/// and the grace period. What comes later is the operator's or the node's lateness. Annotations do
/// not count here: whoever may edit pods may write them.
fn chargeable_until(run: &Run<'_>, pod: &PodFacts, held: Held) -> Timestamp {
    let limit = match held.running_at {
        Some(start) => lease::later(start, pod.granted.runtime),
        None => lease::later(held.at, STARTUP_TIMEOUT),
    };
    let stop = run.lease.stop.as_ref().map_or(limit, |stop| stop.at.min(limit));
    lease::later(stop, pod.granted.grace)
}

fn close(
    draft: &mut Draft,
    run: &Run<'_>,
    held: Held,
    node: Option<&str>,
    pod_uid: Option<&str>,
    chargeable_until: Timestamp,
    end: &End,
) {
    let terms = &run.lease.terms;
    let paid_by = end.finding.reason.payer();
    let bill = terms.bill(held, end.at, chargeable_until, paid_by);
    draft.commands.push(Command::CloseLease(Closing {
        lease: terms.name.clone(),
        pod_uid: pod_uid.map(str::to_owned),
        node: node.map(str::to_owned),
        held,
        ended_at: end.at,
        end_known: end.known,
        finding: end.finding.clone(),
        paid_by,
        bill,
    }));
    draft.commands.push(Command::SealLease { lease: terms.name.clone() });
    draft.status.lease = None;
    draft.status.cost.reserved = Money::ZERO;
    remember(
        draft,
        Attempt {
            number: terms.attempt,
            rerun: terms.rerun,
            lease: terms.name.clone(),
            card: terms.card.clone(),
            node: node.map(str::to_owned),
            held_at: held.at,
            running_at: held.running_at,
            ended_at: end.at,
            reason: end.finding.reason,
            exit_code: end.exit_code,
            charged: bill.charged,
            paid_by,
        },
    );
    conclude(draft, end);
}

/// What the end of its attempt means for the run.
fn conclude(draft: &mut Draft, end: &End) {
    if end.finding.reason == Reason::Stopped {
        draft.stands(Situation::Stopped(end.finding.clone()));
    } else {
        // Superseded ends the run as well: its number does not run again.
        let outcome = Outcome { finding: end.finding.clone(), at: end.at };
        draft.status.outcome = Some(outcome.clone());
        draft.stands(Situation::Ended(outcome));
    }
}

/// Adds the attempt to the run's sums, once: a pass that is repeated after a crash finds it there.
fn remember(draft: &mut Draft, attempt: Attempt) {
    let status = &mut draft.status;
    if status.attempts.iter().any(|known| known.lease == attempt.lease) {
        return;
    }
    status.cost.charged = status.cost.charged.plus(attempt.charged);
    if let Some(start) = attempt.running_at {
        let ran = attempt.ended_at.duration_since(start).max(SignedDuration::ZERO);
        status.runtime_used = status.runtime_used.saturating_add(ran);
    }
    status.attempts.insert(0, attempt);
    status.attempts.truncate(MOST_ATTEMPTS);
}
