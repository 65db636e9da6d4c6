//! The scheduler: binds a pod to the first node with its card and enough free ones.

use std::sync::Arc;

use leasehold::clock::Clock;
use serde_json::{Value, json};

use super::clock::VirtualClock;
use crate::double::{
    kinds::Kind,
    server::{ApiServer, bound},
    store::{Key, Store},
};

/// Schedules for ever.
pub async fn follow(server: ApiServer, clock: VirtualClock) {
    let mut versions = server.versions();
    loop {
        server.with(|store| while bind_one(store, &clock) {});
        versions.changed().await;
    }
}

fn bind_one(store: &mut Store, clock: &VirtualClock) -> bool {
    let waiting = store.of(Kind::named("Pod")).find_map(|(key, pod)| {
        let node = place(store, pod)?;
        Some((key.clone(), node))
    });
    let Some((key, node)) = waiting else { return false };
    let binding = json!({"target": {"name": node}});
    store.change(&key, |pod| bound(pod, &binding, clock.now())).is_ok()
}

/// A node for a pod that waits for one.
fn place(store: &Store, pod: &Arc<Value>) -> Option<String> {
    let is_waiting = pod.pointer("/spec/nodeName").is_none()
        && pod.pointer("/metadata/deletionTimestamp").is_none();
    let mut nodes = store.of(Kind::named("Node")).filter(|_| is_waiting);
    let fits = nodes.find(|(key, node)| is_open(node) && free(store, key, node) >= cards(pod));
    fits.map(|(key, _)| key.name.clone())
}

/// Ready, and not cordoned.
fn is_open(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    node.pointer("/spec/unschedulable") != Some(&json!(true))
        && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn free(store: &Store, key: &Key, node: &Value) -> i64 {
    let offered = node.pointer("/status/allocatable/nvidia.com~1gpu").and_then(Value::as_str);
    let offered: i64 = offered.and_then(|text| text.parse().ok()).unwrap_or(0);
    let on_it = store.of(Kind::named("Pod")).filter(|(_, pod)| {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        pod.pointer("/spec/nodeName") == Some(&json!(key.name))
            && !matches!(phase, Some("Succeeded" | "Failed"))
    });
    offered - on_it.map(|(_, pod)| cards(pod)).sum::<i64>()
}

fn cards(pod: &Value) -> i64 {
    let limit = pod.pointer("/spec/containers/0/resources/limits/nvidia.com~1gpu");
    limit.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or(0)
}
