//! What makes two specifications the same run: the identity fields and their hash. Pure.
//!
//! The ledger keeps the hash of each lease, so that an object that was deleted and applied again is
//! recognised. Limits (`maxRuntime`, `budget`, `gracePeriod`, `state`, `keepLogs`) are no identity:
//! they apply live.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    job::GpuJobSpec,
    schema::{rule_at, says},
};

/// Fields of a `GpuJob` that say what is run; they change only together with `rerun`.
pub const IDENTITY_FIELDS: [&str; 9] =
    ["gpu", "image", "script", "command", "args", "env", "workingDir", "resources", "environment"];

/// The hash of what a specification runs: `v1:` and SHA-256 in hexadecimal over canonical JSON
/// (RFC 8785 for the values that occur: objects, lists, texts, whole numbers) of the identity
/// fields as they are stored. A field that is absent stays absent, defaults are not applied, and
/// `4090` is the same as `"4090"`.
#[must_use]
pub fn spec_hash(spec: &GpuJobSpec) -> String {
    let all = serde_json::to_value(spec).unwrap_or_default();
    let identity: Map<String, Value> = IDENTITY_FIELDS
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), all.get(*field)?.clone())))
        .collect();
    let digest = Sha256::digest(canonical(&Value::Object(identity)).as_bytes());
    digest.iter().fold("v1:".to_owned(), |mut hash, byte| {
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

/// JSON without blanks and with sorted keys, whatever order a map keeps.
fn canonical(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(",");
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            let field = |key: &String| {
                let value = fields.get(key).map(canonical).unwrap_or_default();
                format!("{}:{value}", Value::from(key.as_str()))
            };
            format!("{{{}}}", joined(keys.into_iter().map(field).collect()))
        }
        Value::Array(items) => format!("[{}]", joined(items.iter().map(canonical).collect())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// The rules that keep the identity fields of a run that has begun: one for each field, which the
/// refusal names. A run has begun when it holds or held a card, or when it is over.
pub(crate) fn rules() -> Vec<Value> {
    let or_zero = |owner: &str| format!("(has({owner}.rerun) ? {owner}.rerun : 0)");
    let (now, before) = (or_zero("self.spec"), or_zero("oldSelf.spec"));
    let begun = format!(
        "{before} == {now} && has(oldSelf.status) && {} == {now} && \
         (has(oldSelf.status.lease) || has(oldSelf.status.outcome) || \
         (has(oldSelf.status.attempts) && oldSelf.status.attempts.exists(attempt, {} == {now})))",
        or_zero("oldSelf.status"),
        or_zero("attempt"),
    );
    let rule = |field: &&str| {
        rule_at(
            &format!(".spec.{field}"),
            &format!("!({begun}) || ({})", unchanged(field)),
            &format!("{field} {}", says::IDENTITY),
        )
    };
    IDENTITY_FIELDS.iter().map(rule).collect()
}

/// Whether a field says the same as before; numbers and their texts are the same.
fn unchanged(field: &str) -> String {
    let same = |field: &str, text: &str| {
        let (now, before) = (format!("self.spec.{field}"), format!("oldSelf.spec.{field}"));
        let equal = format!("{} == {}", text.replace('@', &now), text.replace('@', &before));
        format!("has({now}) == has({before}) && (!has({now}) || {equal})")
    };
    match field {
        "gpu" => {
            let count = same("gpu.count", "@");
            let cards = same("gpu.cards", "@.map(card, string(card))");
            format!("{cards} && {count}")
        }
        "resources" => {
            let amounts = ["cpu", "memory", "sharedMemory"]
                .map(|name| same(&format!("resources.{name}"), "string(@)"));
            format!(
                "has(self.spec.resources) == has(oldSelf.spec.resources) && \
                 (!has(self.spec.resources) || ({}))",
                amounts.join(" && ")
            )
        }
        _ => same(field, "@"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn hash(spec: Value) -> String {
        spec_hash(&from_value(spec).unwrap())
    }

    fn small() -> Value {
        json!({
            "gpu": {"cards": [4090]},
            "image": "python:3.11-slim",
            "script": "python train.py\n",
            "maxRuntime": "1h",
            "budget": {"limit": "25.00"},
        })
    }

    /// These values are in ledgers: another value for the same specification would run it again.
    #[test]
    fn hashes_never_change() {
        assert_eq!(
            hash(small()),
            "v1:58b88265d1c7aced8650d3195f047fe26457c92a2f1cea12bfe91b482d260db0"
        );
        let full = json!({
            "gpu": {"cards": ["rtx4090", 3090], "count": 2},
            "image": "ghcr.io/team/train@sha256:00",
            "command": ["python", "-u"],
            "args": ["train.py", "--name", "☂ \"quoted\" \\ \u{7f}"],
            "env": [
                {"name": "SEED", "value": "42"},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api"}}},
            ],
            "workingDir": "/workspace",
            "resources": {"cpu": 8, "memory": "32Gi", "sharedMemory": "8Gi"},
            "environment": {"inline": {"requirements.txt": "idna==3.10\n"}},
            "maxRuntime": "4h",
            "budget": {"limit": 100, "currency": "CNY"},
            "rerun": 3,
        });
        assert_eq!(
            hash(full),
            "v1:22749c470f1f29d284462e89c8993116115c76f92bdf6c45c554c4e1fe9b1ef8"
        );
    }

    #[test]
    fn only_what_is_run_counts() {
        let with = |field: &str, value: Value| {
            let mut spec = small();
            spec[field] = value;
            hash(spec)
        };
        let same = hash(small());
        for (field, value) in [
            ("maxRuntime", json!("2h")),
            ("budget", json!({"limit": 1})),
            ("gracePeriod", json!("1m")),
            ("state", json!("Stopped")),
            ("rerun", json!(7)),
            ("keepLogs", json!("1h")),
            ("imagePullPolicy", json!("Always")),
            ("imagePullSecrets", json!([{"name": "registry"}])),
            ("gpu", json!({"cards": ["4090"]})),
        ] {
            assert_eq!(with(field, value), same, "{field}");
        }
        for (field, value) in [
            ("gpu", json!({"cards": [4090], "count": 1})),
            ("image", json!("python:3.12-slim")),
            ("script", json!("python train.py")),
            ("env", json!([{"name": "A", "value": "1"}])),
            ("workingDir", json!("/w")),
            ("resources", json!({"cpu": 1})),
            ("environment", json!({"files": ["requirements.txt"]})),
        ] {
            assert_ne!(with(field, value), same, "{field}");
        }
    }
}
