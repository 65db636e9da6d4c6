//! Why and when a pod ended. Pure: an ordered list of small judges over what the kubelet and the
//! agent said; the first that knows an answer wins. [`crate::decide`] closes leases with it.

use jiff::Timestamp;

use crate::{
    decide::STAMP_RESOLUTION,
    duration,
    lease::{self, EndKnown, Stop},
    pod::{Bound, Ended, PodFacts, container},
    reason::{Finding, Payer, Reason, own_findings},
    report::Stage,
    start_failure,
};

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// When the card came back.
    pub at: Timestamp,
    /// How well that is known.
    pub known: EndKnown,
    /// Why, with what was seen.
    pub finding: Finding,
    /// Exit code of the program, when it ran.
    pub exit_code: Option<i32>,
}

/// Whether the holder's object is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderPresence {
    /// It exists.
    Present,
    /// It was deleted.
    Gone,
}

/// What is known beside the pod.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The order in the lease.
    pub stop: Option<&'a Stop>,
    /// Whether the job is still there.
    pub holder: HolderPresence,
    /// By what the pod's node is being emptied, when it is.
    pub emptied: Option<&'a str>,
    /// When its program was first seen to run.
    pub running_at: Option<Timestamp>,
}

/// What the judges look at.
struct Case<'a> {
    pod: &'a PodFacts,
    bound: &'a Bound,
    stop: Option<&'a Stop>,
    holder: HolderPresence,
    emptied: Option<&'a str>,
    running_at: Option<Timestamp>,
}

/// The end of a bound pod, once all of its containers have ended; `None` before.
#[must_use]
pub fn end(
    pod: &PodFacts,
    bound: &Bound,
    circumstances: Circumstances<'_>,
    now: Timestamp,
) -> Option<End> {
    if !pod.is_over {
        return None;
    }
    let Circumstances { stop, holder, emptied, running_at } = circumstances;
    let case = Case { pod, bound, stop, holder, emptied, running_at };
    let finding =
        JUDGES.iter().find_map(|judge| judge(&case)).unwrap_or_else(|| unexplained(&case));
    let (at, known) = end_time(pod, bound, now);
    let exit_code = pod
        .ends()
        .find(|(name, ended)| *name == container::MAIN && ended.started_at.is_some())
        .map(|(_, ended)| ended.exit_code);
    // `now` is the earliest that it can be, up to a second early.
    let latest = lease::later(now, STAMP_RESOLUTION).max(bound.at);
    Some(End { at: at.clamp(bound.at, latest), known, finding, exit_code })
}

/// The kubelet says when the containers with cards ended. It held the cards as well while the next of
/// them could not start, and does not say until when.
fn end_time(pod: &PodFacts, bound: &Bound, now: Timestamp) -> (Timestamp, EndKnown) {
    let is_last = |name: &str, ended: &Ended| match name {
        container::MAIN => true,
        container::PREFLIGHT | container::PREPARE => ended.exit_code != 0,
        _ => false,
    };
    let ended = pod.ends().any(|(name, ended)| is_last(name, ended) && ended.finished_at.is_some());
    match pod.last_end() {
        Some(at) if ended => (at, EndKnown::Kubelet),
        None if pod.reason.is_some() && !pod.deletion_requested => (bound.at, EndKnown::Refused),
        Some(_) | None => (now, EndKnown::Observed),
    }
}

/// In this order: the node's own words, the kernel's, what the agent says, then who stopped it.
const JUDGES: &[fn(&Case<'_>) -> Option<Finding>] = &[
    evicted,
    ceiling,
    refused_by_the_kubelet,
    changed_while_it_ran,
    out_of_host_memory,
    failed_install,
    agent_says,
    stopped_before_the_program,
    disrupted,
    deleted,
    could_not_start,
    exit_code_alone,
];

/// What the kubelet says of a pod that has gone beyond limits of its own; all its other words are
/// about its node (`pkg/kubelet/eviction/helpers.go`).
const OWN_LIMITS: [&str; 3] = [
    "exceeded its local ephemeral storage limit",
    "ephemeral local storage usage exceeds the total limit of containers",
    "Usage of EmptyDir volume",
];

fn evicted(case: &Case<'_>) -> Option<Finding> {
    (case.pod.reason.as_deref() == Some("Evicted")).then(|| {
        let words = case.pod.message.as_deref().unwrap_or("no message");
        let is_own = OWN_LIMITS.iter().any(|limit| words.contains(limit));
        let reason = if is_own { Reason::StorageLimitExceeded } else { Reason::Evicted };
        Finding::new(reason, format!("node {} evicted the pod: {words}", case.bound.node))
    })
}

fn ceiling(case: &Case<'_>) -> Option<Finding> {
    (case.pod.reason.as_deref() == Some("DeadlineExceeded")).then(|| {
        let evidence = "the kubelet ended the pod at its activeDeadlineSeconds".to_owned();
        match case.stop {
            Some(stop) => Finding::new(stop.finding.reason, evidence),
            None if !case.pod.has_started() => nothing_started(case.pod, case.bound),
            None => Finding::new(Reason::CeilingReached, evidence),
        }
    })
}

fn refused_by_the_kubelet(case: &Case<'_>) -> Option<Finding> {
    let reason = case.pod.reason.as_deref()?;
    (!case.pod.has_started() && !case.pod.deletion_requested).then(|| {
        let words = case.pod.message.as_deref().unwrap_or("no message");
        Finding::new(
            Reason::NodeRefusedPod,
            format!("node {} refused the pod: {reason}: {words}", case.bound.node),
        )
    })
}

/// A kubelet starts a program of a pod like ours again that has run only when somebody has changed its
/// container (`computePodActions` in `pkg/kubelet/kuberuntime/kuberuntime_manager.go`). What runs then,
/// and how it ends, is nothing that the job says. A container that was made and never started, as when
/// its runtime is killed meanwhile, counts as started again as well.
pub(crate) fn changed(pod: &PodFacts, running_at: Option<Timestamp>) -> Option<Finding> {
    let main = pod.containers.iter().find(|one| one.name == container::MAIN)?;
    let (name, restarts) = (&pod.name, main.restarts);
    let first_start = main.started_before.or(running_at)?;
    (restarts > 0 && !main.state.is_start_at(first_start)).then(|| {
        let evidence = format!(
            "somebody changed container {} of pod {name}: it was started again ({restarts} ×)",
            main.name
        );
        Finding::new(Reason::PodChanged, evidence)
    })
}

fn changed_while_it_ran(case: &Case<'_>) -> Option<Finding> {
    let changed = changed(case.pod, case.running_at)?;
    Some(case.stop.map_or(changed, |stop| stop.finding.clone()))
}

fn out_of_host_memory(case: &Case<'_>) -> Option<Finding> {
    let (name, _) = case.pod.ends().find(|(_, ended)| ended.reason == "OOMKilled")?;
    Some(Finding::new(
        Reason::HostOutOfMemory,
        format!("the kernel killed a process of container {name} for memory"),
    ))
}

/// The first container is leasehold's own and needs nothing of the holder: when not even that one
/// has started, the node did not do its part.
pub(crate) fn nothing_started(pod: &PodFacts, bound: &Bound) -> Finding {
    let Bound { node, at } = bound;
    let evidence = format!(
        "node {node}: no container of pod {} has started since it was bound at {at}; {}",
        pod.name,
        pod.on_the_way()
    );
    Finding::new(Reason::NodeCouldNotStart, evidence)
}

/// Nothing of the holder is in this container: a silent failure is leasehold's or the node's.
fn failed_install(case: &Case<'_>) -> Option<Finding> {
    let ended = failure_of(case.pod, container::INSTALL)?;
    let said = ended.report.as_ref().and_then(|report| report.reason);
    let is_explained =
        said.is_some_and(|reason| own_findings::is_believed(reason, Stage::Install, ended));
    (!case.pod.deletion_requested && !is_explained).then(|| {
        let words = words_of(ended);
        let known = start_failure::explain(&words);
        let reason = known.filter(|reason| reason.payer() == Payer::Infrastructure);
        Finding::new(
            reason.unwrap_or(Reason::AgentFailed),
            format!("node {}: {} failed: {words}", case.bound.node, container::INSTALL),
        )
    })
}

/// The agent's own verdict, of the first container that gave one other than success. A stop
/// signal from outside is named by whoever sent it. A report that is not to be believed says
/// nothing beside a stop in the lease; without one it is an order that was not leasehold's.
fn agent_says(case: &Case<'_>) -> Option<Finding> {
    let (stage, ended, report) = case.pod.ends().find_map(|(name, ended)| {
        let report = ended.report.as_ref()?;
        let stage = Stage::of_container(name)?;
        (stage == Stage::Run || !report.reason?.is_success()).then_some((stage, ended, report))
    })?;
    let reason = report.reason.filter(|reason| *reason != Reason::PodDeleted)?;
    let name = stage.container();
    let is_ordered = case.stop.is_some_and(|stop| stop.finding.reason == reason);
    if !is_ordered && !own_findings::is_believed(reason, stage, ended) {
        let is_order = case.stop.is_none() && !own_findings::of(stage).contains(&reason);
        return is_order.then(|| {
            let evidence = format!(
                "container {name} says {reason}, which leasehold did not order and the agent does \
                 not find there by itself"
            );
            Finding::new(Reason::PodDeleted, evidence)
        });
    }
    let evidence = match report.evidence.as_str() {
        "" => format!("container {name} ended"),
        evidence => evidence.to_owned(),
    };
    let evidence = match reason.payer() {
        Payer::Infrastructure => format!("node {}: {evidence}", case.bound.node),
        Payer::User => evidence,
    };
    Some(Finding::new(reason, evidence))
}

fn stopped_before_the_program(case: &Case<'_>) -> Option<Finding> {
    let mut finding = case.stop?.finding.clone();
    if finding.reason == Reason::StartupTimeout
        && let Some((name, said)) = last_words(case.pod)
    {
        finding.evidence = format!("{}; {name} said last: {said}", finding.evidence);
    }
    Some(finding)
}

/// What the container said that ended last.
fn last_words(pod: &PodFacts) -> Option<(&str, &str)> {
    let said = pod.ends().filter_map(|(name, ended)| {
        let evidence = ended.report.as_ref()?.evidence.as_str();
        (!evidence.is_empty()).then_some((name, evidence))
    });
    said.last()
}

/// An eviction that was asked for counts as the cluster's when the node is being emptied:
/// `kubectl drain` cordons first. Otherwise it is a deletion by another name.
pub(crate) fn eviction(pod: &PodFacts, bound: &Bound, emptied: Option<&str>) -> Option<Finding> {
    let words = pod.disrupted.as_ref().filter(|words| words.is_asked_for())?;
    let node = &bound.node;
    if let Some(by) = emptied {
        return Some(Finding::new(Reason::PodDisrupted, format!("node {node} ({by}): {words}")));
    }
    let evidence = format!(
        "pod {} was evicted by a request to the API server ({words}), while node {node} was not \
         being emptied",
        pod.name
    );
    Some(Finding::new(Reason::PodDeleted, evidence))
}

fn disrupted(case: &Case<'_>) -> Option<Finding> {
    let words = case.pod.disrupted.as_ref()?;
    let Some(judged) = eviction(case.pod, case.bound, case.emptied) else {
        let evidence = format!("node {}: {words}", case.bound.node);
        return Some(Finding::new(Reason::PodDisrupted, evidence));
    };
    let is_present = case.holder == HolderPresence::Present;
    (is_present || judged.reason == Reason::PodDisrupted).then_some(judged)
}

fn deleted(case: &Case<'_>) -> Option<Finding> {
    case.pod.deletion_requested.then(|| match case.holder {
        HolderPresence::Gone => Finding::new(Reason::HolderDeleted, "the job was deleted"),
        HolderPresence::Present => {
            Finding::new(Reason::PodDeleted, format!("pod {} was deleted", case.pod.name))
        }
    })
}

fn could_not_start(case: &Case<'_>) -> Option<Finding> {
    let (name, ended) = case.pod.ends().find(|(_, ended)| {
        matches!(
            ended.reason.as_str(),
            "StartError" | "ContainerCannotRun" | "ContainerStatusUnknown"
        )
    })?;
    let words = words_of(ended);
    Some(Finding::new(
        start_failure::explain(&words).unwrap_or(Reason::AgentFailed),
        format!("node {}: container {name} could not start: {words}", case.bound.node),
    ))
}

fn exit_code_alone(case: &Case<'_>) -> Option<Finding> {
    let silent = [container::PREFLIGHT, container::PREPARE]
        .into_iter()
        .find_map(|name| Some((name, failure_of(case.pod, name)?)));
    if let Some((name, ended)) = silent {
        return Some(Finding::new(
            Reason::AgentFailed,
            format!("{name} left no report: {}", words_of(ended)),
        ));
    }
    let (_, ended) = case.pod.ends().find(|(name, _)| *name == container::MAIN)?;
    let ran = match (ended.started_at, ended.finished_at) {
        (Some(start), Some(end)) => {
            format!(" after {}", duration::format(end.duration_since(start)))
        }
        _ => String::new(),
    };
    let report = match ended.report.as_ref().and_then(|report| report.reason) {
        Some(reason) => format!("the report {reason} does not count so late"),
        None => "the agent left no report".to_owned(),
    };
    Some(match ended.exit_code {
        0 => Finding::new(Reason::Completed, format!("exit code 0{ran}")),
        code => Finding::new(Reason::CommandFailed, format!("exit code {code}{ran}, {report}")),
    })
}

fn unexplained(case: &Case<'_>) -> Finding {
    Finding::new(
        Reason::PodLost,
        format!("pod {} ended on node {} without a word", case.pod.name, case.bound.node),
    )
}

fn failure_of<'a>(pod: &'a PodFacts, name: &str) -> Option<&'a Ended> {
    pod.ends()
        .find(|(ended, _)| *ended == name)
        .map(|(_, ended)| ended)
        .filter(|ended| ended.exit_code != 0)
}

fn words_of(ended: &Ended) -> String {
    format!("{}, exit code {}: {}", ended.reason, ended.exit_code, ended.message.trim())
}

#[cfg(test)]
mod tests;
