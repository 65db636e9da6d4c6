//! The words of a situation. Pure; [`super::decide`] puts them into the status.

use jiff::Timestamp;

use super::Situation;
use crate::{
    condition::{Claim, Condition, ConditionType as Kind, Truth, settle},
    observed::Object,
    reason::{Finding, Reason},
    status::{Outcome, Status},
};

/// All conditions of a holder in this situation.
pub(super) fn word(
    situation: &Situation,
    status: &Status,
    object: &Object,
    now: Timestamp,
) -> Vec<Condition> {
    let claims = match situation {
        Situation::Refused(why) => refused(why),
        Situation::Waiting(why) => not_held(why, Truth::False),
        Situation::Stopped(why) => not_held(why, released_before(status)),
        Situation::Placing(why) => held(why, Truth::False, false),
        Situation::Preparing(why) => held(why, Truth::True, false),
        Situation::Running(why) => held(why, Truth::True, true),
        Situation::Releasing(why) => releasing(why, status),
        Situation::Ended(outcome) => ended(outcome, status),
    };
    settle(claims, &object.status.conditions, object.generation, now)
}

fn accepted() -> Claim {
    Claim::brief(Kind::Accepted, Truth::True, Reason::Accepted)
}

fn funded() -> Claim {
    Claim::brief(Kind::Funded, Truth::True, Reason::Funded)
}

fn prepared() -> Claim {
    Claim::brief(Kind::Prepared, Truth::True, Reason::Prepared)
}

/// The trio that kstatus reads; evidence and cure stand here.
fn trio(ready: Truth, why: &Finding) -> [Claim; 3] {
    let stalled = if ready == Truth::True {
        Claim::brief(Kind::Stalled, Truth::False, why.reason)
    } else {
        Claim::new(Kind::Stalled, Truth::True, why)
    };
    [
        Claim::new(Kind::Ready, ready, why),
        Claim::brief(Kind::Reconciling, Truth::False, why.reason),
        stalled,
    ]
}

/// None of these, for this reason.
fn none<const N: usize>(kinds: [Kind; N], reason: Reason) -> [Claim; N] {
    kinds.map(|kind| Claim::brief(kind, Truth::False, reason))
}

fn refused(why: &Finding) -> Vec<Claim> {
    let mut claims = vec![Claim::new(Kind::Accepted, Truth::False, why)];
    let kinds = [Kind::Funded, Kind::Placed, Kind::Prepared, Kind::Released, Kind::Succeeded];
    claims.extend(none(kinds, why.reason));
    claims.extend(trio(Truth::False, why));
    claims
}

fn not_held(why: &Finding, released: Truth) -> Vec<Claim> {
    let mut claims = vec![accepted(), Claim::brief(Kind::Released, released, why.reason)];
    claims.extend(none([Kind::Funded, Kind::Placed, Kind::Prepared, Kind::Succeeded], why.reason));
    claims.extend(trio(Truth::True, why));
    claims
}

fn held(why: &Finding, placed: Truth, ran: bool) -> Vec<Claim> {
    let mut claims = vec![accepted(), funded(), Claim::brief(Kind::Placed, placed, why.reason)];
    claims.extend(none([Kind::Released, Kind::Succeeded], why.reason));
    claims.push(if ran {
        prepared()
    } else {
        Claim::brief(Kind::Prepared, Truth::False, why.reason)
    });
    claims.extend(trio(Truth::True, why));
    claims
}

fn releasing(why: &Finding, status: &Status) -> Vec<Claim> {
    let ran = status.lease.as_ref().is_some_and(|lease| lease.running_at.is_some());
    held(why, Truth::True, ran)
}

fn ended(outcome: &Outcome, status: &Status) -> Vec<Claim> {
    let why = &outcome.finding;
    let reason = why.reason;
    let last = status.attempts.iter().find(|attempt| attempt.rerun == status.rerun);
    let ran = last.is_some_and(|attempt| attempt.running_at.is_some());
    let unless = |known: bool, claim: Claim, kind: Kind| {
        if known { claim } else { Claim::brief(kind, Truth::False, reason) }
    };
    let (done, ready) = if reason.is_success() {
        (Truth::True, Finding::new(Reason::Succeeded, why.message()))
    } else {
        (Truth::False, why.clone())
    };
    let mut claims = vec![
        accepted(),
        unless(last.is_some(), funded(), Kind::Funded),
        Claim::brief(Kind::Placed, Truth::False, reason),
        unless(ran, prepared(), Kind::Prepared),
        Claim::brief(Kind::Released, Truth::True, reason),
        Claim::brief(Kind::Succeeded, done, reason),
    ];
    claims.extend(trio(done, &ready));
    claims
}

fn released_before(status: &Status) -> Truth {
    if status.attempts.iter().any(|attempt| attempt.rerun == status.rerun) {
        Truth::True
    } else {
        Truth::False
    }
}
