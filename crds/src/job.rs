//! `GpuJob` as it is on the wire: a program that runs once on leased cards. Pure data.
//! [`crate::desire()`] makes it usable, [`crate::job_status`] is the other half.
#![expect(clippy::duplicated_attributes, reason = "each column of the derive has the same keys")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    job_status::GpuJobStatus,
    scalar::Scalar,
    schema::{self, rule, rule_at, says, shapes},
};

/// What to run, on which card, for how long and for how much money.
///
/// Example: `{gpu: {cards: [4090]}, image: python:3.11-slim, script: "python train.py", maxRuntime: 4h, budget: {limit: "25.00"}}`.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "GpuJob",
    plural = "gpujobs",
    shortname = "gj",
    category = "gpu",
    namespaced,
    status = "GpuJobStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A program that runs once on leased GPU cards, within a time and a budget.",
    printcolumn(name = "Card", type_ = "string", json_path = ".status.card"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Ends", type_ = "string", json_path = ".status.lease.endsAt"),
    printcolumn(name = "Charged", type_ = "string", json_path = ".status.cost.charged"),
    printcolumn(name = "Limit", type_ = "string", json_path = ".status.cost.limit"),
    printcolumn(
        name = "Reserved",
        type_ = "string",
        json_path = ".status.cost.reserved",
        priority = 1
    ),
    printcolumn(
        name = "Currency",
        type_ = "string",
        json_path = ".status.cost.currency",
        priority = 1
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule_at(".script", "has(self.script) != has(self.command)", says::ONE_PROGRAM),
    rule_at(".args", "!has(self.args) || has(self.command)", says::ARGS),
]))]
pub struct GpuJobSpec {
    /// The cards that the program needs.
    pub gpu: Gpu,

    /// The container image, pulled by the node. Example: `pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime`.
    #[schemars(schema_with = "schema::image")]
    pub image: String,

    /// Text for the image's `/bin/sh`; exactly one of `script` and `command`. At most 65536
    /// characters. Example: `python train.py --data /data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::script")]
    pub script: Option<String>,

    /// The program and its first arguments, without a shell; exactly one of `script` and
    /// `command`. The image's ENTRYPOINT is not used. Example: `[python, train.py]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::command")]
    pub command: Option<Vec<String>>,

    /// Further arguments of `command`; not allowed with `script`. Default: none. Example:
    /// `["--epochs", "3"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::args")]
    pub args: Option<Vec<String>>,

    /// Environment variables, in the form that pods have. Values are texts only: quote numbers.
    /// `NVIDIA_VISIBLE_DEVICES` and names that begin with `LEASEHOLD_` are refused. Default: none.
    /// Example: `[{name: SEED, value: "42"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::env")]
    pub env: Vec<EnvVar>,

    /// Absolute path in which the program starts. Default: the image's own. Example: `/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::working_dir")]
    pub working_dir: Option<String>,

    /// Packages to restore before the program starts. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,

    /// CPU and memory beside the cards. Default: the cards' share of their node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// When the node pulls the image. Default: Always for the tag `latest` and for none, else
    /// `IfNotPresent`. Example: `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pull_policy")]
    pub image_pull_policy: Option<String>,

    /// Secrets of the job's namespace with which the node pulls the image. Default: those of the
    /// service account. Example: `[{name: registry}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "shapes::pull_secrets")]
    pub image_pull_secrets: Vec<LocalObjectReference>,

    /// Running time at most, over all attempts of the run together; pulling the image and checking
    /// the card do not count. Hours, minutes and seconds, above 0s and at most 720h. Example: `1h30m`.
    #[schemars(schema_with = "schema::max_runtime")]
    pub max_runtime: String,

    /// From the stop signal until the program is killed, 0s to 1h; the card is held and paid
    /// meanwhile. Default: `30s`. Example: `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::grace_period")]
    pub grace_period: Option<String>,

    /// What the run may cost.
    pub budget: Budget,

    /// Running, or Stopped: the program is stopped, the card given back, and nothing started until
    /// it is Running again. Default: `Running`. Example: `Stopped`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::state")]
    pub state: Option<String>,

    /// The number of the run; each number runs at most once, change it to run again. 0 to
    /// 999999999. Default: 0. Example: `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::rerun")]
    pub rerun: Option<i64>,

    /// How long the finished pod stays, so that its log can be read; it holds no card. 0s to 168h.
    /// Default: `24h`. Example: `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::keep_logs")]
    pub keep_logs: Option<String>,
}

/// The cards that a program needs.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Names of acceptable cards, in order of preference, 1 to 8: ids (`rtx4090`), aliases
    /// (`4090`, quoted or not), names as nvidia-smi prints them, or a family (`a100`), which means any board of
    /// it. Example: `[4090, rtx3090]`.
    #[schemars(schema_with = "shapes::cards")]
    pub cards: Vec<Scalar>,

    /// Whole cards in the pod, 1 to 64, all on one node. Default: 1. Example: `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::card_count")]
    pub count: Option<i64>,
}

/// Packages from files in pip's requirements format, restored into a virtual environment that also
/// sees the packages of the image. `python` in the program is the one of that environment.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("!has(self.inline) || !has(self.from)", says::ONE_SOURCE),
    rule("!has(self.inline) || self.inline.all(name, name.matches('^[A-Za-z0-9_][A-Za-z0-9._-]*$'))", says::FILE_NAME),
    rule("!has(self.inline) || self.inline.map(name, size(self.inline[name])).sum() <= 65536", says::INLINE_SIZE),
    rule_at(".files", "!has(self.inline) || (has(self.files) ? self.files : ['requirements.txt']).all(name, name in self.inline)", says::NOT_INLINE),
]))]
pub struct Environment {
    /// The files, in order, all restored together: names within `inline` or `from`, or paths in the
    /// image, relative ones from the directory in which the program starts. 1 to 8 files. Default:
    /// `[requirements.txt]`. Example: `[requirements.txt, requirements-dev.txt]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::files")]
    pub files: Option<Vec<String>>,

    /// Texts of files by name, together at most 65536 characters; at most one of `inline` and
    /// `from`. Default: the files are in the image. Example:
    /// `{requirements.txt: "numpy==2.2.1"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "shapes::inline_files")]
    pub inline: Option<BTreeMap<String, String>>,

    /// An object of the job's namespace that holds the files. Default: the files are in the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FilesFrom>,
}

/// An object that holds files.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FilesFrom {
    /// Name of the `ConfigMap`; its keys are names of files. Example: `train-requirements`.
    #[schemars(schema_with = "schema::object_name")]
    pub config_map: String,
}

/// CPU and memory of the pod. Numbers with a fraction are rounded up.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Cores, above 0 and at most 1024. Default: the cards' share of the node. Example: `8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cpu")]
    pub cpu: Option<Scalar>,

    /// Memory, 64Mi to 64Ti; a bare number is bytes. Default: the cards' share of the node.
    /// Example: `32Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::memory")]
    pub memory: Option<Scalar>,

    /// Size of `/dev/shm`, which counts as memory, 64Mi to 64Ti; a bare number is bytes. Data
    /// loaders with workers need it. Default: half of the memory. Example: `8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::memory")]
    pub shared_memory: Option<Scalar>,
}

/// What a run may cost.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The most that all attempts of the run together may cost: an amount above 0 with at most 6
    /// decimals (quote it, or write a whole number), or `Unlimited`; maxRuntime ends the run in any
    /// case. Example: `"25.00"`.
    #[schemars(schema_with = "schema::limit")]
    pub limit: Scalar,

    /// ISO 4217 code of the limit; it must be that of the card's price. Default: the
    /// installation's currency. Example: `CNY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::currency")]
    pub currency: Option<String>,
}
