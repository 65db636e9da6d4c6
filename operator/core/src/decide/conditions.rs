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
        Situation::Placing(why) => held(why, Truth::False, Truth::False),
        Situation::Preparing(why) => held(why, Truth::True, Truth::False),
        Situation::Running(why) => held(why, Truth::True, Truth::True),
        Situation::Releasing(why) => releasing(why, status),
        Situation::Ended(outcome) => ended(outcome, status),
    };
    settle(claims, &object.status.conditions, object.generation, now)
}

fn accepted() -> Claim {
    Claim::new(Kind::Accepted, Truth::True, &Finding::new(Reason::Accepted, ""))
}

/// The trio that kstatus reads.
fn trio(ready: Truth, why: &Finding) -> [Claim; 3] {
    let stalled = if ready == Truth::True { Truth::False } else { Truth::True };
    [
        Claim::new(Kind::Ready, ready, why),
        Claim::new(Kind::Reconciling, Truth::False, why),
        Claim::new(Kind::Stalled, stalled, why),
    ]
}

fn refused(why: &Finding) -> Vec<Claim> {
    let mut claims: Vec<Claim> = [
        Kind::Accepted,
        Kind::Funded,
        Kind::Placed,
        Kind::Prepared,
        Kind::Released,
        Kind::Succeeded,
    ]
    .into_iter()
    .map(|kind| Claim::new(kind, Truth::False, why))
    .collect();
    claims.extend(trio(Truth::False, why));
    claims
}

fn not_held(why: &Finding, released: Truth) -> Vec<Claim> {
    let mut claims = vec![accepted(), Claim::new(Kind::Released, released, why)];
    claims.extend(
        [Kind::Funded, Kind::Placed, Kind::Prepared, Kind::Succeeded]
            .map(|kind| Claim::new(kind, Truth::False, why)),
    );
    claims.extend(trio(Truth::True, why));
    claims
}

fn held(why: &Finding, placed: Truth, prepared: Truth) -> Vec<Claim> {
    let prepared_why =
        if prepared == Truth::True { Finding::new(Reason::Prepared, "") } else { why.clone() };
    let mut claims = vec![
        accepted(),
        Claim::new(Kind::Funded, Truth::True, &Finding::new(Reason::Funded, "")),
        Claim::new(Kind::Placed, placed, why),
        Claim::new(Kind::Prepared, prepared, &prepared_why),
        Claim::new(Kind::Released, Truth::False, why),
        Claim::new(Kind::Succeeded, Truth::False, why),
    ];
    claims.extend(trio(Truth::True, why));
    claims
}

fn releasing(why: &Finding, status: &Status) -> Vec<Claim> {
    let ran = status.lease.as_ref().is_some_and(|lease| lease.running_at.is_some());
    held(why, Truth::True, if ran { Truth::True } else { Truth::False })
}

fn ended(outcome: &Outcome, status: &Status) -> Vec<Claim> {
    let why = &outcome.finding;
    let last = status.attempts.iter().find(|attempt| attempt.rerun == status.rerun);
    let ran = last.is_some_and(|attempt| attempt.running_at.is_some());
    let prepared = if ran {
        Claim::new(Kind::Prepared, Truth::True, &Finding::new(Reason::Prepared, ""))
    } else {
        Claim::new(Kind::Prepared, Truth::False, why)
    };
    let done = if why.reason.is_success() { Truth::True } else { Truth::False };
    let ready = if why.reason.is_success() {
        Finding::new(Reason::Succeeded, why.message())
    } else {
        why.clone()
    };
    let funded = if last.is_some() {
        Claim::new(Kind::Funded, Truth::True, &Finding::new(Reason::Funded, ""))
    } else {
        Claim::new(Kind::Funded, Truth::False, why)
    };
    let mut claims = vec![
        accepted(),
        funded,
        Claim::new(Kind::Placed, Truth::False, why),
        prepared,
        Claim::new(Kind::Released, Truth::True, why),
        Claim::new(Kind::Succeeded, done, why),
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
