//! `GpuRequest` as it is on the wire: what people ask for outside of what git applies. Pure data.
//! [`observed`] and [`answered`] map it to and from the core's values.
#![expect(clippy::duplicated_attributes, reason = "each column of the derive has the same keys")]

use jiff::Timestamp;
use kube::{CustomResource, ResourceExt};
use leasehold_core::request::{Action, Answer, Request};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    schema::{self, rule, says},
    status::{clipped, read, write},
};

/// One wish about one job: it is acted on once, answered in its status, and deleted a week later.
///
/// Example: `{target: {kind: GpuJob, name: train}, action: Stop}`.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "leasehold.dev",
    version = "v1alpha1",
    kind = "GpuRequest",
    plural = "gpurequests",
    shortname = "gr",
    category = "gpu",
    namespaced,
    status = "GpuRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What somebody asks for outside of git: stop a job, or let it go on. Acted on once.",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target.name"),
    printcolumn(name = "Action", type_ = "string", json_path = ".spec.action"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule("self == oldSelf", says::FIXED_REQUEST)]))]
pub struct GpuRequestSpec {
    /// What it is about.
    pub target: Target,
    /// Stop: the program is stopped, the card given back, and nothing started until a Start, another
    /// run, or `spec.state` says so. Start: a job that was stopped by a request goes on. Example:
    /// `Stop`.
    #[schemars(schema_with = "action")]
    pub action: String,
}

/// An object of the request's namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its kind.
    #[schemars(schema_with = "target_kind")]
    pub kind: String,
    /// Its name.
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,
}

/// The answer. Only leasehold writes it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["state"]))]
pub struct GpuRequestStatus {
    /// Pending, Done, or Refused with a message.
    #[schemars(schema_with = "state")]
    pub state: String,
    /// What was done, or why nothing was.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::message")]
    pub message: String,
    /// When it was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub at: Option<String>,
}

/// A request as rules read it; `None` for an action that this version does not know.
#[must_use]
pub fn observed(request: &GpuRequest) -> Option<Request> {
    let created = request.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let status = request.status.as_ref().filter(|status| status.state != PENDING);
    Some(Request {
        name: request.name_any(),
        uid: request.uid().unwrap_or_default(),
        action: Action::parse(&request.spec.action)?,
        asked_at: created,
        answered_at: status
            .map(|status| status.at.as_deref().and_then(read::instant).unwrap_or(created)),
    })
}

/// The status with this answer.
#[must_use]
pub fn answered(answer: &Answer) -> GpuRequestStatus {
    GpuRequestStatus {
        state: answer_state(answer).to_owned(),
        message: clipped(&answer.said, schema::LONGEST_MESSAGE),
        at: Some(write::instant(answer.at)),
    }
}

/// Not answered yet.
const PENDING: &str = "Pending";

/// The word for an answer.
pub(crate) fn answer_state(answer: &Answer) -> &'static str {
    if answer.is_done { "Done" } else { "Refused" }
}

fn action(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
    json_schema!({"type": "string", "enum": names})
}

fn target_kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["GpuJob"]})
}

fn state(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": [PENDING, "Done", "Refused"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_usable_as_it_is() {
        let text = include_str!("../../examples/requests/stop.yaml");
        let request: GpuRequest = serde_yaml::from_str(text).unwrap();
        assert_eq!(observed(&request).unwrap().action, Action::Stop);
    }

    #[test]
    fn a_request_is_read_and_its_answer_is_read_back() {
        let spec = GpuRequestSpec {
            target: Target { kind: "GpuJob".into(), name: "train".into() },
            action: "Stop".into(),
        };
        let mut request = GpuRequest::new("stop-train", spec);
        request.status =
            Some(GpuRequestStatus { state: PENDING.into(), ..GpuRequestStatus::default() });
        let seen = observed(&request).unwrap();
        assert_eq!((seen.action, seen.answered_at), (Action::Stop, None));
        let at = Timestamp::from_second(9).unwrap();
        request.status =
            Some(answered(&Answer { is_done: false, said: "there is no job".into(), at }));
        assert_eq!(observed(&request).unwrap().answered_at, Some(at));
        request.spec.action = "Dance".into();
        assert_eq!(observed(&request), None);
    }
}
