//! `GpuLease` as it is on the wire: one line of the ledger. Pure data.
//! [`crate::ledger`] maps it to and from the core's values.
#![expect(clippy::duplicated_attributes, reason = "each column of the derive has the same keys")]

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema::{self, rule, says};

/// The terms of a lease, fixed when it is reserved.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "GpuLease",
    plural = "gpuleases",
    shortname = "gl",
    category = "gpu",
    namespaced,
    status = "GpuLeaseStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One period in which one pod holds GPU cards: who, what, from when, until when, at what rate. Only leasehold writes it.",
    selectable = ".spec.holder.name",
    printcolumn(name = "Holder", type_ = "string", json_path = ".spec.holder.name"),
    printcolumn(name = "Card", type_ = "string", json_path = ".spec.card"),
    printcolumn(name = "Count", type_ = "integer", json_path = ".spec.count"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Released", type_ = "string", json_path = ".status.releasedBecause"),
    printcolumn(name = "Seconds", type_ = "integer", json_path = ".status.billedSeconds"),
    printcolumn(name = "Charged", type_ = "string", json_path = ".status.charged"),
    printcolumn(
        name = "Currency",
        type_ = "string",
        json_path = ".spec.quote.currency",
        priority = 1
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = 1),
    printcolumn(name = "Held", type_ = "string", json_path = ".status.heldAt", priority = 1),
    printcolumn(name = "Ended", type_ = "string", json_path = ".status.endedAt", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule("self == oldSelf", says::FIXED_TERMS)]))]
pub struct GpuLeaseSpec {
    /// Who holds the cards.
    pub holder: LeaseHolder,
    /// The card's id.
    #[schemars(schema_with = "schema::name")]
    pub card: String,
    /// Cards held.
    #[schemars(schema_with = "schema::card_count")]
    pub count: i64,
    /// The price that applies to the whole lease.
    pub quote: Quote,
    /// The most that the lease may be charged.
    #[schemars(schema_with = "schema::amount")]
    pub reserved: String,
}

/// Who holds the cards.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LeaseHolder {
    /// The holder's kind.
    #[schemars(schema_with = "schema::name")]
    pub kind: String,
    /// The holder's name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Which object of that name.
    #[schemars(schema_with = "schema::name")]
    pub uid: String,
    /// Its run.
    #[schemars(schema_with = "schema::rerun")]
    pub rerun: i64,
    /// The hash of what the run runs; together with `rerun` it names the run. Absent in leases of
    /// holders without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::hash")]
    pub spec_hash: Option<String>,
    /// The attempt within the run.
    #[schemars(schema_with = "schema::count")]
    pub attempt: i64,
}

/// A price, frozen when the lease was reserved.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Quote {
    /// One hour of one card.
    #[schemars(schema_with = "schema::amount")]
    pub per_hour: String,
    /// The currency of all amounts of the lease.
    #[schemars(schema_with = "schema::amount")]
    pub currency: String,
}

/// What became of the lease; final once its state is Closed or Void.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["state"]))]
pub struct GpuLeaseStatus {
    /// Reserved (no card yet), Held, Closed (the cards came back) or Void (it never had any).
    #[schemars(schema_with = "lease_state")]
    pub state: String,
    /// Which pod holds the cards.
    #[serde(rename = "podUID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub pod_uid: Option<String>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node: Option<String>,
    /// What one hour of all cards together costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub rate_per_hour: Option<String>,
    /// When the cards were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub held_at: Option<String>,
    /// When the program started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub running_at: Option<String>,
    /// Why the lease has to end, once that is known: an order to stop the program, or an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<LeaseStop>,
    /// When the cards came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ended_at: Option<String>,
    /// How well the end is known: Kubelet (it said so), Refused (it refused the pod), Observed (no
    /// container with cards had started; the end is when it was seen), `NodeLost` (the node stayed
    /// silent; the end is when it was last known alive), Lost (the pod vanished; the end is when that
    /// was seen, and nobody pays).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "end_known")]
    pub end_known: Option<String>,
    /// Why it ended, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reason")]
    pub released_because: Option<String>,
    /// Why it ended, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::message")]
    pub message: Option<String>,
    /// Who paid: the user, or nobody because the infrastructure failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::payer")]
    pub paid_by: Option<String>,
    /// Seconds that were charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::count")]
    pub billed_seconds: Option<i64>,
    /// What the holder paid, never more than was reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub charged: Option<String>,
    /// What the held time cost beyond that; nobody was charged for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub absorbed: Option<String>,
}

/// Why a lease has to end: an order to stop the program, which stands here before the program is told,
/// or an eviction. It decides until when the lease is paid.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseStop {
    /// Why, in one word.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// What was seen then.
    #[schemars(schema_with = "schema::message")]
    pub evidence: String,
    /// When.
    #[schemars(schema_with = "schema::instant")]
    pub at: String,
}

fn lease_state(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> =
        leasehold_core::lease::LeaseState::ALL.iter().map(|state| state.name()).collect();
    json_schema!({"type": "string", "enum": names})
}

fn end_known(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Kubelet", "Refused", "Observed", "NodeLost", "Lost"]})
}
