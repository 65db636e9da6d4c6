//! The only way to the API server. All calls are bounded in time; errors say what they were for.
//!
//! The verbs are POST, PUT of status with resourceVersion, merge patch of metadata, and DELETE
//! with preconditions: each either does what was decided on what was seen, or nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DeserializeGuard, Status},
    runtime::{
        events::{Event, EventType, Recorder, Reporter},
        watcher,
    },
};
use leasehold_core::{
    observed::Holder,
    plan::{Notice, Severity},
};
use leasehold_crds::{GpuCard, GpuJob, GpuLease, GpuRequest, names};
use serde_json::{Value, json};

use crate::error::Error;

/// How long a call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// The field manager of all writes.
pub(crate) const MANAGER: &str = "leasehold";
/// The component in Events.
const REPORTER: &str = "leasehold";

/// The API server.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    recorder: Recorder,
}

impl Cluster {
    /// Through this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let recorder = Recorder::new(client.clone(), Reporter::from(REPORTER));
        Self { client, recorder }
    }

    /// All jobs.
    #[must_use]
    pub fn jobs(&self) -> (Api<DeserializeGuard<GpuJob>>, watcher::Config) {
        (Api::all(self.client.clone()), watcher::Config::default())
    }

    /// Leases that may be open.
    #[must_use]
    pub fn open_leases(&self) -> (Api<DeserializeGuard<GpuLease>>, watcher::Config) {
        let open = format!("{}!={}", names::LABEL_STATE, names::STATE_CLOSED);
        (Api::all(self.client.clone()), watcher::Config::default().labels(&open))
    }

    /// What people ask for.
    #[must_use]
    pub fn requests(&self) -> (Api<DeserializeGuard<GpuRequest>>, watcher::Config) {
        (Api::all(self.client.clone()), watcher::Config::default())
    }

    /// Pods of ours.
    #[must_use]
    pub fn our_pods(&self) -> (Api<DeserializeGuard<Pod>>, watcher::Config) {
        (Api::all(self.client.clone()), watcher::Config::default().labels(names::LABEL_LEASE))
    }

    /// Pods on nodes that have not ended, whoever started them.
    #[must_use]
    pub fn placed_pods(&self) -> (Api<DeserializeGuard<Pod>>, watcher::Config) {
        let placed = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
        (Api::all(self.client.clone()), watcher::Config::default().fields(placed))
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> (Api<DeserializeGuard<Node>>, watcher::Config) {
        (Api::all(self.client.clone()), watcher::Config::default())
    }

    /// The price list.
    #[must_use]
    pub fn cards(&self) -> (Api<DeserializeGuard<GpuCard>>, watcher::Config) {
        (Api::all(self.client.clone()), watcher::Config::default())
    }

    /// Every lease of a holder of this name, closed ones included.
    pub async fn leases_of(&self, holder: &Holder) -> Result<Vec<GpuLease>, Error> {
        let chosen = ListParams::default().fields(&format!("spec.holder.name={}", holder.name));
        let doing = format!("list leases of {}/{}", holder.namespace, holder.name);
        let api: Api<GpuLease> = self.within(&holder.namespace);
        Ok(bounded(doing, api.list(&chosen)).await?.items)
    }

    /// A lease as it is stored.
    pub async fn read_lease(&self, namespace: &str, name: &str) -> Result<Option<GpuLease>, Error> {
        let api: Api<GpuLease> = self.within(namespace);
        bounded(format!("read lease {namespace}/{name}"), api.get_opt(name)).await
    }

    /// Stores a new lease.
    pub async fn create_lease(&self, namespace: &str, lease: &GpuLease) -> Result<GpuLease, Error> {
        let api: Api<GpuLease> = self.within(namespace);
        let doing = format!("create lease {namespace}/{}", lease.name_any());
        bounded(doing, api.create(&post(), lease)).await
    }

    /// Replaces the status of the lease that was seen; a newer one is a conflict.
    pub async fn write_lease_status(&self, lease: &GpuLease) -> Result<GpuLease, Error> {
        let (namespace, name) = place(lease);
        let api: Api<GpuLease> = self.within(&namespace);
        bounded(
            format!("write status of lease {namespace}/{name}"),
            api.replace_status(&name, &post(), lease),
        )
        .await
    }

    /// Replaces the status of the job that was seen; a newer one is a conflict.
    pub async fn write_job_status(&self, job: &GpuJob) -> Result<(), Error> {
        let (namespace, name) = place(job);
        let api: Api<GpuJob> = self.within(&namespace);
        let doing = format!("write status of job {namespace}/{name}");
        bounded(doing, api.replace_status(&name, &post(), job)).await.map(|_| ())
    }

    /// Changes metadata of a lease; nothing happens when it is gone.
    pub async fn patch_lease(
        &self,
        namespace: &str,
        name: &str,
        metadata: Value,
    ) -> Result<(), Error> {
        let api: Api<GpuLease> = self.within(namespace);
        let doing = format!("patch lease {namespace}/{name}");
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let answer = bounded(doing, api.patch(name, &PatchParams::default(), &patch)).await;
        gone_is_done(answer.map(|_| ()))
    }

    /// A pod as it is stored.
    pub async fn read_pod(&self, namespace: &str, name: &str) -> Result<Option<Pod>, Error> {
        let api: Api<Pod> = self.within(namespace);
        bounded(format!("read pod {namespace}/{name}"), api.get_opt(name)).await
    }

    /// A job as it is stored.
    pub async fn read_job(&self, holder: &Holder) -> Result<Option<GpuJob>, Error> {
        let api: Api<GpuJob> = self.within(&holder.namespace);
        let doing = format!("read job {}/{}", holder.namespace, holder.name);
        bounded(doing, api.get_opt(&holder.name)).await
    }

    /// Creates a pod.
    pub async fn create_pod(&self, namespace: &str, pod: &Pod) -> Result<(), Error> {
        let api: Api<Pod> = self.within(namespace);
        let doing = format!("create pod {namespace}/{}", pod.name_any());
        bounded(doing, api.create(&post(), pod)).await.map(|_| ())
    }

    /// Changes metadata of a pod; nothing happens when it is gone.
    pub async fn patch_pod(
        &self,
        namespace: &str,
        name: &str,
        metadata: Value,
    ) -> Result<(), Error> {
        let api: Api<Pod> = self.within(namespace);
        let doing = format!("patch pod {namespace}/{name}");
        let patch = Patch::Merge(json!({"metadata": metadata}));
        gone_is_done(
            bounded(doing, api.patch(name, &PatchParams::default(), &patch)).await.map(|_| ()),
        )
    }

    /// Deletes this pod and no other of its name, and only this version when one is given.
    /// Nothing happens when it is gone.
    pub async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<&str>,
    ) -> Result<(), Error> {
        let api: Api<Pod> = self.within(namespace);
        let only = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(str::to_owned),
        };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
        let doing = format!("delete pod {namespace}/{name}");
        gone_is_done(bounded(doing, api.delete(name, &params)).await.map(|_| ()))
    }

    /// Replaces the status of the request that was seen; nothing happens when it is gone.
    pub async fn write_request_status(&self, request: &GpuRequest) -> Result<(), Error> {
        let (namespace, name) = place(request);
        let api: Api<GpuRequest> = self.within(&namespace);
        let doing = format!("write status of request {namespace}/{name}");
        let answer = bounded(doing, api.replace_status(&name, &post(), request)).await;
        gone_is_done(answer.map(|_| ()))
    }

    /// Deletes this request and no other of its name.
    pub async fn delete_request(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Error> {
        let api: Api<GpuRequest> = self.within(namespace);
        let only = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(only), ..DeleteParams::background() };
        let doing = format!("delete request {namespace}/{name}");
        gone_is_done(bounded(doing, api.delete(name, &params)).await.map(|_| ()))
    }

    /// Replaces the status of a card.
    pub async fn write_card_status(&self, card: &GpuCard) -> Result<(), Error> {
        let api: Api<GpuCard> = Api::all(self.client.clone());
        let name = card.name_any();
        let doing = format!("write status of card {name}");
        bounded(doing, api.replace_status(&name, &post(), card)).await.map(|_| ())
    }

    /// Tells a notice as an Event about a job and the pod of its attempt. An Event that cannot be
    /// written stops nothing.
    pub async fn tell(&self, job: &GpuJob, pod: Option<&str>, notice: &Notice) {
        // Events of one word are counted together under the text of the first, but for those that
        // are about another pod.
        let pod = pod.map(|name| ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: job.namespace(),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        });
        let about: ObjectReference = job.object_ref(&());
        let event = Event {
            type_: match notice.severity {
                Severity::Normal => EventType::Normal,
                Severity::Warning => EventType::Warning,
            },
            reason: notice.finding.reason.name().to_owned(),
            note: Some(shortened(&notice.finding.evidence)),
            action: "Lease".to_owned(),
            secondary: pod,
        };
        let doing = format!("write event {} about {}", event.reason, job.name_any());
        if let Err(error) = bounded(doing, self.recorder.publish(&event, &about)).await {
            tracing::warn!(%error, "event lost");
        }
    }

    fn within<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn place(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Whether the server said that an object of this name exists.
#[must_use]
pub fn already_exists(error: &Error) -> bool {
    status(error).is_some_and(Status::is_already_exists)
}

/// Whether the server said that there is another version of the object.
#[must_use]
pub fn is_conflict(error: &Error) -> bool {
    status(error).is_some_and(Status::is_conflict)
}

/// Whether the server said that there is no such object.
#[must_use]
pub fn is_not_found(error: &Error) -> bool {
    status(error).is_some_and(Status::is_not_found)
}

/// What the server said, when it refused.
fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::Api { source, .. } => match source.as_ref() {
            kube::Error::Api(status) => Some(status),
            _ => None,
        },
        Error::Timeout { .. } | Error::Unreadable { .. } | Error::ForeignLease { .. } => None,
    }
}

fn gone_is_done(answer: Result<(), Error>) -> Result<(), Error> {
    answer.or_else(|error| if is_not_found(&error) { Ok(()) } else { Err(error) })
}

/// An Event's note holds at most 1,024 bytes.
fn shortened(text: &str) -> String {
    let end =
        (0..=text.len().min(1_000)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

async fn bounded<T>(
    doing: String,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CALL_LIMIT, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Api { doing, source: Box::new(source) }),
        Err(_) => Err(Error::Timeout { doing, limit: CALL_LIMIT }),
    }
}
