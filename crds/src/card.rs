//! `GpuCard` as it is on the wire: a price, and what the built-in catalog does not know. Pure data.
//! [`crate::market`] makes prices and catalog entries of it.
#![expect(clippy::duplicated_attributes, reason = "each column of the derive has the same keys")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    scalar::Scalar,
    schema::{self, shapes},
};

/// This cluster's price and names of a card. The object's name is the card's id: that of a
/// built-in card adds to it or overrides it, any other name is a new card.
///
/// Example: `{price: {perHour: "2.10", currency: CNY}}`.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "GpuCard",
    plural = "gpucards",
    shortname = "gcard",
    category = "gpu",
    status = "GpuCardStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A GPU model in this cluster: its price, its names and how many there are.",
    printcolumn(name = "Per hour", type_ = "string", json_path = ".spec.price.perHour"),
    printcolumn(name = "Currency", type_ = "string", json_path = ".spec.price.currency"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.total"),
    printcolumn(name = "Held", type_ = "integer", json_path = ".status.held"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.free"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GpuCardSpec {
    /// What one card costs. Default: unpriced; such a card is given only to jobs with
    /// `budget.limit: Unlimited`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<CardPrice>,

    /// Further names that people may type in `gpu.cards`. Default: the built-in ones only.
    /// Example: `[house-card]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::aliases")]
    pub aliases: Vec<String>,

    /// Names as `nvidia-smi --query-gpu=name` prints them. Default: the built-in ones; needed for
    /// a card that is not built in. Example: `["NVIDIA GeForce RTX 4090"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::products")]
    pub products: Vec<String>,

    /// Nominal memory in whole gibibytes. Default: the built-in one; needed for a card that is not
    /// built in. Example: `24Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::card_memory")]
    pub memory: Option<String>,
}

/// What one card costs. Held time is charged by the second.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CardPrice {
    /// One hour of one card: an amount with at most 6 decimals (quote it, or write a whole number);
    /// 0 is a free card. Example: `"2.10"`.
    #[schemars(schema_with = "schema::price")]
    pub per_hour: Scalar,

    /// ISO 4217 code of the price. Default: the installation's currency. Example: `CNY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::currency")]
    pub currency: Option<String>,
}

/// The supply of the card in this cluster. Only leasehold writes it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct GpuCardStatus {
    /// The generation that this status speaks of; -1 before leasehold has seen the object.
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: i64,
    /// Nodes that have the card.
    #[schemars(schema_with = "schema::count")]
    pub nodes: i64,
    /// Cards in all nodes.
    #[schemars(schema_with = "schema::count")]
    pub total: i64,
    /// Cards that a pod holds.
    #[schemars(schema_with = "schema::count")]
    pub held: i64,
    /// Cards that a pod could get now.
    #[schemars(schema_with = "schema::count")]
    pub free: i64,
    /// What is true of the object: Accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::conditions")]
    pub conditions: Vec<Condition>,
}
