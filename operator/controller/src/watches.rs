//! The watches: each feeds an index or the supply and rings for the holders that it touches.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    core::{DeserializeGuard, Status},
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuCard, GpuJob, GpuLease};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::{
    cards::PriceList,
    context::Context,
    health::{Watched, causes, refusal},
    index::Index,
    metrics::WatchLabels,
    queue::Bell,
    run::{holder_of_job, holder_of_lease, holder_of_pod},
    supply::PodKey,
    tasks::Tasks,
};

/// Starts all watches; a task that ends is a fault.
pub(crate) fn start(
    context: &Arc<Context>,
    prices: &Arc<PriceList>,
    bell: &Bell,
    tasks: &mut Tasks,
) -> Synced {
    let (sender, receiver) = watch::channel(0);
    let feed = Feed { context: context.clone(), bell: bell.clone() };
    let cluster = &context.cluster;
    let watch = |watched| Watch { watched, context: context.clone(), synced: sender.clone() };
    let mut spawn = |watched: Watched, work| tasks.spawn(watched.task(), work);
    let cards = follow(watch(Watched::Cards), cluster.cards(), feed.clone().cards(prices.clone()));
    spawn(Watched::Cards, cards.boxed());
    let nodes = follow(watch(Watched::Nodes), cluster.nodes(), feed.clone().nodes());
    spawn(Watched::Nodes, nodes.boxed());
    let placed = watch(Watched::PlacedPods);
    let placed = follow(placed, cluster.placed_pods(), feed.clone().placed_pods());
    spawn(Watched::PlacedPods, placed.boxed());
    let ours = follow(watch(Watched::OwnPods), cluster.our_pods(), feed.clone().our_pods());
    spawn(Watched::OwnPods, ours.boxed());
    let jobs = follow(watch(Watched::Jobs), cluster.jobs(), feed.clone().jobs());
    spawn(Watched::Jobs, jobs.boxed());
    let requests = feed.clone().index(|all| &all.requests);
    let requests = follow(watch(Watched::Requests), cluster.requests(), requests);
    spawn(Watched::Requests, requests.boxed());
    let leases = follow(watch(Watched::OpenLeases), cluster.open_leases(), feed.leases());
    spawn(Watched::OpenLeases, leases.boxed());
    Synced(receiver)
}

/// One watch among the others.
struct Watch {
    watched: Watched,
    context: Arc<Context>,
    /// How many watches are complete.
    synced: watch::Sender<usize>,
}

/// Tells when the first list of every watch is complete.
pub(crate) struct Synced(watch::Receiver<usize>);

impl Synced {
    pub(crate) async fn all(&mut self) {
        // The senders live as long as the watches, which never end.
        let _ = self.0.wait_for(|done| *done >= Watched::ALL.len()).await;
    }
}

/// Where events go.
#[derive(Clone)]
struct Feed {
    context: Arc<Context>,
    bell: Bell,
}

impl Feed {
    fn ring_next_in_line(&self) {
        self.bell.ring_all(self.context.supply.next_in_line());
    }

    fn index<K: ResourceExt + 'static>(
        self,
        of: fn(&Context) -> &Index<K>,
    ) -> impl FnMut(Event<K>) + Send + 'static {
        move |event| {
            let touched = of(&self.context).apply(event);
            for holder in touched {
                self.bell.ring(holder);
            }
        }
    }

    /// Jobs, with what changed in them told.
    fn jobs(self) -> impl FnMut(Event<GpuJob>) + Send + 'static {
        let context = self.context.clone();
        let mut into_index = self.index(|all| &all.jobs);
        move |event| {
            if let (Event::Apply(job) | Event::InitApply(job), Some(holder)) =
                (&event, object_of(&event).and_then(holder_of_job))
            {
                let before = known(&context.jobs, &holder, job);
                // What a list names for the first time did not change just now; of two operators
                // one tells.
                let changed = before.is_some() || matches!(event, Event::Apply(_));
                if changed && context.leadership.leads() {
                    context.journal.job(&holder, before.as_deref(), job);
                } else {
                    context.journal.note_deadline(&holder, job);
                }
            }
            let is_listed = matches!(event, Event::InitDone);
            into_index(event);
            if is_listed {
                context.journal.keep(|holder| !context.jobs.of(holder).is_empty());
            }
        }
    }

    /// Open leases, with what changed in them told: also by the event that lets go of a final one.
    fn leases(self) -> impl FnMut(Event<GpuLease>) + Send + 'static {
        let context = self.context.clone();
        let mut into_index = self.index(|all| &all.leases);
        move |event| {
            if let (Some(lease), Some(holder)) =
                (object_of(&event), object_of(&event).and_then(holder_of_lease))
            {
                let before = known(&context.leases, &holder, lease);
                if !context.leadership.leads() {
                    context.journal.leave_out(&holder, lease);
                } else if before.is_some() || !matches!(event, Event::InitApply(_)) {
                    context.journal.lease(&holder, before.as_deref(), lease);
                }
            }
            into_index(event);
        }
    }

    /// Another price can refuse or admit any job that does not run yet.
    fn cards(self, prices: Arc<PriceList>) -> impl FnMut(Event<GpuCard>) + Send + 'static {
        move |event| {
            if let Some(card) = object_of(&event) {
                self.context.card_names.seen(card.name_any());
            }
            if prices.apply(event, &self.context) {
                self.bell.ring_all(self.context.jobs.holders());
            }
        }
    }

    fn nodes(self) -> impl FnMut(Event<Node>) + Send + 'static {
        let mut listed = HashSet::new();
        move |event| {
            let supply = &self.context.supply;
            let touched = match &event {
                Event::InitApply(node) | Event::Apply(node) => Some(node.name_any()),
                Event::Init | Event::InitDone | Event::Delete(_) => None,
            };
            let changed = match event {
                Event::Init => {
                    listed.clear();
                    false
                }
                Event::InitApply(node) => {
                    listed.insert(node.name_any());
                    supply.node(&node.name_any(), Some(&node))
                }
                Event::InitDone => {
                    supply.keep_nodes(&listed);
                    true
                }
                Event::Apply(node) => supply.node(&node.name_any(), Some(&node)),
                Event::Delete(node) => supply.node(&node.name_any(), None),
            };
            if changed {
                self.ring_next_in_line();
                // Silence, and the end of it, concern those who hold its cards.
                let holders = touched.map(|node| supply.holders_on(&node));
                self.bell.ring_all(holders.unwrap_or_default());
            }
        }
    }

    /// Pods of everybody: which cards are taken.
    fn placed_pods(self) -> impl FnMut(Event<Pod>) + Send + 'static {
        let mut listed = HashSet::new();
        move |event| {
            let supply = &self.context.supply;
            let freed = match event {
                Event::Init => {
                    listed.clear();
                    false
                }
                Event::InitApply(pod) => {
                    listed.insert(key(&pod));
                    supply.placed(key(&pod), &pod)
                }
                Event::InitDone => {
                    supply.keep_pods(&listed);
                    true
                }
                Event::Apply(pod) => supply.placed(key(&pod), &pod),
                Event::Delete(pod) => supply.pod_is_gone(&key(&pod)),
            };
            if freed {
                self.ring_next_in_line();
            }
        }
    }

    /// Pods of ours: whose they are, and where they count before they are on a node.
    fn our_pods(self) -> impl FnMut(Event<Pod>) + Send + 'static {
        let mut into_index = self.clone().index(|all| &all.pods);
        let mut listed = HashSet::new();
        move |event| {
            if let Event::Apply(pod) = &event
                && let Some(holder) = holder_of_pod(pod)
                && known(&self.context.pods, &holder, pod).is_none()
                && self.context.leadership.leads()
            {
                self.context.metrics.pods_created.inc();
            }
            let supply = &self.context.supply;
            match &event {
                Event::Init => {
                    listed.clear();
                    supply.lists_ours();
                }
                Event::InitApply(pod) => {
                    listed.insert(key(pod));
                    supply.ours(key(pod), pod);
                }
                Event::InitDone => {
                    if supply.keep_ours(&listed) {
                        self.ring_next_in_line();
                    }
                }
                Event::Apply(pod) => supply.ours(key(pod), pod),
                // A pod that only lost its labels still holds its cards.
                Event::Delete(pod) => {
                    if supply.unclaim(&key(pod)) {
                        self.ring_next_in_line();
                    }
                }
            }
            into_index(event);
        }
    }
}

/// The object that an event speaks of.
fn object_of<K>(event: &Event<K>) -> Option<&K> {
    match event {
        Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => Some(object),
        Event::Init | Event::InitDone => None,
    }
}

/// The same object as it was known so far.
fn known<K: ResourceExt>(index: &Index<K>, holder: &Holder, object: &K) -> Option<Arc<K>> {
    let name = object.name_any();
    index
        .of(holder)
        .into_iter()
        .find(|known| known.name_any() == name && known.uid() == object.uid())
}

fn key(pod: &Pod) -> PodKey {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Follows a watch for ever; errors are told and retried with a growing pause. An object that
/// cannot be decoded is told and left out; it stops no other.
async fn follow<K>(
    watch: Watch,
    (api, config): (Api<DeserializeGuard<K>>, watcher::Config),
    mut take: impl FnMut(Event<K>) + Send + 'static,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&());
    let mut first = true;
    let mut events = watcher(api, config).backoff(Pauses::default()).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let complete = matches!(event, Event::InitDone);
                // A list begins before the server has answered.
                if !matches!(event, Event::Init) {
                    watch.context.health.watch_goes_on(watch.watched);
                }
                if let Some(event) = decoded(event, &kind) {
                    take(event);
                }
                if complete && std::mem::take(&mut first) {
                    watch.context.health.watch_is_complete(watch.watched);
                    watch.synced.send_modify(|done| *done += 1);
                }
            }
            Err(error) => watch.failed(&error),
        }
    }
}

impl Watch {
    fn failed(&self, error: &watcher::Error) {
        let Self { watched, context, .. } = self;
        context.metrics.watch_restarts.get_or_create(&WatchLabels::of(*watched)).inc();
        context.health.watch_failed(*watched, context.clock.now(), error);
        let cure = if refusal(error).is_some_and(Status::is_forbidden) {
            "grant the operator list and watch on this kind"
        } else {
            "trying again"
        };
        tracing::warn!(
            watch = watched.name(),
            kind = watched.kind(),
            error = causes(error),
            "watch broke off; {cure}"
        );
    }
}

/// The pause before a watch is tried again. An API server that is back shall be seen within
/// seconds; watches that ask each five seconds are no load.
#[derive(Default)]
struct Pauses {
    tries: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(500).saturating_mul(1 << self.tries.min(4));
        self.tries = self.tries.saturating_add(1);
        Some(pause.min(Duration::from_secs(5)))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.tries = 0;
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
