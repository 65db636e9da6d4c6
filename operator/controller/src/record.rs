//! Writes the status, when it changed, before anything is done.

use leasehold_core::plan::Plan;
use leasehold_crds::{GpuJob, status_to_wire};

use crate::{context::Context, error::Error, observe::Seen, run::holder_of_job};

/// Records the plan's status.
///
/// # Errors
/// A conflict when the object is newer than what was seen: the caller looks again.
pub async fn record(context: &Context, seen: &Seen, plan: &Plan) -> Result<(), Error> {
    let (Some(job), Some(status)) = (&seen.job, &plan.status) else {
        return Ok(());
    };
    let wire = status_to_wire(status);
    if job.status.as_ref() == Some(&wire) {
        return Ok(());
    }
    let next = GpuJob { status: Some(wire), ..GpuJob::clone(job) };
    context.cluster.write_job_status(&next).await
}

/// Tells the plan's notices as Events, once everything is done.
pub async fn tell(context: &Context, seen: &Seen, plan: &Plan) {
    let (Some(job), Some(status)) = (&seen.job, &plan.status) else { return };
    let holder = holder_of_job(job).filter(|_| status.attempt > 0);
    let pod = holder.map(|holder| holder.attempt_name(status.rerun, status.attempt));
    for notice in &plan.notices {
        context.cluster.tell(job, pod.as_deref(), notice).await;
    }
}
