//! The status of a `GpuJob` as it is on the wire. Pure data.
//! [`crate::status`] maps it to and from the core's value.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::{self, shapes};

/// What leasehold made of the job. Only leasehold writes it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GpuJobStatus {
    /// The generation that this status speaks of; -1 before leasehold has seen the job.
    #[serde(default = "unseen")]
    #[schemars(schema_with = "schema::generation")]
    pub observed_generation: i64,

    /// What is true of the job: Accepted, Funded, Placed, Prepared, Ready, Reconciling, Released,
    /// Stalled, Succeeded. The reason of Ready is the one word to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::conditions")]
    pub conditions: Vec<Condition>,

    /// The run that the rest of the status speaks of.
    #[serde(default)]
    #[schemars(schema_with = "schema::count")]
    pub rerun: i64,

    /// The hash of what the run runs: gpu, image, script, command, args, env, workingDir, resources
    /// and environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::hash")]
    pub spec_hash: Option<String>,

    /// Number of the newest attempt of the run, 0 before the first.
    #[serde(default)]
    #[schemars(schema_with = "schema::count")]
    pub attempt: i64,

    /// Values in effect, defaults applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<Effective>,

    /// Id of the chosen card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub card: Option<String>,

    /// The node that holds the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node: Option<String>,

    /// The open lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,

    /// Money of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,

    /// Running time of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,

    /// Closed attempts that held a card, newest first, at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub attempts: Vec<Attempt>,

    /// How the run ended; absent while it can go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,

    /// A stop that a `GpuRequest` asked for, while it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,

    /// The newest `GpuRequests` that were acted on, newest first, at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub requests: Vec<HandledRequest>,

    /// The pause after a pod that did not get a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

fn unseen() -> i64 {
    -1
}

/// Values in effect.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Effective {
    /// Cards in the pod.
    #[schemars(schema_with = "schema::count")]
    pub count: i64,
    /// Running time at most.
    #[schemars(schema_with = "schema::span")]
    pub max_runtime: String,
    /// From the stop signal until the program is killed.
    #[schemars(schema_with = "schema::span")]
    pub grace_period: String,
    /// How long the card may be held before the program starts.
    #[schemars(schema_with = "schema::span")]
    pub startup_timeout: String,
    /// How long the finished pod stays.
    #[schemars(schema_with = "schema::span")]
    pub keep_logs: String,
    /// Ids of the acceptable cards, in order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::card_ids")]
    pub cards: Vec<String>,
}

/// An open lease.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Lease {
    /// Name of the `GpuLease` and of its pod.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The card's id.
    #[schemars(schema_with = "schema::name")]
    pub card: String,
    /// Cards held.
    #[schemars(schema_with = "schema::count")]
    pub count: i64,
    /// What one hour of all cards together costs.
    #[schemars(schema_with = "schema::amount")]
    pub rate_per_hour: String,
    /// The currency of the rate.
    #[schemars(schema_with = "schema::amount")]
    pub currency: String,
    /// Since when the cards are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub held_at: Option<String>,
    /// Since when the program runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub running_at: Option<String>,
    /// When the program will be told to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ends_at: Option<String>,
    /// Why it will be told then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reason")]
    pub ends_because: Option<String>,
    /// When the kubelet ends the pod whatever happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub ceiling_at: Option<String>,
}

/// Money of a run.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// The currency of all amounts.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::amount")]
    pub currency: String,
    /// What the closed leases of the run cost.
    #[schemars(schema_with = "schema::amount")]
    pub charged: String,
    /// What the open lease may cost at most.
    #[schemars(schema_with = "schema::amount")]
    pub reserved: String,
    /// What the run may cost at most, or Unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount")]
    pub limit: Option<String>,
}

/// Running time of a run.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Runtime {
    /// What closed attempts have used.
    #[schemars(schema_with = "schema::span")]
    pub used: String,
}

/// A closed attempt.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Attempt {
    /// Its number within the run.
    #[schemars(schema_with = "schema::count")]
    pub number: i64,
    /// The run.
    #[schemars(schema_with = "schema::count")]
    pub rerun: i64,
    /// Name of its lease and pod.
    #[schemars(schema_with = "schema::name")]
    pub lease: String,
    /// The card's id.
    #[schemars(schema_with = "schema::name")]
    pub card: String,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub node: Option<String>,
    /// When the cards were taken.
    #[schemars(schema_with = "schema::instant")]
    pub held_at: String,
    /// When the program started; absent when it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub running_at: Option<String>,
    /// When the cards came back.
    #[schemars(schema_with = "schema::instant")]
    pub ended_at: String,
    /// Why.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// Exit code of the program, when it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::exit_code")]
    pub exit_code: Option<i64>,
    /// What it cost.
    #[schemars(schema_with = "schema::amount")]
    pub charged: String,
    /// Who paid: the user, or nobody because the infrastructure failed.
    #[schemars(schema_with = "schema::payer")]
    pub paid_by: String,
}

/// How a run ended.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Outcome {
    /// One word.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// What that word means.
    #[schemars(schema_with = "schema::message")]
    pub message: String,
    /// What to change; absent when there is nothing to change.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::message")]
    pub cure: String,
    /// What was seen, with the values.
    #[schemars(schema_with = "schema::message")]
    pub evidence: String,
    /// When.
    #[schemars(schema_with = "schema::instant")]
    pub at: String,
}

/// A stop that was asked for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct StoppedBy {
    /// Name of the `GpuRequest`.
    #[schemars(schema_with = "schema::name")]
    pub request: String,
    /// When it was acted on.
    #[schemars(schema_with = "schema::instant")]
    pub at: String,
}

/// A request that was acted on.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct HandledRequest {
    /// Its name.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Which object of that name.
    #[schemars(schema_with = "schema::name")]
    pub uid: String,
    /// What was asked for.
    #[schemars(schema_with = "schema::reason")]
    pub action: String,
    /// Done or Refused.
    #[schemars(schema_with = "schema::reason")]
    pub state: String,
    /// What was done, or why nothing was.
    #[schemars(schema_with = "schema::message")]
    pub message: String,
    /// When.
    #[schemars(schema_with = "schema::instant")]
    pub at: String,
}

/// A pause before the next choice of a card.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Pause {
    /// How many pods in a row did not get a node.
    #[schemars(schema_with = "schema::count")]
    pub tries: i64,
    /// When the choice is made again.
    #[schemars(schema_with = "schema::instant")]
    pub until: String,
    /// Why the last pod did not get one: `PodUnbound` or `PodRefused`.
    #[schemars(schema_with = "schema::reason")]
    pub reason: String,
    /// The words of the scheduler or the API server.
    #[schemars(schema_with = "schema::message")]
    pub said: String,
}
