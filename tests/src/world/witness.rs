//! Remembers what pods did, whatever the operator made of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::nodes::is_silent;
use crate::double::{server::ApiServer, store::Change};

/// One pod, from its first to its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// The node, once it was bound.
    pub node: Option<String>,
    /// When it was bound.
    pub bound_at: Option<Timestamp>,
    /// When its program started.
    pub started_at: Option<Timestamp>,
    /// When its last container ended.
    pub ended_at: Option<Timestamp>,
    /// Seconds after its binding in which the kubelet ends it: `activeDeadlineSeconds`.
    pub ceiling: i64,
    /// Its deletion ends it, seconds later: `terminationGracePeriodSeconds`.
    pub grace: i64,
    /// Its node fell silent while it was there.
    pub node_was_silent: bool,
    /// It is gone.
    pub is_gone: bool,
}

/// All pods so far.
#[derive(Debug, Default)]
pub struct Witness {
    position: u64,
    pods: BTreeMap<String, Seen>,
}

impl Witness {
    /// Takes in what has changed since it looked last; has to look before history is forgotten.
    ///
    /// # Panics
    /// When history was forgotten before.
    pub fn look(&mut self, server: &ApiServer) {
        server.with(|store| {
            let changes = store.since(self.position).map(|changes| changes.cloned().collect());
            let changes: Vec<Change> = changes.unwrap_or_else(|refusal| panic!("{refusal:?}"));
            for change in changes {
                self.position = change.version;
                self.take_in(&change);
            }
        });
    }

    /// All pods, by uid.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &Seen)> {
        self.pods.iter().map(|(uid, pod)| (uid.as_str(), pod))
    }

    fn take_in(&mut self, change: &Change) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        match change.key.plural {
            "pods" => {
                let mut seen = read(object);
                seen.is_gone = change.after.is_none();
                let uid = text(object, "/metadata/uid");
                seen.node_was_silent =
                    self.pods.get(&uid).is_some_and(|before| before.node_was_silent);
                self.pods.insert(uid, seen);
            }
            "nodes" if is_silent(object) || change.after.is_none() => {
                let there =
                    |pod: &&mut Seen| pod.node.as_ref() == Some(&change.key.name) && !pod.is_gone;
                self.pods.values_mut().filter(there).for_each(|pod| pod.node_was_silent = true);
            }
            _ => {}
        }
    }
}

fn read(pod: &Value) -> Seen {
    let list =
        |path: &str| pod.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let time = |value: &Value, path: &str| text(value, path).parse().ok();
    let number = |path: &str| pod.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    let main = list("/status/containerStatuses");
    let init = list("/status/initContainerStatuses");
    let ends = init.iter().chain(&main).filter_map(|one| time(one, "/state/terminated/finishedAt"));
    let start = |one: &Value| {
        time(one, "/state/running/startedAt").or_else(|| time(one, "/state/terminated/startedAt"))
    };
    let conditions = list("/status/conditions");
    let scheduled = conditions.iter().find(|one| one["type"] == "PodScheduled");
    let phase = text(pod, "/status/phase");
    let is_over = matches!(phase.as_str(), "Succeeded" | "Failed");
    let node = text(pod, "/spec/nodeName");
    Seen {
        name: text(pod, "/metadata/name"),
        node: (!node.is_empty()).then_some(node),
        bound_at: scheduled.and_then(|one| time(one, "/lastTransitionTime")),
        started_at: main.iter().find_map(start),
        ended_at: ends.max().filter(|_| is_over),
        ceiling: number("/spec/activeDeadlineSeconds"),
        grace: number("/spec/terminationGracePeriodSeconds"),
        node_was_silent: false,
        is_gone: false,
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
