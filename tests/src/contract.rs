//! What leasehold relies on of an API server, each as a test of one behaviour. The same code runs on
//! the double and on a real one.

use std::fmt::Debug;

use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams},
    core::{DynamicObject, GroupVersionKind, WatchEvent},
    discovery::ApiResource,
};
use leasehold::leadership::record;
use leasehold_crds::{GpuJob, GpuLease};
use serde_json::{Value, json};

/// A behaviour by name, and its test with a client and a namespace of its own.
pub type Behaviour = (&'static str, fn(Client, String) -> BoxFuture<'static, ()>);

/// All of them.
pub const ALL: &[Behaviour] = &[
    ("a_new_object_gets_an_identity_and_the_first_status", |client, namespace| {
        a_new_object(client, namespace).boxed()
    }),
    ("a_status_is_written_apart_and_counts_no_generation", |client, namespace| {
        a_status(client, namespace).boxed()
    }),
    ("a_version_that_is_not_the_newest_is_a_conflict", |client, namespace| {
        an_old_version(client, namespace).boxed()
    }),
    ("a_write_that_changes_nothing_makes_no_version", |client, namespace| {
        no_change(client, namespace).boxed()
    }),
    ("a_finalizer_keeps_an_object_until_it_is_taken_off", |client, namespace| {
        a_finalizer(client, namespace).boxed()
    }),
    ("a_deletion_holds_for_the_object_that_was_seen", |client, namespace| {
        a_deletion(client, namespace).boxed()
    }),
    ("a_pod_is_bound_once_and_its_binding_has_a_time", |client, namespace| {
        a_binding(client, namespace).boxed()
    }),
    ("a_pod_goes_at_once_before_it_is_bound_and_in_two_steps_after", |client, namespace| {
        a_pod_goes(client, namespace).boxed()
    }),
    ("a_list_in_pages_has_everything_once", |client, namespace| pages(client, namespace).boxed()),
    ("a_watch_tells_what_follows_its_list", |client, namespace| a_watch(client, namespace).boxed()),
    ("what_no_longer_matches_a_selector_is_gone_for_its_watch", |client, namespace| {
        a_selector(client, namespace).boxed()
    }),
    ("leases_are_found_by_the_name_of_their_holder", |client, namespace| {
        a_field(client, namespace).boxed()
    }),
    ("of_two_that_take_the_same_version_of_a_record_one_gets_it", |client, namespace| {
        a_record(client, namespace).boxed()
    }),
];

/// What the API server has to offer for a test, or the test fails.
fn must<T, E: Debug>(answer: Result<T, E>, what: &str) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("{what}: {error:?}"),
    }
}

fn refused<T: Debug>(answer: Result<T, kube::Error>, code: u16, what: &str) {
    match answer {
        Err(kube::Error::Api(status)) if status.code == code => {}
        other => panic!("{what} is refused with {code}, but: {other:?}"),
    }
}

fn job(name: &str) -> GpuJob {
    let spec = json!({
        "gpu": {"cards": ["4090"]}, "image": "a", "command": ["true"], "maxRuntime": "1h",
        "budget": {"limit": "Unlimited"},
    });
    GpuJob::new(name, must(serde_json::from_value(spec), "a specification"))
}

/// A job as text, because what is written shall be what the test says.
fn untyped(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("leasehold.dev", "v1alpha1", "GpuJob");
    let resource = ApiResource::from_gvk_with_plural(&kind, "gpujobs");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

async fn a_new_object(client: Client, namespace: String) {
    let jobs = untyped(&client, &namespace);
    let mut object: DynamicObject = must(
        serde_json::from_value(must(serde_json::to_value(job("a")), "a job")),
        "a job without a type",
    );
    object.data["status"] = json!({"observedGeneration": 7});
    let made = must(jobs.create(&PostParams::default(), &object).await, "create");
    assert!(made.uid().is_some() && made.resource_version().is_some());
    assert!(made.creation_timestamp().is_some());
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(made.data["status"], json!({"observedGeneration": -1}));
    refused(jobs.create(&PostParams::default(), &object).await, 409, "a second one");
}

async fn a_status(client: Client, namespace: String) {
    let jobs = untyped(&client, &namespace);
    let typed: Api<GpuJob> = Api::namespaced(client, &namespace);
    must(typed.create(&PostParams::default(), &job("a")).await, "create");
    let mut seen = must(jobs.get("a").await, "get");
    seen.data["spec"]["maxRuntime"] = json!("2h");
    seen.data["status"] = json!({"observedGeneration": 1});
    seen.labels_mut().insert("a".to_owned(), "b".to_owned());
    let written = must(jobs.replace_status("a", &PostParams::default(), &seen).await, "status");
    assert_eq!(written.data["status"]["observedGeneration"], 1);
    assert_eq!(written.data["spec"]["maxRuntime"], "1h");
    assert!(written.labels().is_empty(), "{:?}", written.labels());
    assert_eq!(written.metadata.generation, Some(1));
    let patch = json!({"spec": {"maxRuntime": "3h"}, "status": {"observedGeneration": 9}});
    let patch = Patch::Merge(&patch);
    let patched = must(jobs.patch("a", &PatchParams::default(), &patch).await, "patch");
    assert_eq!(patched.metadata.generation, Some(2));
    assert_eq!(patched.data["status"]["observedGeneration"], 1);
}

async fn an_old_version(client: Client, namespace: String) {
    let jobs = untyped(&client, &namespace);
    let typed: Api<GpuJob> = Api::namespaced(client, &namespace);
    must(typed.create(&PostParams::default(), &job("a")).await, "create");
    let old = must(jobs.get("a").await, "get");
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    must(jobs.patch("a", &PatchParams::default(), &label).await, "patch");
    refused(jobs.replace_status("a", &PostParams::default(), &old).await, 409, "an old version");
    let version = old.resource_version();
    let late =
        Patch::Merge(json!({"metadata": {"resourceVersion": version, "labels": {"a": "c"}}}));
    refused(
        jobs.patch("a", &PatchParams::default(), &late).await,
        409,
        "a patch of an old version",
    );
    let mut without = old;
    without.metadata.resource_version = None;
    refused(jobs.replace_status("a", &PostParams::default(), &without).await, 422, "no version");
    let other = json!({"metadata": {"uid": "00000000-0000-4000-8000-00000000ffff"}});
    let other = jobs.patch("a", &PatchParams::default(), &Patch::Merge(other)).await;
    refused(other, 422, "a patch of another object");
}

async fn no_change(client: Client, namespace: String) {
    let typed: Api<GpuJob> = Api::namespaced(client.clone(), &namespace);
    must(typed.create(&PostParams::default(), &job("a")).await, "create");
    let jobs = untyped(&client, &namespace);
    // The first write is noted as its author's.
    let seen = must(jobs.get("a").await, "get");
    let made = must(jobs.replace_status("a", &PostParams::default(), &seen).await, "status");
    let same = must(jobs.replace_status("a", &PostParams::default(), &made).await, "status");
    assert_eq!(same.resource_version(), made.resource_version());
}

async fn a_finalizer(client: Client, namespace: String) {
    let jobs: Api<GpuJob> = Api::namespaced(client, &namespace);
    let mut held = job("a");
    held.finalizers_mut().push("example.com/a".to_owned());
    must(jobs.create(&PostParams::default(), &held).await, "create");
    must(jobs.delete("a", &DeleteParams::default()).await, "delete");
    let left = must(jobs.get("a").await, "get");
    assert!(left.metadata.deletion_timestamp.is_some());
    let finalizers = |all: &[&str]| Patch::Merge(json!({"metadata": {"finalizers": all}}));
    let more = finalizers(&["example.com/a", "example.com/b"]);
    refused(jobs.patch("a", &PatchParams::default(), &more).await, 422, "a new finalizer");
    must(jobs.patch("a", &PatchParams::default(), &finalizers(&[])).await, "take it off");
    assert!(must(jobs.get_opt("a").await, "get").is_none());
    refused(jobs.get("a").await, 404, "what is gone");
}

async fn a_deletion(client: Client, namespace: String) {
    let jobs: Api<GpuJob> = Api::namespaced(client, &namespace);
    let made = must(jobs.create(&PostParams::default(), &job("a")).await, "create");
    let only = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::background()
    };
    let other = "00000000-0000-4000-8000-00000000ffff".to_owned();
    refused(jobs.delete("a", &only(Some(other), None)).await, 409, "another object");
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let changed = must(jobs.patch("a", &PatchParams::default(), &label).await, "patch");
    let old = only(made.uid(), made.resource_version());
    refused(jobs.delete("a", &old).await, 409, "an old version");
    let made = changed;
    let right = only(made.uid(), made.resource_version());
    must(jobs.delete("a", &right).await, "delete");
    assert!(must(jobs.get_opt("a").await, "get").is_none());
    refused(jobs.delete("a", &DeleteParams::default()).await, 404, "what is gone");
}

fn pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        // No scheduler looks at it.
        "spec": {"schedulerName": "nobody", "terminationGracePeriodSeconds": 40, "containers": [
            {"name": "main", "image": "a"},
        ]},
    });
    must(serde_json::from_value(pod), "a pod")
}

async fn bind(client: &Client, namespace: &str, name: &str) -> Result<Value, kube::Error> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let request = hyper::Request::post(path).header("content-type", "application/json");
    client.request(must(request.body(binding.to_string().into_bytes()), "a request")).await
}

async fn a_binding(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let made = must(pods.create(&PostParams::default(), &pod("a")).await, "create");
    assert_eq!(made.status.and_then(|status| status.phase).as_deref(), Some("Pending"));
    must(bind(&client, &namespace, "a").await, "bind");
    let bound = must(pods.get("a").await, "get");
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("nowhere"));
    let conditions = bound.status.and_then(|status| status.conditions).unwrap_or_default();
    let scheduled = conditions.iter().find(|one| one.type_ == "PodScheduled");
    assert!(
        scheduled.is_some_and(|one| one.status == "True" && one.last_transition_time.is_some())
    );
    refused(bind(&client, &namespace, "a").await, 409, "a second binding");
}

async fn a_pod_goes(client: Client, namespace: String) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    must(pods.create(&PostParams::default(), &pod("unbound")).await, "create");
    must(pods.delete("unbound", &DeleteParams::default()).await, "delete");
    assert!(must(pods.get_opt("unbound").await, "get").is_none());
    must(pods.create(&PostParams::default(), &pod("bound")).await, "create");
    must(bind(&client, &namespace, "bound").await, "bind");
    must(pods.delete("bound", &DeleteParams::default()).await, "delete");
    let left = must(pods.get("bound").await, "get");
    assert!(left.metadata.deletion_timestamp.is_some());
    assert_eq!(left.metadata.deletion_grace_period_seconds, Some(40));
    must(pods.delete("bound", &DeleteParams::default().grace_period(0)).await, "delete");
    assert!(must(pods.get_opt("bound").await, "get").is_none());
}

async fn pages(client: Client, namespace: String) {
    let jobs: Api<GpuJob> = Api::namespaced(client, &namespace);
    for name in ["a", "b", "c", "d", "e"] {
        must(jobs.create(&PostParams::default(), &job(name)).await, "create");
    }
    let mut names = Vec::new();
    let mut next = ListParams::default().limit(2);
    loop {
        let page = must(jobs.list(&next).await, "list");
        assert!(page.items.len() <= 2);
        names.extend(page.items.iter().map(ResourceExt::name_any));
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else { break };
        // What is created now is not of this list.
        if names.len() == 2 {
            must(jobs.create(&PostParams::default(), &job("bb")).await, "create");
        }
        next = next.continue_token(&token);
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

/// The types and names of the next events; bookmarks come whenever they like.
async fn events(
    jobs: &Api<GpuJob>,
    params: &WatchParams,
    version: &str,
    count: usize,
) -> Vec<String> {
    let events = must(jobs.watch(params, version).await, "watch");
    let told = events.try_filter_map(|event| async move {
        Ok(match event {
            WatchEvent::Added(job) => Some(format!("added {}", job.name_any())),
            WatchEvent::Modified(job) => Some(format!("modified {}", job.name_any())),
            WatchEvent::Deleted(job) => Some(format!("deleted {}", job.name_any())),
            WatchEvent::Bookmark(_) => None,
            WatchEvent::Error(status) => Some(format!("error {}", status.code)),
        })
    });
    must(told.take(count).try_collect().await, "events")
}

async fn a_watch(client: Client, namespace: String) {
    let jobs: Api<GpuJob> = Api::namespaced(client, &namespace);
    must(jobs.create(&PostParams::default(), &job("before")).await, "create");
    let list = must(jobs.list(&ListParams::default()).await, "list");
    let version = list.metadata.resource_version.unwrap_or_default();
    must(jobs.create(&PostParams::default(), &job("a")).await, "create");
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    must(jobs.patch("a", &PatchParams::default(), &label).await, "patch");
    must(jobs.delete("before", &DeleteParams::default()).await, "delete");
    let told = events(&jobs, &WatchParams::default(), &version, 3).await;
    assert_eq!(told, ["added a", "modified a", "deleted before"]);
}

async fn a_selector(client: Client, namespace: String) {
    let jobs: Api<GpuJob> = Api::namespaced(client, &namespace);
    let list = must(jobs.list(&ListParams::default()).await, "list");
    let version = list.metadata.resource_version.unwrap_or_default();
    must(jobs.create(&PostParams::default(), &job("a")).await, "create");
    for state in ["closed", "open"] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"state": state}}}));
        must(jobs.patch("a", &PatchParams::default(), &label).await, "patch");
    }
    must(jobs.delete("a", &DeleteParams::default()).await, "delete");
    let open = WatchParams::default().labels("state!=closed");
    let told = events(&jobs, &open, &version, 4).await;
    assert_eq!(told, ["added a", "deleted a", "added a", "deleted a"]);
}

async fn a_field(client: Client, namespace: String) {
    let leases: Api<GpuLease> = Api::namespaced(client, &namespace);
    for (name, holder) in [("a-r0-a1", "a"), ("b-r0-a1", "b"), ("a-r1-a1", "a")] {
        let spec = json!({
            "holder": {"kind": "GpuJob", "name": holder, "uid": "u", "rerun": 0, "attempt": 1},
            "card": "rtx4090", "count": 1, "quote": {"perHour": "1", "currency": "USD"},
            "reserved": "1",
        });
        let lease = GpuLease::new(name, must(serde_json::from_value(spec), "a lease"));
        must(leases.create(&PostParams::default(), &lease).await, "create");
    }
    let of = ListParams::default().fields("spec.holder.name=a");
    let found = must(leases.list(&of).await, "list").items;
    assert_eq!(found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a-r0-a1", "a-r1-a1"]);
    let state = |lease: &GpuLease| lease.status.as_ref().map(|status| status.state.clone());
    assert!(found.iter().all(|lease| state(lease).as_deref() == Some("Reserved")));
}

async fn a_record(client: Client, namespace: String) {
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let now = Timestamp::UNIX_EPOCH;
    let mut lease = Lease { spec: Some(record::held(None, "a", now)), ..Lease::default() };
    lease.metadata.name = Some("leader".to_owned());
    let first = must(leases.create(&PostParams::default(), &lease).await, "create");
    refused(leases.create(&PostParams::default(), &lease).await, 409, "a second one");
    let taken_by = |name| {
        let next = first.spec.as_ref().map(|seen| record::held(Some(seen), name, now));
        Lease { spec: next, ..first.clone() }
    };
    let (post, name) = (PostParams::default(), "leader");
    let second = must(leases.replace(name, &post, &taken_by("b")).await, "take");
    assert_eq!(second.spec.as_ref().and_then(record::holder), Some("b"));
    refused(leases.replace(name, &post, &taken_by("c")).await, 409, "an old version");
    let released = second.spec.as_ref().map(|seen| record::released(seen, now));
    let released = Lease { spec: released, ..second };
    let seen = must(leases.replace(name, &post, &released).await, "give back");
    assert_eq!(seen.spec.as_ref().and_then(record::holder), None);
}
