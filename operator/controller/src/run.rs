//! Starts the watches, then the passes; ends when told to.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuJob, GpuLease, names};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::{
    cards::PriceList,
    context::Context,
    error::{Class, backoff},
    index::Index,
    queue::{Bell, Next, Queue},
    reconcile::reconcile,
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

/// Whose pod this is.
#[must_use]
pub fn holder_of_pod(pod: &Pod) -> Option<Holder> {
    Some(Holder {
        namespace: pod.namespace()?,
        name: pod.labels().get(names::LABEL_HOLDER)?.clone(),
    })
}

/// Runs the operator until `stop` is done.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()>) {
    let (queue, bell) = Queue::new(MOST_PASSES);
    let prices = Arc::new(PriceList::default());
    let (synced, mut waiting) = Synced::of(6);
    let mut tasks = tokio::task::JoinSet::new();
    let cluster = &context.cluster;

    tasks.spawn(follow(cluster.cards(), synced.clone(), {
        let (context, prices, bell) = (context.clone(), prices.clone(), bell.clone());
        move |event| {
            prices.apply(event, &context);
            context.jobs.holders().into_iter().for_each(|holder| bell.ring(holder));
        }
    }));
    tasks.spawn(follow(cluster.nodes(), synced.clone(), nodes(context.clone(), bell.clone())));
    tasks.spawn(follow(
        cluster.placed_pods(),
        synced.clone(),
        placed_pods(context.clone(), bell.clone()),
    ));
    tasks.spawn(follow(
        cluster.jobs(),
        synced.clone(),
        index(context.clone(), |context| &context.jobs, bell.clone()),
    ));
    tasks.spawn(follow(
        cluster.open_leases(),
        synced.clone(),
        index(context.clone(), |context| &context.leases, bell.clone()),
    ));
    tasks.spawn(follow(cluster.our_pods(), synced, {
        let mut into_index = index(context.clone(), |context| &context.pods, bell.clone());
        let (context, bell) = (context.clone(), bell);
        move |event: Event<Pod>| {
            if let Event::Delete(pod) = &event {
                free(&context, pod, &bell);
            }
            into_index(event);
        }
    }));
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
        () = &mut stop => return,
        () = waiting.all() => tracing::info!("all watches are complete"),
    }
    let failures = Arc::new(Failures::default());
    let pass = move |holder: Holder| one_pass(context.clone(), failures.clone(), holder).boxed();
    queue.run(pass, stop).await;
}

/// Failed passes in a row, by holder.
#[derive(Default)]
struct Failures(std::sync::Mutex<std::collections::HashMap<Holder, u32>>);

impl Failures {
    fn after(&self, holder: &Holder, failed: bool) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
            let source =
                std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            if class == Class::Conflict {
                tracing::debug!(namespace = holder.namespace, name = holder.name, %error, source, "looking again");
            } else {
                tracing::warn!(namespace = holder.namespace, name = holder.name, ?class, %error, source, "pass failed");
            }
            Next::After(backoff(class, count.saturating_sub(1)))
        }
    }
}

/// Counts watches whose first list is complete.
#[derive(Clone)]
struct Synced(watch::Sender<usize>);

struct Waiting {
    receiver: watch::Receiver<usize>,
    count: usize,
}

impl Synced {
    fn of(count: usize) -> (Self, Waiting) {
        let (sender, receiver) = watch::channel(0);
        (Self(sender), Waiting { receiver, count })
    }

    fn one_more(&self) {
        self.0.send_modify(|done| *done += 1);
    }
}

impl Waiting {
    async fn all(&mut self) {
        // The senders live as long as the watches, which never end.
        let _ = self.receiver.wait_for(|done| *done >= self.count).await;
    }
}

/// Follows a watch for ever; errors are told and retried with a growing pause. An object that
/// cannot be decoded is told and left out; it stops no other.
async fn follow<K>(
    (api, config): (Api<DeserializeGuard<K>>, watcher::Config),
    synced: Synced,
    mut take: impl FnMut(Event<K>) + Send + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&());
    let mut first = true;
    let mut events = watcher(api, config).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let complete = matches!(event, Event::InitDone);
                if let Some(event) = decoded(event, &kind) {
                    take(event);
                }
                if complete && std::mem::take(&mut first) {
                    synced.one_more();
                }
            }
            Err(error) => {
                tracing::warn!(%kind, %error, "watch broke off; the operator needs list and watch on this kind");
            }
        }
    }
}

fn decoded<K: Resource<DynamicType = ()>>(
    event: Event<DeserializeGuard<K>>,
    kind: &str,
) -> Option<Event<K>> {
    let open = |guard: DeserializeGuard<K>| match guard.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let (namespace, name) = (invalid.metadata.namespace, invalid.metadata.name);
            tracing::warn!(kind, namespace, name, error = invalid.error, "object left out");
            None
        }
    };
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(guard) => Event::InitApply(open(guard)?),
        Event::Apply(guard) => Event::Apply(open(guard)?),
        Event::Delete(guard) => Event::Delete(open(guard)?),
    })
}

fn index<K: ResourceExt + 'static>(
    context: Arc<Context>,
    of: impl Fn(&Context) -> &Index<K> + Send + 'static,
    bell: Bell,
) -> impl FnMut(Event<K>) + Send + 'static {
    move |event| of(&context).apply(event).into_iter().for_each(|holder| bell.ring(holder))
}

fn nodes(context: Arc<Context>, bell: Bell) -> impl FnMut(Event<Node>) + Send + 'static {
    let mut listed = HashSet::new();
    move |event| {
        let changed = match event {
            Event::Init => {
                listed.clear();
                false
            }
            Event::InitApply(node) => {
                listed.insert(node.name_any());
                context.supply.node(&node.name_any(), Some(&node))
            }
            Event::InitDone => {
                context.supply.keep_nodes(&listed);
                true
            }
            Event::Apply(node) => context.supply.node(&node.name_any(), Some(&node)),
            Event::Delete(node) => context.supply.node(&node.name_any(), None),
        };
        if changed {
            context.supply.next_in_line().into_iter().for_each(|holder| bell.ring(holder));
        }
    }
}

fn placed_pods(context: Arc<Context>, bell: Bell) -> impl FnMut(Event<Pod>) + Send + 'static {
    let mut listed = HashSet::new();
    move |event| match event {
        Event::Init => listed.clear(),
        Event::InitApply(pod) => {
            listed.insert(key(&pod));
            context.supply.pod(key(&pod), Some(&pod));
        }
        Event::InitDone => {
            context.supply.keep_pods(&listed);
            context.supply.next_in_line().into_iter().for_each(|holder| bell.ring(holder));
        }
        Event::Apply(pod) => {
            if context.supply.pod(key(&pod), Some(&pod)) {
                context.supply.next_in_line().into_iter().for_each(|holder| bell.ring(holder));
            }
        }
        Event::Delete(pod) => free(&context, &pod, &bell),
    }
}

fn free(context: &Context, pod: &Pod, bell: &Bell) {
    if context.supply.pod(key(pod), None) {
        context.supply.next_in_line().into_iter().for_each(|holder| bell.ring(holder));
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}
