//! Taints of nodes and what pods tolerate, as far as billing needs them. Pure.
//!
//! <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>

use std::fmt;

/// A mark on a node that keeps pods away which do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// What it is about.
    pub key: String,
    /// More about it; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Taints that a pod puts up with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key; empty for any.
    pub key: String,
    /// `Exists` or `Equal`; empty means `Equal`.
    pub operator: String,
    /// The value that `Equal` compares.
    pub value: String,
    /// The effect; empty for any.
    pub effect: String,
}

/// What the node controller sets by itself, from the state of the node: it says nothing about what
/// people want with the node, and a program can bring some of it about
/// (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).
const AUTOMATIC: [&str; 6] = [
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
];

impl Taint {
    /// Whether somebody wants pods off this node that tolerate no more than these.
    #[must_use]
    pub fn empties(&self, tolerations: &[Toleration]) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
            && !AUTOMATIC.contains(&self.key.as_str())
            && !tolerations.iter().any(|toleration| toleration.covers(self))
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.key, self.effect)
    }
}

impl Toleration {
    /// As the scheduler matches them (`ToleratesTaint` in `k8s.io/api/core/v1/toleration.go`).
    fn covers(&self, taint: &Taint) -> bool {
        let fits = |asked: &str, is: &str| asked.is_empty() || asked == is;
        fits(&self.effect, &taint.effect)
            && fits(&self.key, &taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_empties_a_node_of_pods_that_do_not_tolerate_it() {
        let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
        };
        let pod = [
            toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),
            toleration("pool", "Equal", "ml", ""),
        ];
        let table = [
            ("nvidia.com/gpu", "present", "NoSchedule", false),
            ("nvidia.com/gpu", "present", "NoExecute", true),
            ("pool", "ml", "NoExecute", false),
            ("pool", "web", "NoSchedule", true),
            ("repair", "", "NoSchedule", true),
            ("repair", "", "PreferNoSchedule", false),
            ("node.kubernetes.io/disk-pressure", "", "NoSchedule", false),
            ("node.kubernetes.io/not-ready", "", "NoExecute", false),
            ("node.kubernetes.io/out-of-service", "", "NoExecute", true),
        ];
        for (key, value, effect, empties) in table {
            let taint = Taint { key: key.into(), value: value.into(), effect: effect.into() };
            assert_eq!(taint.empties(&pod), empties, "{taint}={value}");
        }
        let all = [toleration("", "Exists", "", "")];
        let taint = Taint { key: "a".into(), value: "b".into(), effect: "NoExecute".into() };
        assert!(!taint.empties(&all));
        assert!(taint.empties(&[toleration("a", "Gt", "b", "")]));
    }
}
