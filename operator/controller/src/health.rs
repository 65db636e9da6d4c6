//! Whether the operator sees everything that it needs, and what is missing. No I/O; fed by the
//! watches and by [`crate::api_server`], read by [`crate::service`].
//!
//! Readiness is for people and alerts: an operator that is not ready goes on with what it has.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher;

use crate::rights::Right;

/// A watch that failed and did not fail again for so long goes on: it is tried every few seconds,
/// and a watch that stands says nothing while nothing changes.
const RECOVERED_AFTER: SignedDuration = SignedDuration::from_secs(20);

/// What the operator watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// The price list.
    Cards,
    /// All jobs.
    Jobs,
    /// Leases that may be open.
    OpenLeases,
    /// What people ask for.
    Requests,
    /// All nodes.
    Nodes,
    /// Pods of leases.
    OwnPods,
    /// Pods on nodes, whoever started them.
    PlacedPods,
}

impl Watched {
    /// All watches.
    pub const ALL: &'static [Self] = &[
        Self::Cards,
        Self::Jobs,
        Self::OpenLeases,
        Self::Requests,
        Self::Nodes,
        Self::OwnPods,
        Self::PlacedPods,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cards => "cards",
            Self::Jobs => "jobs",
            Self::OpenLeases => "open-leases",
            Self::Requests => "requests",
            Self::Nodes => "nodes",
            Self::OwnPods => "own-pods",
            Self::PlacedPods => "placed-pods",
        }
    }

    /// The kind of the objects.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Cards => "GpuCard",
            Self::Jobs => "GpuJob",
            Self::OpenLeases => "GpuLease",
            Self::Requests => "GpuRequest",
            Self::Nodes => "Node",
            Self::OwnPods | Self::PlacedPods => "Pod",
        }
    }

    /// The kind as it stands in rights and definitions.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Cards => "gpucards.leasehold.dev",
            Self::Jobs => "gpujobs.leasehold.dev",
            Self::OpenLeases => "gpuleases.leasehold.dev",
            Self::Requests => "gpurequests.leasehold.dev",
            Self::Nodes => "nodes",
            Self::OwnPods | Self::PlacedPods => "pods",
        }
    }

    /// What its task does, for people.
    #[must_use]
    pub const fn task(self) -> &'static str {
        match self {
            Self::Cards => "the watch of GpuCard (the price list)",
            Self::Jobs => "the watch of GpuJob",
            Self::OpenLeases => "the watch of GpuLease (open ones)",
            Self::Requests => "the watch of GpuRequest",
            Self::Nodes => "the watch of Node",
            Self::OwnPods => "the watch of Pod (those of leases)",
            Self::PlacedPods => "the watch of Pod (those on nodes)",
        }
    }
}

/// What is known about the operator's sources.
pub struct Health {
    inner: Mutex<Inner>,
}

struct Inner {
    begun: Timestamp,
    ending: bool,
    api_server: Option<Trouble>,
    election: Option<Trouble>,
    watches: BTreeMap<Watched, Watch>,
    missing_rights: Vec<Right>,
}

#[derive(Clone, Default)]
struct Watch {
    is_complete: bool,
    trouble: Option<Trouble>,
}

#[derive(Clone)]
struct Trouble {
    since: Timestamp,
    last: Timestamp,
    words: String,
}

/// One thing that the operator needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// What is missing; `None` when nothing is.
    pub missing: Option<String>,
}

impl Health {
    /// Nothing is known yet at this instant.
    #[must_use]
    pub fn new(begun: Timestamp) -> Self {
        let unknown = Trouble { since: begun, last: begun, words: "not asked yet".to_owned() };
        let watches = Watched::ALL.iter().map(|watched| (*watched, Watch::default())).collect();
        Self {
            inner: Mutex::new(Inner {
                begun,
                ending: false,
                api_server: Some(unknown),
                election: None,
                watches,
                missing_rights: Vec::new(),
            }),
        }
    }

    /// The operator was told to end.
    pub fn ending(&self) {
        self.lock().ending = true;
    }

    /// Whether the API server answered, or what it said instead.
    pub fn api_server(&self, now: Timestamp, answer: Result<(), String>) {
        let mut inner = self.lock();
        inner.api_server = Trouble::after(inner.api_server.take(), now, answer);
    }

    /// Whether the Lease by which operators agree could be read and written, or why not. Who waits
    /// for a leader lacks nothing.
    pub fn election(&self, now: Timestamp, answer: Result<(), String>) {
        let mut inner = self.lock();
        inner.election = Trouble::after(inner.election.take(), now, answer);
    }

    /// The rights that the API server denies. Gives those that were not known to be missing.
    pub fn missing_rights(&self, missing: Vec<Right>) -> Vec<Right> {
        let before = std::mem::replace(&mut self.lock().missing_rights, missing.clone());
        missing.into_iter().filter(|right| !before.contains(right)).collect()
    }

    /// A watch told something.
    pub fn watch_goes_on(&self, watched: Watched) {
        self.lock().watches.entry(watched).or_default().trouble = None;
    }

    /// The first list of a watch is complete.
    pub fn watch_is_complete(&self, watched: Watched) {
        self.lock().watches.entry(watched).or_default().is_complete = true;
    }

    /// A watch broke off.
    pub fn watch_failed(&self, watched: Watched, now: Timestamp, error: &watcher::Error) {
        let words = explain(watched, error);
        let mut inner = self.lock();
        let watch = inner.watches.entry(watched).or_default();
        let since = match &watch.trouble {
            Some(trouble) if trouble.is_current(now) => trouble.since,
            _ => now,
        };
        watch.trouble = Some(Trouble { since, last: now, words });
    }

    /// Everything that the operator needs, in a fixed order.
    #[must_use]
    pub fn checks(&self, now: Timestamp) -> Vec<Check> {
        let inner = self.lock();
        let mut checks = Vec::new();
        let mut check = |name: &str, missing: Option<String>| {
            checks.push(Check { name: name.to_owned(), missing });
        };
        check("shutdown", inner.ending.then(|| "the operator was told to end".to_owned()));
        check(
            "API server",
            inner.api_server.as_ref().map(|trouble| trouble.told("does not answer")),
        );
        check("leader election", inner.election.as_ref().map(|trouble| trouble.told("failing")));
        for (watched, watch) in &inner.watches {
            check(watched.task().trim_start_matches("the "), watch.missing(inner.begun, now));
        }
        let denied = inner.missing_rights.iter();
        let denied: Vec<(String, String)> =
            denied.map(|right| (format!("right to {right}"), right.words())).collect();
        if denied.is_empty() {
            check("rights", None);
        }
        for (right, words) in denied {
            check(&right, Some(words));
        }
        checks
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    fn missing(&self, begun: Timestamp, now: Timestamp) -> Option<String> {
        match &self.trouble {
            Some(trouble) if !self.is_complete || trouble.is_current(now) => {
                Some(trouble.told("failing"))
            }
            _ if self.is_complete => None,
            _ => Some(format!("since {begun:.0}: the first list is not complete yet")),
        }
    }
}

impl Trouble {
    /// What is left of a trouble after an answer.
    fn after(before: Option<Self>, now: Timestamp, answer: Result<(), String>) -> Option<Self> {
        let since = before.map_or(now, |trouble| trouble.since);
        answer.err().map(|words| Self { since, last: now, words })
    }

    fn is_current(&self, now: Timestamp) -> bool {
        now.duration_since(self.last) <= RECOVERED_AFTER
    }

    fn told(&self, what: &str) -> String {
        format!("{what} since {:.0}, last at {:.0}: {}", self.since, self.last, self.words)
    }
}

/// What broke a watch off, and the cure where there is one. One line.
fn explain(watched: Watched, error: &watcher::Error) -> String {
    let resource = watched.resource();
    let Some(status) = refusal(error) else {
        return causes(error);
    };
    if status.is_forbidden() {
        let said = one_line(&status.message);
        return format!(
            "{said}; grant the operator list and watch on {resource} (charts/leasehold/rbac.yaml)"
        );
    }
    if status.is_not_found() {
        return format!(
            "the API server does not know {resource}; install its CustomResourceDefinition \
             (kubectl apply --server-side -f crds/generated)"
        );
    }
    one_line(&status.message)
}

/// The API server's refusal, when it is one.
#[must_use]
pub fn refusal(error: &watcher::Error) -> Option<&kube::core::Status> {
    use watcher::Error as Failed;
    match error {
        Failed::InitialListFailed(kube::Error::Api(status))
        | Failed::WatchStartFailed(kube::Error::Api(status))
        | Failed::WatchFailed(kube::Error::Api(status))
        | Failed::WatchError(status) => Some(status),
        Failed::InitialListFailed(_)
        | Failed::WatchStartFailed(_)
        | Failed::WatchFailed(_)
        | Failed::NoResourceVersion => None,
    }
}

/// An error with what is behind it, each once, in one line.
#[must_use]
pub fn causes(error: &dyn Error) -> String {
    let mut words = one_line(&error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_words = one_line(&cause.to_string());
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        next = cause.source();
    }
    words
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only what is missing.
    Missing,
    /// Everything.
    All,
}

/// Checks as Kubernetes' own components print them.
pub struct Report<'a> {
    /// What was checked.
    pub checks: &'a [Check],
    /// What to print.
    pub detail: Detail,
}

impl Report<'_> {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.missing.is_none())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in self.checks {
            match &check.missing {
                Some(missing) => writeln!(out, "[-] {}: {missing}", check.name)?,
                None if self.detail == Detail::All => writeln!(out, "[+] {}: ok", check.name)?,
                None => {}
            }
        }
        if self.is_ready() {
            return out.write_str("ready\n");
        }
        let missing = self.checks.iter().filter(|check| check.missing.is_some()).count();
        writeln!(out, "not ready: {missing} of {} checks failed", self.checks.len())
    }
}

#[cfg(test)]
mod tests;
