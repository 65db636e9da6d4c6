//! From the wire to the core's status. Pure and total.
//!
//! A status may come from a newer version, from a restore or from somebody's editor. Where a value
//! cannot be read, the reading errs on the side that starts nothing twice and forgets no charge.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use leasehold_core::{
    condition::{Condition, ConditionType, Truth},
    duration,
    money::{Limit, Money},
    reason::{Finding, Payer, Reason},
    request::{Action, Answer, Handled, StopOrder},
    status::{self as core, Status},
};

use super::Reading;
use crate::job_status::{
    Attempt, Cost, Effective, GpuJobStatus, HandledRequest, Lease, Outcome, Pause, Runtime,
    StoppedBy,
};

/// The status as it was last written; the status of an unseen job when there is none.
#[must_use]
pub fn status_from_wire(wire: Option<&GpuJobStatus>) -> Reading {
    let Some(wire) = wire else {
        return Reading { status: Status::default(), unread: Vec::new() };
    };
    let mut reader = Reader::default();
    let attempts: Vec<_> = wire
        .attempts
        .iter()
        .enumerate()
        .map(|(index, attempt)| reader.attempt(index, attempt))
        .collect();
    let status = Status {
        observed_generation: wire.observed_generation,
        rerun: wire.rerun,
        spec_hash: wire.spec_hash.clone(),
        attempt: reader.number("attempt", wire.attempt),
        effective: wire.effective.as_ref().and_then(|effective| reader.effective(effective)),
        card: wire.card.clone(),
        node: wire.node.clone(),
        lease: wire.lease.as_ref().map(|lease| reader.lease(lease)),
        cost: wire
            .cost
            .as_ref()
            .map(|cost| reader.cost(cost, wire.rerun, &attempts))
            .unwrap_or_default(),
        runtime_used: reader.runtime_used(wire.runtime.as_ref(), wire.rerun, &attempts),
        outcome: wire.outcome.as_ref().map(|outcome| reader.outcome(outcome, &attempts)),
        stopped_by: wire.stopped_by.as_ref().map(|order| reader.stopped_by(order)),
        requests: wire.requests.iter().filter_map(|handled| reader.request(handled)).collect(),
        pause: wire.pause.as_ref().and_then(|pause| reader.pause(pause)),
        conditions: wire
            .conditions
            .iter()
            .filter_map(|condition| reader.condition(condition))
            .collect(),
        attempts,
    };
    Reading { status, unread: reader.unread }
}

/// An instant in RFC 3339.
pub(crate) fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Who pays, from the wire.
pub(crate) fn payer(text: &str) -> Option<Payer> {
    [Payer::User, Payer::Infrastructure]
        .into_iter()
        .find(|payer| super::write::payer(*payer) == text)
}

#[derive(Default)]
struct Reader {
    unread: Vec<String>,
}

impl Reader {
    /// Notes a field that could not be read.
    fn note<T>(
        &mut self,
        field: &str,
        text: impl std::fmt::Display,
        value: Option<T>,
    ) -> Option<T> {
        if value.is_none() {
            self.unread.push(format!("status.{field}: {text}"));
        }
        value
    }

    fn number(&mut self, field: &str, number: i64) -> u32 {
        let highest = if number < 0 { 0 } else { u32::MAX };
        self.note(field, number, u32::try_from(number).ok()).unwrap_or(highest)
    }

    fn instant(&mut self, field: &str, text: &str) -> Option<Timestamp> {
        self.note(field, text, instant(text))
    }

    fn instant_if_given(&mut self, field: &str, text: Option<&String>) -> Option<Timestamp> {
        text.and_then(|text| self.instant(field, text))
    }

    fn money(&mut self, field: &str, text: &str) -> Option<Money> {
        self.note(field, text, Money::parse(text).ok())
    }

    fn span(&mut self, field: &str, text: &str) -> Option<SignedDuration> {
        self.note(field, text, duration::parse(text).ok())
    }

    fn reason(&mut self, field: &str, text: &str) -> Option<Reason> {
        self.note(field, text, Reason::parse(text))
    }

    fn condition(&mut self, wire: &meta::Condition) -> Option<Condition> {
        let field = format!("conditions[{}]", wire.type_);
        let kind = self.note(&field, &wire.type_, ConditionType::parse(&wire.type_))?;
        let truth = match wire.status.as_str() {
            "True" => Some(Truth::True),
            "False" => Some(Truth::False),
            "Unknown" => Some(Truth::Unknown),
            _ => None,
        };
        let truth = self.note(&field, &wire.status, truth)?;
        let reason = self.reason(&field, &wire.reason)?;
        Some(Condition {
            kind,
            truth,
            reason,
            message: wire.message.clone(),
            observed_generation: wire.observed_generation.unwrap_or_default(),
            since: wire.last_transition_time.0,
        })
    }

    /// Derived from the specification in each pass, so dropping it loses nothing.
    fn effective(&mut self, wire: &Effective) -> Option<core::Effective> {
        Some(core::Effective {
            count: self.number("effective.count", wire.count),
            max_runtime: self.span("effective.maxRuntime", &wire.max_runtime)?,
            grace_period: self.span("effective.gracePeriod", &wire.grace_period)?,
            startup_timeout: self.span("effective.startupTimeout", &wire.startup_timeout)?,
            keep_logs: self.span("effective.keepLogs", &wire.keep_logs)?,
            cards: wire.cards.clone(),
        })
    }

    fn lease(&mut self, wire: &Lease) -> core::LeaseView {
        core::LeaseView {
            name: wire.name.clone(),
            card: wire.card.clone(),
            count: self.number("lease.count", wire.count),
            rate_per_hour: self.money("lease.ratePerHour", &wire.rate_per_hour).unwrap_or_default(),
            currency: wire.currency.clone(),
            held_at: self.instant_if_given("lease.heldAt", wire.held_at.as_ref()),
            running_at: self.instant_if_given("lease.runningAt", wire.running_at.as_ref()),
            ends_at: self.instant_if_given("lease.endsAt", wire.ends_at.as_ref()),
            ends_because: wire
                .ends_because
                .as_ref()
                .and_then(|reason| self.reason("lease.endsBecause", reason)),
            ceiling_at: self.instant_if_given("lease.ceilingAt", wire.ceiling_at.as_ref()),
        }
    }

    /// A charge that cannot be read is that of the attempts listed.
    fn cost(&mut self, wire: &Cost, rerun: i64, attempts: &[core::Attempt]) -> core::Cost {
        let listed = || {
            attempts
                .iter()
                .filter(|attempt| attempt.rerun == rerun)
                .fold(Money::ZERO, |sum, attempt| sum.plus(attempt.charged))
        };
        let limit = wire.limit.as_ref().and_then(|limit| {
            let read = match limit.as_str() {
                "Unlimited" => Some(Limit::Unlimited),
                amount => Money::parse(amount).ok().map(Limit::Amount),
            };
            self.note("cost.limit", limit, read)
        });
        core::Cost {
            currency: wire.currency.clone(),
            charged: self.money("cost.charged", &wire.charged).unwrap_or_else(listed),
            reserved: self.money("cost.reserved", &wire.reserved).unwrap_or_default(),
            limit,
        }
    }

    /// A running time that cannot be read is that of the attempts listed.
    fn runtime_used(
        &mut self,
        wire: Option<&Runtime>,
        rerun: i64,
        attempts: &[core::Attempt],
    ) -> SignedDuration {
        let Some(wire) = wire else {
            return SignedDuration::ZERO;
        };
        self.span("runtime.used", &wire.used).unwrap_or_else(|| {
            attempts
                .iter()
                .filter(|attempt| attempt.rerun == rerun)
                .filter_map(|attempt| Some(attempt.ended_at.duration_since(attempt.running_at?)))
                .filter(|time| *time > SignedDuration::ZERO)
                .fold(SignedDuration::ZERO, SignedDuration::saturating_add)
        })
    }

    fn attempt(&mut self, index: usize, wire: &Attempt) -> core::Attempt {
        let field = |name: &str| format!("attempts[{index}].{name}");
        let paid_by =
            self.note(&field("paidBy"), &wire.paid_by, payer(&wire.paid_by)).unwrap_or(Payer::User);
        let held_at = self.instant(&field("heldAt"), &wire.held_at);
        let ended_at = self.instant(&field("endedAt"), &wire.ended_at);
        let exit_code = wire
            .exit_code
            .and_then(|code| self.note(&field("exitCode"), code, i32::try_from(code).ok()));
        core::Attempt {
            number: self.number(&field("number"), wire.number),
            rerun: wire.rerun,
            lease: wire.lease.clone(),
            card: wire.card.clone(),
            node: wire.node.clone(),
            held_at: held_at.or(ended_at).unwrap_or(Timestamp::UNIX_EPOCH),
            running_at: self.instant_if_given(&field("runningAt"), wire.running_at.as_ref()),
            ended_at: ended_at.or(held_at).unwrap_or(Timestamp::UNIX_EPOCH),
            reason: self.reason(&field("reason"), &wire.reason).unwrap_or(unknown_end(paid_by)),
            exit_code,
            charged: self.money(&field("charged"), &wire.charged).unwrap_or_default(),
            paid_by,
        }
    }

    /// An outcome stays an outcome: without it the run would start again.
    fn outcome(&mut self, wire: &Outcome, attempts: &[core::Attempt]) -> core::Outcome {
        let finding = match self.reason("outcome.reason", &wire.reason) {
            Some(reason) => Finding::new(reason, wire.evidence.clone()),
            None => Finding::new(
                unknown_end(Payer::User),
                format!("{}: {}", wire.reason, wire.evidence),
            ),
        };
        let last_end = attempts.first().map_or(Timestamp::UNIX_EPOCH, |attempt| attempt.ended_at);
        core::Outcome { finding, at: self.instant("outcome.at", &wire.at).unwrap_or(last_end) }
    }

    /// A stop stays a stop.
    fn stopped_by(&mut self, wire: &StoppedBy) -> StopOrder {
        let at = self.instant("stoppedBy.at", &wire.at).unwrap_or(Timestamp::UNIX_EPOCH);
        StopOrder { request: wire.request.clone(), at }
    }

    fn request(&mut self, wire: &HandledRequest) -> Option<Handled> {
        let action = Action::parse(&wire.action);
        let is_done = match wire.state.as_str() {
            "Done" => Some(true),
            "Refused" => Some(false),
            _ => None,
        };
        Some(Handled {
            name: wire.name.clone(),
            uid: wire.uid.clone(),
            action: self.note("requests.action", &wire.action, action)?,
            answer: Answer {
                is_done: self.note("requests.state", &wire.state, is_done).unwrap_or(false),
                said: wire.message.clone(),
                at: self.instant("requests.at", &wire.at).unwrap_or(Timestamp::UNIX_EPOCH),
            },
        })
    }

    fn pause(&mut self, wire: &Pause) -> Option<core::Pause> {
        Some(core::Pause {
            tries: self.number("pause.tries", wire.tries),
            until: self.instant("pause.until", &wire.until)?,
            reason: self.reason("pause.reason", &wire.reason)?,
            said: wire.said.clone(),
        })
    }
}

/// What stands for the end of an attempt whose reason this version does not know.
const fn unknown_end(payer: Payer) -> Reason {
    match payer {
        Payer::User => Reason::CommandFailed,
        Payer::Infrastructure => Reason::AgentFailed,
    }
}
