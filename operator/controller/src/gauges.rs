//! What is the case now, read from the indexes when somebody asks. No I/O.

use std::{
    collections::BTreeMap,
    fmt::{self, Debug},
    sync::Arc,
};

use leasehold_core::{
    catalog::Catalog, condition::ConditionType, lease::LeaseState, reason::Reason,
};
use leasehold_crds::{GpuJob, ledger};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use tokio::time::Instant;

use crate::{
    context::Context,
    health::{Detail, Report},
};

/// The label of a reason that this version does not know.
pub const UNKNOWN: &str = "Unknown";

/// The gauges of an operator.
pub struct Gauges(pub Arc<Context>);

impl Debug for Gauges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let context = &*self.0;
        let waiting = context.backlog.waiting(Instant::now());
        let checks = context.health.checks(context.clock.now());
        let ready = Report { checks: &checks, detail: Detail::Missing }.is_ready();
        let encoder = &mut encoder;
        let help = "Whether /readyz says that nothing is missing";
        single(encoder, "ready", help, i64::from(ready))?;
        let leads = context.leadership.leads();
        let help = "Whether this operator leads: it alone writes";
        single(encoder, "leader", help, i64::from(leads))?;
        let help = "Holders that are due and have no pass yet";
        single(encoder, "queue_depth", help, whole(waiting.count))?;
        let help = "How long the first of them has been due";
        single(encoder, "queue_oldest_seconds", help, waiting.oldest.as_secs_f64())?;
        if !leads {
            // What is true of the cluster is told once, however many operators look at it.
            return Ok(());
        }
        let help = "Leases that are not final, by state";
        family(encoder, "leases", help, "state", &leases(context))?;
        let help = "Jobs, by the reason of their condition Ready";
        family(encoder, "jobs", help, "reason", &jobs(context))?;
        let cards = cards(context);
        for (name, help, count) in [
            ("cards", "Cards that device plugins offer", 0_usize),
            ("cards_held", "Cards that pods hold or are about to hold", 1),
            ("cards_free", "Cards that a pod could get now", 2),
        ] {
            let counts =
                cards.iter().filter_map(|(card, all)| Some((card.clone(), *all.get(count)?)));
            family(encoder, name, help, "card", &counts.collect())?;
        }
        Ok(())
    }
}

fn single<N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: N,
) -> Result<(), fmt::Error>
where
    ConstGauge<N>: EncodeMetric,
{
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &'static str,
    values: &BTreeMap<String, i64>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, count) in values {
        let labels = [(label, value.as_str())];
        ConstGauge::new(*count).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Final leases that are not sealed yet are no more open than sealed ones.
fn leases(context: &Context) -> BTreeMap<String, i64> {
    let open = LeaseState::ALL.iter().filter(|state| !state.is_final());
    let mut counts: BTreeMap<String, i64> =
        open.map(|state| (state.name().to_owned(), 0)).collect();
    for lease in context.leases.holders().iter().flat_map(|holder| context.leases.of(holder)) {
        let name = ledger::state(&lease).map_or("Unreadable", LeaseState::name);
        if ledger::state(&lease).is_ok_and(LeaseState::is_final) {
            continue;
        }
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts
}

fn jobs(context: &Context) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for job in context.jobs.holders().iter().flat_map(|holder| context.jobs.of(holder)) {
        *counts.entry(ready_reason(&job).unwrap_or("None").to_owned()).or_default() += 1;
    }
    counts
}

/// The word of a job that people read; `None` before the first pass.
#[must_use]
pub fn ready_reason(job: &GpuJob) -> Option<&'static str> {
    let conditions = &job.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|one| one.type_ == ConditionType::Ready.name())?;
    Some(Reason::parse(&ready.reason).map_or(UNKNOWN, Reason::name))
}

/// All, held and free cards of each model that the cluster has.
fn cards(context: &Context) -> BTreeMap<String, [i64; 3]> {
    let catalog = Catalog::built_in();
    let ids = catalog.iter().map(|card| card.id.clone()).chain(context.card_names.all());
    ids.map(|id| (context.supply.count(&id), id))
        .filter(|(count, _)| count.nodes > 0)
        .map(|(count, id)| (id, [count.total, count.held, count.free]))
        .collect()
}
