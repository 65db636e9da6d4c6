//! Reads a pod into the facts that rules know. Pure; a pod without a uid, or without the variables
//! that ours are made with, is not one of ours.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use leasehold_core::{
    pod::{Bound, ContainerFacts, ContainerState, Disruption, Ended, Granted, PodFacts, container},
    report::Report,
    taint::Toleration,
};
use leasehold_crds::names;

/// What a pod tells.
#[must_use]
pub fn pod_facts(pod: &Pod) -> Option<PodFacts> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
    let created_at = pod.metadata.creation_timestamp.as_ref()?.0;
    Some(PodFacts {
        name: pod.name_any(),
        uid: pod.uid()?,
        lease_uid: variable(pod, names::ENVIRONMENT_LEASE_UID).map(str::to_owned),
        labelled: pod.labels().get(names::LABEL_LEASE) == Some(&pod.name_any()),
        resource_version: pod.resource_version().unwrap_or_default(),
        created_at,
        bound: bound(pod, created_at),
        tolerations: tolerations(pod),
        scheduler_says: scheduled(pod).and_then(|condition| condition.message.clone()),
        deletion_requested: pod.metadata.deletion_timestamp.is_some(),
        metered: pod.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER_METERING),
        stop_told: annotation(names::ANNOTATION_STOP).map(str::to_owned),
        runtime_told: annotation(names::ANNOTATION_RUNTIME_SECONDS)
            .and_then(|text| text.parse().ok())
            .map(SignedDuration::from_secs),
        granted: granted(pod)?,
        disrupted: disrupted(pod),
        ceiling: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.active_deadline_seconds)
            .map(SignedDuration::from_secs),
        is_over: matches!(phase, "Succeeded" | "Failed"),
        reason: status.and_then(|status| status.reason.clone()),
        message: status.and_then(|status| status.message.clone()),
        unmet: unmet(pod),
        containers: containers(pod),
    })
}

/// A variable of the program's environment, which nobody can change once the pod exists.
fn variable<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let main = pod.spec.as_ref()?.containers.iter().find(|one| one.name == container::MAIN)?;
    main.env.as_ref()?.iter().find(|variable| variable.name == name)?.value.as_deref()
}

fn granted(pod: &Pod) -> Option<Granted> {
    let seconds = |name: &str| variable(pod, name)?.parse().ok().map(SignedDuration::from_secs);
    Some(Granted {
        runtime: seconds(names::ENVIRONMENT_RUNTIME_SECONDS)?,
        grace: seconds(names::ENVIRONMENT_GRACE_SECONDS)?,
        hold: seconds(names::ENVIRONMENT_HELD_SECONDS),
    })
}

fn tolerations(pod: &Pod) -> Vec<Toleration> {
    let all = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    all.map(|one| Toleration {
        key: one.key.clone().unwrap_or_default(),
        operator: one.operator.clone().unwrap_or_default(),
        value: one.value.clone().unwrap_or_default(),
        effect: one.effect.clone().unwrap_or_default(),
    })
    .collect()
}

/// Who but the kubelet ends the pod: <https://kubernetes.io/docs/concepts/workloads/pods/disruptions/>.
fn disrupted(pod: &Pod) -> Option<Disruption> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let target =
        conditions.iter().find(|one| one.type_ == "DisruptionTarget" && one.status == "True")?;
    Some(Disruption {
        reason: target.reason.clone().unwrap_or_default(),
        message: target.message.clone().unwrap_or_default(),
        since: known(target.last_transition_time.as_ref()),
    })
}

/// What the kubelet still has to do before a container starts. Left out is what says no more than
/// that the program does not run.
fn unmet(pod: &Pod) -> Vec<String> {
    let on_the_way = |name: &str| !matches!(name, "Ready" | "ContainersReady" | "DisruptionTarget");
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|one| one.status != "True" && on_the_way(&one.type_))
        .map(|one| {
            let state = Some(format!("{} is {}", one.type_, one.status));
            let words = [state, one.reason.clone(), one.message.clone()];
            let words = words.into_iter().flatten().filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(": ")
        })
        .collect()
}

fn scheduled(pod: &Pod) -> Option<&k8s_openapi::api::core::v1::PodCondition> {
    pod.status
        .as_ref()?
        .conditions
        .as_ref()?
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")
}

/// The binding; its time is that of the condition which the API server sets with it.
fn bound(pod: &Pod, created_at: Timestamp) -> Option<Bound> {
    let node = pod.spec.as_ref()?.node_name.clone()?;
    let at = scheduled(pod)
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or(created_at, |time| time.0);
    Some(Bound { node, at })
}

/// In starting order: init containers as specified, then the others.
fn containers(pod: &Pod) -> Vec<ContainerFacts> {
    let Some(status) = &pod.status else {
        return Vec::new();
    };
    let spec = pod.spec.as_ref();
    let order: Vec<&str> = spec
        .into_iter()
        .flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
        .map(|container| container.name.as_str())
        .collect();
    let mut facts: Vec<ContainerFacts> = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten())
        .filter_map(|status| {
            let before = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
            Some(ContainerFacts {
                name: status.name.clone(),
                state: state(status)?,
                restarts: u32::try_from(status.restart_count).unwrap_or(0),
                started_before: before.and_then(|ended| known(ended.started_at.as_ref())),
            })
        })
        .collect();
    facts.sort_by_key(|container| order.iter().position(|name| *name == container.name));
    facts
}

fn state(status: &ContainerStatus) -> Option<ContainerState> {
    let state = status.state.as_ref()?;
    if let Some(ended) = &state.terminated {
        let message = ended.message.clone().unwrap_or_default();
        return Some(ContainerState::Ended(Ended {
            started_at: known(ended.started_at.as_ref()),
            finished_at: known(ended.finished_at.as_ref()),
            exit_code: ended.exit_code,
            reason: ended.reason.clone().unwrap_or_default(),
            report: Report::parse(&message),
            message,
        }));
    }
    if let Some(running) = &state.running {
        return Some(ContainerState::Running { started_at: known(running.started_at.as_ref()) });
    }
    let waiting = state.waiting.as_ref();
    Some(ContainerState::Waiting {
        reason: waiting.and_then(|waiting| waiting.reason.clone()).unwrap_or_default(),
        message: waiting.and_then(|waiting| waiting.message.clone()).unwrap_or_default(),
    })
}

/// The kubelet writes 1970 for times that it does not know.
fn known(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0).filter(|time| time.as_second() > 0)
}
