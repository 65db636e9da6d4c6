//! A pod that holds a card: watch it, tell its agent about changed limits, order the stop at the
//! deadline, delete it when it does not end. Pure; [`super::close`] ends its lease.

use jiff::Timestamp;

use super::{
    AGENT_MARGIN, Draft, LONGEST_CHECK, NODE_IS_SEEN_WITHIN, PREFLIGHT_TIMEOUT, STAMP_RESOLUTION,
    Situation, attempt::Run, close, start,
};
use crate::{
    desired::defaults::STARTUP_TIMEOUT,
    diagnosis::{self, Circumstances},
    duration,
    lease::{self, Bounds, Deadline, Held, LeaseState, Stop},
    plan::Command,
    pod::{Bound, ContainerState, PodFacts, container},
    reason::{Finding, Payer, Reason},
    start_failure::{Obstacle, obstacle},
    status::LeaseView,
};

pub(super) fn go_on(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    now: Timestamp,
) {
    draft.status.pause = None;
    draft.status.node = Some(bound.node.clone());
    draft.status.card = Some(run.lease.terms.card.clone());
    // The first start counts, whatever becomes of the container.
    let recorded = run.lease.held.and_then(|held| held.running_at);
    let held = Held { at: bound.at, running_at: recorded.or_else(|| pod.running_at()) };
    let stop = run.lease.stop.as_ref();
    let emptied = run.emptied.as_deref();
    let running_at = held.running_at;
    let circumstances = Circumstances { stop, holder: run.holder, emptied, running_at };
    if let Some(end) = diagnosis::end(pod, bound, circumstances, now) {
        close::ended(draft, run, pod, bound, held, &end);
        return;
    }
    match run.silence {
        Some((since, lost_at)) if lost_at <= now => {
            close::node_lost(draft, run, pod, bound, held, since);
            return;
        }
        Some((_, lost_at)) => draft.wake_by(lost_at),
        None => {}
    }
    let bounds = bounds(run, pod);
    let deadline = deadline(run, pod, held, bounds);
    let first = deadline_of_the_check(pod, held, deadline);
    let stop = stop.cloned().or_else(|| due(draft, run, pod, bound, first, now));
    record(draft, run, pod, bound, held, stop.as_ref());
    show(draft, run, held, deadline, pod);
    tell(draft, pod, bounds, stop.as_ref());
    enforce(draft, pod, stop.as_ref(), now);
    // The finalizer keeps a pod that is deleted until its end is in the ledger.
    if !pod.labelled || (!pod.metered && !pod.deletion_requested) {
        draft.commands.push(Command::MarkPod { pod: pod.name.clone(), uid: pod.uid.clone() });
    }
    draft.stands(stage(run, pod, bound, held, stop.as_ref()));
}

fn record(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    held: Held,
    stop: Option<&Stop>,
) {
    let lease = run.lease;
    let known = lease.state == LeaseState::Held && lease.held == Some(held);
    if known && lease.stop.as_ref() == stop {
        return;
    }
    draft.commands.push(Command::RecordHeld {
        lease: lease.terms.name.clone(),
        pod_uid: pod.uid.clone(),
        node: bound.node.clone(),
        held,
        stop: stop.cloned(),
    });
}

/// Tells the agent what it does not know yet: the stop, or another running time.
fn tell(draft: &mut Draft, pod: &PodFacts, bounds: Bounds, stop: Option<&Stop>) {
    if pod.deletion_requested {
        return;
    }
    match stop {
        Some(stop) => {
            let reason = stop.finding.reason;
            if pod.stop_told.as_deref() != Some(reason.name()) {
                draft.commands.push(Command::OrderStop { pod: pod.name.clone(), reason });
            }
        }
        None if pod.runtime_told != Some(bounds.runtime) => {
            let runtime = bounds.runtime;
            draft.commands.push(Command::TellRuntime { pod: pod.name.clone(), runtime });
        }
        None => {}
    }
}

/// What bounds the attempt now: as the specification says, at most what the pod was made with.
fn bounds(run: &Run<'_>, pod: &PodFacts) -> Bounds {
    let granted = pod.granted.runtime;
    Bounds {
        startup: STARTUP_TIMEOUT,
        runtime: run.runtime.map_or(granted, |runtime| runtime.min(granted)),
        grace: pod.granted.grace,
    }
}

/// The earliest of start-up, running time, money, and the patience for what cannot start.
fn deadline(run: &Run<'_>, pod: &PodFacts, held: Held, bounds: Bounds) -> Deadline {
    let deadline = lease::deadline(held, bounds, run.lease.terms.rate(), run.left);
    // The agent was told when the money ends, and acts then, also if there is more by now.
    let deadline = match pod.granted.hold {
        Some(paid) => deadline
            .min(Deadline { at: lease::later(held.at, paid), reason: Reason::BudgetExhausted }),
        None => deadline,
    };
    match pod.held_up().and_then(|(name, word, said)| obstacle(name, word, said)) {
        Some(Obstacle { patience, ends_as, shown_as: _ }) => {
            deadline.min(Deadline { at: lease::later(held.at, patience), reason: ends_as })
        }
        None => deadline,
    }
}

/// The same while the cards are checked. It is not shown: a check lasts seconds, unless it hangs.
fn deadline_of_the_check(pod: &PodFacts, held: Held, deadline: Deadline) -> Deadline {
    match pod.container(container::PREFLIGHT) {
        Some(ContainerState::Running { started_at: Some(at) }) => deadline.min(Deadline {
            at: lease::later((*at).max(held.at), PREFLIGHT_TIMEOUT),
            reason: Reason::NvidiaSmiTimeout,
        }),
        _ => deadline,
    }
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

/// The stop that is due now.
fn due(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    deadline: Deadline,
    now: Timestamp,
) -> Option<Stop> {
    let at = if deadline.reason == Reason::BudgetExhausted {
        deadline.at
    } else {
        lease::later(deadline.at, STAMP_RESOLUTION)
    };
    if let Some(finding) = ended_by_others(draft, run, pod, bound, now) {
        return Some(Stop { finding, at: now });
    }
    if now < at {
        draft.wake_by(at);
        return None;
    }
    Some(Stop { finding: overdue(pod, bound, deadline), at: now })
}

/// Why a pod has to end, or ends, whatever its deadline says. An eviction is judged when it is first
/// seen: by the end of the pod its node may be open again. But `kubectl drain` evicts right after its
/// cordon, which may be seen later.
fn ended_by_others(
    draft: &mut Draft,
    run: &Run<'_>,
    pod: &PodFacts,
    bound: &Bound,
    now: Timestamp,
) -> Option<Finding> {
    let why = run.unwanted.clone();
    let why =
        why.or_else(|| diagnosis::changed(pod, run.lease.held.and_then(|held| held.running_at)));
    if why.is_some() || !pod.deletion_requested {
        return why;
    }
    let judged = diagnosis::eviction(pod, bound, run.emptied.as_deref())?;
    let since = pod.disrupted.as_ref().and_then(|disruption| disruption.since).unwrap_or(now);
    let certain_at = lease::later(since, NODE_IS_SEEN_WITHIN);
    if judged.reason == Reason::PodDisrupted || certain_at <= now {
        return Some(judged);
    }
    draft.wake_by(certain_at);
    None
}

/// Why a pod has to end at its deadline: before its program, with what kept it from it.
fn overdue(pod: &PodFacts, bound: &Bound, deadline: Deadline) -> Finding {
    let Deadline { at, reason } = deadline;
    if pod.running_at().is_some() {
        return Finding::new(reason, format!("the deadline was {at}"));
    }
    let by_time_or_money = matches!(reason, Reason::StartupTimeout | Reason::BudgetExhausted);
    let hangs = by_time_or_money && check_is_late(pod, at);
    let reason = if hangs { Reason::NvidiaSmiTimeout } else { reason };
    if by_time_or_money && !pod.has_started() {
        return diagnosis::nothing_started(pod, bound);
    }
    let evidence = format!("{}; the deadline was {at}", pod.on_the_way());
    Finding::new(
        reason,
        match reason.payer() {
            Payer::Infrastructure => format!("node {}: {evidence}", bound.node),
            Payer::User => evidence,
        },
    )
}

/// Whether the check of cards has lasted longer than the agent gives it, whatever ends it now.
fn check_is_late(pod: &PodFacts, at: Timestamp) -> bool {
    match pod.container(container::PREFLIGHT) {
        Some(ContainerState::Running { started_at: Some(start) }) => {
            at.duration_since(*start) > LONGEST_CHECK
        }
        _ => false,
    }
}

/// Deletes what does not stop: a pod whose agent cannot act yet at once, any other one when its
/// grace and the agent's margin are over, and a pod whose program has ended beside a sidecar.
fn enforce(draft: &mut Draft, pod: &PodFacts, stop: Option<&Stop>, now: Timestamp) {
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
    let Some(stop) = stop else { return };
    let listening = pod.is_running(container::MAIN) && stop.finding.reason != Reason::HolderDeleted;
    let patience_ends = lease::later(stop.at, pod.granted.grace.saturating_add(AGENT_MARGIN));
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
    stop: Option<&Stop>,
) -> Situation {
    let terms = &run.lease.terms;
    let what = format!("{} × {} on node {}", terms.count, terms.card, bound.node);
    let (waits, what) = match pod.held_up() {
        Some((name, word, said)) => {
            let obstacle = obstacle(name, word, said);
            let shown_as = obstacle.map_or(Reason::Preparing, |obstacle| obstacle.shown_as);
            (shown_as, format!("{what}; container {name} waits: {word}: {said}"))
        }
        None => (Reason::Preparing, what),
    };
    if let Some(stop) = stop.filter(|_| pod.deletion_requested) {
        Situation::Releasing(Finding::new(Reason::Releasing, stop.finding.evidence.clone()))
    } else if let Some(stop) = stop {
        let evidence = format!("told to stop: {}; {what}", stop.finding.reason);
        Situation::Releasing(Finding::new(Reason::Releasing, evidence))
    } else if pod.deletion_requested {
        Situation::Releasing(Finding::new(Reason::Releasing, "the pod was deleted"))
    } else if let Some((since, lost_at)) = run.silence {
        let evidence = format!("{what}, silent since {since}, counts as lost at {lost_at}");
        let finding = Finding::new(Reason::NodeSilent, evidence);
        if held.running_at.is_some() {
            Situation::Running(finding)
        } else {
            Situation::Preparing(finding)
        }
    } else if held.running_at.is_some() {
        Situation::Running(Finding::new(Reason::Running, what + &raised(run, pod)))
    } else {
        Situation::Preparing(Finding::new(waits, what))
    }
}

/// A pod's ceiling cannot be raised: what a longer maxRuntime means for a program that runs.
fn raised(run: &Run<'_>, pod: &PodFacts) -> String {
    let granted = pod.granted.runtime;
    if run.runtime.is_some_and(|runtime| runtime > granted) {
        let granted = duration::format(granted);
        format!(
            "; its pod was made for {granted}: the longer maxRuntime counts from the next start"
        )
    } else {
        String::new()
    }
}
