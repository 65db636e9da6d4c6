//! The garbage collector: deletes what is owned by an object that is gone.

use std::collections::HashSet;

use leasehold::clock::Clock;
use serde_json::Value;

use super::clock::VirtualClock;
use crate::double::{
    kinds::Kind,
    server::ApiServer,
    store::{Key, Store},
};

/// Collects for ever.
pub async fn follow(server: ApiServer, clock: VirtualClock) {
    let mut versions = server.versions();
    loop {
        server.with(|store| {
            for key in orphans(store) {
                // Whoever deletes it as well has been faster.
                let _ = store.delete(Kind::named("Pod"), &key, &Value::Null, clock.now());
            }
        });
        versions.changed().await;
    }
}

/// Pods whose owners are gone, and whose deletion nobody has asked for.
fn orphans(store: &Store) -> Vec<Key> {
    let uid = |object: &Value| object.pointer("/metadata/uid").cloned();
    let owners: HashSet<String> = store
        .of(Kind::named("GpuJob"))
        .filter_map(|(_, job)| uid(job)?.as_str().map(str::to_owned))
        .collect();
    let is_orphan = |pod: &Value| {
        let owner = pod.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str);
        owner.is_some_and(|owner| !owners.contains(owner))
            && pod.pointer("/metadata/deletionTimestamp").is_none()
    };
    let pods = store.of(Kind::named("Pod")).filter(|(_, pod)| is_orphan(pod));
    pods.map(|(key, _)| key.clone()).collect()
}
