//! Does what a plan says, in its order; each command is idempotent.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use leasehold_core::{
    lease::{LeaseState, Terms},
    observed::Holder,
    plan::{Command, PodPlan},
    pod::PodFacts,
    request::Answer,
};
use leasehold_crds::{GpuLease, GpuLeaseStatus, GpuRequest, ledger, names, request};
use serde_json::json;

use crate::{
    cluster::already_exists,
    context::Context,
    error::{Class, Error},
    observe::Seen,
    pod::{build::build, facts::pod_facts},
    queue::Bell,
};

/// Carries out commands.
///
/// # Errors
/// The first write that failed; those after it wait for the next pass, but for those that end
/// what has no right to go on.
pub async fn act(
    context: &Context,
    bell: &Bell,
    holder: &Holder,
    seen: &Seen,
    commands: &[Command],
) -> Result<(), Error> {
    let mut hand =
        Hand { context, bell, holder, seen, lease: seen.lease.clone(), reserved_now: false };
    if seen.is_gone() {
        context.refusals.forget(holder);
    }
    let mut failed = None;
    for command in commands {
        // A write that failed stops no stop.
        if failed.is_some() && !command.is_enforcing() {
            continue;
        }
        if let Err(error) = hand.carry_out(command).await {
            failed.get_or_insert(error);
        }
    }
    failed.map_or(Ok(()), Err)
}

struct Hand<'a> {
    context: &'a Context,
    bell: &'a Bell,
    holder: &'a Holder,
    seen: &'a Seen,
    /// The open lease as this pass last saw or wrote it.
    lease: Option<Arc<GpuLease>>,
    reserved_now: bool,
}

impl Hand<'_> {
    async fn carry_out(&mut self, command: &Command) -> Result<(), Error> {
        let cluster = &self.context.cluster;
        let namespace = &self.holder.namespace;
        match command {
            Command::ReserveLease(terms) => self.reserve(terms).await,
            Command::CreatePod(pod) => self.create_pod(pod).await,
            Command::RecordHeld { lease, pod_uid, node, held, stop } => {
                self.write(lease, |terms| {
                    ledger::held_status(terms, pod_uid, node, *held, stop.as_ref())
                })
                .await
            }
            Command::CloseLease(closing) => {
                self.write(&closing.lease, |terms| ledger::closed_status(terms, closing)).await?;
                self.unclaim(&closing.lease);
                Ok(())
            }
            Command::VoidLease { lease, reason } => {
                self.write(lease, |_| ledger::void_status(*reason)).await?;
                self.context.refusals.forget(self.holder);
                self.unclaim(lease);
                Ok(())
            }
            Command::SealLease { lease } => self.seal(lease).await,
            Command::OrderStop { pod, reason } => {
                let annotations = json!({names::ANNOTATION_STOP: reason.name()});
                cluster.patch_pod(namespace, pod, json!({"annotations": annotations})).await
            }
            Command::MarkPod { pod, uid } => self.mark(pod, uid).await,
            Command::TellRuntime { pod, runtime } => {
                let annotations =
                    json!({names::ANNOTATION_RUNTIME_SECONDS: runtime.as_secs().to_string()});
                cluster.patch_pod(namespace, pod, json!({"annotations": annotations})).await
            }
            Command::DeletePod { pod, uid, resource_version } => {
                cluster.delete_pod(namespace, pod, uid, resource_version.as_deref()).await
            }
            Command::ForgetPod { pod, uid } => self.forget(pod, uid).await,
            Command::AnswerRequest { request: name, uid, answer } => {
                self.answer(name, uid, answer).await
            }
            Command::DeleteRequest { request: name, uid } => {
                cluster.delete_request(namespace, name, uid).await
            }
        }
    }

    /// The pod of a final lease takes no card any more, also when no watch ever saw it.
    fn unclaim(&self, lease: &str) {
        let supply = &self.context.supply;
        if supply.unclaim(&(self.holder.namespace.clone(), lease.to_owned())) {
            self.bell.ring_all(supply.next_in_line());
        }
    }

    async fn reserve(&mut self, terms: &Terms) -> Result<(), Error> {
        let uid = self.seen.job.as_ref().and_then(|job| job.uid()).unwrap_or_default();
        let lease = ledger::lease(terms, self.holder, &uid);
        self.context.refusals.forget(self.holder);
        let namespace = &self.holder.namespace;
        let stored = match self.context.cluster.create_lease(namespace, &lease).await {
            Err(error) if already_exists(&error) => {
                let stored =
                    self.context.cluster.read_lease(namespace, &terms.name).await?.ok_or(error)?;
                if stored.spec.holder.uid != uid {
                    return Err(Error::ForeignLease {
                        lease: terms.name.clone(),
                        owner: stored.spec.holder.uid,
                    });
                }
                stored
            }
            Err(error) => return Err(self.note_refusal(&terms.name, error)),
            Ok(stored) => {
                self.reserved_now = true;
                stored
            }
        };
        self.lease = Some(Arc::new(stored));
        Ok(())
    }

    /// Only for a lease that is reserved and never had a pod: what this pass saw may be older
    /// than what is stored, and a pod that has come and gone must not come again.
    async fn create_pod(&mut self, plan: &PodPlan) -> Result<(), Error> {
        let namespace = &self.holder.namespace;
        let Some(job) = &self.seen.job else {
            return Ok(());
        };
        if !self.reserved_now {
            let stored = self.context.cluster.read_lease(namespace, &plan.name).await?;
            let never_had_one = stored
                .is_some_and(|lease| matches!(ledger::state(&lease), Ok(LeaseState::Reserved)));
            if !never_had_one {
                self.unclaim(&plan.name);
                return Ok(());
            }
        }
        let lease = self.lease.as_ref().filter(|lease| lease.name_any() == plan.name);
        let Some(uid) = lease.and_then(|lease| lease.uid()) else {
            return Err(unreadable(&plan.name, "it was not seen"));
        };
        let pod = build(job, plan, &uid, &self.context.settings, &self.context.agent_image);
        match self.context.cluster.create_pod(namespace, &pod).await {
            Err(error) if already_exists(&error) => self.check_pod(plan, &uid, error).await,
            Err(error) => Err(self.note_refusal(&plan.name, error)),
            Ok(()) => Ok(()),
        }
    }

    /// What the API server refuses is told to the holder's next decision.
    fn note_refusal(&self, lease: &str, error: Error) -> Error {
        if matches!(error.class(), Class::Denied | Class::Refused) {
            let words = error.refusal().unwrap_or("no words").to_owned();
            self.context.refusals.note(self.holder, lease, &words);
        }
        error
    }

    /// A pod of this name exists: one of ours is what was wanted, any other one is in the way.
    async fn check_pod(&self, plan: &PodPlan, lease_uid: &str, error: Error) -> Result<(), Error> {
        let namespace = &self.holder.namespace;
        let stored = self.context.cluster.read_pod(namespace, &plan.name).await?;
        let facts = stored.and_then(|pod| pod_facts(&pod));
        let is_ours = |pod: PodFacts| pod.metered && pod.lease_uid.as_deref() == Some(lease_uid);
        if facts.is_some_and(is_ours) {
            return Ok(());
        }
        self.unclaim(&plan.name);
        let words = format!("a pod {} that leasehold did not make is in the way", plan.name);
        self.context.refusals.note(self.holder, &plan.name, &words);
        Err(error)
    }

    /// Replaces the status of the open lease; a lease that is final already stays as it is.
    async fn write(
        &mut self,
        name: &str,
        status: impl FnOnce(&Terms) -> GpuLeaseStatus,
    ) -> Result<(), Error> {
        let lease = self.lease.clone().filter(|lease| lease.name_any() == name);
        let lease = lease.ok_or_else(|| unreadable(name, "it was not seen"))?;
        if ledger::state(&lease).is_ok_and(LeaseState::is_final) {
            return Ok(());
        }
        let terms = ledger::terms(&lease).map_err(|why| unreadable(name, &why.to_string()))?;
        let next = GpuLease { status: Some(status(&terms)), ..GpuLease::clone(&lease) };
        self.lease = Some(Arc::new(self.context.cluster.write_lease_status(&next).await?));
        Ok(())
    }

    /// Marks a final lease, so that the watch of open leases lets go of it, and lets it be deleted.
    async fn seal(&self, name: &str) -> Result<(), Error> {
        let known = self.lease.iter().chain(&self.seen.unsealed);
        let Some(lease) = known.into_iter().find(|lease| lease.name_any() == name) else {
            return Ok(());
        };
        let others: Vec<&String> = lease
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != names::FINALIZER_LEDGER)
            .collect();
        let metadata = json!({
            "labels": {names::LABEL_STATE: names::STATE_CLOSED},
            "finalizers": others,
            "resourceVersion": lease.resource_version(),
        });
        self.context.cluster.patch_lease(&self.holder.namespace, name, metadata).await
    }

    async fn answer(&self, name: &str, uid: &str, answer: &Answer) -> Result<(), Error> {
        let mut requests = self.seen.requests.iter();
        let asked =
            requests.find(|asked| asked.name_any() == name && asked.uid().as_deref() == Some(uid));
        let Some(asked) = asked else { return Ok(()) };
        let status = Some(request::answered(answer));
        let next = GpuRequest { status, ..GpuRequest::clone(asked) };
        self.context.cluster.write_request_status(&next).await
    }

    /// Takes our finalizer off a pod and leaves those of others.
    async fn forget(&self, name: &str, uid: &str) -> Result<(), Error> {
        let Some(pod) = self.pod(name, uid) else { return Ok(()) };
        let metadata = json!({
            "uid": uid,
            "resourceVersion": pod.resource_version(),
            "finalizers": finalizers_of_others(pod),
        });
        self.context.cluster.patch_pod(&self.holder.namespace, name, metadata).await
    }

    /// Puts labels and our finalizer on a pod, beside those of others.
    async fn mark(&self, name: &str, uid: &str) -> Result<(), Error> {
        let Some(pod) = self.pod(name, uid) else { return Ok(()) };
        let mut finalizers = finalizers_of_others(pod);
        let has_ours = finalizers.len() < pod.finalizers().len();
        // A pod that is being deleted takes no new one.
        if has_ours || pod.metadata.deletion_timestamp.is_none() {
            finalizers.push(names::FINALIZER_METERING);
        }
        let metadata = json!({
            "uid": uid,
            "resourceVersion": pod.resource_version(),
            "labels": {names::LABEL_LEASE: name, names::LABEL_HOLDER: self.holder.name},
            "finalizers": finalizers,
        });
        self.context.cluster.patch_pod(&self.holder.namespace, name, metadata).await
    }

    /// The pod as this pass saw it.
    fn pod(&self, name: &str, uid: &str) -> Option<&Pod> {
        let mut pods = self.seen.pods.iter().map(AsRef::as_ref);
        pods.find(|pod: &&Pod| pod.name_any() == name && pod.uid().as_deref() == Some(uid))
    }
}

fn finalizers_of_others(pod: &Pod) -> Vec<&str> {
    let all = pod.finalizers().iter().map(String::as_str);
    all.filter(|finalizer| *finalizer != names::FINALIZER_METERING).collect()
}

fn unreadable(lease: &str, why: &str) -> Error {
    Error::Unreadable { what: format!("lease {lease}"), why: why.to_owned() }
}
