//! The shared table of cases: what is accepted and what is refused, in which words. The same files
//! are judged by `desire()`, by CEL without an API server, and by a real API server.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The cases of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// The kind.
    pub(crate) kind: String,
    base: Value,
    accept: Vec<Accept>,
    refuse: Vec<Refuse>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accept {
    name: String,
    with: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refuse {
    name: String,
    with: Value,
    field: String,
    says: Option<String>,
}

/// One case.
#[derive(Debug)]
pub(crate) struct Case {
    /// A sentence.
    pub(crate) name: String,
    /// The object to apply.
    pub(crate) object: Value,
    /// `None` when it is accepted.
    pub(crate) refusal: Option<Refusal>,
}

/// How a case is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The field that the refusal names.
    pub(crate) field: String,
    /// Words of the rule that refuses; `None` where the schema's bounds do.
    pub(crate) says: Option<String>,
}

impl Table {
    /// All tables of the folder.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| folder.join("crds/tests/cases"))
            .find(|folder| folder.is_dir())
            .expect("the folder with the cases");
        let mut files: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
            .iter()
            .map(|file| serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap())
            .collect()
    }

    /// Its cases.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let object = |with: &Value| {
            let mut object = self.base.clone();
            merge(&mut object, with);
            expand(&mut object);
            object
        };
        let accepted = self.accept.iter().map(|case| Case {
            name: format!("{}: {}", self.kind, case.name),
            object: object(&case.with),
            refusal: None,
        });
        let refused = self.refuse.iter().map(|case| Case {
            name: format!("{}: {}", self.kind, case.name),
            object: object(&case.with),
            refusal: Some(Refusal { field: case.field.clone(), says: case.says.clone() }),
        });
        accepted.chain(refused).collect()
    }
}

/// A JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else {
        return;
    };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Makes 41 times x of `${x*41}`.
fn expand(value: &mut Value) {
    match value {
        Value::String(text) => {
            let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            if let Some((unit, times)) = inner.and_then(|inner| inner.split_once('*')) {
                *text = unit.repeat(times.parse().unwrap());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(expand),
        Value::Object(fields) => fields.values_mut().for_each(expand),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
