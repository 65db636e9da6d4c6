//! Starts the watches, then the passes; ends when told to.

use std::{
    collections::HashMap,
    error::Error as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuJob, GpuLease, GpuRequest};
use tokio::task::JoinSet;

use crate::{
    cards::PriceList,
    context::Context,
    error::{Class, backoff},
    queue::{Next, Queue},
    reconcile::reconcile,
    watches,
};

/// Passes side by side.
const MOST_PASSES: usize = 16;
/// How often counts of cards are compared with what their status says.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Whose object this is, by name.
#[must_use]
pub fn holder_of_job(job: &GpuJob) -> Option<Holder> {
    Some(Holder { namespace: job.namespace()?, name: job.name_any() })
}

/// Whose lease this is.
#[must_use]
pub fn holder_of_lease(lease: &GpuLease) -> Option<Holder> {
    Some(Holder { namespace: lease.namespace()?, name: lease.spec.holder.name.clone() })
}

/// Whom this request is about.
#[must_use]
pub fn holder_of_request(request: &GpuRequest) -> Option<Holder> {
    Some(Holder { namespace: request.namespace()?, name: request.spec.target.name.clone() })
}

/// Whose pod this is: by its name, because labels can be changed.
#[must_use]
pub fn holder_of_pod(pod: &Pod) -> Option<Holder> {
    Holder::of_attempt(&pod.namespace()?, &pod.name_any())
}

/// A watch ended, which it never should: what it feeds would be stale from now on.
#[derive(Debug, thiserror::Error)]
#[error("a watch of the operator failed; it must be started again")]
pub struct WatchFailed;

/// Runs the operator until `stop` is done.
///
/// # Errors
/// A watch that failed for good.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()>) -> Result<(), WatchFailed> {
    let (queue, bell) = Queue::new(MOST_PASSES);
    let prices = Arc::new(PriceList::default());
    let mut tasks = JoinSet::new();
    let mut synced = watches::start(&context, &prices, &bell, &mut tasks);
    tasks.spawn({
        let (context, prices) = (context.clone(), prices);
        async move {
            loop {
                tokio::time::sleep(COUNT_EVERY).await;
                prices.tell_counts(&context).await;
            }
        }
    });
    tokio::pin!(stop);
    tokio::select! {
        () = &mut stop => return Ok(()),
        _ = tasks.join_next() => return Err(WatchFailed),
        () = synced.all() => tracing::info!("all watches are complete"),
    }
    let failures = Arc::new(Failures::default());
    let pass = move |holder: Holder| one_pass(context.clone(), failures.clone(), holder).boxed();
    tokio::select! {
        () = queue.run(pass, stop) => Ok(()),
        _ = tasks.join_next() => Err(WatchFailed),
    }
}

/// Failed passes in a row, by holder.
#[derive(Default)]
struct Failures(Mutex<HashMap<Holder, u32>>);

impl Failures {
    fn after(&self, holder: &Holder, failed: bool) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed {
            all.remove(holder);
            return 0;
        }
        let count = all.entry(holder.clone()).or_default();
        *count = count.saturating_add(1);
        *count
    }
}

async fn one_pass(context: Arc<Context>, failures: Arc<Failures>, holder: Holder) -> Next {
    match reconcile(&context, &holder).await {
        Ok(next) => {
            failures.after(&holder, false);
            next
        }
        Err(error) => {
            let count = failures.after(&holder, true);
            let class = error.class();
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            if class == Class::Conflict {
                tracing::debug!(namespace = holder.namespace, name = holder.name, %error, source, "looking again");
            } else {
                tracing::warn!(namespace = holder.namespace, name = holder.name, ?class, %error, source, "pass failed");
            }
            Next::After(backoff(class, count.saturating_sub(1)))
        }
    }
}
