//! Which objects a list or a watch speaks of. Pure.

use serde_json::Value;

/// Requirements that all have to be met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    place: Place,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Label(String),
    /// A JSON pointer.
    Field(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Is(String),
    IsNot(String),
    Exists,
    IsMissing,
}

impl Selector {
    /// From the parameters `labelSelector` and `fieldSelector`.
    #[must_use]
    pub fn of(labels: Option<&str>, fields: Option<&str>) -> Self {
        let label = |text: &str| requirement(text, |key| Place::Label(key.to_owned()));
        let field = |text: &str| {
            requirement(text, |path| Place::Field(format!("/{}", path.replace('.', "/"))))
        };
        let split = |text: Option<&str>| -> Vec<String> {
            let parts = text.unwrap_or_default().split(',').filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let labels = split(labels).into_iter().map(|text| label(&text));
        Self(labels.chain(split(fields).into_iter().map(|text| field(&text))).collect())
    }

    /// Whether an object is meant.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(object))
    }
}

fn requirement(text: &str, place: impl Fn(&str) -> Place) -> Requirement {
    let (place, what) = if let Some((key, value)) = text.split_once("!=") {
        (place(key), Test::IsNot(value.to_owned()))
    } else if let Some((key, value)) = text.split_once('=') {
        (place(key), Test::Is(value.trim_start_matches('=').to_owned()))
    } else if let Some(key) = text.strip_prefix('!') {
        (place(key), Test::IsMissing)
    } else {
        (place(text), Test::Exists)
    };
    Requirement { place, test: what }
}

impl Requirement {
    fn is_met(&self, object: &Value) -> bool {
        let value = match &self.place {
            Place::Label(key) => object.pointer("/metadata/labels").and_then(|all| all.get(key)),
            Place::Field(pointer) => object.pointer(pointer),
        };
        let text = value.and_then(Value::as_str);
        match (&self.test, &self.place) {
            (Test::Exists, _) => text.is_some(),
            (Test::IsMissing, _) => text.is_none(),
            // A label that is missing has no value, a field that is missing has an empty one.
            (Test::Is(wanted), Place::Label(_)) => text == Some(wanted),
            (Test::IsNot(wanted), Place::Label(_)) => text != Some(wanted),
            (Test::Is(wanted), Place::Field(_)) => text.unwrap_or_default() == wanted,
            (Test::IsNot(wanted), Place::Field(_)) => text.unwrap_or_default() != wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_are_met_by_labels_and_fields() {
        let pod = json!({
            "metadata": {"labels": {"lease": "a", "x/y": "z"}},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running"},
        });
        for (labels, fields, matches) in [
            ("", "", true),
            ("lease", "", true),
            ("lease=a,x/y=z", "", true),
            ("lease!=a", "", false),
            ("state!=closed", "", true),
            ("!lease", "", false),
            ("missing=a", "", false),
            ("", "spec.nodeName!=,status.phase!=Failed", true),
            ("", "spec.nodeName=", false),
            ("", "status.phase=Running", true),
        ] {
            let selector = Selector::of(Some(labels), Some(fields));
            assert_eq!(selector.matches(&pod), matches, "{labels} {fields}");
        }
    }
}
