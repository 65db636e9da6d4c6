//! Why and when a pod ended. Pure: an ordered list of small judges over what the kubelet and the
//! agent said; the first that knows an answer wins. [`crate::decide`] closes leases with it.

use jiff::Timestamp;

use crate::{
    duration,
    lease::{EndKnown, Stop},
    pod::{Bound, Ended, PodFacts, container},
    reason::{Finding, Reason},
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

/// What the judges look at.
struct Case<'a> {
    pod: &'a PodFacts,
    bound: &'a Bound,
    /// The order in the lease.
    stop: Option<&'a Stop>,
    holder: HolderPresence,
}

/// The end of a bound pod, once all of its containers have ended; `None` before.
#[must_use]
pub fn end(
    pod: &PodFacts,
    bound: &Bound,
    stop: Option<&Stop>,
    holder: HolderPresence,
    now: Timestamp,
) -> Option<End> {
    if !pod.is_over {
        return None;
    }
    let case = Case { pod, bound, stop, holder };
    let finding =
        JUDGES.iter().find_map(|judge| judge(&case)).unwrap_or_else(|| unexplained(&case));
    let (at, known) = end_time(pod, bound, now);
    let exit_code = pod
        .ends()
        .find(|(name, ended)| *name == container::MAIN && ended.started_at.is_some())
        .map(|(_, ended)| ended.exit_code);
    Some(End { at: at.clamp(bound.at, now.max(bound.at)), known, finding, exit_code })
}

/// The kubelet says when the containers with cards ended. It held the cards as well while none of
/// them could start, and does not say until when.
fn end_time(pod: &PodFacts, bound: &Bound, now: Timestamp) -> (Timestamp, EndKnown) {
    let with_cards =
        |name: &str| matches!(name, container::PREFLIGHT | container::PREPARE | container::MAIN);
    let ended = pod.ends().any(|(name, ended)| with_cards(name) && ended.finished_at.is_some());
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
    out_of_host_memory,
    failed_install,
    agent_says,
    stopped_before_the_program,
    disrupted,
    deleted,
    could_not_start,
    exit_code_alone,
];

fn evicted(case: &Case<'_>) -> Option<Finding> {
    (case.pod.reason.as_deref() == Some("Evicted")).then(|| {
        let words = case.pod.message.as_deref().unwrap_or("no message");
        Finding::new(Reason::Evicted, format!("node {} evicted the pod: {words}", case.bound.node))
    })
}

fn ceiling(case: &Case<'_>) -> Option<Finding> {
    (case.pod.reason.as_deref() == Some("DeadlineExceeded")).then(|| {
        let evidence = "the kubelet ended the pod at its activeDeadlineSeconds".to_owned();
        match case.stop {
            Some(stop) => Finding::new(stop.finding.reason, evidence),
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

fn out_of_host_memory(case: &Case<'_>) -> Option<Finding> {
    let (name, _) = case.pod.ends().find(|(_, ended)| ended.reason == "OOMKilled")?;
    Some(Finding::new(
        Reason::HostOutOfMemory,
        format!("the kernel killed a process of container {name} for memory"),
    ))
}

fn failed_install(case: &Case<'_>) -> Option<Finding> {
    let ended = failure_of(case.pod, container::INSTALL)?;
    (!case.pod.deletion_requested).then(|| {
        Finding::new(
            Reason::AgentFailed,
            format!("{} failed: {}", container::INSTALL, words_of(ended)),
        )
    })
}

/// The agent's own verdict, of the first container that gave one other than success. A stop
/// signal from outside is named by whoever sent it.
fn agent_says(case: &Case<'_>) -> Option<Finding> {
    let (name, ended, reason) = case.pod.ends().find_map(|(name, ended)| {
        let reason = ended.report.as_ref()?.reason?;
        (name == container::MAIN || !reason.is_success()).then_some((name, ended, reason))
    })?;
    if reason == Reason::PodDeleted {
        return None;
    }
    if case.stop.is_none() && !reason.is_by_agent_alone() {
        let evidence = format!("the program was told {reason}, which leasehold did not order");
        return Some(Finding::new(Reason::PodDeleted, evidence));
    }
    let evidence = ended.report.as_ref().map(|report| report.evidence.clone()).unwrap_or_default();
    let evidence = if evidence.is_empty() { format!("container {name} ended") } else { evidence };
    let evidence = match reason.payer() {
        crate::reason::Payer::Infrastructure => format!("node {}: {evidence}", case.bound.node),
        crate::reason::Payer::User => evidence,
    };
    Some(Finding::new(reason, evidence))
}

fn stopped_before_the_program(case: &Case<'_>) -> Option<Finding> {
    case.stop.map(|stop| stop.finding.clone())
}

fn disrupted(case: &Case<'_>) -> Option<Finding> {
    let words = case.pod.disrupted.as_ref()?;
    Some(Finding::new(Reason::PodDisrupted, format!("node {}: {words}", case.bound.node)))
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
        start_error(&words),
        format!("node {}: container {name} could not start: {words}", case.bound.node),
    ))
}

/// The container runtime's own words for what a specification causes: runc's
/// `libcontainer/process_linux.go` for memory, execve(2)'s E2BIG for arguments.
fn start_error(words: &str) -> Reason {
    if words.contains("memory limit too low") {
        Reason::HostOutOfMemory
    } else if words.contains("argument list too long") {
        Reason::ContainerCreateFailed
    } else {
        Reason::AgentFailed
    }
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
    Some(match ended.exit_code {
        0 => Finding::new(Reason::Completed, format!("exit code 0{ran}")),
        code => Finding::new(
            Reason::CommandFailed,
            format!("exit code {code}{ran}, the agent left no report"),
        ),
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
