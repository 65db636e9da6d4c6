//! Reads what a pass needs: from the watches' indexes, and from the server where the ledger must
//! be known for certain. Read-only.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leasehold_core::{
    lease::LeaseState,
    observed::{Holder, LeaseFacts, Market, Object, Observed, PastRun, needs_ledger},
    pod::PodFacts,
};
use leasehold_crds::{GpuJob, GpuLease, ledger, status_from_wire};

use crate::{context::Context, error::Error, pod::facts::pod_facts};

/// What was seen of a holder.
pub struct Seen {
    /// Its object.
    pub job: Option<Arc<GpuJob>>,
    /// Its pods as they are on the wire.
    pub pods: Vec<Arc<Pod>>,
    /// Its open lease as it is on the wire.
    pub lease: Option<Arc<GpuLease>>,
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

    /// The facts that a decision reads.
    #[must_use]
    pub fn with<'a>(&self, market: &'a Market) -> Observed<'a> {
        Observed {
            object: self.object.clone(),
            lease: self.lease_facts.clone(),
            pods: self.pod_facts.clone(),
            ledger: self.ledger.clone(),
            pod_refused: self.refused.clone(),
            market,
        }
    }
}

/// Looks at everything that belongs to a holder.
///
/// # Errors
/// A read of the ledger that failed.
pub async fn observe(context: &Context, holder: &Holder) -> Result<Seen, Error> {
    let job = context.jobs.of(holder).into_iter().next();
    let pods = context.pods.of(holder);
    let object = job.as_ref().map(|job| object(job));
    let pod_facts: Vec<PodFacts> = pods.iter().filter_map(|pod| pod_facts(pod)).collect();
    let lease = open_lease(context, holder, object.as_ref(), &pod_facts).await?;
    let unknown_run = match (&object, &job) {
        (Some(object), Some(job)) => {
            lease.is_none() && needs_ledger(&object.status, job.spec.rerun.unwrap_or(0))
        }
        _ => false,
    };
    let ledger = if unknown_run {
        context.cluster.leases_of(holder).await?.iter().map(ledger::past_run).collect()
    } else {
        Vec::new()
    };
    let lease_facts = match &lease {
        Some(lease) => ledger::lease_facts(lease).map_err(|why| Error::Unreadable {
            what: format!("lease {}/{}", holder.namespace, lease.name_any()),
            why: why.to_string(),
        })?,
        None => None,
    };
    let refused =
        lease_facts.as_ref().and_then(|lease| context.refusals.of(holder, &lease.terms.name));
    Ok(Seen { job, pods, lease, object, lease_facts, pod_facts, ledger, refused })
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

/// The lease that is not final. Leases and pods come by different watches, so a pod or a status
/// can speak of a lease that the index does not have yet: then the server is asked.
async fn open_lease(
    context: &Context,
    holder: &Holder,
    object: Option<&Object>,
    pods: &[PodFacts],
) -> Result<Option<Arc<GpuLease>>, Error> {
    // One that cannot be read is not final either: nothing new may start beside it.
    let open = |lease: &GpuLease| !ledger::state(lease).is_ok_and(LeaseState::is_final);
    if let Some(lease) = context.leases.of(holder).into_iter().rev().find(|lease| open(lease)) {
        return Ok(Some(lease));
    }
    let named =
        object.and_then(|object| object.status.lease.as_ref()).map(|lease| lease.name.clone());
    let live = pods.iter().filter(|pod| pod.metered || !pod.is_over).map(|pod| pod.name.clone());
    for name in named.into_iter().chain(live) {
        if let Some(lease) =
            context.cluster.read_lease(&holder.namespace, &name).await?.filter(|lease| open(lease))
        {
            return Ok(Some(Arc::new(lease)));
        }
    }
    Ok(None)
}
