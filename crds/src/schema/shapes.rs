//! Lists and the shapes that Kubernetes' own kinds have. Pure.
//!
//! The core shapes are written out with bounds: the generated ones have none, and an API server
//! refuses rules over unbounded lists.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{
    CARD_NAME, LONGEST_ARGUMENT, LONGEST_CARD_NAME, LONGEST_VARIABLE_NAME, LONGEST_VARIABLE_VALUE,
    MOST_ARGS, MOST_CARD_NAMES, MOST_COMMAND_ITEMS, MOST_FILES, MOST_PULL_SECRETS, MOST_VARIABLES,
    rule, rule_at, says,
};

pub(crate) fn cards(_: &mut SchemaGenerator) -> Schema {
    let name = format!("string(self).matches('{CARD_NAME}')");
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_CARD_NAMES,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "x-kubernetes-int-or-string": true,
            "maxLength": LONGEST_CARD_NAME,
            "x-kubernetes-validations": [rule(&name, says::CARD_NAME)],
        },
    })
}

pub(crate) fn files(_: &mut SchemaGenerator) -> Schema {
    let climbs = "!self.matches('(^|/)[.][.](/|$)')";
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_FILES,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "minLength": 1,
            "maxLength": 253,
            "x-kubernetes-validations": [
                rule(&format!("self.matches('^[A-Za-z0-9._+/][A-Za-z0-9._+/-]*$') && {climbs}"), says::FILE_PATH),
                rule("!self.matches('[.](yml|yaml|toml|lock)$')", says::FILE_FORMAT),
            ],
        },
    })
}

pub(crate) fn inline_files(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST_FILES,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": {"type": "string", "maxLength": super::LONGEST_FILE},
    })
}

pub(crate) fn card_ids(_: &mut SchemaGenerator) -> Schema {
    texts(64, 253)
}

pub(crate) fn aliases(_: &mut SchemaGenerator) -> Schema {
    let mut schema = texts(16, LONGEST_CARD_NAME);
    let name = rule(&format!("self.matches('{CARD_NAME}')"), says::CARD_NAME);
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("x-kubernetes-validations".to_owned(), json!([name]));
    }
    schema
}

pub(crate) fn products(_: &mut SchemaGenerator) -> Schema {
    let mut schema = texts(16, 128);
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("minLength".to_owned(), json!(1));
    }
    schema
}

pub(crate) fn command(_: &mut SchemaGenerator) -> Schema {
    let mut schema = texts(MOST_COMMAND_ITEMS, LONGEST_ARGUMENT);
    schema.insert("minItems".to_owned(), json!(1));
    schema
}

pub(crate) fn args(_: &mut SchemaGenerator) -> Schema {
    texts(MOST_ARGS, LONGEST_ARGUMENT)
}

fn texts(most: usize, longest: usize) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": most,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": longest},
    })
}

pub(crate) fn env(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_VARIABLES,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "description": "One environment variable.",
            "required": ["name"],
            "x-kubernetes-validations": [
                rule_at(".name", "self.name.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$')", says::VARIABLE_NAME),
                rule_at(".name", "self.name != 'NVIDIA_VISIBLE_DEVICES'", says::VISIBLE_DEVICES),
                rule_at(".name", "!self.name.startsWith('LEASEHOLD_')", says::RESERVED_VARIABLE),
                rule_at(".value", "!has(self.value) || self.value == '' || !has(self.valueFrom)", says::ONE_VALUE),
            ],
            "properties": {
                "name": text(LONGEST_VARIABLE_NAME, "Its name."),
                "value": text(LONGEST_VARIABLE_VALUE, "Its value, always a text: quote numbers and words like \"1.10\", \"0123\" or \"no\"."),
                "valueFrom": value_from(),
            },
        },
    })
}

/// Where the value of a variable comes from: `EnvVarSource`.
fn value_from() -> Value {
    let key_of = |owner: &str| {
        json!({
            "type": "object",
            "description": format!("A key of a {owner} in the job's namespace."),
            "required": ["key", "name"],
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "name": text(253, &format!("Name of the {owner}.")),
                "key": text(253, &format!("Key within the {owner}.")),
                "optional": {
                    "type": "boolean",
                    "description": format!("Whether the program may start without the {owner} or the key. Default: it may not."),
                },
            },
        })
    };
    json!({
        "type": "object",
        "description": "Where the value comes from; exactly one of the fields.",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            "configMapKeyRef": key_of("ConfigMap"),
            "secretKeyRef": key_of("Secret"),
            "fieldRef": {
                "type": "object",
                "description": "A field of the pod.",
                "required": ["fieldPath"],
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "apiVersion": text(32, "Version of the field path. Default: v1."),
                    "fieldPath": text(512, "The field, for example status.podIP."),
                },
            },
            "resourceFieldRef": {
                "type": "object",
                "description": "A resource limit or request of the container.",
                "required": ["resource"],
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "containerName": text(63, "The container. Default: the one with the program."),
                    "divisor": {
                        "x-kubernetes-int-or-string": true,
                        "maxLength": 32,
                        "description": "The unit of the value, for example 1Mi. Default: 1.",
                    },
                    "resource": text(253, "The resource, for example limits.memory."),
                },
            },
        },
    })
}

fn text(longest: usize, about: &str) -> Value {
    json!({"type": "string", "maxLength": longest, "description": about})
}

pub(crate) fn pull_secrets(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MOST_PULL_SECRETS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "description": "A Secret of type kubernetes.io/dockerconfigjson.",
            "required": ["name"],
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 253, "description": "Name of the Secret."},
            },
        },
    })
}

pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One condition, in Kubernetes' usual form.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {"type": "string", "maxLength": 64, "pattern": "^[A-Z][A-Za-z]*$", "description": "What it speaks of."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
                "reason": {"type": "string", "maxLength": 64, "pattern": "^[A-Z][A-Za-z0-9]*$", "description": "Why, in one word."},
                "message": {"type": "string", "maxLength": super::LONGEST_MESSAGE, "description": "Why, for people, with what to change."},
                "observedGeneration": {"type": "integer", "minimum": 0, "description": "The generation that it speaks of."},
                "lastTransitionTime": {"type": "string", "format": "date-time", "maxLength": 64, "description": "When its status last changed."},
            },
        },
    })
}
