//! Which cards are free. No I/O; fed by watches of nodes, pods and `GpuCard` objects.
//!
//! Deciding happens under the supply's lock: a card that one pass has chosen is counted as taken
//! before another pass looks, although its pod does not exist yet.

mod facts;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use leasehold_core::{
    catalog::Catalog,
    observed::{Holder, Market, NodeSupply, Price},
    plan::{Command, Plan},
};

use leasehold_crds::names;
use tokio::sync::watch;

use facts::{NodeFacts, Usage, cards_of, has_ended, usage_of};

/// The resource under which the device plugin offers whole cards.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// A pod by namespace and name.
pub type PodKey = (String, String);

/// The cards of the cluster and who has them.
#[derive(Default)]
pub struct Supply {
    inner: Mutex<Inner>,
}

struct Inner {
    market: Market,
    nodes: BTreeMap<String, NodeFacts>,
    /// Pods on nodes that hold cards.
    holding: HashMap<PodKey, Usage>,
    /// Pods that were decided but are not on a node yet.
    claimed: HashMap<PodKey, Claim>,
    /// Holders that wait for cards.
    waiting: HashMap<Holder, Want>,
    /// How often something has changed.
    changes: watch::Sender<u64>,
}

/// What was decided.
struct Claim {
    usage: Usage,
    /// A list of our pods that is under way may lack it.
    is_newer_than_list: bool,
}

/// What a holder waits for.
#[derive(Clone, PartialEq, Eq)]
struct Want {
    /// When its object was created, in seconds: the order of service.
    since: i64,
    cards: Vec<String>,
    count: u32,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            market: Market { catalog: Catalog::built_in(), ..Market::default() },
            nodes: BTreeMap::new(),
            holding: HashMap::new(),
            claimed: HashMap::new(),
            waiting: HashMap::new(),
            changes: watch::Sender::default(),
        }
    }
}

/// Cards of one model, counted over the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Nodes with this card.
    pub nodes: i64,
    /// Cards that device plugins offer.
    pub total: i64,
    /// Cards that a pod could get now: on nodes that are ready and not cordoned.
    pub free: i64,
    /// Cards that a pod holds or is about to hold.
    pub held: i64,
}

impl Supply {
    /// Decides with the market as it is now and counts what the decision takes.
    pub fn plan(
        &self,
        holder: &Holder,
        created: i64,
        decide: impl FnOnce(&Market) -> Plan,
    ) -> Plan {
        let mut inner = self.lock();
        let plan = decide(&inner.market);
        for command in &plan.commands {
            if let Command::CreatePod(pod) = command {
                let usage = Usage { node: pod.node_hint.clone(), count: pod.count };
                let claim = Claim { usage, is_newer_than_list: true };
                inner.claimed.insert((holder.namespace.clone(), pod.name.clone()), claim);
                inner.recount();
            }
        }
        match Want::of(&plan, created) {
            Some(want) => inner.waiting.insert(holder.clone(), want),
            None => inner.waiting.remove(holder),
        };
        plan
    }

    /// Gives back what a decision took, when it could not be carried out. A pod that exists all the
    /// same is counted again when it is bound. Tells whether cards became free.
    pub fn give_back(&self, holder: &Holder, plan: &Plan) -> bool {
        let created = plan.commands.iter().filter_map(|command| match command {
            Command::CreatePod(pod) => Some((holder.namespace.clone(), pod.name.clone())),
            _ => None,
        });
        created.fold(false, |freed, key| self.unclaim(&key) | freed)
    }

    /// A node as it is now; `None` when it is gone. Tells whether anything changed. One that had cards
    /// stays known until it is gone: pods may still be there.
    pub fn node(&self, name: &str, node: Option<&Node>) -> bool {
        let mut inner = self.lock();
        let facts = node
            .map(NodeFacts::of)
            .filter(|facts| facts.has_cards() || inner.nodes.contains_key(name));
        let changed = match facts {
            Some(facts) => inner.nodes.insert(name.to_owned(), facts.clone()) != Some(facts),
            None => inner.nodes.remove(name).is_some(),
        };
        if changed {
            inner.rebuild();
        }
        changed
    }

    /// Whose pods hold cards on a node.
    pub fn holders_on(&self, node: &str) -> Vec<Holder> {
        let inner = self.lock();
        let on_it = inner.holding.iter().filter(|(_, usage)| usage.node == node);
        on_it.filter_map(|((namespace, pod), _)| Holder::of_attempt(namespace, pod)).collect()
    }

    /// Drops nodes that a new list did not name.
    pub fn keep_nodes(&self, names: &HashSet<String>) {
        let mut inner = self.lock();
        inner.nodes.retain(|name, _| names.contains(name));
        inner.rebuild();
    }

    /// A pod on a node. Tells whether cards became free: its own, or those of another node where it was
    /// planned.
    pub fn placed(&self, key: PodKey, pod: &Pod) -> bool {
        match usage_of(pod).filter(|_| !has_ended(pod)) {
            Some(usage) => {
                let mut inner = self.lock();
                let claim = inner.claimed.remove(&key);
                let is_elsewhere = claim.is_some_and(|claim| claim.usage.node != usage.node);
                if inner.holding.insert(key, usage.clone()) != Some(usage) {
                    inner.recount();
                }
                is_elsewhere
            }
            None => self.pod_is_gone(&key),
        }
    }

    /// A pod of ours, on a node or not: until it is on one, it counts where it was planned.
    pub fn ours(&self, key: PodKey, pod: &Pod) {
        let is_bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let hint = pod.annotations().get(names::ANNOTATION_NODE_HINT);
        let mut inner = self.lock();
        let waits = !is_bound && !has_ended(pod) && !inner.holding.contains_key(&key);
        match hint.filter(|_| waits) {
            Some(node) => {
                let usage = Usage { node: node.clone(), count: cards_of(pod) };
                inner.claimed.insert(key, Claim { usage, is_newer_than_list: false });
            }
            // A bound pod is counted by the watch of placed pods, from now or a moment later.
            None if has_ended(pod) || inner.holding.contains_key(&key) => {
                inner.claimed.remove(&key);
            }
            None => {}
        }
        inner.recount();
    }

    /// A pod of ours that is gone before it was on a node. Tells whether cards became free.
    pub fn unclaim(&self, key: &PodKey) -> bool {
        let mut inner = self.lock();
        let freed = inner.claimed.remove(key).is_some();
        if freed {
            inner.recount();
        }
        freed
    }

    /// A pod that is gone or has ended. Tells whether cards became free.
    pub fn pod_is_gone(&self, key: &PodKey) -> bool {
        let mut inner = self.lock();
        let freed = inner.holding.remove(key).is_some() | inner.claimed.remove(key).is_some();
        if freed {
            inner.recount();
        }
        freed
    }

    /// A list of our pods begins.
    pub fn lists_ours(&self) {
        self.lock().claimed.values_mut().for_each(|claim| claim.is_newer_than_list = false);
    }

    /// Drops pods of ours that a new list did not name, although they were decided before it.
    /// Tells whether cards became free.
    pub fn keep_ours(&self, keys: &HashSet<PodKey>) -> bool {
        let mut inner = self.lock();
        let before = inner.claimed.len();
        inner.claimed.retain(|key, claim| keys.contains(key) || claim.is_newer_than_list);
        inner.recount();
        inner.claimed.len() < before
    }

    /// Drops pods that a new list did not name.
    pub fn keep_pods(&self, keys: &HashSet<PodKey>) {
        let mut inner = self.lock();
        inner.holding.retain(|key, _| keys.contains(key));
        inner.recount();
    }

    /// Another catalog and other prices.
    pub fn price_list(&self, catalog: Catalog, prices: BTreeMap<String, Price>) {
        let mut inner = self.lock();
        inner.market.catalog = catalog;
        inner.market.prices = prices;
        inner.rebuild();
    }

    /// The holders that can have a card now, those that have waited longest first: each takes, in
    /// this count, what it wants, so that no more are woken than can start.
    pub fn next_in_line(&self) -> Vec<Holder> {
        let inner = self.lock();
        let mut waiting: Vec<_> = inner.waiting.iter().collect();
        waiting.sort_by(|left, right| (left.1.since, left.0).cmp(&(right.1.since, right.0)));
        let mut free: Vec<(&str, u32)> = inner
            .market
            .nodes
            .iter()
            .filter(|node| node.open)
            .filter_map(|node| Some((node.card.as_deref()?, node.free)))
            .collect();
        let mut next = Vec::new();
        for (holder, want) in waiting {
            let place = free.iter_mut().find(|(card, free)| {
                *free >= want.count && want.cards.iter().any(|wanted| wanted == card)
            });
            if let Some((_, free)) = place {
                *free -= want.count;
                next.push(holder.clone());
            }
        }
        next
    }

    /// Tells that cards, or who has them, changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.lock().changes.subscribe()
    }

    /// Counts the cards with this id.
    pub fn count(&self, card: &str) -> Count {
        let inner = self.lock();
        inner.market.nodes.iter().filter(|node| node.card.as_deref() == Some(card)).fold(
            Count::default(),
            |sum, node| Count {
                nodes: sum.nodes + 1,
                total: sum.total + i64::from(node.allocatable),
                free: sum.free + if node.open { i64::from(node.free) } else { 0 },
                held: sum.held + i64::from(node.allocatable.saturating_sub(node.free)),
            },
        )
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Want {
    fn of(plan: &Plan, since: i64) -> Option<Self> {
        let effective = plan.status.as_ref()?.effective.as_ref()?;
        plan.waits_for_supply().then(|| Self {
            since,
            cards: effective.cards.clone(),
            count: effective.count,
        })
    }
}

impl Inner {
    /// Nodes or cards changed: identify the nodes anew.
    fn rebuild(&mut self) {
        self.market.nodes = self
            .nodes
            .iter()
            .map(|(name, facts)| NodeSupply {
                name: name.clone(),
                card: facts
                    .product
                    .as_deref()
                    .and_then(|product| {
                        let card = self.market.catalog.identify(product, facts.memory_mib)?;
                        // A pod selects nodes by the exact label.
                        card.product_labels().iter().any(|label| label == product).then_some(card)
                    })
                    .map(|card| card.id.clone()),
                allocatable: facts.allocatable,
                free: facts.allocatable,
                open: facts.open,
                emptied: facts.emptied.clone(),
                taints: facts.taints.clone(),
                silent_since: facts.silent_since,
                cpu_millis: facts.cpu_millis,
                memory_bytes: facts.memory_bytes,
            })
            .collect();
        self.recount();
    }

    /// Pods changed: count free cards anew.
    fn recount(&mut self) {
        self.changes.send_modify(|changes| *changes += 1);
        let mut used: HashMap<&str, u32> = HashMap::new();
        let claimed = self.claimed.values().map(|claim| &claim.usage);
        for usage in self.holding.values().chain(claimed) {
            let sum = used.entry(usage.node.as_str()).or_default();
            *sum = sum.saturating_add(usage.count);
        }
        for node in &mut self.market.nodes {
            node.free =
                node.allocatable.saturating_sub(used.get(node.name.as_str()).copied().unwrap_or(0));
        }
    }
}

#[cfg(test)]
mod tests;
