//! `desire()` and the rules in CEL judge the shared table alike.

use kube_cel::{CompiledSchema, RootContext, Validator, compile_schema};
use leasehold_core::{catalog::Catalog, reason::Reason};
use leasehold_crds::{GpuCard, GpuJob, Settings, definitions::definitions, desire, market};
use serde_json::Value;

use crate::table::{Case, Refusal, Table};

/// What the conversion in Rust says; `None` is consent.
fn converted(kind: &str, object: &Value) -> Option<String> {
    let settings = Settings { currency: "CNY".into(), ..Settings::default() };
    match kind {
        "GpuJob" => match serde_json::from_value::<GpuJob>(object.clone()) {
            Ok(job) => desire(&job, &settings).err().map(|refusal| {
                assert_eq!(refusal.reason, Reason::InvalidSpec);
                refusal.evidence
            }),
            Err(error) => Some(format!("not decoded: {error}")),
        },
        "GpuCard" => match serde_json::from_value::<GpuCard>(object.clone()) {
            Ok(card) => market::price(&card, &settings)
                .err()
                .or_else(|| market::with_card(Catalog::built_in(), &card).err())
                .map(|refusal| refusal.evidence),
            Err(error) => Some(format!("not decoded: {error}")),
        },
        other => panic!("no conversion for {other}"),
    }
}

fn judged_by_cel(schema: &CompiledSchema, object: &Value) -> Vec<String> {
    match Validator::new().validate_compiled(schema, object, None) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_vec().iter().map(ToString::to_string).collect(),
    }
}

fn compiled(kind: &str) -> CompiledSchema {
    let definition = definitions().into_iter().find(|definition| definition.kind == kind).unwrap();
    compile_schema(definition.schema())
}

fn every_case(judge: impl Fn(&Table, &CompiledSchema, &Case)) {
    for table in Table::all() {
        let schema = compiled(&table.kind);
        for case in table.cases() {
            judge(&table, &schema, &case);
        }
    }
}

#[test]
fn the_conversion_refuses_what_the_table_refuses_and_nothing_else() {
    every_case(|table, _, case| {
        let said = converted(&table.kind, &case.object);
        match (&case.refusal, said) {
            (None, said) => assert_eq!(said, None, "{}", case.name),
            (Some(_), None) => panic!("{}: not refused", case.name),
            (Some(_), Some(said)) if said.starts_with("not decoded") => {}
            (Some(Refusal { field, says }), Some(said)) => {
                assert!(said.contains(field), "{}: {said}", case.name);
                let words = says.as_deref().unwrap_or_default();
                assert!(said.contains(words), "{}: {said}", case.name);
            }
        }
    });
}

#[test]
fn the_rules_in_cel_say_the_same_words() {
    every_case(|_, schema, case| {
        let said = judged_by_cel(schema, &case.object);
        match &case.refusal {
            None => assert!(said.is_empty(), "{}: {said:?}", case.name),
            Some(Refusal { says: Some(words), .. }) => {
                assert!(said.iter().any(|said| said.contains(words)), "{}: {said:?}", case.name);
            }
            Some(_) => {}
        }
    });
}

#[test]
fn every_rule_has_a_case_that_it_refuses() {
    let said: Vec<String> =
        Table::all().iter().flat_map(Table::cases).filter_map(|case| case.refusal?.says).collect();
    for definition in definitions().iter().filter(|definition| definition.kind != "GpuLease") {
        let text = definition.schema().to_string();
        for message in text.split("\"message\":\"").skip(1) {
            let message = message.split("\",\"").next().unwrap();
            let message = message.split("\"}").next().unwrap();
            // Changes are judged by tests of their own.
            if message.contains("this run has begun") || message.contains("acted on once") {
                continue;
            }
            let covered = said.iter().any(|words| message.contains(words.as_str()))
                || (message.starts_with("the unit m")
                    && said.iter().any(|words| words.contains("did you mean")));
            assert!(covered, "{}: no case is refused with {message:?}", definition.kind);
        }
    }
}

/// Changes are judged by a real API server as well, for every field.
#[test]
fn a_run_that_has_begun_keeps_what_it_runs_in_cel() {
    let schema = compiled("GpuJob");
    let job = |cards: Value, memory: Value, rerun: i64| {
        serde_json::json!({
            "apiVersion": "leasehold.dev/v1alpha1", "kind": "GpuJob", "metadata": {"name": "t"},
            "spec": {
                "gpu": {"cards": [cards]}, "image": "i", "command": ["c"], "maxRuntime": "1h",
                "resources": {"memory": memory}, "budget": {"limit": "1"}, "rerun": rerun,
            },
            "status": {"observedGeneration": 1, "rerun": 0, "lease": {"name": "t-r0-a1"}},
        })
    };
    let old = job(4090.into(), 67_108_864.into(), 0);
    let said = |new: &Value| {
        let judged = Validator::new().validate_compiled_with_context(
            &schema,
            new,
            Some(&old),
            None::<&RootContext>,
        );
        judged.err().map(|errors| format!("{errors:?}")).unwrap_or_default()
    };
    assert_eq!(said(&job("4090".into(), "67108864".into(), 0)), "");
    assert!(said(&job(3090.into(), 67_108_864.into(), 0)).contains("gpu says what is run"));
    assert!(said(&job(4090.into(), "1Gi".into(), 0)).contains("resources says what is run"));
    assert_eq!(said(&job(3090.into(), "1Gi".into(), 1)), "");
}

#[test]
fn a_closed_lease_is_final_in_cel() {
    let schema = compiled("GpuLease");
    let lease = |state: &str, charged: &str, card: &str| {
        serde_json::json!({
            "apiVersion": "leasehold.dev/v1alpha1", "kind": "GpuLease", "metadata": {"name": "t-r0-a1"},
            "spec": {
                "holder": {"kind": "GpuJob", "name": "t", "uid": "u", "rerun": 0, "attempt": 1},
                "card": card, "count": 1, "quote": {"perHour": "1.00", "currency": "CNY"}, "reserved": "2.00",
            },
            "status": {"state": state, "charged": charged},
        })
    };
    let changes = |old: &Value, new: &Value| {
        Validator::new()
            .validate_compiled_with_context(&schema, new, Some(old), None::<&RootContext>)
            .is_ok()
    };
    assert!(changes(&lease("Reserved", "0.00", "l4"), &lease("Held", "0.00", "l4")));
    assert!(changes(&lease("Held", "0.00", "l4"), &lease("Closed", "1.00", "l4")));
    assert!(changes(&lease("Closed", "1.00", "l4"), &lease("Closed", "1.00", "l4")));
    assert!(!changes(&lease("Closed", "1.00", "l4"), &lease("Closed", "0.50", "l4")));
    assert!(!changes(&lease("Void", "0.00", "l4"), &lease("Held", "0.00", "l4")));
    assert!(!changes(&lease("Held", "0.00", "l4"), &lease("Void", "0.00", "l4")));
    assert!(!changes(&lease("Held", "0.00", "l4"), &lease("Held", "0.00", "t4")));
}
