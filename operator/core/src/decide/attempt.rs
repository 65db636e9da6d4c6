//! A holder with an open lease whose pod holds no card yet: create the pod, wait for the
//! scheduler, or give up. Pure; [`super::held`] goes on once the pod is on a node.

use jiff::{SignedDuration, Timestamp};

use super::{Draft, Situation, UNBOUND_TIMEOUT, close, held, start};
use crate::{
    desired::{Desired, Wish},
    diagnosis::HolderPresence,
    lease::{self, LeaseState, Terms},
    money::Money,
    observed::{LeaseFacts, NodeSupply, Object, Observed},
    plan::Command,
    pod::{Bound, PodFacts},
    reason::{Finding, Reason},
    status::{Pause, Status},
};

pub(super) fn go_on(
    draft: &mut Draft,
    desired: Option<&Result<Desired, Finding>>,
    seen: &Observed<'_>,
    lease: &LeaseFacts,
    now: Timestamp,
) {
    let run = Run::of(draft, desired, seen, lease);
    match pod_of(seen, lease).map(|pod| (pod, pod.bound.as_ref())) {
        None => without_pod(draft, &run, seen, now),
        Some((pod, None)) => unbound(draft, &run, pod, now),
        Some((pod, Some(bound))) => held::go_on(draft, &run, pod, bound, now),
    }
}

/// The lease's own pod: a pod of that name can be anybody's, and a copy can be made of ours.
fn is_of(pod: &PodFacts, lease: &LeaseFacts) -> bool {
    pod.name == lease.terms.name
        && match &lease.pod_uid {
            Some(uid) => *uid == pod.uid,
            None => pod.lease_uid.as_ref() == Some(&lease.uid),
        }
}

/// The attempt and what still speaks for it.
pub(super) struct Run<'a> {
    pub(super) lease: &'a LeaseFacts,
    pub(super) holder: HolderPresence,
    /// Why the attempt shall not go on, when that is so.
    pub(super) unwanted: Option<Finding>,
    /// Running time that the specification leaves to this attempt; `None` when there is no
    /// specification of this run any more, so that what was granted stays.
    pub(super) runtime: Option<SignedDuration>,
    /// What this attempt may still cost; `None` without a limit.
    pub(super) left: Option<Money>,
    /// Since when the node of its pod has not reported, and when it counts as lost.
    pub(super) silence: Option<(Timestamp, Timestamp)>,
    /// By what the node of its pod is being emptied, when it is.
    pub(super) emptied: Option<String>,
}

impl<'a> Run<'a> {
    fn of(
        draft: &Draft,
        desired: Option<&Result<Desired, Finding>>,
        seen: &Observed<'_>,
        lease: &'a LeaseFacts,
    ) -> Self {
        let terms = &lease.terms;
        let present = seen.object.as_ref().is_some_and(|object| wants(object, lease));
        let holder = if present { HolderPresence::Present } else { HolderPresence::Gone };
        let current = desired
            .and_then(|desired| desired.as_ref().ok())
            .filter(|desired| present && desired.rerun == terms.rerun);
        let comparable = current.filter(|desired| desired.currency == terms.currency);
        // More than was reserved is not this lease's to spend, also when the limit was raised.
        let left = match comparable {
            Some(desired) => draft.money_left(desired).map(|left| left.min(terms.reserved)),
            None => Some(terms.reserved),
        };
        Self {
            lease,
            holder,
            unwanted: unwanted(holder, desired, &draft.status, terms),
            runtime: current.map(|desired| draft.bounds(desired).runtime),
            left,
            silence: silence(seen, lease),
            emptied: emptied(seen, lease),
        }
    }
}

fn silence(seen: &Observed<'_>, lease: &LeaseFacts) -> Option<(Timestamp, Timestamp)> {
    let since = node_of(seen, pod_of(seen, lease)?.bound.as_ref()?)?.silent_since?;
    Some((since, lease::later(since, seen.node_patience)))
}

/// A node that had cards stays in the market until it is deleted, or until the operator begins anew.
fn emptied(seen: &Observed<'_>, lease: &LeaseFacts) -> Option<String> {
    let pod = pod_of(seen, lease)?;
    match node_of(seen, pod.bound.as_ref()?) {
        Some(node) => node.emptied_of(&pod.tolerations),
        None => Some("gone".to_owned()),
    }
}

fn pod_of<'a>(seen: &'a Observed<'_>, lease: &LeaseFacts) -> Option<&'a PodFacts> {
    seen.pods.iter().find(|pod| is_of(pod, lease))
}

fn node_of<'a>(seen: &'a Observed<'_>, bound: &Bound) -> Option<&'a NodeSupply> {
    seen.market.nodes.iter().find(|node| node.name == bound.node)
}

fn wants(object: &Object, lease: &LeaseFacts) -> bool {
    object.uid == lease.holder_uid && !object.deletion_requested
}

fn unwanted(
    holder: HolderPresence,
    desired: Option<&Result<Desired, Finding>>,
    status: &Status,
    terms: &Terms,
) -> Option<Finding> {
    match (holder, desired) {
        (HolderPresence::Gone, _) | (_, None) => {
            Some(Finding::new(Reason::HolderDeleted, "the job was deleted"))
        }
        (HolderPresence::Present, Some(Ok(desired))) if desired.rerun != terms.rerun => {
            Some(Finding::new(Reason::Superseded, format!("spec.rerun is {} now", desired.rerun)))
        }
        (HolderPresence::Present, Some(Ok(desired))) => stopped(status, desired.wish),
        (HolderPresence::Present, Some(Err(_))) => stopped(status, Wish::Running),
    }
}

/// Why the holder shall not run, by its specification or by request.
pub(super) fn stopped(status: &Status, wish: Wish) -> Option<Finding> {
    let evidence = match (wish, &status.stopped_by) {
        (Wish::Stopped, _) => "spec.state is Stopped".to_owned(),
        (Wish::Running, Some(order)) => {
            format!("GpuRequest {} asked for it at {}", order.request, order.at)
        }
        (Wish::Running, None) => return None,
    };
    Some(Finding::new(Reason::Stopped, evidence))
}

fn without_pod(draft: &mut Draft, run: &Run<'_>, seen: &Observed<'_>, now: Timestamp) {
    let lease = run.lease;
    if let (LeaseState::Held, Some(held)) = (lease.state, lease.held) {
        close::lost(draft, run, held, now);
        return;
    }
    if let Some(why) = &run.unwanted {
        void(draft, run, why.clone());
        return;
    }
    if let Some(words) = &seen.refused {
        pause(draft, Reason::PodRefused, words.clone(), now);
        void(draft, run, Finding::new(Reason::PodRefused, words.clone()));
        return;
    }
    let specification = seen.market.catalog.card(&lease.terms.card).zip(run.runtime);
    let Some((card, runtime)) = specification else {
        let evidence = format!("{} is not in the catalog any more", lease.terms.card);
        void(draft, run, Finding::new(Reason::UnknownCard, evidence));
        return;
    };
    // The pass that reserved the lease did not come to create its pod.
    let node = seen.market.nodes_of(&card.id).next();
    let pod = start::pod_plan(draft, &lease.terms, seen.market, card, node, runtime, run.left);
    draft.commands.push(Command::CreatePod(pod));
    let evidence = start::offer(&lease.terms);
    draft.stands(Situation::Placing(Finding::new(Reason::WaitingForScheduler, evidence)));
}

fn unbound(draft: &mut Draft, run: &Run<'_>, pod: &PodFacts, now: Timestamp) {
    let said =
        pod.scheduler_says.clone().unwrap_or_else(|| "the scheduler has said nothing".to_owned());
    if pod.deletion_requested || pod.is_over {
        let why = run.unwanted.clone().unwrap_or_else(|| Finding::new(Reason::PodUnbound, said));
        void(draft, run, why);
        draft.commands.push(start::forget(pod));
        if !pod.deletion_requested {
            draft.commands.push(start::delete(pod));
        }
        return;
    }
    // A pod that was bound meanwhile has another version, and stays.
    let unless_bound = Command::DeletePod {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: Some(pod.resource_version.clone()),
    };
    if let Some(why) = &run.unwanted {
        draft.commands.push(unless_bound);
        draft.stands(Situation::Releasing(Finding::new(Reason::Releasing, why.evidence.clone())));
        return;
    }
    let patience_ends = lease::later(pod.created_at, UNBOUND_TIMEOUT);
    if now < patience_ends {
        draft.wake_by(patience_ends);
        let evidence = pod.scheduler_says.clone().unwrap_or_else(|| start::offer(&run.lease.terms));
        draft.stands(Situation::Placing(Finding::new(Reason::WaitingForScheduler, evidence)));
        return;
    }
    pause(draft, Reason::PodUnbound, said.clone(), now);
    draft.commands.push(unless_bound);
    draft.stands(Situation::Waiting(Finding::new(Reason::PodUnbound, said)));
}

/// Waits longer each time before the choice is made again. A pause that has begun stays as it is:
/// the pass may be repeated before its writes are seen.
pub(super) fn pause(draft: &mut Draft, reason: Reason, said: String, now: Timestamp) {
    let last = draft.status.pause.as_ref();
    if last.is_some_and(|pause| pause.until > now) {
        return;
    }
    let tries = last.map_or(0, |pause| pause.tries).saturating_add(1);
    let until = lease::later(now, start::pause_after(tries));
    draft.status.pause = Some(Pause { tries, until, reason, said });
}

/// Ends a lease that never held a card.
fn void(draft: &mut Draft, run: &Run<'_>, why: Finding) {
    let lease = run.lease.terms.name.clone();
    draft.commands.push(Command::VoidLease { lease: lease.clone(), reason: why.reason });
    draft.commands.push(Command::SealLease { lease });
    draft.status.lease = None;
    draft.status.cost.reserved = Money::ZERO;
    if why.reason == Reason::Stopped {
        draft.stands(Situation::Stopped(why));
    } else {
        draft.stands(Situation::Waiting(why));
    }
}
