//! What happened to jobs and leases, told once each: as a log line and in the counters. No I/O
//! beyond the log.
//!
//! It is read from what the watches show and not from what a pass meant to write: whoever wrote
//! it, and however often a write was tried, a change is one change. What happened before the
//! operator started, or while a watch was broken off for so long that it had to list anew, is not
//! told; the ledger is the account, this is not.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use leasehold_core::{lease::LeaseState, money::Money, observed::Holder, reason::Reason};
use leasehold_crds::{GpuJob, GpuLease, GpuLeaseStatus, ledger};

use crate::{
    gauges::{UNKNOWN, ready_reason},
    metrics::{EndLabels, HeldLabels, Metrics, MoneyLabels, StopLabels},
};

/// Compares what was known with what is.
pub struct Journal {
    metrics: Metrics,
    /// When the open leases of jobs are due: a job's status says it, and forgets it in the same
    /// write that knows the end.
    due: Mutex<HashMap<Holder, (String, Timestamp)>>,
}

impl Journal {
    /// Counts here.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, due: Mutex::default() }
    }

    /// A job as it was, if it was known, and as it is now.
    pub fn job(&self, holder: &Holder, before: Option<&GpuJob>, now: &GpuJob) {
        self.note_deadline(holder, now);
        let (was, is) = (before.and_then(ready_reason), ready_reason(now));
        let Some(reason) = is.filter(|_| was != is) else {
            return;
        };
        let status = now.status.as_ref();
        let lease = status.and_then(|status| status.lease.as_ref()).map(|lease| &lease.name);
        let ready = status.iter().flat_map(|status| &status.conditions);
        let said = ready.into_iter().find(|one| one.type_ == "Ready").map(|one| &one.message);
        tracing::info!(
            namespace = holder.namespace,
            name = holder.name,
            lease,
            reason,
            said,
            "job changed"
        );
    }

    /// A job is known without having changed.
    pub fn note_deadline(&self, holder: &Holder, job: &GpuJob) {
        let lease = job.status.as_ref().and_then(|status| status.lease.as_ref());
        let ends_at = lease.and_then(|lease| Some((lease, lease.ends_at.as_ref()?)));
        if let Some((lease, at)) = ends_at.and_then(|(lease, at)| Some((lease, instant(at)?))) {
            self.due().insert(holder.clone(), (lease.name.clone(), at));
        }
    }

    /// A lease whose changes another operator tells.
    pub fn leave_out(&self, holder: &Holder, now: &GpuLease) {
        if ledger::state(now).is_ok_and(LeaseState::is_final) {
            self.due().remove(holder);
        }
    }

    /// Forgets holders that are gone.
    pub fn keep(&self, is_known: impl Fn(&Holder) -> bool) {
        self.due().retain(|holder, _| is_known(holder));
    }

    /// A lease as it was, if it was known, and as it is now.
    pub fn lease(&self, holder: &Holder, before: Option<&GpuLease>, now: &GpuLease) {
        let is_final = |lease: &GpuLease| ledger::state(lease).is_ok_and(LeaseState::is_final);
        let Some(status) = &now.status else { return };
        let stopped = before.and_then(|lease| lease.status.as_ref()?.stop.as_ref()).is_some();
        if let Some(stop) = status.stop.as_ref().filter(|_| !stopped) {
            let reason = known(&stop.reason);
            self.metrics.stops.get_or_create(&StopLabels { reason }).inc();
            tracing::info!(
                namespace = holder.namespace,
                name = holder.name,
                lease = now.name_any(),
                reason,
                evidence = stop.evidence,
                at = stop.at,
                "stop recorded"
            );
        }
        // One that was not known as open was final before.
        if before.is_some_and(|before| !is_final(before)) && is_final(now) {
            self.ended(holder, before, now, status);
        }
    }

    fn ended(
        &self,
        holder: &Holder,
        before: Option<&GpuLease>,
        now: &GpuLease,
        status: &GpuLeaseStatus,
    ) {
        let lease = now.name_any();
        let reason = known(status.released_because.as_deref().unwrap_or_default());
        let (namespace, name) = (&holder.namespace, &holder.name);
        let due = self.due().remove(holder).filter(|(due, _)| *due == lease).map(|(_, at)| at);
        let state = ledger::state(now).map_or(UNKNOWN, LeaseState::name);
        if state == LeaseState::Void.name() {
            self.metrics.ends.get_or_create(&EndLabels { state, reason, payer: "Nobody" }).inc();
            tracing::info!(namespace, name, lease, reason, "lease void: no card was held");
            return;
        }
        let payer = payer(status.paid_by.as_deref());
        self.metrics.ends.get_or_create(&EndLabels { state, reason, payer }).inc();
        let at = |text: &Option<String>| instant(text.as_deref()?);
        let ended_at = at(&status.ended_at);
        let held = ended_at.zip(at(&status.held_at)).map(|(end, start)| end.duration_since(start));
        self.count(now, status, payer, held);
        let order = before.and_then(|lease| at_stop(lease.status.as_ref()?));
        let late = ended_at.and_then(|end| lateness(end, due, order, reason));
        if let Some(late) = late {
            self.metrics.lateness.observe(late.as_secs_f64());
        }
        tracing::info!(
            namespace,
            name,
            lease,
            reason,
            payer,
            charged = status.charged,
            absorbed = status.absorbed,
            currency = now.spec.quote.currency,
            card = now.spec.card,
            count = now.spec.count,
            node = status.node,
            held_seconds = held.map(|held| held.as_secs()),
            late_seconds = late.map(|late| late.as_secs()),
            "lease closed"
        );
    }

    /// Its money, and its time when that is known.
    fn count(
        &self,
        lease: &GpuLease,
        status: &GpuLeaseStatus,
        payer: &'static str,
        held: Option<SignedDuration>,
    ) {
        let money = MoneyLabels { currency: lease.spec.quote.currency.clone() };
        let metrics = &self.metrics;
        metrics.charged.get_or_create(&money).inc_by(units(status.charged.as_deref()));
        metrics.absorbed.get_or_create(&money).inc_by(units(status.absorbed.as_deref()));
        if let Some(held) = held {
            let card = HeldLabels { card: lease.spec.card.clone(), payer };
            let cards = f64::from(u32::try_from(lease.spec.count).unwrap_or(0));
            metrics.held.get_or_create(&card).inc_by(held.as_secs_f64().max(0.0) * cards);
        }
    }

    fn due(&self) -> MutexGuard<'_, HashMap<Holder, (String, Timestamp)>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn at_stop(status: &GpuLeaseStatus) -> Option<Timestamp> {
    instant(&status.stop.as_ref()?.at)
}

/// How long after the deadline a lease ended: of what had to end, by time, by money or by order.
/// A program that ended by itself before has no lateness.
fn lateness(
    end: Timestamp,
    due: Option<Timestamp>,
    order: Option<Timestamp>,
    reason: &str,
) -> Option<SignedDuration> {
    let deadline = due.into_iter().chain(order).min()?;
    let by_deadline = [Reason::MaxRuntimeReached, Reason::BudgetExhausted, Reason::StartupTimeout];
    let had_to =
        order.is_some() || end > deadline || by_deadline.iter().any(|known| known.name() == reason);
    had_to.then(|| end.duration_since(deadline).max(SignedDuration::ZERO))
}

/// A reason of the closed list, so that labels stay bounded.
fn known(reason: &str) -> &'static str {
    Reason::parse(reason).map_or(UNKNOWN, Reason::name)
}

fn payer(text: Option<&str>) -> &'static str {
    match text {
        Some("User") => "User",
        Some("Infrastructure") => "Infrastructure",
        _ => UNKNOWN,
    }
}

fn instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// An amount for a sum that is looked at, not paid: a double is exact enough.
#[expect(clippy::cast_precision_loss, reason = "millionths are exact up to nine billion units")]
fn units(text: Option<&str>) -> f64 {
    let money = text.and_then(|text| Money::parse(text).ok()).unwrap_or(Money::ZERO);
    money.micros() as f64 / 1_000_000.0
}

#[cfg(test)]
mod tests;
