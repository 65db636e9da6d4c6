//! The kinds that the double serves. Pure data.

use serde_json::{Value, json};

/// A kind of object.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// `v1`, or group and version.
    pub api_version: &'static str,
    /// As in `GpuJob`.
    pub name: &'static str,
    /// As in paths: `gpujobs`.
    pub plural: &'static str,
    /// Whether its objects lie in namespaces.
    pub is_namespaced: bool,
    /// How its objects behave.
    pub rules: Rules,
}

/// How objects of a kind behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// One of ours: status is written apart, and begins as its CRD says.
    Custom {
        /// The default of `status` in the CRD, as JSON; empty for none.
        status: &'static str,
    },
    /// Deleted in two steps once it is on a node.
    Pod,
    /// Status is written apart, like that of nodes.
    Split,
    /// One document.
    Plain,
}

const OURS: &str = "leasehold.dev/v1alpha1";

const fn ours(
    name: &'static str,
    plural: &'static str,
    namespaced: bool,
    status: &'static str,
) -> Kind {
    Kind {
        api_version: OURS,
        name,
        plural,
        is_namespaced: namespaced,
        rules: Rules::Custom { status },
    }
}

/// All of them.
pub static KINDS: [Kind; 8] = [
    ours("GpuJob", "gpujobs", true, r#"{"observedGeneration": -1}"#),
    ours("GpuLease", "gpuleases", true, r#"{"state": "Reserved"}"#),
    ours("GpuRequest", "gpurequests", true, ""),
    ours("GpuCard", "gpucards", false, r#"{"observedGeneration": -1}"#),
    Kind { api_version: "v1", name: "Pod", plural: "pods", is_namespaced: true, rules: Rules::Pod },
    Kind {
        api_version: "v1",
        name: "Node",
        plural: "nodes",
        is_namespaced: false,
        rules: Rules::Split,
    },
    Kind {
        api_version: "events.k8s.io/v1",
        name: "Event",
        plural: "events",
        is_namespaced: true,
        rules: Rules::Plain,
    },
    Kind {
        api_version: "coordination.k8s.io/v1",
        name: "Lease",
        plural: "leases",
        is_namespaced: true,
        rules: Rules::Plain,
    },
];

impl Kind {
    /// The kind with this path.
    #[must_use]
    pub fn at(api_version: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.api_version == api_version && kind.plural == plural)
    }

    /// The kind with this name.
    ///
    /// # Panics
    /// When there is none: tests name kinds that exist.
    #[must_use]
    pub fn named(name: &str) -> &'static Self {
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
            panic!("the double serves no {name}");
        };
        kind
    }

    /// Whether status is written apart.
    #[must_use]
    pub fn splits_status(&self) -> bool {
        self.rules != Rules::Plain
    }

    /// Whether the server counts changes of the specification.
    #[must_use]
    pub fn counts_generations(&self) -> bool {
        matches!(self.rules, Rules::Custom { .. } | Rules::Pod)
    }

    /// The status of a new object.
    #[must_use]
    pub fn first_status(&self) -> Option<Value> {
        match self.rules {
            Rules::Custom { status } => serde_json::from_str(status).ok(),
            Rules::Pod => Some(json!({"phase": "Pending"})),
            Rules::Split | Rules::Plain => None,
        }
    }
}
