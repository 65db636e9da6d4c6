//! A holder with an open lease: create its pod, watch it, stop it in time, close it. Pure.

use jiff::{SignedDuration, Timestamp};

use super::{AGENT_MARGIN, Draft, STAMP_RESOLUTION, Situation, UNBOUND_TIMEOUT, start};
use crate::{
    desired::{Desired, Wish},
    diagnosis::{self, End, HolderPresence},
    duration,
    lease::{self, Bounds, CEILING_SLACK, Deadline, EndKnown, Held, LeaseState, Terms},
    money::{Limit, Money},
    observed::{LeaseFacts, Object, Observed},
    plan::{Closing, Command, PodPlan, Share},
    pod::{Bound, PodFacts, StopOrder, container},
    reason::{Finding, Reason},
    status::{Attempt, LeaseView, MOST_ATTEMPTS, Outcome, Pause},
};

pub(super) fn go_on(
    draft: &mut Draft,
    desired: Option<&Result<Desired, Finding>>,
    seen: &Observed<'_>,
    lease: &LeaseFacts,
    now: Timestamp,
) {
    let run = Run::of(draft, desired, seen, lease);
    let pod = seen.pods.iter().find(|pod| pod.name == lease.terms.name);
    match pod.map(|pod| (pod, pod.bound.as_ref())) {
        None => without_pod(draft, &run, seen, now),
        Some((pod, None)) => unbound(draft, &run, pod, now),
        Some((pod, Some(bound))) => bound_pod(draft, &run, pod, bound, now),
    }
}

/// The attempt and what still speaks for it.
struct Run<'a> {
    lease: &'a LeaseFacts,
    holder: HolderPresence,
    /// Why the attempt shall not go on, when that is so.
    unwanted: Option<Finding>,
    bounds: Bounds,
    left: Option<Money>,
    max_runtime: SignedDuration,
}

impl<'a> Run<'a> {
    fn of(
        draft: &Draft,
        desired: Option<&Result<Desired, Finding>>,
        seen: &Observed<'_>,
        lease: &'a LeaseFacts,
    ) -> Self {
        let present =
            seen.object.as_ref().filter(|object| owns(object, lease) && !object.deletion_requested);
        let holder = if present.is_some() { HolderPresence::Present } else { HolderPresence::Gone };
        let terms = &lease.terms;
        let (bounds, limit, max_runtime) = match desired {
            Some(Ok(desired)) if desired.rerun == terms.rerun => {
                (draft.bounds(desired), draft.limit_left(desired), desired.max_runtime)
            }
            Some(_) | None => frozen_bounds(draft, terms),
        };
        let left = match limit {
            Limit::Amount(left) => Some(left),
            Limit::Unlimited => None,
        };
        Self {
            lease,
            holder,
            unwanted: unwanted(holder, desired, terms),
            bounds,
            left,
            max_runtime,
        }
    }
}

fn owns(object: &Object, lease: &LeaseFacts) -> bool {
    object.uid == lease.holder_uid
}

/// The limits of a run whose specification cannot be read any more: those last in effect.
fn frozen_bounds(draft: &Draft, terms: &Terms) -> (Bounds, Limit, SignedDuration) {
    let effective = draft.status.effective.as_ref();
    let max_runtime = effective.map_or(SignedDuration::ZERO, |effective| effective.max_runtime);
    let bounds = Bounds {
        startup: effective.map_or(crate::desired::defaults::STARTUP_TIMEOUT, |effective| {
            effective.startup_timeout
        }),
        runtime: max_runtime.saturating_sub(draft.status.runtime_used).max(SignedDuration::ZERO),
        grace: effective
            .map_or(crate::desired::defaults::GRACE_PERIOD, |effective| effective.grace_period),
    };
    (bounds, Limit::Amount(terms.reserved), max_runtime)
}

fn unwanted(
    holder: HolderPresence,
    desired: Option<&Result<Desired, Finding>>,
    terms: &Terms,
) -> Option<Finding> {
    match (holder, desired) {
        (HolderPresence::Gone, _) | (_, None) => {
            Some(Finding::new(Reason::HolderDeleted, "the job was deleted"))
        }
        (HolderPresence::Present, Some(Ok(desired))) if desired.rerun != terms.rerun => {
            Some(Finding::new(Reason::Superseded, format!("spec.rerun is {} now", desired.rerun)))
        }
        (HolderPresence::Present, Some(Ok(desired))) if desired.wish == Wish::Stopped => {
            Some(Finding::new(Reason::Stopped, "spec.state is Stopped"))
        }
        (HolderPresence::Present, Some(Ok(_) | Err(_))) => None,
    }
}

fn without_pod(draft: &mut Draft, run: &Run<'_>, seen: &Observed<'_>, now: Timestamp) {
    let lease = run.lease;
    if let (LeaseState::Held, Some(held)) = (lease.state, lease.held) {
        let end = End {
            at: now.min(chargeable_until(run, held, None)),
            known: EndKnown::Lost,
            finding: Finding::new(Reason::PodLost, format!("pod {} vanished", lease.terms.name)),
            exit_code: None,
        };
        close(draft, run, held, lease.node.clone(), lease.pod_uid.clone(), &end);
        return;
    }
    if let Some(why) = &run.unwanted {
        void(draft, run, why.clone());
        return;
    }
    if let Some(words) = &seen.pod_refused {
        pause(draft, Reason::PodRefused, words.clone(), now);
        void(draft, run, Finding::new(Reason::PodRefused, words.clone()));
        return;
    }
    match rebuilt(run, seen) {
        Some(pod) => {
            draft.commands.push(Command::CreatePod(pod));
            let evidence = format!("{} × {}", lease.terms.count, lease.terms.card);
            draft.stands(Situation::Placing(Finding::new(Reason::WaitingForScheduler, evidence)));
        }
        None => void(
            draft,
            run,
            Finding::new(Reason::UnknownCard, format!("{} left the catalog", lease.terms.card)),
        ),
    }
}

/// The pod of a lease that was reserved by a pass that did not come to create it.
fn rebuilt(run: &Run<'_>, seen: &Observed<'_>) -> Option<PodPlan> {
    let terms = &run.lease.terms;
    let card = seen.market.catalog.card(&terms.card)?;
    Some(PodPlan {
        name: terms.name.clone(),
        rerun: terms.rerun,
        attempt: terms.attempt,
        card: terms.card.clone(),
        node_hint: String::new(),
        product_labels: card.product_labels(),
        product_names: card.products.clone(),
        memory_mib: card.memory_mib,
        memory_bounds_mib: seen.market.catalog.memory_bounds_mib(card),
        count: terms.count,
        share: seen
            .market
            .nodes
            .iter()
            .filter(|node| node.card.as_deref() == Some(terms.card.as_str()))
            .map(|node| crate::placement::share(node, terms.count))
            .min_by_key(|share| share.cpu_millis)
            .unwrap_or(Share { cpu_millis: 0, memory_bytes: 0 }),
        runtime: run.bounds.runtime,
        hold: lease::affordable_hold(terms.rate(), run.bounds.grace, run.left),
        grace: run.bounds.grace,
        ceiling: lease::ceiling(run.bounds),
    })
}

fn unbound(draft: &mut Draft, run: &Run<'_>, pod: &PodFacts, now: Timestamp) {
    if pod.deletion_requested || pod.is_over {
        let why = run.unwanted.clone().unwrap_or_else(|| {
            Finding::new(Reason::PodUnbound, pod.scheduler_says.clone().unwrap_or_default())
        });
        draft
            .commands
            .push(Command::VoidLease { lease: run.lease.terms.name.clone(), reason: why.reason });
        draft.commands.push(Command::ForgetPod { pod: pod.name.clone(), uid: pod.uid.clone() });
        if !pod.deletion_requested {
            draft.commands.push(start::delete(pod));
        }
        voided(draft, why);
        return;
    }
    let guarded = Command::DeletePod {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: Some(pod.resource_version.clone()),
    };
    if let Some(why) = &run.unwanted {
        draft.commands.push(guarded);
        draft.stands(Situation::Releasing(Finding::new(Reason::Releasing, why.evidence.clone())));
        return;
    }
    let said =
        pod.scheduler_says.clone().unwrap_or_else(|| "the scheduler has said nothing".to_owned());
    let patience_ends = lease::later(pod.created_at, UNBOUND_TIMEOUT);
    if now < patience_ends {
        draft.wake_by(patience_ends);
        draft.stands(Situation::Placing(Finding::new(Reason::WaitingForScheduler, said)));
        return;
    }
    pause(draft, Reason::PodUnbound, said.clone(), now);
    draft.commands.push(guarded);
    draft.stands(Situation::Waiting(Finding::new(Reason::PodUnbound, said)));
}

/// Waits longer each time before the choice is made again.
fn pause(draft: &mut Draft, reason: Reason, said: String, now: Timestamp) {
    let tries = draft.status.pause.as_ref().map_or(0, |pause| pause.tries).saturating_add(1);
    let until = lease::later(now, start::pause_after(tries));
    draft.status.pause = Some(Pause { tries, until, reason, said });
}

fn bound_pod(draft: &mut Draft, run: &Run<'_>, pod: &PodFacts, bound: &Bound, now: Timestamp) {
    draft.status.pause = None;
    draft.status.node = Some(bound.node.clone());
    draft.status.card = Some(run.lease.terms.card.clone());
    let held = Held { at: bound.at, running_at: pod.running_at() };
    if let Some(end) = diagnosis::end(pod, bound, run.holder, now) {
        close(draft, run, held, Some(bound.node.clone()), Some(pod.uid.clone()), &end);
        draft.commands.push(Command::ForgetPod { pod: pod.name.clone(), uid: pod.uid.clone() });
        return;
    }
    if run.lease.state == LeaseState::Reserved || run.lease.held != Some(held) {
        draft.commands.push(Command::RecordHeld {
            lease: run.lease.terms.name.clone(),
            pod_uid: pod.uid.clone(),
            node: bound.node.clone(),
            held,
        });
    }
    let bounds = within_ceiling(run.bounds, pod, held);
    let deadline = lease::deadline(held, bounds, run.lease.terms.rate(), run.left);
    show(draft, run, held, deadline, pod);
    tell_runtime(draft, pod, bounds.runtime);
    let order = order(draft, run, pod, deadline, now);
    enforce(draft, pod, order, bounds.grace, now);
    draft.stands(stage(run, pod, bound, held, order));
}

/// Live extensions reach at most the kubelet's own deadline.
fn within_ceiling(bounds: Bounds, pod: &PodFacts, held: Held) -> Bounds {
    let Some(ceiling) = pod.ceiling else {
        return bounds;
    };
    let started = held.running_at.unwrap_or(held.at).duration_since(held.at);
    let most =
        ceiling.saturating_sub(CEILING_SLACK).saturating_sub(bounds.grace).saturating_sub(started);
    Bounds { runtime: bounds.runtime.min(most.max(SignedDuration::ZERO)), ..bounds }
}

fn show(draft: &mut Draft, run: &Run<'_>, held: Held, deadline: Deadline, pod: &PodFacts) {
    let terms = &run.lease.terms;
    draft.status.cost.reserved = terms.reserved;
    draft.status.lease = Some(LeaseView {
        name: terms.name.clone(),
        card: terms.card.clone(),
        count: terms.count,
        rate_per_hour: terms.rate().per_hour(),
        currency: terms.currency.clone(),
        held_at: Some(held.at),
        running_at: held.running_at,
        ends_at: Some(deadline.at),
        ends_because: Some(deadline.reason),
        ceiling_at: pod.ceiling.map(|ceiling| lease::later(held.at, ceiling)),
    });
}

fn tell_runtime(draft: &mut Draft, pod: &PodFacts, runtime: SignedDuration) {
    if pod.runtime_told != Some(runtime) && !pod.deletion_requested {
        draft.commands.push(Command::TellRuntime { pod: pod.name.clone(), runtime });
    }
}

/// The stop order in force: the one on the pod, or the one that is due now.
fn order(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    deadline: Deadline,
    now: Timestamp,
) -> Option<StopOrder> {
    if pod.stop_order.is_some() {
        return pod.stop_order;
    }
    let due = if deadline.reason == Reason::BudgetExhausted {
        deadline.at
    } else {
        lease::later(deadline.at, STAMP_RESOLUTION)
    };
    let reason = match &run.unwanted {
        Some(why) => why.reason,
        None if due <= now => deadline.reason,
        None => {
            draft.wake_by(due);
            return None;
        }
    };
    draft.commands.push(Command::OrderStop { pod: pod.name.clone(), reason, at: now });
    Some(StopOrder { reason, at: now })
}

/// Deletes what does not stop: a pod whose agent cannot act yet at once, any other one when its
/// grace and the agent's margin are over, and a pod whose program has ended beside a sidecar.
fn enforce(
    draft: &mut Draft,
    pod: &PodFacts,
    order: Option<StopOrder>,
    grace: SignedDuration,
    now: Timestamp,
) {
    if pod.deletion_requested {
        return;
    }
    if pod.ends().any(|(name, _)| name == container::MAIN) {
        // The kubelet ends the pod by itself, unless something beside the program runs on.
        if pod.has_sidecar_running() {
            draft.commands.push(start::delete(pod));
        }
        return;
    }
    let Some(order) = order else { return };
    let listening = pod.running_at().is_some() && order.reason != Reason::HolderDeleted;
    let patience_ends = lease::later(order.at, grace.saturating_add(AGENT_MARGIN));
    if !listening || patience_ends <= now {
        draft.commands.push(start::delete(pod));
    } else {
        draft.wake_by(patience_ends);
    }
}

fn stage(
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    held: Held,
    order: Option<StopOrder>,
) -> Situation {
    if let Some(order) = order {
        return Situation::Releasing(Finding::new(
            Reason::Releasing,
            format!("told to stop: {}", order.reason),
        ));
    }
    if pod.deletion_requested {
        return Situation::Releasing(Finding::new(Reason::Releasing, "the pod was deleted"));
    }
    let what =
        format!("{} × {} on node {}", run.lease.terms.count, run.lease.terms.card, bound.node);
    if held.running_at.is_some() {
        return Situation::Running(Finding::new(Reason::Running, what));
    }
    let evidence = match pod.held_up() {
        Some((name, word, message)) => format!("{what}; container {name} waits: {word}: {message}"),
        None => what,
    };
    Situation::Preparing(Finding::new(Reason::Preparing, evidence))
}

/// Up to when the holder pays: the earliest order or deadline, and the grace period.
fn chargeable_until(run: &Run<'_>, held: Held, order: Option<StopOrder>) -> Timestamp {
    let deadline = lease::deadline(held, run.bounds, run.lease.terms.rate(), run.left);
    let stop = order.map_or(deadline.at, |order| order.at.min(deadline.at));
    lease::later(stop, run.bounds.grace)
}

fn close(
    draft: &mut Draft,
    run: &Run<'_>,
    held: Held,
    node: Option<String>,
    pod_uid: Option<String>,
    end: &End,
) {
    let terms = &run.lease.terms;
    let payer = end.finding.reason.payer();
    let bill = terms.bill(held, end.at, chargeable_until(run, held, None), payer);
    draft.commands.push(Command::CloseLease(Closing {
        lease: terms.name.clone(),
        pod_uid,
        node: node.clone(),
        held,
        ended_at: end.at,
        end_known: end.known,
        finding: end.finding.clone(),
        paid_by: payer,
        bill,
    }));
    let attempt = Attempt {
        number: terms.attempt,
        rerun: terms.rerun,
        lease: terms.name.clone(),
        card: terms.card.clone(),
        node,
        held_at: held.at,
        running_at: held.running_at,
        ended_at: end.at,
        reason: end.finding.reason,
        exit_code: end.exit_code,
        charged: bill.charged,
        paid_by: payer,
    };
    remember(draft, attempt, held);
    draft.status.lease = None;
    draft.status.cost.reserved = Money::ZERO;
    if end.finding.reason == Reason::Stopped {
        draft.stands(Situation::Stopped(end.finding.clone()));
    } else if end.finding.reason == Reason::Superseded {
        draft.stands(Situation::Waiting(end.finding.clone()));
    } else {
        finish(draft, end, run.max_runtime);
    }
}

/// Adds the attempt to the run's sums, once: a pass that is repeated after a crash finds it there.
fn remember(draft: &mut Draft, attempt: Attempt, held: Held) {
    let status = &mut draft.status;
    if status.attempts.iter().any(|known| known.lease == attempt.lease) {
        return;
    }
    status.cost.charged = status.cost.charged.plus(attempt.charged);
    if let Some(start) = held.running_at {
        let ran = attempt.ended_at.duration_since(start).max(SignedDuration::ZERO);
        status.runtime_used = status.runtime_used.saturating_add(ran);
    }
    status.attempts.insert(0, attempt);
    status.attempts.truncate(MOST_ATTEMPTS);
}

fn finish(draft: &mut Draft, end: &End, max_runtime: SignedDuration) {
    let mut finding = end.finding.clone();
    if finding.reason == Reason::MaxRuntimeReached && finding.evidence.is_empty() {
        finding.evidence = format!("maxRuntime {} is over", duration::format(max_runtime));
    }
    let outcome = Outcome { finding, at: end.at };
    draft.status.outcome = Some(outcome.clone());
    draft.stands(Situation::Ended(outcome));
}

fn void(draft: &mut Draft, run: &Run<'_>, why: Finding) {
    draft
        .commands
        .push(Command::VoidLease { lease: run.lease.terms.name.clone(), reason: why.reason });
    voided(draft, why);
}

fn voided(draft: &mut Draft, why: Finding) {
    draft.status.lease = None;
    draft.status.cost.reserved = Money::ZERO;
    if why.reason == Reason::Stopped {
        draft.stands(Situation::Stopped(why));
    } else {
        draft.stands(Situation::Waiting(why));
    }
}
