//! What a node offers and what a pod takes, as their objects tell. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, Node, Pod, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
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
    pub(super) silent_since: Option<Timestamp>,
    pub(super) cpu_millis: i64,
    pub(super) memory_bytes: i64,
}

impl NodeFacts {
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
            open: is_ready && !cordoned && node.metadata.deletion_timestamp.is_none(),
            silent_since,
            cpu_millis: amount("cpu").and_then(quantity::millis).unwrap_or(0),
            memory_bytes: amount("memory").and_then(quantity::units).unwrap_or(0),
        }
    }
}

/// By what the node is being emptied: its deletion, a cordon, or a taint that a pod of ours does
/// not tolerate, so that it can only have come after the pod.
fn emptied(node: &Node) -> Option<String> {
    if node.metadata.deletion_timestamp.is_some() {
        return Some("being deleted".to_owned());
    }
    let spec = node.spec.as_ref()?;
    if spec.unschedulable == Some(true) {
        return Some("cordoned".to_owned());
    }
    let tolerated = |taint: &Taint| {
        let effect = taint.effect.as_str();
        !matches!(effect, "NoSchedule" | "NoExecute")
            || (taint.key == GPU_RESOURCE && effect == "NoSchedule")
    };
    let taint = spec.taints.iter().flatten().find(|taint| !tolerated(taint))?;
    Some(format!("tainted {}:{}", taint.key, taint.effect))
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
    fn a_node_is_emptied_by_a_cordon_a_foreign_taint_or_its_deletion() {
        let emptied = |metadata: Value, spec: Value| {
            let node = json!({"metadata": metadata, "spec": spec});
            NodeFacts::of(&serde_json::from_value(node).unwrap()).emptied
        };
        let named = || json!({"name": "a"});
        let tainted = |key: &str, effect: &str| {
            emptied(named(), json!({"taints": [{"key": key, "effect": effect}]}))
        };
        assert_eq!(emptied(named(), json!({})), None);
        assert_eq!(emptied(named(), json!({"unschedulable": true})).unwrap(), "cordoned");
        let deletion = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(emptied(deletion, json!({})).unwrap(), "being deleted");
        assert_eq!(tainted("nvidia.com/gpu", "NoSchedule"), None);
        assert_eq!(tainted("team", "PreferNoSchedule"), None);
        assert_eq!(
            tainted("nvidia.com/gpu", "NoExecute").unwrap(),
            "tainted nvidia.com/gpu:NoExecute"
        );
        assert_eq!(tainted("repair", "NoSchedule").unwrap(), "tainted repair:NoSchedule");
    }
}
