//! What becomes of nodes that fall silent, and of pods on nodes that are gone: the node lifecycle
//! controller, the taint manager and the pod garbage collector of a control plane.
//!
//! A node is silent while its object carries [`SILENT`]: its kubelet neither hears nor reports.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use leasehold::clock::Clock;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::clock::VirtualClock;
use crate::double::{
    kinds::Kind,
    server::ApiServer,
    store::{Key, Store, stamp},
    write::merge,
};

/// The annotation of a node that is silent.
pub const SILENT: &str = "world.leasehold.dev/silent";

/// How long a kubelet may be silent: `--node-monitor-grace-period`.
const NOTICED_AFTER: Duration = Duration::from_secs(50);
/// How long pods then stay on the node: the toleration that admission gives each pod.
const EVICTED_AFTER: Duration = Duration::from_mins(5);
/// How long pods of a node that is gone are left alone: the quarantine of `pkg/controller/podgc`.
const COLLECTED_AFTER: Duration = Duration::from_secs(40);

/// Looks after all nodes for ever.
pub async fn follow(server: ApiServer, clock: VirtualClock) {
    let mut versions = server.versions();
    let mut care = Care::default();
    loop {
        let next = server.with(|store| care.take(store, clock.now(), Instant::now()));
        let changed = versions.changed();
        match next {
            // An error means that it is time.
            Some(next) => timeout_at(next, changed).await.unwrap_or(()),
            None => changed.await,
        }
    }
}

/// Whether the kubelet of this node neither hears nor reports.
#[must_use]
pub fn is_silent(node: &Value) -> bool {
    let annotations = node.pointer("/metadata/annotations");
    annotations.is_some_and(|all| all.get(SILENT).is_some())
}

#[derive(Default)]
struct Care {
    there: BTreeSet<String>,
    /// Nodes that are silent, and since when.
    silent: BTreeMap<String, Instant>,
    /// Nodes that are gone, and since when.
    gone: BTreeMap<String, Instant>,
    evicted: BTreeSet<String>,
}

impl Care {
    /// Does what is due; tells when something will be.
    fn take(&mut self, store: &mut Store, now: Timestamp, at: Instant) -> Option<Instant> {
        self.see(store, at);
        for name in &self.there {
            match self.silent.get(name) {
                Some(since) if *since + NOTICED_AFTER > at => {}
                since => set_ready(store, name, since.is_none(), now),
            }
        }
        let due = |since: &Instant, after: Duration| *since + after <= at;
        for (name, since) in &self.silent {
            if due(since, NOTICED_AFTER + EVICTED_AFTER) && self.evicted.insert(name.clone()) {
                for pod in pods_on(store, name) {
                    disrupt(store, &pod, "DeletionByTaintManager", now);
                    remove(store, &pod, &Value::Null, now);
                }
            }
        }
        let collected: Vec<String> = self
            .gone
            .iter()
            .filter(|(_, since)| due(since, COLLECTED_AFTER))
            .map(|(name, _)| name.clone())
            .collect();
        for name in collected {
            self.gone.remove(&name);
            for pod in pods_on(store, &name) {
                disrupt(store, &pod, "DeletionByPodGC", now);
                fail(store, &pod);
                remove(store, &pod, &json!({"gracePeriodSeconds": 0}), now);
            }
        }
        let silent = self.silent.values();
        let noticed = silent.clone().map(|since| *since + NOTICED_AFTER);
        let evicted = silent.map(|since| *since + NOTICED_AFTER + EVICTED_AFTER);
        let collected = self.gone.values().map(|since| *since + COLLECTED_AFTER);
        noticed.chain(evicted).chain(collected).filter(|next| *next > at).min()
    }

    /// Which nodes are there, which are silent, and which are gone.
    fn see(&mut self, store: &Store, at: Instant) {
        let nodes = || store.of(Kind::named("Node"));
        let there: BTreeSet<String> = nodes().map(|(key, _)| key.name.clone()).collect();
        for name in self.there.difference(&there) {
            self.gone.insert(name.clone(), at);
        }
        self.gone.retain(|name, _| !there.contains(name));
        self.there = there;
        let silent = nodes().filter(|(_, node)| is_silent(node)).map(|(key, _)| key.name.clone());
        let silent: BTreeSet<String> = silent.collect();
        self.silent.retain(|name, _| silent.contains(name));
        self.evicted.retain(|name| silent.contains(name));
        for name in silent {
            self.silent.entry(name).or_insert(at);
        }
    }
}

/// Pods on a node that have not ended.
fn pods_on(store: &Store, node: &str) -> Vec<Key> {
    let pods = store.of(Kind::named("Pod")).filter(|(_, pod)| {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        pod.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node)
            && !matches!(phase, Some("Succeeded" | "Failed"))
    });
    pods.map(|(key, _)| key.clone()).collect()
}

fn set_ready(store: &mut Store, name: &str, is_ready: bool, now: Timestamp) {
    let status = if is_ready { "True" } else { "Unknown" };
    change(store, &Key::of(Kind::named("Node"), "", name), |node| {
        let conditions = node["status"]["conditions"].as_array_mut();
        let ready = conditions.and_then(|all| all.iter_mut().find(|one| one["type"] == "Ready"));
        if let Some(ready) = ready.filter(|ready| ready["status"] != status) {
            let changed = json!({"status": status, "lastTransitionTime": stamp(now)});
            merge(ready, &changed);
        }
    });
}

fn disrupt(store: &mut Store, pod: &Key, reason: &str, now: Timestamp) {
    change(store, pod, |pod| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let target = json!({
            "type": "DisruptionTarget", "status": "True", "reason": reason,
            "message": "the node is away", "lastTransitionTime": stamp(now),
        });
        pod["status"]["conditions"] = conditions.into_iter().chain([target]).collect();
    });
}

fn fail(store: &mut Store, pod: &Key) {
    change(store, pod, |pod| pod["status"]["phase"] = json!("Failed"));
}

fn change(store: &mut Store, key: &Key, change: impl FnOnce(&mut Value)) {
    // What is gone needs no change.
    let _ = store.change(key, |object| {
        let mut object = object.clone();
        change(&mut object);
        Ok(object)
    });
}

fn remove(store: &mut Store, pod: &Key, options: &Value, now: Timestamp) {
    // Whoever deletes it as well has been faster.
    let _ = store.delete(Kind::named("Pod"), pod, options, now);
}
