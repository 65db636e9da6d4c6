//! From the core's status to the wire. Pure and total.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use leasehold_core::{
    condition::{Condition, Truth},
    duration,
    reason::{Payer, Reason},
    request::{Handled, StopOrder},
    status::{self as core, MOST_ATTEMPTS, MOST_REQUESTS, Status},
};

use super::clipped;
use crate::{
    job_status::{
        Attempt, Cost, Effective, GpuJobStatus, HandledRequest, Lease, Outcome, Pause, Runtime,
        StoppedBy,
    },
    request::answer_state,
    schema::LONGEST_MESSAGE,
};

/// The status as it is written.
#[must_use]
pub fn status_to_wire(status: &Status) -> GpuJobStatus {
    GpuJobStatus {
        observed_generation: status.observed_generation,
        conditions: status.conditions.iter().map(condition).collect(),
        rerun: status.rerun,
        spec_hash: status.spec_hash.clone(),
        attempt: status.attempt.into(),
        effective: status.effective.as_ref().map(effective),
        card: status.card.clone(),
        node: status.node.clone(),
        lease: status.lease.as_ref().map(lease),
        cost: Some(cost(&status.cost)),
        runtime: Some(Runtime { used: span(status.runtime_used) }),
        attempts: status.attempts.iter().take(MOST_ATTEMPTS).map(attempt).collect(),
        outcome: status.outcome.as_ref().map(outcome),
        stopped_by: status.stopped_by.as_ref().map(stopped_by),
        requests: status.requests.iter().take(MOST_REQUESTS).map(request).collect(),
        pause: status.pause.as_ref().map(pause),
    }
}

fn stopped_by(order: &StopOrder) -> StoppedBy {
    StoppedBy { request: order.request.clone(), at: instant(order.at) }
}

fn request(handled: &Handled) -> HandledRequest {
    HandledRequest {
        name: handled.name.clone(),
        uid: handled.uid.clone(),
        action: handled.action.name().to_owned(),
        state: answer_state(&handled.answer).to_owned(),
        message: clipped(&handled.answer.said, LONGEST_MESSAGE),
        at: instant(handled.answer.at),
    }
}

/// An instant as the API server accepts it: RFC 3339 within the years 1 to 9999.
pub(crate) fn instant(at: Timestamp) -> String {
    const FIRST_SECOND_OF_YEAR_1: i64 = -62_135_596_800;
    let earliest = Timestamp::from_second(FIRST_SECOND_OF_YEAR_1).unwrap_or(Timestamp::UNIX_EPOCH);
    at.max(earliest).to_string()
}

/// Who pays, on the wire.
pub(crate) fn payer(payer: Payer) -> &'static str {
    match payer {
        Payer::User => "User",
        Payer::Infrastructure => "Infrastructure",
    }
}

fn span(time: SignedDuration) -> String {
    let started = i64::from(time.subsec_nanos() > 0);
    duration::format(SignedDuration::from_secs(time.as_secs().saturating_add(started)))
}

fn condition(condition: &Condition) -> meta::Condition {
    let truth = match condition.truth {
        Truth::True => "True",
        Truth::False => "False",
        Truth::Unknown => "Unknown",
    };
    meta::Condition {
        type_: condition.kind.name().to_owned(),
        status: truth.to_owned(),
        reason: condition.reason.name().to_owned(),
        message: clipped(&condition.message, LONGEST_MESSAGE),
        observed_generation: Some(condition.observed_generation),
        last_transition_time: meta::Time(condition.since),
    }
}

fn effective(effective: &core::Effective) -> Effective {
    Effective {
        count: effective.count.into(),
        max_runtime: span(effective.max_runtime),
        grace_period: span(effective.grace_period),
        startup_timeout: span(effective.startup_timeout),
        keep_logs: span(effective.keep_logs),
        cards: effective.cards.clone(),
    }
}

fn lease(lease: &core::LeaseView) -> Lease {
    Lease {
        name: lease.name.clone(),
        card: lease.card.clone(),
        count: lease.count.into(),
        rate_per_hour: lease.rate_per_hour.to_string(),
        currency: lease.currency.clone(),
        held_at: lease.held_at.map(instant),
        running_at: lease.running_at.map(instant),
        ends_at: lease.ends_at.map(instant),
        ends_because: lease.ends_because.map(word),
        ceiling_at: lease.ceiling_at.map(instant),
    }
}

fn cost(cost: &core::Cost) -> Cost {
    Cost {
        currency: cost.currency.clone(),
        charged: cost.charged.to_string(),
        reserved: cost.reserved.to_string(),
        limit: cost.limit.map(|limit| limit.to_string()),
    }
}

fn attempt(attempt: &core::Attempt) -> Attempt {
    Attempt {
        number: attempt.number.into(),
        rerun: attempt.rerun,
        lease: attempt.lease.clone(),
        card: attempt.card.clone(),
        node: attempt.node.clone(),
        held_at: instant(attempt.held_at),
        running_at: attempt.running_at.map(instant),
        ended_at: instant(attempt.ended_at),
        reason: word(attempt.reason),
        exit_code: attempt.exit_code.map(i64::from),
        charged: attempt.charged.to_string(),
        paid_by: payer(attempt.paid_by).to_owned(),
    }
}

fn outcome(outcome: &core::Outcome) -> Outcome {
    let reason = outcome.finding.reason;
    Outcome {
        reason: word(reason),
        message: reason.meaning().to_owned(),
        cure: reason.cure().to_owned(),
        evidence: clipped(&outcome.finding.evidence, LONGEST_MESSAGE),
        at: instant(outcome.at),
    }
}

fn pause(pause: &core::Pause) -> Pause {
    Pause {
        tries: pause.tries.into(),
        until: instant(pause.until),
        reason: word(pause.reason),
        said: clipped(&pause.said, LONGEST_MESSAGE),
    }
}

fn word(reason: Reason) -> String {
    reason.name().to_owned()
}
