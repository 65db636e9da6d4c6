//! Leases between the wire and the core's values. Pure.
//!
//! A lease is made from its terms, its status from what the plan says; [`lease_facts`] reads an
//! open lease for [`leasehold_core::decide`], [`past_run`] reads any lease as a line of history.

use jiff::SignedDuration;
use kube::{ResourceExt, api::ObjectMeta};
use leasehold_core::{
    lease::{Held, LeaseState, Stop, Terms},
    money::Money,
    observed::{Holder, LeaseFacts, PastRun},
    plan::Closing,
    reason::{Finding, Reason},
};

use crate::{
    lease::{GpuLease, GpuLeaseSpec, GpuLeaseStatus, LeaseHolder, LeaseStop, Quote},
    names::FINALIZER_LEDGER,
    schema::LONGEST_MESSAGE,
    status::{clipped, read, write},
};

/// A field of a lease that cannot be read; the lease needs an engineer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The lease.
    pub lease: String,
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub value: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "lease {} has an unreadable {}: {:?}", self.lease, self.field, self.value)
    }
}

impl std::error::Error for Unreadable {}

/// The lease to create for a holder of kind `GpuJob`: in its namespace, without an owner, so that
/// it outlives it.
#[must_use]
pub fn lease(terms: &Terms, holder: &Holder, holder_uid: &str) -> GpuLease {
    GpuLease {
        metadata: ObjectMeta {
            name: Some(terms.name.clone()),
            namespace: Some(holder.namespace.clone()),
            finalizers: Some(vec![FINALIZER_LEDGER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: GpuLeaseSpec {
            holder: LeaseHolder {
                kind: "GpuJob".to_owned(),
                name: holder.name.clone(),
                uid: holder_uid.to_owned(),
                rerun: terms.rerun,
                spec_hash: terms.spec_hash.clone(),
                attempt: terms.attempt.into(),
            },
            card: terms.card.clone(),
            count: terms.count.into(),
            quote: Quote { per_hour: terms.per_hour.to_string(), currency: terms.currency.clone() },
            reserved: terms.reserved.to_string(),
        },
        status: None,
    }
}

/// The status of a lease whose pod holds its cards.
#[must_use]
pub fn held_status(
    terms: &Terms,
    pod_uid: &str,
    node: &str,
    held: Held,
    stop: Option<&Stop>,
) -> GpuLeaseStatus {
    GpuLeaseStatus {
        state: LeaseState::Held.name().to_owned(),
        pod_uid: Some(pod_uid.to_owned()),
        node: Some(node.to_owned()),
        rate_per_hour: Some(terms.rate().per_hour().to_string()),
        held_at: Some(write::instant(held.at)),
        running_at: held.running_at.map(write::instant),
        stop: stop.map(|stop| LeaseStop {
            reason: stop.finding.reason.name().to_owned(),
            evidence: clipped(&stop.finding.evidence, LONGEST_MESSAGE),
            at: write::instant(stop.at),
        }),
        ..GpuLeaseStatus::default()
    }
}

/// The final status of a lease that held cards.
#[must_use]
pub fn closed_status(terms: &Terms, closing: &Closing) -> GpuLeaseStatus {
    GpuLeaseStatus {
        state: LeaseState::Closed.name().to_owned(),
        pod_uid: closing.pod_uid.clone(),
        node: closing.node.clone(),
        rate_per_hour: Some(terms.rate().per_hour().to_string()),
        held_at: Some(write::instant(closing.held.at)),
        running_at: closing.held.running_at.map(write::instant),
        stop: None,
        ended_at: Some(write::instant(closing.ended_at)),
        end_known: Some(closing.end_known.name().to_owned()),
        released_because: Some(closing.finding.reason.name().to_owned()),
        message: Some(clipped(&closing.finding.message(), LONGEST_MESSAGE)),
        paid_by: Some(write::payer(closing.paid_by).to_owned()),
        billed_seconds: Some(closing.bill.billed_seconds),
        charged: Some(closing.bill.charged.to_string()),
        absorbed: Some(closing.bill.absorbed.to_string()),
    }
}

/// The final status of a lease that never held a card; it costs nothing.
#[must_use]
pub fn void_status(reason: Reason) -> GpuLeaseStatus {
    GpuLeaseStatus {
        state: LeaseState::Void.name().to_owned(),
        released_because: Some(reason.name().to_owned()),
        message: Some(reason.meaning().to_owned()),
        charged: Some(Money::ZERO.to_string()),
        ..GpuLeaseStatus::default()
    }
}

/// The terms of a lease.
pub fn terms(lease: &GpuLease) -> Result<Terms, Unreadable> {
    let spec = &lease.spec;
    let money = |field: &'static str, text: &str| {
        Money::parse(text).map_err(|_| unreadable(lease, field, text))
    };
    let number = |field: &'static str, number: i64| {
        u32::try_from(number).map_err(|_| unreadable(lease, field, &number.to_string()))
    };
    Ok(Terms {
        name: lease.name_any(),
        rerun: spec.holder.rerun,
        spec_hash: spec.holder.spec_hash.clone(),
        attempt: number("spec.holder.attempt", spec.holder.attempt)?,
        card: spec.card.clone(),
        count: number("spec.count", spec.count)?,
        per_hour: money("spec.quote.perHour", &spec.quote.per_hour)?,
        currency: spec.quote.currency.clone(),
        reserved: money("spec.reserved", &spec.reserved)?,
    })
}

/// Where a lease stands; a lease without a status is reserved.
pub fn state(lease: &GpuLease) -> Result<LeaseState, Unreadable> {
    let name = lease.status.as_ref().map_or("", |status| status.state.as_str());
    if name.is_empty() {
        return Ok(LeaseState::Reserved);
    }
    let found = LeaseState::ALL.iter().find(|state| state.name() == name);
    found.copied().ok_or_else(|| unreadable(lease, "status.state", name))
}

/// What rules need of a lease that is not final; `None` for a final one.
pub fn lease_facts(lease: &GpuLease) -> Result<Option<LeaseFacts>, Unreadable> {
    let state = state(lease)?;
    if state.is_final() {
        return Ok(None);
    }
    let status = lease.status.clone().unwrap_or_default();
    let at = |field: &'static str, text: Option<&String>| {
        text.map(|text| read::instant(text).ok_or_else(|| unreadable(lease, field, text)))
            .transpose()
    };
    let running_at = at("status.runningAt", status.running_at.as_ref())?;
    let held = at("status.heldAt", status.held_at.as_ref())?.map(|at| Held { at, running_at });
    if state == LeaseState::Held && held.is_none() {
        return Err(unreadable(lease, "status.heldAt", ""));
    }
    Ok(Some(LeaseFacts {
        uid: lease.uid().unwrap_or_default(),
        terms: terms(lease)?,
        holder_uid: lease.spec.holder.uid.clone(),
        state,
        pod_uid: status.pod_uid,
        node: status.node,
        held,
        stop: status.stop.as_ref().map(|stop| read_stop(lease, stop)).transpose()?,
    }))
}

fn read_stop(lease: &GpuLease, stop: &LeaseStop) -> Result<Stop, Unreadable> {
    let reason = Reason::parse(&stop.reason)
        .ok_or_else(|| unreadable(lease, "status.stop.reason", &stop.reason))?;
    let at =
        read::instant(&stop.at).ok_or_else(|| unreadable(lease, "status.stop.at", &stop.at))?;
    Ok(Stop { finding: Finding::new(reason, stop.evidence.clone()), at })
}

/// A lease as a line of history. It survives anything: what cannot be read counts as held and
/// costs what was reserved, so that no run starts twice and no charge is forgotten.
#[must_use]
pub fn past_run(lease: &GpuLease) -> PastRun {
    let status = lease.status.clone().unwrap_or_default();
    let state = state(lease).ok();
    let charged = match (state, status.charged.as_deref()) {
        (Some(LeaseState::Reserved | LeaseState::Held | LeaseState::Void), None) => {
            Some(Money::ZERO)
        }
        (_, text) => text.and_then(|text| Money::parse(text).ok()),
    };
    let instant = |text: Option<&str>| text.and_then(read::instant);
    let ran = instant(status.running_at.as_deref())
        .zip(instant(status.ended_at.as_deref()))
        .map_or(SignedDuration::ZERO, |(start, end)| end.duration_since(start));
    let worst = || Money::parse(&lease.spec.reserved).unwrap_or_default();
    PastRun {
        rerun: lease.spec.holder.rerun,
        spec_hash: lease.spec.holder.spec_hash.clone(),
        attempt: u32::try_from(lease.spec.holder.attempt.max(0)).unwrap_or(u32::MAX),
        lease: lease.name_any(),
        was_held: !matches!(state, Some(LeaseState::Reserved | LeaseState::Void)),
        reason: status.released_because.as_deref().and_then(Reason::parse),
        ended_at: instant(status.ended_at.as_deref()),
        ran: ran.max(SignedDuration::ZERO),
        charged: charged.unwrap_or_else(worst),
        currency: lease.spec.quote.currency.clone(),
    }
}

fn unreadable(lease: &GpuLease, field: &'static str, value: &str) -> Unreadable {
    Unreadable { lease: lease.name_any(), field, value: value.to_owned() }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{
        lease::EndKnown,
        reason::{Finding, Payer},
    };

    use super::*;
    use jiff::Timestamp;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn the_terms() -> Terms {
        Terms {
            name: "train-r1-a2".into(),
            rerun: 1,
            spec_hash: Some("v1:00".into()),
            attempt: 2,
            card: "rtx4090".into(),
            count: 2,
            per_hour: Money::parse("2.10").unwrap(),
            currency: "CNY".into(),
            reserved: Money::parse("25").unwrap(),
        }
    }

    fn reserved() -> GpuLease {
        lease(&the_terms(), &Holder { namespace: "ml".into(), name: "train".into() }, "uid-1")
    }

    fn closed() -> GpuLeaseStatus {
        let held = Held { at: at(100), running_at: Some(at(160)) };
        let closing = Closing {
            lease: "train-r1-a2".into(),
            pod_uid: Some("pod-1".into()),
            node: Some("node-1".into()),
            held,
            ended_at: at(3_700),
            end_known: EndKnown::Kubelet,
            finding: Finding::new(Reason::Completed, "exit code 0"),
            paid_by: Payer::User,
            bill: the_terms().bill(held, at(3_700), at(9_000), Payer::User),
        };
        closed_status(&the_terms(), &closing)
    }

    #[test]
    fn the_terms_survive_the_ledger() {
        let lease = reserved();
        assert_eq!(terms(&lease).unwrap(), the_terms());
        assert_eq!(lease.finalizers(), [FINALIZER_LEDGER]);
        assert!(lease.owner_references().is_empty(), "a lease outlives its holder");
    }

    #[test]
    fn a_lease_without_status_is_reserved_and_a_held_one_says_since_when() {
        let mut lease = reserved();
        let facts = lease_facts(&lease).unwrap().unwrap();
        assert_eq!((facts.state, facts.held), (LeaseState::Reserved, None));
        let held = Held { at: at(100), running_at: None };
        lease.status = Some(held_status(&the_terms(), "pod-1", "node-1", held, None));
        let facts = lease_facts(&lease).unwrap().unwrap();
        assert_eq!((facts.state, facts.held), (LeaseState::Held, Some(held)));
        assert_eq!(facts.pod_uid.as_deref(), Some("pod-1"));
    }

    #[test]
    fn a_final_lease_is_history_only() {
        let mut lease = reserved();
        lease.status = Some(closed());
        assert_eq!(lease_facts(&lease).unwrap(), None);
        let past = past_run(&lease);
        assert_eq!((past.was_held, past.charged.to_string()), (true, "4.20".into()));
        assert_eq!((past.reason, past.ended_at), (Some(Reason::Completed), Some(at(3_700))));
        assert_eq!(past.ran, SignedDuration::from_secs(3_540));
        lease.status = Some(void_status(Reason::PodUnbound));
        let past = past_run(&lease);
        assert_eq!((past.was_held, past.charged), (false, Money::ZERO));
    }

    #[test]
    fn an_unreadable_lease_costs_what_was_reserved_and_is_reported() {
        let mut lease = reserved();
        lease.status = Some(GpuLeaseStatus { charged: Some("much".into()), ..closed() });
        assert_eq!(past_run(&lease).charged.to_string(), "25.00");
        lease.status = Some(GpuLeaseStatus { state: "Lent".into(), ..GpuLeaseStatus::default() });
        let past = past_run(&lease);
        assert_eq!((past.was_held, past.charged.to_string()), (true, "25.00".into()));
        let words = lease_facts(&lease).unwrap_err().to_string();
        assert_eq!(words, "lease train-r1-a2 has an unreadable status.state: \"Lent\"");
        lease.status = Some(GpuLeaseStatus { state: "Held".into(), ..GpuLeaseStatus::default() });
        assert!(lease_facts(&lease).is_err());
    }
}
