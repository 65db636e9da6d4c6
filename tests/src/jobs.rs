//! Jobs as tests write them, and what is true of all of them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use leasehold_core::money::Money;
use leasehold_crds::{GpuJob, GpuLease, GpuLeaseStatus};
use serde_json::Value;

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

/// A job for tests, as YAML.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    name: &'a str,
    gpu: &'a str,
    image: &'a str,
    program: String,
    limits: String,
    environment: Vec<String>,
}

impl<'a> Job<'a> {
    /// One RTX 4090 for a program that ends at once.
    #[must_use]
    pub fn named(name: &'a str) -> Self {
        Self {
            name,
            gpu: "gpu: {cards: [4090]}",
            image: "python:3.11-slim",
            program: "command: [\"true\"]".to_owned(),
            limits: "maxRuntime: 20m".to_owned(),
            environment: Vec::new(),
        }
    }

    /// Other cards: the whole line.
    #[must_use]
    pub fn on(self, gpu: &'a str) -> Self {
        Self { gpu, ..self }
    }

    /// Another image.
    #[must_use]
    pub fn from_image(self, image: &'a str) -> Self {
        Self { image, ..self }
    }

    /// Another program: the whole line.
    #[must_use]
    pub fn running(self, program: &str) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    /// Other limits: whole lines, `maxRuntime` among them.
    #[must_use]
    pub fn within(self, limits: &str) -> Self {
        Self { limits: limits.replace('\n', "\n  "), ..self }
    }

    /// How long it runs on a simulated node, where nothing is executed.
    #[must_use]
    pub fn simulated_for(self, time: &str) -> Self {
        self.with("PLAYGROUND_RUN_FOR", time)
    }

    /// On a simulated node its agent does not hear the order to stop.
    #[must_use]
    pub fn deaf(self) -> Self {
        self.with("PLAYGROUND_DEAF", "yes")
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{{name: {name}, value: \"{value}\"}}"));
        self
    }

    /// The manifest.
    #[must_use]
    pub fn yaml(&self) -> String {
        let Self { name, gpu, image, program, limits, environment } = self;
        // Not there when empty: other limits may bring their own.
        let environment = match environment.as_slice() {
            [] => String::new(),
            some => format!("env: [{}]", some.join(", ")),
        };
        format!(
            "apiVersion: leasehold.dev/v1alpha1
kind: GpuJob
metadata: {{name: {name}}}
spec:
  {gpu}
  image: {image}
  {program}
  {limits}
  {environment}
  budget: {{limit: \"1\"}}
"
        )
    }

    /// Applies it.
    ///
    /// # Panics
    /// When the API server refuses it.
    #[expect(clippy::expect_used, reason = "this is how a test fails")]
    pub fn apply(&self, stage: &Stage, namespace: &str) {
        stage.playground.apply(namespace, &self.yaml()).expect("the job is in order");
    }
}

/// Waits until the word that people read is this one, and gives its message.
///
/// # Panics
/// When it is not within the time.
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

/// Rate × seconds ÷ 3600, rounded up to the millionth; calculated here from the texts of a lease, not
/// by the rules under test. `None` for a rate that cannot be read.
fn cost_by_hand(lease: &GpuLease, seconds: i64) -> Option<Money> {
    let per_hour = Money::parse(&lease.spec.quote.per_hour).ok()?.micros();
    let micros = i128::from(per_hour) * i128::from(lease.spec.count) * i128::from(seconds);
    Some(Money::from_micros(i64::try_from((micros + 3_599) / 3_600).ok()?))
}

/// The bill of a closed lease is right, whoever pays: charge and what is absorbed are the cost of the
/// held time, in which a started second counts. Beyond the order to end the user pays for the grace
/// period only.
///
/// # Errors
/// What is wrong.
pub fn check_bill(lease: &GpuLease) -> Result<(), String> {
    let status = lease.status.as_ref().ok_or("no status")?;
    let at = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    let money = |text: &Option<String>| Money::parse(text.as_deref()?).ok();
    let wrong = |what: &str| format!("{what}: {status:?}");
    let (held, ended) =
        at(&status.held_at).zip(at(&status.ended_at)).ok_or_else(|| wrong("no times"))?;
    let time = ended.duration_since(held);
    let seconds = time.as_secs() + i64::from(time.subsec_nanos() > 0);
    let (charged, absorbed) =
        money(&status.charged).zip(money(&status.absorbed)).ok_or_else(|| wrong("no amounts"))?;
    if Some(charged.plus(absorbed)) != cost_by_hand(lease, seconds) {
        return Err(wrong("charge and what is absorbed are not the cost of the held time"));
    }
    if status.paid_by.as_deref() != Some("User") {
        return if charged == Money::ZERO { Ok(()) } else { Err(wrong("a charge for nobody")) };
    }
    let billed = status.billed_seconds.ok_or_else(|| wrong("no billed time"))?;
    if Some(charged) != cost_by_hand(lease, billed) {
        return Err(wrong("the charge is not the cost of the billed time"));
    }
    let ordered = [
        "MaxRuntimeReached",
        "BudgetExhausted",
        "Stopped",
        "HolderDeleted",
        "PodDeleted",
        "PodChanged",
    ];
    let reason = status.released_because.as_deref().unwrap_or_default();
    if billed == seconds || (billed < seconds && ordered.contains(&reason)) {
        Ok(())
    } else {
        Err(wrong("the billed time is not the held time"))
    }
}

/// The bill of a lease is right.
///
/// # Panics
/// When it is not.
pub fn is_billed_right(lease: &GpuLease) {
    assert_eq!(check_bill(lease), Ok(()));
}

/// The only lease of a job that ran once, once it is final: it says why the cards came back, its
/// payer's charge is right, and its pod holds nothing.
///
/// # Panics
/// When anything of it is otherwise.
pub fn ended_as(
    stage: &Stage,
    namespace: &str,
    job: &str,
    (reason, payer): (&str, &str),
    limit: Duration,
) -> GpuLeaseStatus {
    let name = format!("{job}-r0-a1");
    let lease = closed_lease(stage, namespace, &name, limit);
    let status = lease.status.clone().unwrap_or_default();
    let said = (status.released_because.as_deref(), status.paid_by.as_deref());
    assert_eq!(said, (Some(reason), Some(payer)), "{namespace}/{job}: {status:?}");
    assert!(status.message.as_deref().is_some_and(|words| !words.is_empty()), "{status:?}");
    is_billed_right(&lease);
    assert_eq!(leases_of(stage, namespace, job), std::slice::from_ref(&name), "{namespace}/{job}");
    wait_for(&format!("{namespace}/{name} holds nothing"), limit, || {
        let pod: Option<Pod> =
            stage.playground.get(namespace, "pod", &name).map_err(|error| error.to_string())?;
        let Some(pod) = pod else { return Ok(()) };
        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
        let is_over = matches!(phase.as_str(), "Succeeded" | "Failed");
        if is_over && pod.metadata.finalizers.is_none() { Ok(()) } else { Err(phase) }
    });
    status
}

/// Names of the leases of a job.
#[expect(clippy::expect_used, reason = "this is how a test fails")]
fn leases_of(stage: &Stage, namespace: &str, job: &str) -> Vec<String> {
    let leases = stage.playground.list(namespace, "gpuleases").expect("leases can be listed");
    let text = |lease: &Value, path| lease.pointer(path)?.as_str().map(str::to_owned);
    let own =
        leases.iter().filter(|lease| text(lease, "/spec/holder/name").as_deref() == Some(job));
    own.filter_map(|lease| text(lease, "/metadata/name")).collect()
}

/// How many pods the operator has made in a namespace, by the audit log.
///
/// # Panics
/// When there is no log.
#[expect(clippy::expect_used, reason = "this is how a test fails")]
#[must_use]
pub fn pods_made(stage: &Stage, namespace: &str) -> usize {
    let log = std::fs::read_to_string(stage.playground.directory().join("audit.log"));
    let log = log.expect("the API server writes it");
    let is_of_it = |event: &Value| {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        (text("/verb"), text("/objectRef/resource")) == ("create", "pods")
            && text("/objectRef/namespace") == namespace
            && event.pointer("/responseStatus/code").and_then(Value::as_u64) == Some(201)
    };
    // The last line may still be being written.
    let events = log.lines().filter_map(|line| serde_json::from_str(line).ok());
    events.filter(is_of_it).count()
}

/// The lease of this name, once it is final.
pub fn closed_lease(stage: &Stage, namespace: &str, name: &str, limit: Duration) -> GpuLease {
    wait_for(&format!("lease {namespace}/{name} is final"), limit, || {
        let lease: Option<GpuLease> =
            stage.playground.get(namespace, "gpulease", name).map_err(|error| error.to_string())?;
        let lease = lease.ok_or("there is none")?;
        let word = lease.status.as_ref().map(|status| status.state.clone()).unwrap_or_default();
        if word == "Closed" || word == "Void" { Ok(lease) } else { Err(word) }
    })
}

/// Waits until no pod of a namespace is left.
pub fn until_no_pod_is_left(stage: &Stage, namespace: &str, limit: Duration) {
    wait_for(&format!("no pod is left in {namespace}"), limit, || {
        let pods = stage.playground.list(namespace, "pods").map_err(|error| error.to_string())?;
        if pods.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.len())) }
    });
}

/// Waits until no pod of a namespace runs or waits to end.
pub fn until_no_pod_runs(stage: &Stage, namespace: &str, limit: Duration) {
    wait_for(&format!("no pod runs in {namespace}"), limit, || {
        let pods = stage.playground.list(namespace, "pods").map_err(|error| error.to_string())?;
        let phase = |pod: &Value| {
            pod.pointer("/status/phase").and_then(|phase| phase.as_str()).map(str::to_owned)
        };
        let live: Vec<_> = pods
            .iter()
            .filter_map(phase)
            .filter(|phase| !matches!(phase.as_str(), "Succeeded" | "Failed"))
            .collect();
        if live.is_empty() { Ok(()) } else { Err(format!("{live:?}")) }
    });
}

/// Seconds from the program's start to the end of its lease, by the kubelet's stamps; -1 when it
/// never ran.
#[must_use]
pub fn ran_for(status: &GpuLeaseStatus) -> i64 {
    let at = |text: &Option<String>| text.as_deref()?.parse::<Timestamp>().ok();
    let ran = at(&status.running_at).zip(at(&status.ended_at));
    ran.map_or(-1, |(start, end)| end.duration_since(start).as_secs())
}

/// The present time, to compare with what objects say.
#[must_use]
pub fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "deadlines of real programs are in real time")]
    Timestamp::now()
}
