//! What becomes of an object that shall go. Pure.
//!
//! Rules of `k8s.io/apiserver/pkg/registry/rest/delete.go` and
//! `pkg/registry/core/pod/strategy.go`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    kinds::{Kind, Rules},
    refusal::Refusal,
    write::{finalizers, version},
};

/// What is left of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// The object, marked.
    Marked(Value),
    /// It is as it was: its deletion had been asked for.
    Unchanged,
}

/// What becomes of the object, by the body of the request.
pub fn deleted(kind: &Kind, old: &Value, options: &Value, now: Timestamp) -> Result<Left, Refusal> {
    let differs = |wanted: Option<&Value>, is: Option<&str>| {
        wanted.and_then(Value::as_str).is_some_and(|wanted| Some(wanted) != is)
    };
    let uid = old.pointer("/metadata/uid").and_then(Value::as_str);
    if differs(options.pointer("/preconditions/uid"), uid)
        || differs(options.pointer("/preconditions/resourceVersion"), version(old))
    {
        return Err(Refusal::conflict("Precondition failed"));
    }
    let grace = match kind.rules {
        Rules::Pod => grace_of_pod(old, options),
        Rules::Custom { .. } | Rules::Split | Rules::Plain => 0,
    };
    let mut new = old.clone();
    let holds = match options["propagationPolicy"].as_str() {
        Some("Orphan") => Some("orphan"),
        Some("Foreground") => Some("foregroundDeletion"),
        _ => None,
    };
    if let Some(holds) = holds.filter(|holds| !finalizers(old).contains(holds)) {
        let all = finalizers(old).into_iter().chain([holds]).map(str::to_owned);
        new["metadata"]["finalizers"] = Value::from(all.collect::<Vec<_>>());
    }
    if let Some(before) = old.pointer("/metadata/deletionGracePeriodSeconds") {
        if before.as_i64().is_some_and(|before| before <= grace) && new == *old {
            return Ok(Left::Unchanged);
        }
    } else if kind.counts_generations() {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
        new["metadata"]["generation"] = json!(generation.unwrap_or(0) + 1);
    }
    let at = now.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
    new["metadata"]["deletionTimestamp"] = json!(at.to_string());
    new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    Ok(if is_done(&new) { Left::Nothing } else { Left::Marked(new) })
}

/// Whether nothing keeps an object any more whose deletion was asked for.
#[must_use]
pub fn is_done(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
        && object["metadata"]["deletionGracePeriodSeconds"] == json!(0)
        && finalizers(object).is_empty()
}

/// A pod that no kubelet has, or that has ended, goes at once.
fn grace_of_pod(pod: &Value, options: &Value) -> i64 {
    let is_bound = pod.pointer("/spec/nodeName").is_some_and(|node| node != "");
    let has_ended = matches!(
        pod.pointer("/status/phase").and_then(Value::as_str),
        Some("Succeeded" | "Failed")
    );
    if !is_bound || has_ended {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    options["gracePeriodSeconds"].as_i64().or(own).unwrap_or(30)
}
