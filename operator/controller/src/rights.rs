//! What the operator must be allowed to do. Pure data; `charts/leasehold/rbac.yaml` grants it,
//! [`crate::api_server`] asks whether it is granted.
//!
//! A right to write that is missing shows only when something must be written, which may be the
//! end of a lease; so all of them are asked for ahead.

use std::fmt;

/// A verb on all objects of a resource.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::ClusterRole;
    use serde_json::Value;

    use super::*;

    /// The chart grants what is asked for, and nothing else but the asking.
    #[test]
    fn the_chart_grants_what_is_needed() {
        let chart = include_str!("../../../charts/leasehold/rbac.yaml");
        let documents: Vec<Value> = serde_yaml::from_multiple(chart).unwrap();
        let role = documents
            .into_iter()
            .find(|one| {
                one["kind"] == "ClusterRole" && one["metadata"]["name"] == "leasehold-operator"
            })
            .unwrap();
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        let mut granted = BTreeSet::new();
        for rule in role.rules.unwrap() {
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
        granted.remove(
            &["create", "authorization.k8s.io", "selfsubjectaccessreviews", ""].map(str::to_owned),
        );
        let needed: BTreeSet<_> = NEEDED
            .iter()
            .map(|right| {
                [right.verb, right.group, right.resource, right.subresource].map(str::to_owned)
            })
            .collect();
        assert_eq!(granted, needed);
    }
}
