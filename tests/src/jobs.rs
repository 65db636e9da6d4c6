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

/// Calculates a charge by hand: rate × held seconds ÷ 3600, rounded up to the millionth.
///
/// # Panics
/// When the lease says something else.
#[expect(clippy::expect_used, reason = "this is how a test fails")]
pub fn charge_is_rate_times_held_time(lease: &GpuLease, micros_per_hour: i64) {
    let status = lease.status.as_ref().expect("a closed lease has a status");
    let at = |text: &Option<String>| -> Timestamp {
        text.as_deref().and_then(|text| text.parse().ok()).expect("a closed lease has its times")
    };
    let held = at(&status.ended_at).duration_since(at(&status.held_at)).as_secs();
    let micros = (micros_per_hour * held + 3_599) / 3_600;
    let charged =
        leasehold_core::money::Money::parse(status.charged.as_deref().unwrap_or_default());
    assert_eq!(
        charged.map(leasehold_core::money::Money::micros),
        Ok(micros),
        "{held} s held: {status:?}"
    );
    assert_eq!(status.billed_seconds, Some(held));
}
