//! The definitions that a cluster installs, made from the wire types. Pure and deterministic.
//! `generate` writes them to `crds/generated`, [`crate::reference`] explains them.
//!
//! What the derive cannot say is added here: rules that see `metadata`, and the first status. What
//! it says too much is taken away: `nullable` (a null is a mistake), defaults (git controllers
//! would see drift) and number formats (API servers warn about most of them).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use crate::{
    card::GpuCard,
    job::GpuJob,
    lease::GpuLease,
    market::LONGEST_CARD_ID,
    request::GpuRequest,
    schema::{rule, says},
};

/// A definition, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Plural name, which is also the name of its file.
    pub plural: String,
    /// The kind.
    pub kind: String,
    /// The whole `CustomResourceDefinition`.
    pub object: Value,
}

impl Definition {
    fn new(made: &CustomResourceDefinition, root_rules: &[Value], first_status: &Value) -> Self {
        let mut object = serde_json::to_value(made).unwrap_or_default();
        if let Some(schema) = object.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
            clean(schema);
            if let Some(root) = schema.as_object_mut() {
                root.insert("x-kubernetes-validations".to_owned(), Value::from(root_rules));
                root.remove("title");
            }
            if let Some(status) =
                schema.pointer_mut("/properties/status").and_then(Value::as_object_mut)
            {
                status.insert("default".to_owned(), first_status.clone());
            }
        }
        Self { plural: made.spec.names.plural.clone(), kind: made.spec.names.kind.clone(), object }
    }

    /// The schema of the kind.
    #[must_use]
    pub fn schema(&self) -> &Value {
        self.object.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap_or(&Value::Null)
    }
}

/// All kinds, in the order of the documentation.
#[must_use]
pub fn definitions() -> Vec<Definition> {
    let longest = crate::names::LONGEST_HOLDER_NAME;
    let mut job_rules = vec![rule(&format!("size(self.metadata.name) <= {longest}"), says::NAME)];
    job_rules.extend(crate::identity::rules());
    let unseen = json!({"observedGeneration": -1});
    let final_states = "has(oldSelf.status) && oldSelf.status.state in ['Closed', 'Void']";
    vec![
        Definition::new(&GpuJob::crd(), &job_rules, &unseen),
        Definition::new(
            &GpuCard::crd(),
            &[rule(&format!("size(self.metadata.name) <= {LONGEST_CARD_ID}"), says::CARD_ID)],
            &unseen,
        ),
        Definition::new(&GpuRequest::crd(), &[], &json!({"state": "Pending"})),
        Definition::new(
            &GpuLease::crd(),
            &[
                rule(
                    &format!(
                        "!({final_states}) || (has(self.status) && self.status == oldSelf.status)"
                    ),
                    says::FINAL,
                ),
                rule(
                    "!(has(oldSelf.status) && oldSelf.status.state == 'Held') || (has(self.status) && self.status.state in ['Held', 'Closed'])",
                    says::NO_WAY_BACK,
                ),
            ],
            &json!({"state": "Reserved"}),
        ),
    ]
}

/// Takes away what the derive says too much, at every level.
fn clean(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("nullable");
            fields.remove("default");
            if fields.get("format").is_some_and(|format| format != "date-time") {
                fields.remove("format");
            }
            describe_in_lines(fields);
            fields.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        // The type of the definition holds bounds as floating point numbers.
        Value::Number(bound) => {
            if let Ok(whole) = bound.to_string().trim_end_matches(".0").parse::<i64>() {
                *bound = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Joins the lines of a field comment; blank lines stay paragraphs.
fn describe_in_lines(fields: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text =
            text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
}

/// The schema of the settings file, for editors.
fn settings_schema() -> String {
    let mut schema = schemars::schema_for!(crate::settings::SettingsFile).to_value();
    join_lines(&mut schema);
    format!("{schema:#}\n")
}

/// Joins the lines of all comments.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            describe_in_lines(fields);
            fields.values_mut().for_each(join_lines);
        }
        Value::Array(items) => items.iter_mut().for_each(join_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Everything that is generated: paths from the project's folder, and contents.
pub fn files() -> Result<Vec<(String, String)>, serde_yaml::ser::Error> {
    let mut files = Vec::new();
    for definition in definitions() {
        files.push((
            format!("crds/generated/{}.yaml", definition.plural),
            serde_yaml::to_string(&definition.object)?,
        ));
    }
    files.push(("docs/settings.schema.json".to_owned(), settings_schema()));
    files.push(("crds/generated/API.md".to_owned(), crate::reference::reference()));
    Ok(files)
}
