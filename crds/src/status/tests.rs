use jiff::{SignedDuration, Timestamp};
use leasehold_core::{
    condition::{Condition, ConditionType, Truth},
    money::{Limit, Money},
    reason::{Finding, Payer, Reason},
    request::{Action, Answer, Handled, StopOrder},
    status::{Attempt, Cost, Effective, LeaseView, Outcome, Pause, Status},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::Value;

use super::*;
use crate::job_status::GpuJobStatus;

fn instants() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000, 0_i32..1_000_000_000)
        .prop_map(|(second, nano)| Timestamp::new(second, nano).unwrap())
}

fn money() -> impl Strategy<Value = Money> {
    (0_i64..i64::MAX).prop_map(Money::from_micros)
}

fn spans() -> impl Strategy<Value = SignedDuration> {
    (0_i64..3_000_000).prop_map(SignedDuration::from_secs)
}

fn reasons() -> impl Strategy<Value = Reason> {
    select(Reason::ALL)
}

fn words() -> impl Strategy<Value = String> {
    "[a-z0-9-]{1,40}"
}

fn findings() -> impl Strategy<Value = Finding> {
    (reasons(), "\\PC{0,80}").prop_map(|(reason, evidence)| Finding::new(reason, evidence))
}

fn costs() -> impl Strategy<Value = Cost> {
    let limit = prop_oneof![Just(Limit::Unlimited), money().prop_map(Limit::Amount)];
    ("[A-Z]{3}", money(), money(), option::of(limit)).prop_map(
        |(currency, charged, reserved, limit)| Cost { currency, charged, reserved, limit },
    )
}

fn conditions() -> impl Strategy<Value = Condition> {
    let truths = select(vec![Truth::True, Truth::False, Truth::Unknown]);
    (select(ConditionType::ALL), truths, findings(), 0_i64..1_000, 0_i64..4_000_000_000).prop_map(
        |(kind, truth, finding, observed_generation, second)| Condition {
            kind,
            truth,
            reason: finding.reason,
            message: finding.evidence,
            observed_generation,
            since: Timestamp::from_second(second).unwrap(),
        },
    )
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let names = (words(), words(), option::of(words()));
    let times = (instants(), option::of(instants()), instants());
    let end = (
        reasons(),
        option::of(any::<i32>()),
        money(),
        select(vec![Payer::User, Payer::Infrastructure]),
    );
    (any::<u32>(), 0_i64..1_000, names, times, end).prop_map(
        |(number, rerun, names, times, end)| Attempt {
            number,
            rerun,
            lease: names.0,
            card: names.1,
            node: names.2,
            held_at: times.0,
            running_at: times.1,
            ended_at: times.2,
            reason: end.0,
            exit_code: end.1,
            charged: end.2,
            paid_by: end.3,
        },
    )
}

fn leases() -> impl Strategy<Value = LeaseView> {
    let times = (
        option::of(instants()),
        option::of(instants()),
        option::of(instants()),
        option::of(instants()),
    );
    (words(), words(), 1_u32..65, money(), times, option::of(reasons())).prop_map(
        |(name, card, count, rate_per_hour, times, ends_because)| LeaseView {
            name,
            card,
            count,
            rate_per_hour,
            currency: "CNY".into(),
            held_at: times.0,
            running_at: times.1,
            ends_at: times.2,
            ends_because,
            ceiling_at: times.3,
        },
    )
}

fn effectives() -> impl Strategy<Value = Effective> {
    (1_u32..65, spans(), spans(), spans(), spans(), vec(words(), 0..5)).prop_map(
        |(count, max_runtime, grace_period, startup_timeout, keep_logs, cards)| Effective {
            count,
            max_runtime,
            grace_period,
            startup_timeout,
            keep_logs,
            cards,
        },
    )
}

fn pauses() -> impl Strategy<Value = Pause> {
    (any::<u32>(), instants(), findings()).prop_map(|(tries, until, finding)| Pause {
        tries,
        until,
        reason: finding.reason,
        said: finding.evidence,
    })
}

fn requests() -> impl Strategy<Value = Handled> {
    (words(), words(), any::<bool>(), any::<bool>(), words(), instants()).prop_map(
        |(name, uid, stops, is_done, said, at)| Handled {
            name,
            uid,
            action: if stops { Action::Stop } else { Action::Start },
            answer: Answer { is_done, said, at },
        },
    )
}

fn statuses() -> impl Strategy<Value = Status> {
    let outcome = (findings(), instants()).prop_map(|(finding, at)| Outcome { finding, at });
    let open = (
        option::of(effectives()),
        option::of(words()),
        option::of(words()),
        option::of(leases()),
        option::of(words()),
    );
    let stop = (words(), instants()).prop_map(|(request, at)| StopOrder { request, at });
    let run = (
        costs(),
        spans(),
        vec(attempts(), 0..=10),
        option::of(outcome),
        option::of(pauses()),
        option::of(stop),
        vec(requests(), 0..=10),
    );
    (-1_i64..1_000, 0_i64..1_000, any::<u32>(), open, run, vec(conditions(), 0..9)).prop_map(
        |(observed_generation, rerun, attempt, open, run, conditions)| Status {
            observed_generation,
            rerun,
            spec_hash: open.4,
            attempt,
            effective: open.0,
            card: open.1,
            node: open.2,
            lease: open.3,
            cost: run.0,
            runtime_used: run.1,
            attempts: run.2,
            outcome: run.3,
            stopped_by: run.5,
            requests: run.6,
            pause: run.4,
            conditions,
        },
    )
}

/// Puts garbage into the text with this number, counting all texts of the document, and says which
/// field it was.
fn spoil(value: &mut Value, field: &str, target: &mut usize, garbage: &str) -> Option<String> {
    match value {
        Value::String(text) if *target == 0 => {
            garbage.clone_into(text);
            Some(field.to_owned())
        }
        Value::String(_) => {
            *target -= 1;
            None
        }
        Value::Array(items) => {
            items.iter_mut().find_map(|item| spoil(item, field, target, garbage))
        }
        Value::Object(fields) => {
            fields.iter_mut().find_map(|(name, inner)| spoil(inner, name, target, garbage))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

proptest! {
    #[test]
    fn a_status_survives_the_wire(status in statuses()) {
        let text = serde_json::to_string(&status_to_wire(&status)).unwrap();
        let wire: GpuJobStatus = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(status_from_wire(Some(&wire)), Reading { status, unread: Vec::new() });
    }

    #[test]
    fn garbage_loses_no_attempt_and_no_outcome_and_is_kept_or_named(
        status in statuses(), target in 0_usize..80, garbage in "[!-/]{3,12}"
    ) {
        let mut value = serde_json::to_value(status_to_wire(&status)).unwrap();
        let Some(field) = spoil(&mut value, "", &mut target.clone(), &garbage) else { return Ok(()) };
        let Ok(wire) = serde_json::from_value::<GpuJobStatus>(value) else { return Ok(()) };
        let Reading { status: read, unread } = status_from_wire(Some(&wire));
        prop_assert_eq!(read.attempts.len(), status.attempts.len());
        prop_assert_eq!(read.outcome.is_some(), status.outcome.is_some());
        prop_assert_eq!(read.attempt, status.attempt);
        if field != "charged" {
            prop_assert_eq!(read.cost.charged, status.cost.charged);
        }
        let derived = field == "cure" || field == "message";
        let kept = format!("{read:?}").contains(&format!("{garbage:?}"));
        prop_assert!(derived || kept || !unread.is_empty(), "{} is lost without a word", field);
    }
}

#[test]
fn a_job_without_status_is_unseen() {
    assert_eq!(status_from_wire(None).status, Status::default());
    let first: GpuJobStatus =
        serde_json::from_value(serde_json::json!({"observedGeneration": -1})).unwrap();
    assert_eq!(status_from_wire(Some(&first)).status, Status::default());
}

#[test]
fn an_unreadable_charge_is_that_of_the_attempts() {
    let attempt = serde_json::json!({
        "number": 1, "rerun": 0, "lease": "t-r0-a1", "card": "l4", "heldAt": "2026-01-01T00:00:00Z",
        "runningAt": "2026-01-01T00:01:00Z", "endedAt": "2026-01-01T00:11:00Z", "reason": "FromTheFuture",
        "charged": "1.50", "paidBy": "Infrastructure",
    });
    let wire: GpuJobStatus = serde_json::from_value(serde_json::json!({
        "observedGeneration": 3, "rerun": 0, "attempt": 1, "attempts": [attempt],
        "cost": {"charged": "much", "reserved": "0.00"}, "runtime": {"used": "long"},
        "outcome": {"reason": "FromTheFuture", "evidence": "seen", "at": "yesterday"},
    }))
    .unwrap();
    let Reading { status, unread } = status_from_wire(Some(&wire));
    assert_eq!(status.cost.charged.to_string(), "1.50");
    assert_eq!(status.runtime_used, SignedDuration::from_mins(10));
    assert_eq!(status.attempts[0].reason, Reason::AgentFailed);
    let outcome = status.outcome.unwrap();
    assert_eq!(outcome.finding.evidence, "FromTheFuture: seen");
    assert_eq!(outcome.at, status.attempts[0].ended_at);
    assert_eq!(
        unread,
        [
            "status.attempts[0].reason: FromTheFuture",
            "status.cost.charged: much",
            "status.runtime.used: long",
            "status.outcome.reason: FromTheFuture",
            "status.outcome.at: yesterday",
        ]
    );
}

#[test]
fn instants_and_texts_fit_what_an_api_server_accepts() {
    let finding = Finding::new(Reason::AlreadyRan, "é".repeat(5_000));
    let status =
        Status { outcome: Some(Outcome { finding, at: Timestamp::MIN }), ..Status::default() };
    let outcome = status_to_wire(&status).outcome.unwrap();
    assert_eq!(outcome.at, "0001-01-01T00:00:00Z");
    assert_eq!(outcome.evidence.chars().count(), 4_096);
    assert!(outcome.evidence.ends_with('…'));
}
