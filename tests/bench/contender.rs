//! Who takes a turn: what its users create, and when that has ended. Pure.

use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kinds::{GPU_JOB, GPU_LEASE, JOB, Kind, WORKLOAD};

/// Who makes pods of what users create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Contender {
    Leasehold,
    Job,
    Kueue,
}

/// Kueue's queue, in its namespace.
pub(crate) const QUEUE: &str = "bench";

impl Contender {
    /// In a sentence.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Job => "Job controller",
            Self::Kueue => "Kueue",
        }
    }

    /// Where its objects lie; nobody else's do.
    pub(crate) const fn namespace(self) -> &'static str {
        match self {
            Self::Leasehold => "bench-leasehold",
            Self::Job => "bench-job",
            Self::Kueue => "bench-kueue",
        }
    }

    /// What users create.
    pub(crate) const fn created(self) -> Kind {
        match self {
            Self::Leasehold => GPU_JOB,
            Self::Job | Self::Kueue => JOB,
        }
    }

    /// What says that the card is free again.
    pub(crate) const fn ended(self) -> Kind {
        match self {
            Self::Leasehold => GPU_LEASE,
            Self::Job => JOB,
            Self::Kueue => WORKLOAD,
        }
    }

    /// Whether this object of the kind [`Self::ended`] says so.
    pub(crate) fn has_ended(self, object: &DynamicObject) -> bool {
        match self {
            Self::Leasehold => object.data.pointer("/status/state") == Some(&json!("Closed")),
            Self::Job => is_true(object, "Complete"),
            Self::Kueue => is_true(object, "Finished"),
        }
    }

    /// An object for one card, whose program runs for so long.
    pub(crate) fn object(self, name: &str, run_for: &str) -> Value {
        match self {
            Self::Leasehold => gpu_job(name, run_for),
            Self::Job => job(name, run_for),
            Self::Kueue => {
                let mut queued = job(name, run_for);
                if let Some(metadata) = queued.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("labels".into(), json!({"kueue.x-k8s.io/queue-name": QUEUE}));
                }
                queued
            }
        }
    }
}

fn gpu_job(name: &str, run_for: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "gpu": {"cards": ["rtx4090"]},
            "image": "program",
            "command": ["true"],
            "env": [{"name": "PLAYGROUND_RUN_FOR", "value": run_for}],
            "maxRuntime": "6h",
            "budget": {"limit": "10.00"},
        },
    })
}

fn job(name: &str, run_for: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main",
                    "image": "program",
                    "command": ["true"],
                    "env": [{"name": "PLAYGROUND_RUN_FOR", "value": run_for}],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }],
            }},
        },
    })
}

fn is_true(object: &DynamicObject, condition: &str) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| {
        one.get("type") == Some(&json!(condition)) && one.get("status") == Some(&json!("True"))
    })
}
