//! Counts requests by the metrics of whoever answers or makes them.

use std::{collections::BTreeMap, time::Duration};

use hyper::Request;
use kube::Client;

use crate::Failure;

/// Counts by what is counted, for example `POST pods/binding`.
pub(crate) type Counts = BTreeMap<String, f64>;

/// How long nothing may be written until it is quiet.
const QUIET: Duration = Duration::from_secs(2);
/// How many looks until it is told that it does not get quiet.
const MOST_LOOKS: usize = 30;

/// What changes objects.
const WRITES: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];
/// Groups whose objects are questions: nothing is stored.
const QUESTIONS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// One line of metrics.
struct Sample<'a> {
    name: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

impl<'a> Sample<'a> {
    /// `name{label="value",…} 12`; `None` for comments.
    fn read(line: &'a str) -> Option<Self> {
        let (left, value) = line.rsplit_once(' ')?;
        let (name, labels) = left.split_once('{').unwrap_or((left, ""));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|label| label.split_once("=\""));
        let labels = labels.map(|(label, value)| (label, value.trim_end_matches('"'))).collect();
        (!line.starts_with('#')).then_some(())?;
        Some(Self { name, labels, value: value.parse().ok()? })
    }

    fn label(&self, name: &str) -> &'a str {
        self.labels.get(name).copied().unwrap_or_default()
    }
}

/// The metrics of a server.
pub(crate) async fn metrics(client: &Client) -> Result<String, Failure> {
    Ok(client.request_text(Request::get("/metrics").body(Vec::new())?).await?)
}

/// What was written to the API server so far, leases of nodes and leaders left out.
pub(crate) async fn writes(client: &Client) -> Result<Counts, Failure> {
    let text = metrics(client).await?;
    let mut counts = Counts::new();
    for sample in text.lines().filter_map(Sample::read) {
        let (verb, group) = (sample.label("verb"), sample.label("group"));
        let is_write = sample.name == "apiserver_request_total" && WRITES.contains(&verb);
        if !is_write || QUESTIONS.contains(&group) || group == "coordination.k8s.io" {
            continue;
        }
        let what = whole(verb, sample.label("resource"), sample.label("subresource"));
        *counts.entry(refused(what, sample.label("code"))).or_default() += sample.value;
    }
    Ok(counts)
}

/// What the operator asked of the API server so far, and what it wrote.
pub(crate) async fn requests(operator: &Client) -> Result<Counts, Failure> {
    let text = metrics(operator).await?;
    let mut counts = Counts::new();
    for sample in text.lines().filter_map(Sample::read) {
        if sample.name == "leasehold_api_requests_total" {
            let what = whole(sample.label("verb"), sample.label("resource"), "");
            *counts.entry(refused(what, sample.label("code"))).or_default() += sample.value;
        }
    }
    Ok(counts)
}

/// The sum of a metric over all labels.
pub(crate) async fn sum(client: &Client, name: &str) -> Result<f64, Failure> {
    let text = metrics(client).await?;
    let samples = text.lines().filter_map(Sample::read).filter(|sample| sample.name == name);
    Ok(samples.map(|sample| sample.value).sum())
}

/// Waits until nothing is written any more.
pub(crate) async fn until_quiet(client: &Client) -> Result<Counts, Failure> {
    let mut before = writes(client).await?;
    for _ in 0..MOST_LOOKS {
        tokio::time::sleep(QUIET).await;
        let now = writes(client).await?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    Err("something is written for ever; what the API server counts says what".into())
}

/// What came in between.
pub(crate) fn between(before: &Counts, after: &Counts) -> Counts {
    let differences = after
        .iter()
        .map(|(what, count)| (what.clone(), count - before.get(what).copied().unwrap_or_default()));
    differences.filter(|(_, count)| *count > 0.0).collect()
}

fn whole(verb: &str, resource: &str, part: &str) -> String {
    let slash = if part.is_empty() { "" } else { "/" };
    format!("{verb} {resource}{slash}{part}")
}

/// An attempt that was refused costs as well.
fn refused(what: String, code: &str) -> String {
    if code.starts_with('2') || code == "101" { what } else { format!("{what} ({code})") }
}
