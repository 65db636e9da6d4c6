//! What the journal counts of the changes that it is shown.

use leasehold_crds::{GpuJobSpec, GpuLeaseSpec};
use serde_json::json;

use super::*;

fn holder() -> Holder {
    Holder { namespace: "ml".into(), name: "train".into() }
}

fn lease(status: serde_json::Value) -> GpuLease {
    let spec: GpuLeaseSpec = serde_json::from_value(json!({
        "holder": {"kind": "GpuJob", "name": "train", "uid": "u", "rerun": 0, "attempt": 1},
        "card": "rtx4090", "count": 2,
        "quote": {"perHour": "3.60", "currency": "CNY"}, "reserved": "9.00",
    }))
    .unwrap();
    let mut lease = GpuLease::new("train-r0-a1", spec);
    lease.status = serde_json::from_value(status).unwrap();
    lease
}

fn held() -> GpuLease {
    lease(json!({"state": "Held", "heldAt": "2026-01-01T12:00:00Z"}))
}

fn closed(reason: &str, ended_at: &str) -> GpuLease {
    lease(json!({
        "state": "Closed", "heldAt": "2026-01-01T12:00:00Z", "endedAt": ended_at,
        "releasedBecause": reason, "paidBy": "User", "charged": "0.12", "absorbed": "0.00",
    }))
}

fn job_due_at(at: &str) -> GpuJob {
    let spec: GpuJobSpec = serde_json::from_value(json!({
        "gpu": {"cards": ["4090"]}, "image": "python", "command": ["true"],
        "maxRuntime": "1h", "budget": {"limit": "1"},
    }))
    .unwrap();
    let mut job = GpuJob::new("train", spec);
    let lease = json!({
        "name": "train-r0-a1", "card": "rtx4090", "count": 2, "ratePerHour": "7.20",
        "currency": "CNY", "endsAt": at,
    });
    job.status = serde_json::from_value(json!({"observedGeneration": 1, "lease": lease})).unwrap();
    job
}

fn ends(metrics: &Metrics, state: &'static str, reason: &'static str, payer: &'static str) -> u64 {
    metrics.ends.get_or_create(&EndLabels { state, reason, payer }).get()
}

fn printed(metrics: &Metrics) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &metrics.registry()).unwrap();
    text
}

#[test]
fn a_close_is_counted_once_with_its_money_and_time() {
    let metrics = Metrics::default();
    let journal = Journal::new(metrics.clone());
    let closed = closed("Completed", "2026-01-01T12:01:00Z");
    journal.lease(&holder(), Some(&held()), &closed);
    // The seal changes the lease again.
    journal.lease(&holder(), Some(&closed), &closed);
    // One that nobody saw open was counted by whoever saw it.
    journal.lease(&holder(), None, &closed);
    assert_eq!(ends(&metrics, "Closed", "Completed", "User"), 1);
    let text = printed(&metrics);
    for line in [
        "leasehold_charged_money_total{currency=\"CNY\"} 0.12",
        "leasehold_absorbed_money_total{currency=\"CNY\"} 0.0",
        "leasehold_held_card_seconds_total{card=\"rtx4090\",payer=\"User\"} 120.0",
        "leasehold_release_lateness_seconds_count 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn lateness_is_counted_from_the_deadline_that_the_job_showed() {
    let metrics = Metrics::default();
    let journal = Journal::new(metrics.clone());
    journal.job(&holder(), None, &job_due_at("2026-01-01T12:59:56Z"));
    let closed = closed("MaxRuntimeReached", "2026-01-01T13:00:00Z");
    journal.lease(&holder(), Some(&held()), &closed);
    assert!(printed(&metrics).contains("leasehold_release_lateness_seconds_sum 4.0"));
}

#[test]
fn lateness_of_an_ordered_stop_is_counted_from_the_order() {
    let metrics = Metrics::default();
    let journal = Journal::new(metrics.clone());
    let stop = json!({"reason": "Stopped", "evidence": "", "at": "2026-01-01T12:30:00Z"});
    let stopping = lease(json!({"state": "Held", "heldAt": "2026-01-01T12:00:00Z", "stop": stop}));
    journal.job(&holder(), None, &job_due_at("2026-01-01T13:00:00Z"));
    journal.lease(&holder(), Some(&held()), &stopping);
    journal.lease(&holder(), Some(&stopping), &stopping);
    let closed = closed("Stopped", "2026-01-01T12:30:02Z");
    journal.lease(&holder(), Some(&stopping), &closed);
    let text = printed(&metrics);
    for line in [
        "leasehold_release_lateness_seconds_sum 2.0",
        "leasehold_stops_total{reason=\"Stopped\"} 1",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_void_lease_has_no_payer_and_an_unknown_reason_no_label_of_its_own() {
    let metrics = Metrics::default();
    let journal = Journal::new(metrics.clone());
    let reserved = lease(json!({"state": "Reserved"}));
    let void = lease(json!({"state": "Void", "releasedBecause": "FromAnotherVersion"}));
    journal.lease(&holder(), Some(&reserved), &void);
    assert_eq!(ends(&metrics, "Void", "Unknown", "Nobody"), 1);
}
