//! Reads what a pass needs: from the watches' indexes, and from the server where the ledger must
//! be known for certain. Read-only.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leasehold_core::{
    desired::Desired,
    lease::LeaseState,
    observed::{Holder, LeaseFacts, Market, Object, Observed, PastRun, needs_ledger},
    pod::PodFacts,
    reason::Finding,
};
use leasehold_crds::{GpuJob, GpuLease, GpuRequest, desire, ledger, request, status_from_wire};

use crate::{context::Context, error::Error, pod::facts::pod_facts};

/// What was seen of a holder.
pub struct Seen {
    /// Its object.
    pub job: Option<Arc<GpuJob>>,
    /// What the object wants, or why it cannot be used.
    pub desired: Option<Result<Desired, Finding>>,
    /// Its pods as they are on the wire.
    pub pods: Vec<Arc<Pod>>,
    /// Its open lease as it is on the wire.
    pub lease: Option<Arc<GpuLease>>,
    /// Final leases that are not sealed yet.
    pub unsealed: Vec<Arc<GpuLease>>,
    /// Requests about it, oldest first.
    pub requests: Vec<Arc<GpuRequest>>,
    object: Option<Object>,
    lease_facts: Option<LeaseFacts>,
    pod_facts: Vec<PodFacts>,
    ledger: Vec<PastRun>,
    refused: Option<String>,
}

impl Seen {
    /// When the object was created, in seconds: the order of service.
    #[must_use]
    pub fn created(&self) -> i64 {
        self.job
            .as_ref()
            .and_then(|job| job.metadata.creation_timestamp.as_ref())
            .map_or(i64::MIN, |time| time.0.as_second())
    }

    /// Neither the object nor an open lease of it is there.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.job.is_none() && self.lease.is_none()
    }

    /// The facts that a decision reads.
    #[must_use]
    pub fn with<'a>(&self, market: &'a Market, node_patience: SignedDuration) -> Observed<'a> {
        Observed {
            object: self.object.clone(),
            lease: self.lease_facts.clone(),
            pods: self.pod_facts.clone(),
            ledger: self.ledger.clone(),
            requests: self.requests.iter().filter_map(|asked| request::observed(asked)).collect(),
            unsealed: self.unsealed.iter().map(|lease| lease.name_any()).collect(),
            node_patience,
            refused: self.refused.clone(),
            market,
        }
    }
}

/// Looks at everything that belongs to a holder.
///
/// The indexes are fed by watches of their own and may lag behind each other, or lack an object
/// that cannot be decoded. So whatever would end or start something because it is *missing* is
/// asked for at the server first.
///
/// # Errors
/// A read that failed.
pub async fn observe(context: &Context, holder: &Holder) -> Result<Seen, Error> {
    let mut job = context.jobs.of(holder).into_iter().next();
    let mut pods = context.pods.of(holder);
    let leases = context.leases.of(holder);
    let (unsealed, open): (Vec<_>, Vec<_>) = leases.into_iter().partition(|lease| is_final(lease));
    let lease = match open.into_iter().max_by_key(|lease| attempt_of(lease)) {
        Some(lease) => confirmed(context, holder, lease, &pods).await?,
        None => unseen_lease(context, holder, job.as_deref(), &pods).await?,
    };
    if let Some(lease) = &lease {
        let name = lease.name_any();
        if !pods.iter().any(|pod| pod.name_any() == name) {
            let pod = context.cluster.read_pod(&holder.namespace, &name).await?;
            pods.extend(pod.map(Arc::new));
        }
    }
    let requests = requests(context, holder);
    let has_lease_or_pod = lease.is_some() || !pods.is_empty();
    let missed = job.is_none() && (has_lease_or_pod || requests.iter().any(|asked| waits(asked)));
    if missed || lease.as_deref().is_some_and(|lease| is_deleted_without_order(lease, &pods)) {
        job = context.cluster.read_job(holder).await?.map(Arc::new);
    }
    let object = job.as_ref().map(|job| object(job));
    let desired = job.as_ref().map(|job| desire(job, &context.settings));
    let is_unknown_run = match (&object, &desired) {
        (Some(object), Some(Ok(desired))) => {
            lease.is_none() && needs_ledger(&object.status, desired)
        }
        _ => false,
    };
    let past = if is_unknown_run { context.cluster.leases_of(holder).await? } else { Vec::new() };
    let newest = lease.as_ref().map(|lease| lease.name_any()).or_else(|| named(job.as_deref()));
    Ok(Seen {
        desired,
        object,
        lease_facts: lease.as_deref().map(facts).transpose()?.flatten(),
        pod_facts: pods.iter().filter_map(|pod| pod_facts(pod)).collect(),
        ledger: past.iter().map(ledger::past_run).collect(),
        refused: newest.and_then(|name| context.refusals.of(holder, &name)),
        job,
        pods,
        lease,
        unsealed,
        requests,
    })
}

fn facts(lease: &GpuLease) -> Result<Option<LeaseFacts>, Error> {
    ledger::lease_facts(lease).map_err(|why| Error::Unreadable {
        what: format!("lease {}/{}", lease.namespace().unwrap_or_default(), lease.name_any()),
        why: why.to_string(),
    })
}

/// Oldest first.
fn requests(context: &Context, holder: &Holder) -> Vec<Arc<GpuRequest>> {
    let mut requests = context.requests.of(holder);
    requests.sort_by_key(|asked| (asked.creation_timestamp(), asked.name_any()));
    requests
}

/// Has no answer yet.
fn waits(asked: &GpuRequest) -> bool {
    request::observed(asked).is_some_and(|request| request.answered_at.is_none())
}

/// The order in which leases of one holder were reserved. Their names have it too, but as text.
fn attempt_of(lease: &GpuLease) -> (i64, i64) {
    (lease.spec.holder.rerun, lease.spec.holder.attempt)
}

/// A pod goes without a stop in its lease: the deletion of its job may not be in the index yet.
fn is_deleted_without_order(lease: &GpuLease, pods: &[Arc<Pod>]) -> bool {
    let ordered = lease.status.as_ref().is_some_and(|status| status.stop.is_some());
    !ordered && pods.iter().any(|pod| pod.metadata.deletion_timestamp.is_some())
}

/// One that cannot be read is not final: nothing new may start beside it.
fn is_final(lease: &GpuLease) -> bool {
    ledger::state(lease).is_ok_and(LeaseState::is_final)
}

fn object(job: &GpuJob) -> Object {
    let reading = status_from_wire(job.status.as_ref());
    for unread in &reading.unread {
        tracing::warn!(namespace = job.namespace(), name = job.name_any(), %unread, "part of a status cannot be read");
    }
    Object {
        uid: job.uid().unwrap_or_default(),
        generation: job.metadata.generation.unwrap_or(0),
        deletion_requested: job.metadata.deletion_timestamp.is_some(),
        status: reading.status,
    }
}

/// A lease whose pod is not in the index may have been closed since.
async fn confirmed(
    context: &Context,
    holder: &Holder,
    lease: Arc<GpuLease>,
    pods: &[Arc<Pod>],
) -> Result<Option<Arc<GpuLease>>, Error> {
    let name = lease.name_any();
    if pods.iter().any(|pod| pod.name_any() == name) {
        return Ok(Some(lease));
    }
    let stored = context.cluster.read_lease(&holder.namespace, &name).await?;
    Ok(stored.filter(|lease| !is_final(lease)).map(Arc::new))
}

/// The lease that the status speaks of.
fn named(job: Option<&GpuJob>) -> Option<String> {
    Some(job?.status.as_ref()?.lease.as_ref()?.name.clone())
}

/// An open lease of which only a status or a pod speaks yet.
async fn unseen_lease(
    context: &Context,
    holder: &Holder,
    job: Option<&GpuJob>,
    pods: &[Arc<Pod>],
) -> Result<Option<Arc<GpuLease>>, Error> {
    let live = pods
        .iter()
        .filter_map(|pod| pod_facts(pod))
        .filter(|pod| pod.metered || !pod.is_over)
        .map(|pod| pod.name);
    for name in named(job).into_iter().chain(live) {
        let stored = context.cluster.read_lease(&holder.namespace, &name).await?;
        let own = |lease: &GpuLease| lease.spec.holder.name == holder.name && !is_final(lease);
        if let Some(lease) = stored.filter(own) {
            return Ok(Some(Arc::new(lease)));
        }
    }
    Ok(None)
}
