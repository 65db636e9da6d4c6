//! What the operator counts, in the words of Prometheus. No I/O; cannot fail.
//!
//! Counters live here and start at zero with the process. Gauges are read from the indexes when
//! somebody asks, by [`crate::gauges`]; [`crate::service`] prints both. Labels have values of
//! closed lists only (reasons, cards, verbs), never names of jobs.

use std::{sync::atomic::AtomicU64, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use crate::health::Watched;

/// Bounds of the time that a pass takes, in seconds.
const PASS_SECONDS: [f64; 10] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0];
/// Bounds of the time until the API server answers, in seconds.
const REQUEST_SECONDS: [f64; 8] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];
/// Bounds of the time from a deadline to the end of the lease, in seconds. A grace period is part
/// of it, so the range is wide.
const LATENESS_SECONDS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 1_800.0];

/// A counter of amounts that are no whole numbers.
pub type Amount = Counter<f64, AtomicU64>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// All counters. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Passes by result.
    pub passes: Family<PassLabels, Counter>,
    /// How long passes take.
    pub pass_duration: Histogram,
    /// Requests to the API server.
    pub requests: Family<RequestLabels, Counter>,
    /// How long the API server takes; watches are left out.
    pub request_duration: Histograms<CallLabels>,
    /// How often a watch broke off.
    pub watch_restarts: Family<WatchLabels, Counter>,
    /// Pods created.
    pub pods_created: Counter,
    /// Stops written into leases.
    pub stops: Family<StopLabels, Counter>,
    /// Leases that became final.
    pub ends: Family<EndLabels, Counter>,
    /// Money charged.
    pub charged: Family<MoneyLabels, Amount>,
    /// Money absorbed.
    pub absorbed: Family<MoneyLabels, Amount>,
    /// Time that cards were held.
    pub held: Family<HeldLabels, Amount>,
    /// Deadline to end.
    pub lateness: Histogram,
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PassLabels {
    /// `Done`, `Conflict`, `Transient`, `Denied`, `Refused`, `Bug` or `Panic`.
    pub result: &'static str,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// Kubernetes' verb.
    pub verb: &'static str,
    /// Resource with its subresource: `gpujobs/status`.
    pub resource: String,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Kubernetes' verb.
    pub verb: &'static str,
    /// Resource with its subresource: `gpujobs/status`.
    pub resource: String,
    /// The HTTP status, `error` when there was no answer, `timeout` when it was given up.
    pub code: String,
}

/// A watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WatchLabels {
    /// What is watched.
    pub watch: &'static str,
    /// The kind of the objects.
    pub kind: &'static str,
}

/// Why a stop was ordered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StopLabels {
    /// The reason.
    pub reason: &'static str,
}

/// How a lease ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabels {
    /// `Closed`, or `Void` when no card was held.
    pub state: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// `User`, `Infrastructure`, or `Nobody` for a void lease.
    pub payer: &'static str,
}

/// A currency.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MoneyLabels {
    /// ISO 4217.
    pub currency: String,
}

/// Who held what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HeldLabels {
    /// The card's id.
    pub card: String,
    /// Who pays.
    pub payer: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            passes: Family::default(),
            pass_duration: Histogram::new(PASS_SECONDS),
            requests: Family::default(),
            request_duration: Family::new_with_constructor(|| Histogram::new(REQUEST_SECONDS)),
            watch_restarts: Family::default(),
            pods_created: Counter::default(),
            stops: Family::default(),
            ends: Family::default(),
            charged: Family::default(),
            absorbed: Family::default(),
            held: Family::default(),
            lateness: Histogram::new(LATENESS_SECONDS),
        };
        // A counter that is there from the start can be told from one that is missing.
        for watched in Watched::ALL {
            drop(metrics.watch_restarts.get_or_create(&WatchLabels::of(*watched)));
        }
        metrics
    }
}

impl WatchLabels {
    /// Of this watch.
    #[must_use]
    pub const fn of(watched: Watched) -> Self {
        Self { watch: watched.name(), kind: watched.kind() }
    }
}

impl Metrics {
    /// Counts a pass.
    pub fn pass(&self, result: &'static str, took: Duration) {
        self.passes.get_or_create(&PassLabels { result }).inc();
        self.pass_duration.observe(took.as_secs_f64());
    }

    /// Everything with its name and help; names get `_total` and units when they are printed.
    #[must_use]
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("leasehold");
        let all = self.clone();
        registry.register(
            "build",
            "Version of the running operator",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register("passes", "Passes over a holder, by result", all.passes);
        let seconds = || Unit::Seconds;
        registry.register_with_unit(
            "pass_duration",
            "Time that a pass takes",
            seconds(),
            all.pass_duration,
        );
        registry.register("api_requests", "Requests to the API server", all.requests);
        registry.register_with_unit(
            "api_request_duration",
            "Time until the API server answers, watches left out",
            seconds(),
            all.request_duration,
        );
        registry.register(
            "watch_restarts",
            "How often a watch broke off and was started again",
            all.watch_restarts,
        );
        registry.register("pods_created", "Pods created for leases", all.pods_created);
        registry.register("stops", "Stops written into leases, by reason", all.stops);
        registry.register(
            "leases_ended",
            "Leases that became final, by reason and who pays",
            all.ends,
        );
        registry.register(
            "charged_money",
            "Charges of closed leases, in units of the currency",
            all.charged,
        );
        registry.register(
            "absorbed_money",
            "Costs of closed leases that nobody is charged, in units of the currency",
            all.absorbed,
        );
        registry.register(
            "held_card_seconds",
            "Time that cards were held by closed leases, times their number",
            all.held,
        );
        registry.register_with_unit(
            "release_lateness",
            "From the moment a program had to stop until its cards were back, grace included",
            seconds(),
            all.lateness,
        );
        registry
    }
}
