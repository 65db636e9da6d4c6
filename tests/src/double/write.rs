//! What becomes of an object that is created or changed. Pure.
//!
//! Rules of `k8s.io/apiserver/pkg/registry/rest/{create,update,meta}.go` and of the strategies of
//! custom resources and pods.

use serde_json::{Map, Value, json};

use super::{
    kinds::{Kind, Rules},
    refusal::Refusal,
};

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Object,
    /// The status alone.
    Status,
}

/// What nobody but the server writes.
const SYSTEM: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "name",
    "namespace",
    "uid",
];

/// The object that is stored for a new one.
pub fn created(kind: &Kind, mut object: Value, uid: &str, now: &str) -> Result<Value, Refusal> {
    if version(&object).is_some() {
        let words = "resourceVersion should not be set on objects to be created";
        return Err(Refusal::bad_request(words));
    }
    object["apiVersion"] = json!(kind.api_version);
    object["kind"] = json!(kind.name);
    let metadata = metadata(&mut object)?;
    metadata
        .retain(|key, _| !SYSTEM.contains(&key.as_str()) || key == "name" || key == "namespace");
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(now));
    if kind.counts_generations() {
        metadata.insert("generation".to_owned(), json!(1));
    }
    if matches!(kind.rules, Rules::Custom { .. } | Rules::Pod) {
        set_status(&mut object, kind.first_status());
    }
    Ok(object)
}

/// The object that is stored for a changed one.
pub fn replaced(kind: &Kind, old: &Value, new: Value, part: Part) -> Result<Value, Refusal> {
    match version(&new) {
        None if matches!(kind.rules, Rules::Custom { .. }) => {
            let words =
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err(Refusal::invalid(words));
        }
        Some(seen) if Some(seen) != version(old) => {
            return Err(Refusal::conflict(
                "the object has been modified; please apply your changes to the latest version",
            ));
        }
        _ => {}
    }
    if new.pointer("/metadata/uid").is_some_and(|uid| old.pointer("/metadata/uid") != Some(uid)) {
        return Err(Refusal::conflict("Precondition failed: UID in precondition"));
    }
    merged(kind, old, new, part)
}

/// The object that is stored for a merge patch (RFC 7386).
pub fn patched(kind: &Kind, old: &Value, patch: &Value, part: Part) -> Result<Value, Refusal> {
    if version(patch).is_some_and(|seen| Some(seen) != version(old)) {
        return Err(Refusal::conflict(
            "the object has been modified; please apply your changes to the latest version",
        ));
    }
    if patch.pointer("/metadata/uid").is_some_and(|uid| old.pointer("/metadata/uid") != Some(uid)) {
        return Err(Refusal::invalid("metadata.uid: field is immutable"));
    }
    let mut new = old.clone();
    merge(&mut new, patch);
    merged(kind, old, new, part)
}

fn merged(kind: &Kind, old: &Value, mut new: Value, part: Part) -> Result<Value, Refusal> {
    if part == Part::Status {
        let status = new.get("status").cloned();
        new = old.clone();
        set_status(&mut new, status);
        return Ok(new);
    }
    if kind.splits_status() {
        set_status(&mut new, old.get("status").cloned());
    }
    let is_respecified = new.get("spec") != old.get("spec");
    let before = old["metadata"].clone();
    let metadata = metadata(&mut new)?;
    metadata.remove("resourceVersion");
    for key in SYSTEM {
        match before.get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
    if let Some(version) = before.get("resourceVersion") {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    if is_respecified && kind.counts_generations() {
        let generation = before.get("generation").and_then(Value::as_i64).unwrap_or(0);
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
    no_new_finalizer(old, &new)?;
    Ok(new)
}

/// An object that is being deleted keeps no new hold on itself.
fn no_new_finalizer(old: &Value, new: &Value) -> Result<(), Refusal> {
    if old.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let known = finalizers(old);
    if finalizers(new).iter().all(|finalizer| known.contains(finalizer)) {
        return Ok(());
    }
    let words = "no new finalizers can be added if the object is being deleted";
    Err(Refusal::invalid(words))
}

/// Merges as RFC 7386 says.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// The version that an object carries.
#[must_use]
pub fn version(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion")?.as_str().filter(|text| !text.is_empty())
}

/// What holds an object that is to be deleted.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    let all = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn set_status(object: &mut Value, status: Option<Value>) {
    if let (Some(object), status) = (object.as_object_mut(), status) {
        match status {
            Some(status) => object.insert("status".to_owned(), status),
            None => object.remove("status"),
        };
    }
}

fn metadata(object: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.ok_or_else(|| Refusal::bad_request("the object has no metadata"))
}
