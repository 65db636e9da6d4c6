//! A real API server judges the shared table of cases, and keeps the ledger as it was written.

use std::future::Future;

use kube::{
    Api, Client, Config, Resource,
    api::{DynamicObject, Patch, PatchParams, PostParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
    discovery::ApiResource,
};
use leasehold_crds::{GpuCard, GpuJob, GpuLease, names};
use leasehold_tests::suite::Stage;
use serde_json::{Value, json};

use crate::table::{Case, Refusal, Table};

/// Field manager of these tests.
const MANAGER: &str = "leasehold-test";

pub(crate) fn every_case_is_judged_as_the_table_says(stage: &Stage) {
    with_client(stage, |client| async move {
        let mut wrong = Vec::new();
        for case in Table::all().iter().flat_map(Table::cases) {
            wrong.extend(judge(&client, &case).await);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

pub(crate) fn a_typo_is_refused_by_strict_validation(stage: &Stage) {
    with_client(stage, |client| async move {
        let table = Table::all().into_iter().find(|table| table.kind == "GpuJob").unwrap();
        let mut case = table.cases().into_iter().next().unwrap();
        case.object["spec"]["budgett"] = json!("100");
        let said = apply(&client, &case.object, true).await.unwrap_err();
        assert!(said.contains("budgett"), "{said}");
    });
}

pub(crate) fn an_object_that_nobody_has_seen_says_so(stage: &Stage) {
    with_client(stage, |client| async move {
        for table in Table::all() {
            let case = table.cases().into_iter().next().unwrap();
            let made = apply(&client, &case.object, true).await.unwrap();
            assert_eq!(made.data["status"], json!({"observedGeneration": -1}), "{}", table.kind);
        }
        let made = apply(&client, &lease("unseen-r0-a1"), true).await.unwrap();
        assert_eq!(made.data["status"], json!({"state": "Reserved"}));
    });
}

pub(crate) fn what_a_run_runs_changes_only_with_its_number(stage: &Stage) {
    with_client(stage, |client| async move {
        let jobs: Api<GpuJob> = Api::namespaced(client.clone(), "default");
        let job = |name: &str| {
            json!({
                "apiVersion": "leasehold.dev/v1alpha1",
                "kind": "GpuJob",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {
                    "gpu": {"cards": [4090]},
                    "image": "python:3.11-slim",
                    "command": ["python"],
                    "maxRuntime": "1h",
                    "budget": {"limit": "1"},
                },
            })
        };
        let values = [
            ("gpu", json!({"cards": [4090], "count": 2})),
            ("image", json!("python:3.12-slim")),
            ("command", json!(["python3"])),
            ("args", json!(["train.py"])),
            ("env", json!([{"name": "A", "value": "1"}])),
            ("workingDir", json!("/w")),
            ("resources", json!({"cpu": 2})),
            ("environment", json!({})),
        ];
        let attempt = json!({
            "number": 1, "rerun": 0, "lease": "x-r0-a1", "card": "l4", "reason": "Stopped",
            "heldAt": "2026-01-01T00:00:00Z", "endedAt": "2026-01-01T00:00:09Z",
            "charged": "0.00", "paidBy": "User",
        });
        let outcome = json!({
            "reason": "Completed", "message": "", "evidence": "", "at": "2026-01-01T00:00:00Z",
        });
        for (name, status, begun) in [
            ("waits", json!({"observedGeneration": 1}), false),
            ("holds", json!({"lease": {"name": "holds-r0-a1"}}), true),
            ("held", json!({"attempts": [attempt]}), true),
            ("ended", json!({"outcome": outcome}), true),
            ("of-another-run", json!({"rerun": 7, "outcome": outcome}), false),
        ] {
            apply(&client, &job(name), false).await.unwrap();
            let patch = Patch::Merge(json!({"status": status}));
            jobs.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
            for (field, value) in &values {
                let mut changed = job(name);
                changed["spec"][field] = value.clone();
                let said = apply(&client, &changed, true).await;
                if !begun {
                    assert!(said.is_ok(), "{name}: {field}: {said:?}");
                    continue;
                }
                let said = said.unwrap_err();
                let named = said.contains(&format!("spec.{field}"));
                assert!(named && said.contains("change spec.rerun together"), "{name}: {said}");
                changed["spec"]["rerun"] = json!(1);
                apply(&client, &changed, true).await.unwrap();
            }
            // Limits are free.
            let mut changed = job(name);
            changed["spec"]["maxRuntime"] = json!("2h");
            changed["spec"]["state"] = json!("Stopped");
            apply(&client, &changed, true).await.unwrap();
        }
    });
}

pub(crate) fn the_terms_of_a_lease_never_change(stage: &Stage) {
    with_client(stage, |client| async move {
        let object = lease("terms-r0-a1");
        apply(&client, &object, false).await.unwrap();
        for (field, value) in [
            ("card", json!("h20-96")),
            ("count", json!(2)),
            ("reserved", json!("9.00")),
            ("quote", json!({"perHour": "0.01", "currency": "USD"})),
        ] {
            let mut changed = object.clone();
            changed["spec"][field] = value;
            let said = apply(&client, &changed, false).await.unwrap_err();
            assert!(said.contains("the terms of a lease never change"), "{field}: {said}");
        }
    });
}

pub(crate) fn a_final_lease_never_changes(stage: &Stage) {
    with_client(stage, |client| async move {
        let leases: Api<GpuLease> = Api::namespaced(client.clone(), "default");
        let set = async |name: &str, state: &str, charged: &str| {
            let patch = Patch::Merge(json!({"status": {"state": state, "charged": charged}}));
            let written = leases.patch_status(name, &PatchParams::default(), &patch).await;
            written.map(|_| ()).map_err(|error| error.to_string())
        };
        for (name, end) in [("closed-r0-a1", "Closed"), ("void-r0-a1", "Void")] {
            apply(&client, &lease(name), false).await.unwrap();
            set(name, end, "1.50").await.unwrap();
            set(name, end, "1.50").await.unwrap();
            for (state, charged) in [(end, "1.00"), ("Held", "1.50"), ("Reserved", "1.50")] {
                let said = set(name, state, charged).await.unwrap_err();
                assert!(said.contains("a closed or void lease never changes"), "{said}");
            }
            let gone = Patch::Merge(json!({"status": null}));
            assert!(leases.patch_status(name, &PatchParams::default(), &gone).await.is_err());
        }
        apply(&client, &lease("held-r0-a1"), false).await.unwrap();
        set("held-r0-a1", "Held", "0.00").await.unwrap();
        for state in ["Reserved", "Void"] {
            let said = set("held-r0-a1", state, "0.00").await.unwrap_err();
            assert!(said.contains("can only be closed"), "{said}");
        }
        set("held-r0-a1", "Closed", "0.10").await.unwrap();
    });
}

pub(crate) fn leases_are_found_by_their_holder(stage: &Stage) {
    with_client(stage, |client| async move {
        apply(&client, &lease("found-r0-a1"), false).await.unwrap();
        let leases: Api<GpuLease> = Api::namespaced(client, "default");
        for (holder, found) in [("found", 1), ("nobody", 0)] {
            let fields = format!("spec.holder.name={holder}");
            let list =
                leases.list(&kube::api::ListParams::default().fields(&fields)).await.unwrap();
            assert_eq!(list.items.len(), found, "{holder}");
        }
    });
}

/// What the API server's verdict on a case has wrong; `None` when it is as the table says.
async fn judge(client: &Client, case: &Case) -> Option<String> {
    let applied = apply(client, &case.object, true).await;
    if applied.is_ok() != case.refusal.is_none() {
        return Some(format!("{}: server-side apply says {applied:?}", case.name));
    }
    match (&case.refusal, create(client, &case.object).await) {
        (None, Ok(_)) => None,
        (None, Err(said)) => Some(format!("{}: refused: {said}", case.name)),
        (Some(_), Ok(_)) => Some(format!("{}: not refused", case.name)),
        (Some(Refusal { field, says }), Err(said)) => {
            let words = says.as_deref().unwrap_or_default();
            let told = said.contains(field) && said.contains(words);
            (!told).then(|| format!("{}: refused with other words: {said}", case.name))
        }
    }
}

/// Creates an object without keeping it, as `kubectl apply --validate=strict` does at first.
async fn create(client: &Client, object: &Value) -> Result<DynamicObject, String> {
    let (resource, namespaced) = resource_of(object);
    let path = DynamicObject::url_path(&resource, namespaced.then_some("default"));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let body = serde_json::to_vec(object).unwrap();
    let mut request = Request::new(path).create(&dry, body).unwrap();
    // The client has this parameter for patches only.
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri()).parse().unwrap();
    client.request(request).await.map_err(|error| error.to_string())
}

/// Applies an object as strictly as `kubectl apply --server-side --validate=strict` does.
async fn apply(client: &Client, object: &Value, dry_run: bool) -> Result<DynamicObject, String> {
    let (resource, namespaced) = resource_of(object);
    let api: Api<DynamicObject> = if namespaced {
        Api::namespaced_with(client.clone(), "default", &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    let mut strict = PatchParams::apply(MANAGER).validation_strict();
    strict.dry_run = dry_run;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    api.patch(name, &strict, &Patch::Apply(object)).await.map_err(|error| error.to_string())
}

fn resource_of(object: &Value) -> (ApiResource, bool) {
    match object["kind"].as_str() {
        Some("GpuJob") => (ApiResource::erase::<GpuJob>(&()), true),
        Some("GpuCard") => (ApiResource::erase::<GpuCard>(&()), false),
        Some("GpuLease") => (ApiResource::erase::<GpuLease>(&()), true),
        other => panic!("no resource for {other:?}"),
    }
}

/// A lease of the holder whose name stands before `-r0-a1`.
fn lease(name: &str) -> Value {
    let holder = name.strip_suffix("-r0-a1").unwrap_or(name);
    json!({
        "apiVersion": GpuLease::api_version(&()),
        "kind": GpuLease::kind(&()),
        "metadata": {"name": name, "namespace": "default", "finalizers": [names::FINALIZER_LEDGER]},
        "spec": {
            "holder": {"kind": "GpuJob", "name": holder, "uid": "u", "rerun": 0, "attempt": 1},
            "card": "l4",
            "count": 1,
            "quote": {"perHour": "1.00", "currency": "USD"},
            "reserved": "2.00",
        },
    })
}

pub(crate) fn with_client<F: Future<Output = ()>>(stage: &Stage, test: impl FnOnce(Client) -> F) {
    // Fails only when it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(stage.playground.kubeconfig().unwrap()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        test(Client::try_from(config).unwrap()).await;
    });
}
