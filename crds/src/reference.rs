//! The API reference, made from the schemas and from the core's reasons. Pure and deterministic.
//! `generate` writes it to `crds/generated/API.md`.

use std::fmt::Write as _;

use leasehold_core::reason::{Payer, Reason};
use serde_json::Value;

use crate::{
    definitions::{Definition, definitions},
    names::{GROUP, VERSION},
};

/// The whole reference as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = format!(
        "# API reference: `{GROUP}/{VERSION}`\n\n\
         Made from the definitions by `cargo run -p leasehold-crds --bin generate`. Fields marked * are required.\n"
    );
    for definition in definitions() {
        kind(&mut page, &definition);
    }
    reasons(&mut page);
    page
}

fn kind(page: &mut String, definition: &Definition) {
    let names = |pointer: &str| {
        definition.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    };
    let _ = write!(
        page,
        "\n## {}\n\n{} Scope: {}. Short name: `{}`.\n",
        definition.kind,
        text(definition.schema(), "description"),
        names("/spec/scope").to_lowercase(),
        names("/spec/names/shortNames/0"),
    );
    for part in ["spec", "status"] {
        let Some(schema) = definition.schema().pointer(&format!("/properties/{part}")) else {
            continue;
        };
        let _ = write!(
            page,
            "\n### {}.{part}\n\n{}\n",
            definition.kind,
            text(schema, "description").trim()
        );
        page.push_str("\n| field | type | meaning | constraints |\n|---|---|---|---|\n");
        rows(page, schema, "");
        rules(page, part, schema);
    }
    rules(page, "object", definition.schema());
}

fn rows(page: &mut String, schema: &Value, prefix: &str) {
    let required: Vec<&str> = array(schema, "required").iter().filter_map(Value::as_str).collect();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, field) in properties {
        let path = format!("{prefix}{name}");
        let star = if required.contains(&name.as_str()) { "*" } else { "" };
        let _ = writeln!(
            page,
            "| `{path}`{star} | {} | {} | {} |",
            type_of(field),
            cell(text(field, "description")),
            cell(&constraints(field)),
        );
        rows(page, field, &format!("{path}."));
        if let Some(items) = field.get("items") {
            rows(page, items, &format!("{path}[]."));
        }
    }
}

fn rules(page: &mut String, part: &str, schema: &Value) {
    for rule in array(schema, "x-kubernetes-validations") {
        let _ = write!(page, "\nRule of the whole {part}: {}.\n", text(rule, "message"));
    }
}

fn type_of(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string").is_some() {
        return "integer or string".to_owned();
    }
    match (text(field, "type"), field.get("items"), text(field, "format")) {
        ("array", Some(items), _) => format!("list of {}", type_of(items)),
        (_, _, "date-time") => "time".to_owned(),
        (other, _, _) => other.to_owned(),
    }
}

fn constraints(field: &Value) -> String {
    let mut all = Vec::new();
    let choices: Vec<_> = array(field, "enum").iter().filter_map(Value::as_str).collect();
    if !choices.is_empty() {
        all.push(format!("one of {}", choices.join(", ")));
    }
    for (key, words) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minItems", "items at least"),
        ("maxItems", "items at most"),
        ("minLength", "characters at least"),
        ("maxLength", "characters at most"),
    ] {
        if let Some(bound) = field.get(key) {
            all.push(format!("{words} {bound}"));
        }
    }
    let keys: Vec<_> =
        array(field, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
    if !keys.is_empty() {
        all.push(format!("unique by {}", keys.join(", ")));
    }
    let said = [Some(field), field.get("items")].into_iter().flatten();
    all.extend(
        said.flat_map(|schema| array(schema, "x-kubernetes-validations"))
            .map(|rule| text(rule, "message").to_owned()),
    );
    all.join("; ")
}

fn reasons(page: &mut String) {
    page.push_str(
        "\n## Reasons\n\n\
         The one word in conditions, Events, leases and metrics. *Pays* says who pays for a card that was held when it ended for \
         this reason; *nobody* means that the infrastructure failed and nothing is charged.\n\n\
         | reason | meaning | pays | what to change |\n|---|---|---|---|\n",
    );
    for reason in Reason::ALL {
        let pays = match reason.payer() {
            Payer::User => "holder",
            Payer::Infrastructure => "nobody",
        };
        let cure = if reason.cure().is_empty() { "nothing" } else { reason.cure() };
        let _ =
            writeln!(page, "| `{reason}` | {} | {pays} | {} |", cell(reason.meaning()), cell(cure));
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A text that fits into a table cell.
fn cell(text: &str) -> String {
    text.replace("\n\n", " ").replace('\n', " ").replace('|', "\\|")
}
