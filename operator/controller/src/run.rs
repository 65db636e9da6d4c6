//! Starts the watches, then, when this operator leads, the passes; ends when told to or when
//! another one leads.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuJob, GpuLease, GpuRequest};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    api_server::ApiServer,
    cards::PriceList,
    context::Context,
    error::{Class, Error, backoff},
    health::causes,
    leadership::{Lost, election::Election},
    queue::{Bell, Next, Queue},
    reconcile::reconcile,
    tasks::{TaskEnded, Tasks},
    watches,
};

/// Passes side by side.
const MOST_PASSES: usize = 16;

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

/// Why an operator ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Something that it needs ended.
    #[error(transparent)]
    Task(#[from] TaskEnded),
    /// Another operator leads, or may.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Runs the operator until it is told to stop, then finishes what is under way. `client` asks what
/// is needed before anything may be written; `election` is left out for an operator that leads
/// anyway; `tasks` run beside it from the start.
///
/// # Errors
/// A watch or another task that ended, and leadership that was lost: nothing is finished then.
pub async fn run(
    context: Arc<Context>,
    client: Client,
    election: Option<Election>,
    mut tasks: Tasks,
    stop: CancellationToken,
) -> Result<(), Ended> {
    let ended = operate(&context, client, election, &mut tasks, &stop).await;
    // Whoever waits takes over now, and not only when the lease has run out.
    context.leadership.resign().await;
    ended
}

async fn operate(
    context: &Arc<Context>,
    client: Client,
    election: Option<Election>,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) -> Result<(), Ended> {
    let (api_server, mut answered) = ApiServer::new(client, election.clone());
    tasks.spawn("asking the API server", api_server.follow(context.clone()));
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        ended = tasks.first_to_end() => return Err(ended.into()),
        // It may be started after the operator.
        _ = answered.wait_for(|answered| *answered) => {}
    }
    let (mut queue, bell) = Queue::new(MOST_PASSES, context.backlog.clone());
    let prices = Arc::new(PriceList::default());
    let mut synced = watches::start(context, &prices, &bell, tasks);
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        ended = tasks.first_to_end() => return Err(ended.into()),
        () = synced.all() => tracing::info!("all watches are complete"),
    }
    // Whoever does not see everything keeps nobody from leading who does.
    if let Some(election) = election {
        tasks.spawn("leader election", election.run(context.clone()));
    }
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        ended = tasks.first_to_end() => return Err(ended.into()),
        lost = context.leadership.until_lost() => return Err(lost.into()),
        () = queue.stand_by(context.leadership.until_leading()) => {}
    }
    bell.ring_all(context.holders());
    tasks.spawn("counting cards", {
        let context = context.clone();
        async move { prices.keep_counts(&context).await }
    });
    let failures = Arc::new(Failures::default());
    let pass =
        |holder: Holder| one_pass(context.clone(), bell.clone(), failures.clone(), holder).boxed();
    tokio::select! {
        cut = queue.run(pass, stop.cancelled()) => {
            for Holder { namespace, name } in cut {
                tracing::warn!(namespace, name, "pass cut off; the next operator finishes it");
            }
            Ok(())
        }
        ended = tasks.first_to_end() => Err(ended.into()),
        lost = context.leadership.until_lost() => Err(lost.into()),
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

async fn one_pass(
    context: Arc<Context>,
    bell: Bell,
    failures: Arc<Failures>,
    holder: Holder,
) -> Next {
    let begun = Instant::now();
    // A bug that one object brings to light must not keep all others from their cards.
    let done = AssertUnwindSafe(reconcile(&context, &bell, &holder)).catch_unwind().await;
    let (result, next) = match done {
        Ok(Ok(next)) => {
            failures.after(&holder, false);
            ("Done", next)
        }
        Ok(Err(error)) => failed(&failures, &holder, &error),
        Err(_) => {
            let pause = backoff(Class::Bug, failures.after(&holder, true).saturating_sub(1));
            let Holder { namespace, name } = &holder;
            let again_in = pause.as_secs_f64();
            tracing::error!(namespace, name, again_in, "pass panicked; this holder waits");
            ("Panic", Next::After(pause))
        }
    };
    context.metrics.pass(result, begun.elapsed());
    next
}

/// Tells why a pass failed and what happens next.
fn failed(failures: &Failures, holder: &Holder, error: &Error) -> (&'static str, Next) {
    let count = failures.after(holder, true);
    let class = error.class();
    let pause = backoff(class, count.saturating_sub(1));
    let (again_in, Holder { namespace, name }) = (pause.as_secs_f64(), holder);
    let error = causes(error);
    if class == Class::Conflict {
        tracing::debug!(namespace, name, error, again_in, "looking again");
    } else {
        tracing::warn!(namespace, name, ?class, error, again_in, failures = count, "pass failed");
    }
    (class_name(class), Next::After(pause))
}

/// The class as a label.
const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Transient => "Transient",
        Class::Conflict => "Conflict",
        Class::Denied => "Denied",
        Class::Refused => "Refused",
        Class::Bug => "Bug",
    }
}
