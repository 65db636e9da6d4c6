//! A holder without an open lease: refuse, adopt, wait, or reserve and start. Pure.

use jiff::{SignedDuration, Timestamp};

use super::{Draft, LONGEST_PAUSE, Situation, attempt};
use crate::{
    catalog::Card,
    desired::{Desired, defaults},
    lease::{self, Bounds, Terms},
    money::{HourlyRate, Money},
    observed::{Holder, Market, NodeSupply, Object, Observed, PastRun, needs_ledger},
    placement::{Choice, Chosen, choose},
    plan::{Command, PodPlan, Share},
    pod::PodFacts,
    reason::{Finding, Reason},
    status::{Cost, LeaseView, Outcome},
};

pub(super) fn begin(
    draft: &mut Draft,
    holder: &Holder,
    desired: Option<&Result<Desired, Finding>>,
    seen: &Observed<'_>,
    now: Timestamp,
) {
    draft.status.lease = None;
    draft.status.cost.reserved = Money::ZERO;
    let (Some(object), Some(desired)) = (&seen.object, desired) else {
        forget_all(draft, &seen.pods);
        return;
    };
    if object.deletion_requested {
        forget_all(draft, &seen.pods);
        return;
    }
    match desired {
        Err(why) => draft.stands(Situation::Refused(why.clone())),
        Ok(desired) => run(draft, holder, object, desired, seen, now),
    }
    let keep = desired.as_ref().map_or(SignedDuration::ZERO, |desired| desired.keep_logs);
    clean_up(draft, &seen.pods, keep, now);
}

fn run(
    draft: &mut Draft,
    holder: &Holder,
    object: &Object,
    desired: &Desired,
    seen: &Observed<'_>,
    now: Timestamp,
) {
    if needs_ledger(&object.status, desired) {
        open_run(draft, desired, &seen.ledger);
    } else {
        note_refusal(draft, object, seen, now);
    }
    if let Some(situation) = at_rest(draft, desired, now) {
        draft.stands(situation);
        return;
    }
    match choose(desired, seen.market, draft.money_left(desired)) {
        Choice::Refuse(why)
            if why.reason == Reason::BudgetTooSmall && draft.status.cost.charged > Money::ZERO =>
        {
            let end = end_run(draft, Finding::new(Reason::BudgetExhausted, why.evidence), now);
            draft.stands(end);
        }
        Choice::Refuse(why) => draft.stands(Situation::Refused(why)),
        Choice::Wait(why) => draft.stands(Situation::Waiting(why)),
        Choice::Place(chosen) => place(draft, holder, desired, seen.market, &chosen),
    }
}

/// Where a run stands that does not look for a card now, whatever the cluster offers.
fn at_rest(draft: &mut Draft, desired: &Desired, now: Timestamp) -> Option<Situation> {
    if let Some(outcome) = draft.status.outcome.clone() {
        return Some(Situation::Ended(outcome));
    }
    if let Some(why) = attempt::stopped(&draft.status, desired.wish) {
        return Some(Situation::Stopped(why));
    }
    if draft.bounds(desired).runtime <= SignedDuration::ZERO {
        let used = crate::duration::format(draft.status.runtime_used);
        let evidence = format!("{used} of running time are used");
        return Some(end_run(draft, Finding::new(Reason::MaxRuntimeReached, evidence), now));
    }
    if let Some(pause) = draft.status.pause.clone().filter(|pause| pause.until > now) {
        draft.wake_by(pause.until);
        let evidence =
            format!("{}; try {} at {}", pause.said, pause.tries.saturating_add(1), pause.until);
        return Some(Situation::Waiting(Finding::new(pause.reason, evidence)));
    }
    if draft.status.cost.currency != desired.currency {
        let spent = format!("{} {}", draft.status.cost.charged, draft.status.cost.currency);
        let evidence = format!(
            "the run has cost {spent}, so that its budget cannot be in {}; a new rerun can",
            desired.currency
        );
        return Some(Situation::Refused(Finding::new(Reason::CurrencyMismatch, evidence)));
    }
    None
}

/// The lease that the last status names was refused by the API server, or never written: its
/// number is free for the next try.
fn note_refusal(draft: &mut Draft, object: &Object, seen: &Observed<'_>, now: Timestamp) {
    let Some(named) = &object.status.lease else { return };
    if named.held_at.is_none() {
        draft.status.attempt = draft.status.attempt.saturating_sub(1);
    }
    if let Some(words) = &seen.refused {
        attempt::pause(draft, Reason::PodRefused, words.clone(), now);
    }
}

/// Begins a run that this object's status does not speak of yet: never one that the ledger knows.
fn open_run(draft: &mut Draft, desired: &Desired, ledger: &[PastRun]) {
    let status = &mut draft.status;
    status.rerun = desired.rerun;
    status.spec_hash = Some(desired.spec_hash.clone());
    status.pause = None;
    status.card = None;
    status.node = None;
    let same = || ledger.iter().filter(|past| past.was_held && past.is_of(desired));
    status.runtime_used =
        same().fold(SignedDuration::ZERO, |sum, past| sum.saturating_add(past.ran));
    let charged = same().fold(Money::ZERO, |sum, past| sum.plus(past.charged));
    status.cost = Cost {
        currency: desired.currency.clone(),
        charged,
        reserved: Money::ZERO,
        limit: status.cost.limit,
    };
    status.attempt = ledger
        .iter()
        .filter(|past| past.rerun == desired.rerun)
        .map(|past| past.attempt)
        .max()
        .unwrap_or(0);
    status.outcome = known_outcome(desired, ledger, charged);
}

/// What the ledger says against a start: this run has run, or a later one has.
fn known_outcome(desired: &Desired, ledger: &[PastRun], charged: Money) -> Option<Outcome> {
    let held = || ledger.iter().filter(|past| past.was_held);
    if let Some(same) = held().filter(|past| past.is_of(desired)).max_by_key(|past| past.attempt) {
        let ended =
            same.ended_at.map_or_else(|| "is not closed".to_owned(), |at| format!("ended at {at}"));
        let evidence = format!(
            "run {} cost {charged} {}; its last lease {} {ended} with {}; the next free rerun is {}",
            desired.rerun,
            same.currency,
            same.lease,
            same.reason.unwrap_or(Reason::PodLost),
            next_free(ledger),
        );
        return Some(Outcome {
            finding: Finding::new(Reason::AlreadyRan, evidence),
            at: same.ended_at.unwrap_or(Timestamp::MIN),
        });
    }
    let newer = held().filter(|past| past.rerun > desired.rerun).max_by_key(|past| past.rerun)?;
    let evidence = format!(
        "run {} ran already in lease {}; the next free rerun is {}",
        newer.rerun,
        newer.lease,
        next_free(ledger)
    );
    Some(Outcome {
        finding: Finding::new(Reason::Superseded, evidence),
        at: newer.ended_at.unwrap_or(Timestamp::MIN),
    })
}

/// The lowest number above all that ran.
fn next_free(ledger: &[PastRun]) -> i64 {
    let ran = ledger.iter().filter(|past| past.was_held).map(|past| past.rerun).max();
    ran.map_or(0, |highest| highest.saturating_add(1))
}

fn end_run(draft: &mut Draft, finding: Finding, now: Timestamp) -> Situation {
    let outcome = Outcome { finding, at: now };
    draft.status.outcome = Some(outcome.clone());
    Situation::Ended(outcome)
}

/// What was chosen and what it costs: the words until the scheduler has its own, so that a pass that
/// has nothing else to say changes no status.
pub(super) fn offer(terms: &Terms) -> String {
    let Terms { card, count, currency, reserved, .. } = terms;
    let rate = terms.rate().per_hour();
    format!("{count} × {card} at {rate} {currency} per hour, at most {reserved} {currency}")
}

fn place(
    draft: &mut Draft,
    holder: &Holder,
    desired: &Desired,
    market: &Market,
    chosen: &Chosen<'_>,
) {
    draft.status.attempt = draft.status.attempt.saturating_add(1);
    let attempt = draft.status.attempt;
    let bounds = draft.bounds(desired);
    let rate = HourlyRate::of(chosen.per_hour, desired.count.get());
    let left = draft.money_left(desired);
    let terms = Terms {
        name: holder.attempt_name(desired.rerun, attempt),
        rerun: desired.rerun,
        spec_hash: Some(desired.spec_hash.clone()),
        attempt,
        card: chosen.card.id.clone(),
        count: desired.count.get(),
        per_hour: chosen.per_hour,
        currency: desired.currency.clone(),
        reserved: lease::reservation(rate, bounds, left),
    };
    draft.status.card = Some(chosen.card.id.clone());
    draft.status.cost.reserved = terms.reserved;
    draft.status.lease = Some(LeaseView {
        name: terms.name.clone(),
        card: terms.card.clone(),
        count: terms.count,
        rate_per_hour: rate.per_hour(),
        currency: terms.currency.clone(),
        held_at: None,
        running_at: None,
        ends_at: None,
        ends_because: None,
        ceiling_at: None,
    });
    let evidence = offer(&terms);
    let pod = pod_plan(draft, &terms, market, chosen.card, Some(chosen.node), bounds.runtime, left);
    draft.commands.push(Command::ReserveLease(terms));
    draft.commands.push(Command::CreatePod(pod));
    draft.stands(Situation::Placing(Finding::new(Reason::WaitingForScheduler, evidence)));
}

/// The pod of a reserved lease.
pub(super) fn pod_plan(
    draft: &Draft,
    terms: &Terms,
    market: &Market,
    card: &Card,
    node: Option<&NodeSupply>,
    runtime: SignedDuration,
    left: Option<Money>,
) -> PodPlan {
    let grace = draft
        .status
        .effective
        .as_ref()
        .map_or(defaults::GRACE_PERIOD, |effective| effective.grace_period);
    let bounds = Bounds { startup: defaults::STARTUP_TIMEOUT, runtime, grace };
    PodPlan {
        name: terms.name.clone(),
        rerun: terms.rerun,
        attempt: terms.attempt,
        card: terms.card.clone(),
        node_hint: node.map(|node| node.name.clone()).unwrap_or_default(),
        product_labels: card.product_labels(),
        product_names: card.products.clone(),
        memory_mib: card.memory_mib,
        memory_bounds_mib: market.catalog.memory_bounds_mib(card),
        count: terms.count,
        share: node.map_or(Share::default(), |node| node.share(terms.count)),
        runtime,
        hold: lease::affordable_hold(terms.rate(), grace, left),
        grace,
        ceiling: lease::ceiling(bounds),
    }
}

/// How long to wait after so many pods in a row that did not get a node.
pub(super) fn pause_after(tries: u32) -> SignedDuration {
    let doubled =
        super::FIRST_PAUSE.as_secs().saturating_mul(1_i64 << tries.saturating_sub(1).min(16));
    SignedDuration::from_secs(doubled).min(LONGEST_PAUSE)
}

/// Pods of closed leases: let go of their finalizers, delete them when their logs have been kept.
fn clean_up(draft: &mut Draft, pods: &[PodFacts], keep: SignedDuration, now: Timestamp) {
    for pod in pods {
        if pod.metered {
            draft.commands.push(forget(pod));
        }
        if pod.deletion_requested {
            continue;
        }
        let until = lease::later(pod.last_end().unwrap_or(pod.created_at), keep);
        if pod.is_over && until > now {
            draft.wake_by(until);
        } else {
            draft.commands.push(delete(pod));
        }
    }
}

/// The holder is gone: nothing of it stays.
fn forget_all(draft: &mut Draft, pods: &[PodFacts]) {
    for pod in pods {
        if pod.metered {
            draft.commands.push(forget(pod));
        }
        if !pod.deletion_requested {
            draft.commands.push(delete(pod));
        }
    }
}

pub(super) fn delete(pod: &PodFacts) -> Command {
    Command::DeletePod { pod: pod.name.clone(), uid: pod.uid.clone(), resource_version: None }
}

pub(super) fn forget(pod: &PodFacts) -> Command {
    Command::ForgetPod { pod: pod.name.clone(), uid: pod.uid.clone() }
}
