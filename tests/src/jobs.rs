//! Jobs as tests write them, and what is true of all of them.

use std::time::Duration;

use jiff::Timestamp;
use leasehold_crds::{GpuJob, GpuLease};

use crate::{suite::Stage, waiting::wait_for};

/// A namespace of its own for a test.
///
/// # Panics
/// When it cannot be created.
#[expect(clippy::expect_used, reason = "this is how a test fails")]
#[must_use]
pub fn namespace(stage: &Stage, name: &str) -> String {
    stage.playground.kubectl(&["create", "namespace", name]).expect("the namespace is new");
    name.to_owned()
}

/// Applies a job that ends by itself on a simulated node.
pub fn apply(stage: &Stage, namespace: &str, name: &str, gpu: &str) {
    apply_running_for(stage, namespace, name, gpu, "3s");
}

/// Applies a job that runs for a time on a simulated node; there the time is an environment
/// variable's value, since nothing is executed.
///
/// # Panics
/// When the API server refuses it.
#[expect(clippy::expect_used, reason = "this is how a test fails")]
pub fn apply_running_for(stage: &Stage, namespace: &str, name: &str, gpu: &str, time: &str) {
    let seconds = time.trim_end_matches('s');
    let yaml = format!(
        "apiVersion: leasehold.dev/v1alpha1
kind: GpuJob
metadata: {{name: {name}}}
spec:
  {gpu}
  image: python:3.11-slim
  command: [sleep, \"{seconds}\"]
  maxRuntime: 20m
  budget: {{limit: \"1\"}}
"
    );
    stage.playground.apply(namespace, &yaml).expect("the job is in order");
}

/// Waits until the word that people read is this one, and gives its message.
///
/// # Panics
/// When it is not within the time.
#[expect(clippy::must_use_candidate, reason = "callers want the wait, not always the words")]
pub fn until_ready_is(
    stage: &Stage,
    namespace: &str,
    name: &str,
    reason: &str,
    limit: Duration,
) -> String {
    wait_for(&format!("{namespace}/{name} is {reason}"), limit, || {
        let job: Option<GpuJob> =
            stage.playground.get(namespace, "gpujob", name).map_err(|error| error.to_string())?;
        let status = job.and_then(|job| job.status).ok_or("no status")?;
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .ok_or("not seen yet")?;
        if ready.reason == reason {
            Ok(ready.message.clone())
        } else {
            Err(format!("{}: {}", ready.reason, ready.message))
        }
    })
}

/// What a closed lease must cost: rate × held seconds ÷ 3600, rounded up to the millionth;
/// calculated here from the texts of the lease, not by the rules under test. `None` for a lease
/// that is not closed or whose payer is not the user.
#[must_use]
pub fn charge_by_hand(lease: &GpuLease) -> Option<String> {
    let status = lease.status.as_ref()?;
    let at = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    let held = i128::from(at(&status.ended_at)?.duration_since(at(&status.held_at)?).as_secs());
    let (units, decimals) = lease.spec.quote.per_hour.split_once('.')?;
    let per_hour: i128 = format!("{units}{decimals:0<6}").parse().ok()?;
    let micros = (per_hour * i128::from(lease.spec.count) * held + 3_599) / 3_600;
    let mut text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    while text.ends_with('0') && !text.ends_with(".00") && text.len() - text.find('.')? > 3 {
        text.pop();
    }
    (status.paid_by.as_deref() == Some("User")).then_some(text)
}

/// The charge of a closed lease is that of its held time.
///
/// # Panics
/// When the lease says something else.
pub fn charge_is_rate_times_held_time(lease: &GpuLease) {
    let charged = lease.status.as_ref().and_then(|status| status.charged.clone());
    assert!(charged.is_some(), "not closed: {lease:?}");
    assert_eq!(charged, charge_by_hand(lease), "{:?}", lease.status);
}
