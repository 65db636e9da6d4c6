//! The rules of the API, checked over every field of the generated schemas.

use leasehold_crds::definitions::{Definition, definitions};
use serde_json::Value;

/// Words that YAML 1.1 parsers, kubectl's among them, take for booleans or null.
const YAML_WORDS: &[&str] = &["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""];

/// Shapes of Kubernetes' own kinds that break a rule and must keep their form.
const CORE_SHAPES: &[&str] = &[
    "spec.env[].valueFrom.configMapKeyRef.optional",
    "spec.env[].valueFrom.secretKeyRef.optional",
    "status.conditions[].status",
];

/// A field and where it stands.
struct Field<'a> {
    path: String,
    schema: &'a Value,
    is_property: bool,
}

impl Field<'_> {
    fn kind(&self) -> &str {
        self.schema["type"].as_str().unwrap_or_default()
    }

    fn has(&self, key: &str) -> bool {
        self.schema.get(key).is_some()
    }

    fn in_spec(&self) -> bool {
        self.path.starts_with("spec")
    }

    fn is_core_shape(&self) -> bool {
        CORE_SHAPES.contains(&self.path.as_str())
    }
}

fn walk<'a>(path: &str, schema: &'a Value, is_property: bool, found: &mut Vec<Field<'a>>) {
    if !path.is_empty() {
        found.push(Field { path: path.to_owned(), schema, is_property });
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        walk(&inner, field, true, found);
    }
    if let Some(items) = schema.get("items") {
        walk(&format!("{path}[]"), items, false, found);
    }
}

fn fields(definition: &Definition) -> Vec<Field<'_>> {
    let mut found = Vec::new();
    walk("", definition.schema(), true, &mut found);
    assert!(found.len() > 5, "{}", definition.kind);
    found
}

fn every_field(judge: impl Fn(&Field<'_>) -> bool, rule: &str) {
    for definition in definitions() {
        let wrong: Vec<_> = fields(&definition)
            .into_iter()
            .filter(|field| !judge(field))
            .map(|field| field.path)
            .collect();
        assert!(wrong.is_empty(), "{}: {rule}: {wrong:?}", definition.kind);
    }
}

#[test]
fn every_field_is_described() {
    let described = |field: &Field<'_>| {
        let text = field.schema["description"].as_str().unwrap_or_default();
        !field.is_property || (text.trim_end().ends_with('.') && !text.contains("\\n"))
    };
    every_field(described, "has a description that is a sentence");
}

#[test]
fn optional_fields_of_a_specification_say_their_default_and_give_an_example() {
    for definition in definitions().iter().filter(|definition| definition.kind != "GpuLease") {
        let spec = &definition.schema()["properties"]["spec"];
        let required = spec["required"].as_array().cloned().unwrap_or_default();
        for (name, field) in spec["properties"].as_object().unwrap() {
            let text = field["description"].as_str().unwrap();
            let optional = !required.iter().any(|other| other == name);
            let alternatives = ["script", "command"].contains(&name.as_str());
            if optional && !alternatives {
                assert!(
                    text.contains("Default: "),
                    "{}.spec.{name} says no default",
                    definition.kind
                );
            }
            if field["type"] != "object" {
                assert!(
                    text.contains("Example: "),
                    "{}.spec.{name} has no example",
                    definition.kind
                );
            }
        }
    }
}

#[test]
fn every_text_list_and_map_is_bounded() {
    let bounded = |field: &Field<'_>| match field.kind() {
        "string" => field.has("maxLength") || field.has("enum"),
        "array" => field.has("maxItems"),
        "object" => {
            field.has("properties") || field.has("maxProperties") || field.path == "metadata"
        }
        "" => field.has("maxLength"),
        _ => true,
    };
    every_field(bounded, "is bounded");
}

#[test]
fn lists_say_how_they_are_merged() {
    let merged = |field: &Field<'_>| field.kind() != "array" || field.has("x-kubernetes-list-type");
    every_field(merged, "has a list type");
}

#[test]
fn there_are_no_floats_and_no_formats_that_an_api_server_warns_about() {
    let plain = |field: &Field<'_>| {
        field.kind() != "number"
            && matches!(field.schema["format"].as_str(), None | Some("date-time"))
    };
    every_field(plain, "is no float and has no number format");
}

#[test]
fn a_specification_has_no_booleans_and_nothing_is_nullable() {
    let fine = |field: &Field<'_>| {
        let boolean = field.in_spec() && field.kind() == "boolean" && !field.is_core_shape();
        !boolean && !field.has("nullable")
    };
    every_field(fine, "is neither boolean nor nullable");
}

#[test]
fn only_a_status_has_a_default() {
    let fine = |field: &Field<'_>| field.path == "status" || !field.has("default");
    every_field(fine, "has no default, which git controllers would show as drift");
}

#[test]
fn no_value_of_an_enumeration_is_a_word_of_yaml() {
    let fine = |field: &Field<'_>| {
        let values = field.schema["enum"].as_array().cloned().unwrap_or_default();
        let strange = |value: &Value| {
            value.as_str().is_none_or(|word| YAML_WORDS.contains(&word.to_lowercase().as_str()))
        };
        field.is_core_shape() || !values.iter().any(strange)
    };
    every_field(fine, "has no YAML word in its enumeration");
}

#[test]
fn every_value_of_an_enumeration_survives_yaml() {
    for definition in definitions() {
        for field in fields(&definition) {
            for value in field.schema["enum"].as_array().into_iter().flatten() {
                let word = value.as_str().unwrap();
                let read: Value = serde_yaml::from_str(&format!("word: {word}")).unwrap();
                assert!(field.is_core_shape() || read["word"] == *value, "{}: {word}", field.path);
            }
        }
    }
}

#[test]
fn a_first_status_says_that_nobody_has_seen_the_object() {
    for definition in definitions() {
        let first = &definition.schema()["properties"]["status"]["default"];
        match definition.kind.as_str() {
            "GpuLease" => assert_eq!(first["state"], "Reserved"),
            "GpuRequest" => assert_eq!(first["state"], "Pending"),
            _ => assert_eq!(first["observedGeneration"], -1),
        }
    }
}

#[test]
fn a_definition_is_small_enough_for_client_side_apply() {
    for definition in definitions() {
        let size = serde_json::to_string(&definition.object).unwrap().len();
        assert!(size < 200 * 1024, "{}: {size}", definition.kind);
    }
}

#[test]
fn a_rule_has_words_that_people_understand() {
    for definition in definitions() {
        let root = Field { path: "object".into(), schema: definition.schema(), is_property: true };
        for field in fields(&definition).iter().chain([&root]) {
            for rule in field.schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let words = rule["message"].as_str().unwrap_or_default();
                assert!(words.len() > 20 && words.len() < 300, "{}: {words}", field.path);
            }
        }
    }
}
