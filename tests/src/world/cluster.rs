//! What tests hold: a cluster with nodes, prices and jobs.

use std::sync::Arc;

use jiff::Timestamp;
use leasehold::clock::Clock;
use leasehold_crds::{GpuJob, GpuLease};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{clock::VirtualClock, garbage, kubelet, nodes, scheduler};
use crate::double::{
    kinds::Kind,
    server::ApiServer,
    store::{Key, Store},
    write::Part,
};

/// The namespace of everything that tests do not place elsewhere.
pub const NAMESPACE: &str = "ml";

/// A cluster; its programs end when it is dropped.
#[derive(Debug)]
pub struct Cluster {
    /// Its API server.
    pub server: ApiServer,
    /// The clock of the API server and of all nodes.
    pub clock: VirtualClock,
    /// The clock of the operator's machine.
    pub operators_clock: VirtualClock,
    _programs: JoinSet<()>,
}

impl Cluster {
    /// One without nodes and prices.
    #[must_use]
    pub fn new() -> Self {
        let clock = VirtualClock::new();
        let server = ApiServer::new({
            let clock = clock.clone();
            move || clock.now()
        });
        let mut programs = JoinSet::new();
        programs.spawn(scheduler::follow(server.clone(), clock.clone()));
        programs.spawn(kubelet::follow(server.clone(), clock.clone()));
        programs.spawn(garbage::follow(server.clone(), clock.clone()));
        programs.spawn(nodes::follow(server.clone(), clock.clone()));
        Self { server, operators_clock: clock.another(), clock, _programs: programs }
    }

    /// Adds a node with so many RTX 4090.
    pub fn node(&self, name: &str, cards: u32) {
        let amounts = json!({"nvidia.com/gpu": cards.to_string(), "cpu": "32", "memory": "128Gi"});
        let node = json!({
            "metadata": {"name": name, "labels": {
                "nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090", "nvidia.com/gpu.memory": "24564",
            }},
            "spec": {},
            "status": {
                "allocatable": amounts, "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        self.create("Node", "", node);
    }

    /// Lets a node fall silent, or speak again.
    pub fn silence(&self, node: &str, is_silent: bool) {
        let mark = is_silent.then_some("yes");
        self.change("Node", "", node, &json!({"metadata": {"annotations": {nodes::SILENT: mark}}}));
    }

    /// Sets the price of a card, per hour.
    pub fn price(&self, card: &str, amount: &str) {
        let price = json!({"perHour": amount, "currency": "USD"});
        self.create("GpuCard", "", json!({"metadata": {"name": card}, "spec": {"price": price}}));
    }

    /// Applies a job: one card, unless the fields say otherwise.
    pub fn job(&self, name: &str, fields: &Value) {
        let mut spec = json!({
            "gpu": {"cards": ["4090"]}, "image": "python:3.11-slim", "command": ["true"],
            "maxRuntime": "1h", "budget": {"limit": "Unlimited"},
        });
        crate::double::write::merge(&mut spec, fields);
        self.create("GpuJob", NAMESPACE, json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// Creates an object.
    ///
    /// # Panics
    /// When it is refused.
    pub fn create(&self, kind: &str, namespace: &str, mut object: Value) {
        let kind = Kind::named(kind);
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let key = Key::of(kind, namespace, name);
        if kind.is_namespaced {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let now = self.clock.now();
        let made = self.server.with(|store| store.create(kind, &key, object, now));
        assert!(made.is_ok(), "{made:?}");
    }

    /// Changes the specification of a job, as a merge patch does.
    ///
    /// # Panics
    /// When there is none.
    pub fn respecify(&self, name: &str, fields: &Value) {
        self.change("GpuJob", NAMESPACE, name, &json!({"spec": fields}));
    }

    /// Changes an object by a merge patch.
    ///
    /// # Panics
    /// When there is none.
    pub fn change(&self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let kind = Kind::named(kind);
        let key = Key::of(kind, namespace, name);
        let changed = self.server.with(|store| store.patch(kind, &key, patch, Part::Object));
        assert!(changed.is_ok(), "{changed:?}");
    }

    /// Deletes an object, as far as its finalizers allow.
    ///
    /// # Panics
    /// When there is none.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let kind = Kind::named(kind);
        let key = Key::of(kind, namespace, name);
        let now = self.clock.now();
        let gone = self.server.with(|store| store.delete(kind, &key, &Value::Null, now));
        assert!(gone.is_ok(), "{gone:?}");
    }

    /// Whether there is an object of this name.
    #[must_use]
    pub fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let key = Key::of(Kind::named(kind), namespace, name);
        self.server.with(|store| store.get(&key)).is_some()
    }

    /// A job as it is now.
    #[must_use]
    pub fn read_job(&self, name: &str) -> Option<GpuJob> {
        let key = Key::of(Kind::named("GpuJob"), NAMESPACE, name);
        self.server.with(|store| store.get(&key)).map(|object| typed(&object))
    }

    /// The reason of its `Ready`; empty before there is one.
    #[must_use]
    pub fn ready(&self, name: &str) -> String {
        let status = self.read_job(name).and_then(|job| job.status);
        let mut conditions = status.into_iter().flat_map(|status| status.conditions);
        let ready = conditions.find(|one| one.type_ == "Ready");
        ready.map(|one| one.reason).unwrap_or_default()
    }

    /// All leases, closed ones too, by name.
    #[must_use]
    pub fn leases(&self) -> Vec<GpuLease> {
        self.all("GpuLease").iter().map(|object| typed(object)).collect()
    }

    /// All objects of a kind.
    #[must_use]
    pub fn all(&self, kind: &str) -> Vec<Arc<Value>> {
        let kind = Kind::named(kind);
        self.server.with(|store: &mut Store| store.of(kind).map(|(_, one)| one.clone()).collect())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

/// An object as its type.
///
/// # Panics
/// When the operator has stored what it cannot read.
fn typed<T: DeserializeOwned>(object: &Value) -> T {
    match serde_json::from_value(object.clone()) {
        Ok(typed) => typed,
        Err(error) => panic!("{error}: {object}"),
    }
}
