//! What a node offers and what a pod takes, as their objects tell. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use leasehold_core::taint::Taint;
use leasehold_crds::quantity;

use super::GPU_RESOURCE;

/// What a pod takes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Usage {
    /// Of which node.
    pub(super) node: String,
    /// Cards.
    pub(super) count: u32,
}

/// A node as its object tells.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) product: Option<String>,
    pub(super) memory_mib: Option<i64>,
    pub(super) allocatable: u32,
    pub(super) open: bool,
    pub(super) emptied: Option<String>,
    pub(super) taints: Vec<Taint>,
    pub(super) silent_since: Option<Timestamp>,
    pub(super) cpu_millis: i64,
    pub(super) memory_bytes: i64,
}

impl NodeFacts {
    pub(super) fn has_cards(&self) -> bool {
        self.product.is_some() || self.allocatable > 0
    }

    pub(super) fn of(node: &Node) -> Self {
        let labels = node.labels();
        let shared = labels
            .get("nvidia.com/gpu.sharing-strategy")
            .is_some_and(|strategy| strategy != "none");
        let status = node.status.as_ref();
        let amount =
            |resource: &str| -> Option<&Quantity> { status?.allocatable.as_ref()?.get(resource) };
        let ready = status
            .and_then(|status| status.conditions.as_ref())
            .and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        // The node controller writes Unknown once the kubelet's lease has run out.
        let silent_since = ready
            .filter(|ready| ready.status == "Unknown")
            .and_then(|ready| ready.last_transition_time.as_ref())
            .map(|time| time.0);
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        Self {
            product: labels.get("nvidia.com/gpu.product").filter(|_| !shared).cloned(),
            memory_mib: labels.get("nvidia.com/gpu.memory").and_then(|text| text.parse().ok()),
            allocatable: amount(GPU_RESOURCE)
                .and_then(quantity::units)
                .and_then(|units| u32::try_from(units).ok())
                .unwrap_or(0),
            emptied: emptied(node),
            taints: taints(node),
            open: is_ready && !cordoned && node.metadata.deletion_timestamp.is_none(),
            silent_since,
            cpu_millis: amount("cpu").and_then(quantity::millis).unwrap_or(0),
            memory_bytes: amount("memory").and_then(quantity::units).unwrap_or(0),
        }
    }
}

/// By what the node is being emptied of all pods: its deletion or a cordon.
fn emptied(node: &Node) -> Option<String> {
    if node.metadata.deletion_timestamp.is_some() {
        return Some("being deleted".to_owned());
    }
    node.spec.as_ref()?.unschedulable?.then(|| "cordoned".to_owned())
}

fn taints(node: &Node) -> Vec<Taint> {
    let all = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    all.map(|taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.clone(),
    })
    .collect()
}

pub(super) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub(super) fn usage_of(pod: &Pod) -> Option<Usage> {
    let node = pod.spec.as_ref()?.node_name.clone()?;
    let count = cards_of(pod);
    (count > 0).then_some(Usage { node, count })
}

/// What a pod holds: the most that its containers and init containers need at one time.
pub(super) fn cards_of(pod: &Pod) -> u32 {
    let Some(spec) = &pod.spec else { return 0 };
    let cards = |container: &Container| -> u32 {
        container
            .resources
            .as_ref()
            .and_then(|resources| resources.limits.as_ref()?.get(GPU_RESOURCE))
            .and_then(quantity::units)
            .and_then(|units| u32::try_from(units).ok())
            .unwrap_or(0)
    };
    let main: u32 = spec.containers.iter().map(cards).fold(0, u32::saturating_add);
    let init = spec.init_containers.iter().flatten().map(cards).max().unwrap_or(0);
    main.max(init)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_node_is_emptied_by_a_cordon_or_its_deletion_and_its_taints_are_read() {
        let facts = |metadata: Value, spec: Value| {
            let node = json!({"metadata": metadata, "spec": spec});
            NodeFacts::of(&serde_json::from_value(node).unwrap())
        };
        let named = || json!({"name": "a"});
        assert_eq!(facts(named(), json!({})).emptied, None);
        let cordoned = facts(named(), json!({"unschedulable": true}));
        assert_eq!(cordoned.emptied.unwrap(), "cordoned");
        let deletion = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(facts(deletion, json!({})).emptied.unwrap(), "being deleted");
        let marked = json!({"taints": [{"key": "pool", "value": "ml", "effect": "NoSchedule"}]});
        let tainted = facts(named(), marked);
        assert_eq!((tainted.emptied, tainted.taints[0].value.as_str()), (None, "ml"));
        assert_eq!(tainted.taints[0].to_string(), "pool:NoSchedule");
    }
}
