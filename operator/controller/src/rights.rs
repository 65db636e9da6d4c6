//! What the operator must be allowed to do. Pure data; `charts/leasehold/rbac.yaml` grants it,
//! [`crate::api_server`] asks whether it is granted.
//!
//! A right to write that is missing shows only when something must be written, which may be the
//! end of a lease; so all of them are asked for ahead.

use std::fmt;

/// A verb on a resource: on all its objects, or, for the rights to lead, in one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The verb.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// The subresource; empty for the object itself.
    pub subresource: &'static str,
    /// What does not work without it.
    pub without: &'static str,
}

impl Right {
    const fn to(
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        without: &'static str,
    ) -> Self {
        Self { verb, group, resource, subresource, without }
    }

    /// What its absence means and what to do.
    #[must_use]
    pub fn words(&self) -> String {
        format!("denied; without it {}; apply charts/leasehold/rbac.yaml", self.without)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(out, ".{}", self.group)?;
        }
        if !self.subresource.is_empty() {
            write!(out, "/{}", self.subresource)?;
        }
        Ok(())
    }
}

const OURS: &str = "leasehold.dev";
const COORDINATION: &str = "coordination.k8s.io";
const BLIND: &str = "the operator does not see them";

/// Everything that the operator does.
pub const NEEDED: &[Right] = &[
    Right::to("get", OURS, "gpujobs", "", "a job cannot be told from a deleted one"),
    Right::to("list", OURS, "gpujobs", "", BLIND),
    Right::to("watch", OURS, "gpujobs", "", BLIND),
    Right::to("update", OURS, "gpujobs", "status", "no job starts and none says why"),
    Right::to("list", OURS, "gpucards", "", BLIND),
    Right::to("watch", OURS, "gpucards", "", BLIND),
    Right::to("update", OURS, "gpucards", "status", "cards do not say how many are free"),
    Right::to("get", OURS, "gpuleases", "", "no pod is started"),
    Right::to("list", OURS, "gpuleases", "", BLIND),
    Right::to("watch", OURS, "gpuleases", "", BLIND),
    Right::to("create", OURS, "gpuleases", "", "no card can be reserved"),
    Right::to("patch", OURS, "gpuleases", "", "closed leases stay in the watch of open ones"),
    Right::to("update", OURS, "gpuleases", "status", "no lease is closed"),
    Right::to("list", OURS, "gpurequests", "", BLIND),
    Right::to("watch", OURS, "gpurequests", "", BLIND),
    Right::to("delete", OURS, "gpurequests", "", "answered requests stay for ever"),
    Right::to("update", OURS, "gpurequests", "status", "no request is answered"),
    Right::to("get", "", "pods", "", "a pod cannot be told from a deleted one"),
    Right::to("list", "", "pods", "", BLIND),
    Right::to("watch", "", "pods", "", BLIND),
    Right::to("create", "", "pods", "", "no job starts"),
    Right::to("patch", "", "pods", "", "agents are not told to stop and ended pods stay"),
    Right::to("delete", "", "pods", "", "a program that does not stop keeps its cards"),
    Right::to("list", "", "nodes", "", BLIND),
    Right::to("watch", "", "nodes", "", BLIND),
    Right::to("create", "events.k8s.io", "events", "", "changes are not told as Events"),
    Right::to("patch", "events.k8s.io", "events", "", "repeated Events are lost"),
];

const NO_LEADER: &str = "no operator leads, and nothing is started or ended";

/// What it takes to be elected, on one Lease in the operator's namespace.
pub const NEEDED_TO_LEAD: &[Right] = &[
    Right::to("get", COORDINATION, "leases", "", NO_LEADER),
    Right::to("create", COORDINATION, "leases", "", NO_LEADER),
    Right::to("update", COORDINATION, "leases", "", NO_LEADER),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::Value;

    use super::*;
    use crate::leadership::election::{LEASE, NAMESPACE};

    /// A role of the chart.
    fn role(kind: &str) -> Value {
        let chart = include_str!("../../../charts/leasehold/rbac.yaml");
        let documents: Vec<Value> = serde_yaml::from_multiple(chart).unwrap();
        let mut documents = documents.into_iter();
        let is_ours =
            |one: &Value| one["kind"] == kind && one["metadata"]["name"] == "leasehold-operator";
        documents.find(is_ours).unwrap()
    }

    fn granted(role: &Value) -> BTreeSet<[String; 4]> {
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        let mut granted = BTreeSet::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
                    for verb in &rule.verbs {
                        let right = [verb, group.as_str(), resource, sub].map(str::to_owned);
                        granted.insert(right);
                    }
                }
            }
        }
        granted
    }

    fn needed(rights: &[Right]) -> BTreeSet<[String; 4]> {
        let words = |right: &Right| {
            [right.verb, right.group, right.resource, right.subresource].map(str::to_owned)
        };
        rights.iter().map(words).collect()
    }

    /// The chart grants what is asked for, and nothing else but the asking.
    #[test]
    fn the_chart_grants_what_is_needed() {
        let mut granted = granted(&role("ClusterRole"));
        granted.remove(
            &["create", "authorization.k8s.io", "selfsubjectaccessreviews", ""].map(str::to_owned),
        );
        assert_eq!(granted, needed(NEEDED));
    }

    #[test]
    fn the_chart_grants_one_lease_in_the_operators_namespace() {
        let role = role("Role");
        assert_eq!(granted(&role), needed(NEEDED_TO_LEAD));
        assert_eq!(role["metadata"]["namespace"], NAMESPACE);
        for rule in role["rules"].as_array().unwrap() {
            // What does not exist yet has no name that a rule could name.
            let names_it = rule["resourceNames"] == serde_json::json!([LEASE]);
            assert!(names_it || rule["verbs"] == serde_json::json!(["create"]), "{rule}");
        }
    }
}
