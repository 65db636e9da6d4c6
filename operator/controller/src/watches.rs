//! The watches: each feeds an index or the supply and rings for the holders that it touches.

use std::{collections::HashSet, fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use leasehold_crds::GpuCard;
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet};

use crate::{cards::PriceList, context::Context, index::Index, queue::Bell, supply::PodKey};

/// How many watches there are.
const WATCHES: usize = 7;

/// Starts all watches; a task that ends is a fault.
pub(crate) fn start(
    context: &Arc<Context>,
    prices: &Arc<PriceList>,
    bell: &Bell,
    tasks: &mut JoinSet<()>,
) -> Synced {
    let (sender, receiver) = watch::channel(0);
    let feed = Feed { context: context.clone(), bell: bell.clone() };
    let cluster = &context.cluster;
    tasks.spawn(follow(cluster.cards(), sender.clone(), feed.clone().cards(prices.clone())));
    tasks.spawn(follow(cluster.nodes(), sender.clone(), feed.clone().nodes()));
    tasks.spawn(follow(cluster.placed_pods(), sender.clone(), feed.clone().placed_pods()));
    tasks.spawn(follow(cluster.our_pods(), sender.clone(), feed.clone().our_pods()));
    tasks.spawn(follow(cluster.jobs(), sender.clone(), feed.clone().index(|all| &all.jobs)));
    tasks.spawn(follow(
        cluster.requests(),
        sender.clone(),
        feed.clone().index(|all| &all.requests),
    ));
    tasks.spawn(follow(cluster.open_leases(), sender, feed.index(|all| &all.leases)));
    Synced(receiver)
}

/// Tells when the first list of every watch is complete.
pub(crate) struct Synced(watch::Receiver<usize>);

impl Synced {
    pub(crate) async fn all(&mut self) {
        // The senders live as long as the watches, which never end.
        let _ = self.0.wait_for(|done| *done >= WATCHES).await;
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
        self.context.supply.next_in_line().into_iter().for_each(|holder| self.bell.ring(holder));
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

    /// Another price can refuse or admit any job that does not run yet.
    fn cards(self, prices: Arc<PriceList>) -> impl FnMut(Event<GpuCard>) + Send + 'static {
        move |event| {
            if prices.apply(event, &self.context) {
                self.context.jobs.holders().into_iter().for_each(|holder| self.bell.ring(holder));
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
                holders.into_iter().flatten().for_each(|holder| self.bell.ring(holder));
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
            let supply = &self.context.supply;
            match &event {
                Event::Init => listed.clear(),
                Event::InitApply(pod) => {
                    listed.insert(key(pod));
                    supply.ours(key(pod), pod);
                }
                Event::InitDone => supply.keep_ours(&listed),
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

fn key(pod: &Pod) -> PodKey {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// Follows a watch for ever; errors are told and retried with a growing pause. An object that
/// cannot be decoded is told and left out; it stops no other.
async fn follow<K>(
    (api, config): (Api<DeserializeGuard<K>>, watcher::Config),
    synced: watch::Sender<usize>,
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
                if let Some(event) = decoded(event, &kind) {
                    take(event);
                }
                if complete && std::mem::take(&mut first) {
                    synced.send_modify(|done| *done += 1);
                }
            }
            Err(error) => {
                let cure = if is_forbidden(&error) {
                    "grant the operator list and watch on this kind"
                } else {
                    "trying again"
                };
                tracing::warn!(%kind, %error, "watch broke off; {cure}");
            }
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    use watcher::Error;
    let (Error::InitialListFailed(cause)
    | Error::WatchStartFailed(cause)
    | Error::WatchFailed(cause)) = error
    else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.is_forbidden())
}

/// The pause before a watch is tried again. An API server that is back shall be seen within
/// seconds; six watches that ask each five seconds are no load.
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
