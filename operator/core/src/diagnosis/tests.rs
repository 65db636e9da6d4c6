//! The composed list of judges, on what kubelets and agents say.

use jiff::SignedDuration;

use super::*;
use crate::{
    pod::{ContainerFacts, ContainerState, Disruption, Granted},
    report::{Report, Stage},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn bound() -> Bound {
    Bound { node: "node-1".into(), at: at(0) }
}

fn pod() -> PodFacts {
    PodFacts {
        name: "train-r0-a1".into(),
        uid: "u".into(),
        resource_version: "1".into(),
        created_at: at(0),
        bound: Some(bound()),
        scheduler_says: None,
        deletion_requested: false,
        disrupted: None,
        metered: true,
        stop_told: None,
        lease_uid: None,
        tolerations: Vec::new(),
        labelled: true,
        runtime_told: None,
        granted: Granted {
            runtime: SignedDuration::from_mins(1),
            grace: SignedDuration::ZERO,
            hold: None,
        },
        ceiling: None,
        is_over: true,
        reason: None,
        message: None,
        unmet: Vec::new(),
        containers: Vec::new(),
    }
}

fn container(name: &str, exit_code: i32, word: &str, said: Option<Reason>) -> ContainerFacts {
    let stage = Stage::of_container(name).unwrap();
    let report = said.map(|reason| Report {
        reason: Some(reason),
        evidence: "as seen".into(),
        ..Report::new(stage)
    });
    let end = ContainerState::Ended(Ended {
        started_at: Some(at(5)),
        finished_at: Some(at(9)),
        exit_code,
        reason: word.into(),
        message: "words".into(),
        report,
    });
    ContainerFacts::first(name, end)
}

fn with(containers: Vec<ContainerFacts>) -> PodFacts {
    PodFacts { containers, ..pod() }
}

fn ended(pod: &PodFacts, circumstances: Circumstances<'_>) -> End {
    end(pod, &bound(), circumstances, at(60)).unwrap()
}

fn reason(pod: &PodFacts, stop: Option<Reason>) -> Reason {
    let stop = stop.map(|reason| Stop { finding: Finding::new(reason, ""), at: at(8) });
    ended(pod, Circumstances { stop: stop.as_ref(), ..QUIET }).finding.reason
}

/// No order, the job is there, the node stays.
const QUIET: Circumstances<'static> =
    Circumstances { stop: None, holder: HolderPresence::Present, emptied: None, running_at: None };

fn disrupted_by(reason: &str) -> Disruption {
    Disruption { reason: reason.into(), message: "words".into(), since: None }
}

#[test]
fn each_end_has_its_reason() {
    let main = |code, word: &str, said| with(vec![container(container::MAIN, code, word, said)]);
    let preflight = |code, said| with(vec![container(container::PREFLIGHT, code, "Error", said)]);
    let install = |said| with(vec![container(container::INSTALL, 1, "Error", said)]);
    let mut deleted = main(143, "Error", Some(Reason::PodDeleted));
    deleted.deletion_requested = true;
    let worded = |word: &str, pod| PodFacts { reason: Some(word.into()), ..pod };
    let own_limit = |words: &str| PodFacts {
        message: Some(words.into()),
        ..worded("Evicted", main(137, "Error", None))
    };
    let preempted =
        PodFacts { disrupted: Some(disrupted_by("PreemptionByScheduler")), ..deleted.clone() };
    let table = [
        (main(0, "Completed", Some(Reason::Completed)), None, Reason::Completed),
        (main(0, "Completed", None), None, Reason::Completed),
        (main(3, "Error", Some(Reason::CommandFailed)), None, Reason::CommandFailed),
        (main(3, "Error", None), None, Reason::CommandFailed),
        (main(137, "OOMKilled", Some(Reason::CommandKilled)), None, Reason::HostOutOfMemory),
        (main(128, "StartError", None), None, Reason::AgentFailed),
        (preflight(1, Some(Reason::TooFewCards)), None, Reason::TooFewCards),
        (preflight(2, None), None, Reason::AgentFailed),
        (install(None), None, Reason::AgentFailed),
        (install(Some(Reason::DiskFull)), None, Reason::DiskFull),
        (install(Some(Reason::GpuLost)), None, Reason::AgentFailed),
        (worded("Evicted", main(137, "Error", None)), None, Reason::Evicted),
        (
            own_limit("Usage of EmptyDir volume \"shm\" exceeds the limit \"1Gi\". "),
            None,
            Reason::StorageLimitExceeded,
        ),
        (
            own_limit("Container main exceeded its local ephemeral storage limit \"1Gi\". "),
            None,
            Reason::StorageLimitExceeded,
        ),
        (
            own_limit(
                "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            ),
            None,
            Reason::StorageLimitExceeded,
        ),
        (own_limit("The node was low on resource: ephemeral-storage. "), None, Reason::Evicted),
        (worded("DeadlineExceeded", main(137, "Error", None)), None, Reason::CeilingReached),
        (
            worded("DeadlineExceeded", main(137, "Error", None)),
            Some(Reason::MaxRuntimeReached),
            Reason::MaxRuntimeReached,
        ),
        (main(143, "Error", Some(Reason::Stopped)), Some(Reason::Stopped), Reason::Stopped),
        (main(143, "Error", Some(Reason::Stopped)), None, Reason::PodDeleted),
        (deleted.clone(), Some(Reason::Stopped), Reason::Stopped),
        (pod(), Some(Reason::ImagePullFailed), Reason::ImagePullFailed),
        (preempted, None, Reason::PodDisrupted),
        (deleted.clone(), None, Reason::PodDeleted),
        (pod(), None, Reason::PodLost),
    ];
    for (pod, stop, expected) in table {
        assert_eq!(reason(&pod, stop), expected, "{pod:?}");
    }
    let gone = Circumstances { holder: HolderPresence::Gone, ..QUIET };
    assert_eq!(ended(&deleted, gone).finding.reason, Reason::HolderDeleted);
}

#[test]
fn the_runtimes_words_for_a_specifications_fault_are_known() {
    for (words, expected) in [
        ("container init was OOM-killed (memory limit too low?)", Reason::HostOutOfMemory),
        (
            "exec /leasehold/bin/leasehold-agent: argument list too long",
            Reason::ContainerCreateFailed,
        ),
        ("no such device", Reason::AgentFailed),
    ] {
        let mut main = container(container::MAIN, 128, "StartError", None);
        if let ContainerState::Ended(ended) = &mut main.state {
            ended.message = words.into();
        }
        let pod = with(vec![main]);
        assert_eq!(reason(&pod, None), expected, "{words}");
    }
}

#[test]
fn a_card_is_held_as_long_as_nothing_with_cards_has_started() {
    let done = |name: &str| container(name, 0, "Completed", Some(Reason::Completed));
    let (install, preflight) = (done(container::INSTALL), done(container::PREFLIGHT));
    let waiting = ContainerState::Waiting {
        reason: "CreateContainerConfigError".into(),
        message: "secret \"a\" not found".into(),
    };
    for containers in [
        vec![install.clone()],
        // The program waits for a secret and never starts.
        vec![install.clone(), preflight.clone()],
        vec![install, preflight, ContainerFacts::first(container::MAIN, waiting)],
    ] {
        let end = ended(&with(containers), QUIET);
        assert_eq!((end.at, end.known), (at(60), EndKnown::Observed));
    }
    let failed = with(vec![container(container::PREFLIGHT, 1, "Error", Some(Reason::GpuLost))]);
    assert_eq!(ended(&failed, QUIET).known, EndKnown::Kubelet);
}

#[test]
fn a_pod_that_the_kubelet_refused_ends_when_it_was_bound() {
    let pod = PodFacts { reason: Some("UnexpectedAdmissionError".into()), ..pod() };
    let end = ended(&pod, QUIET);
    assert_eq!((end.at, end.known), (at(0), EndKnown::Refused));
    assert_eq!(end.finding.reason, Reason::NodeRefusedPod);
}

#[test]
fn an_end_is_never_before_the_binding_nor_more_than_a_second_after_now() {
    let mut early = with(vec![container(container::MAIN, 0, "Completed", None)]);
    let late = Bound { at: at(20), ..bound() };
    assert_eq!(end(&early, &late, QUIET, at(60)).unwrap().at, at(20));
    let stamped = end(&early, &bound(), QUIET, at(60)).unwrap().at;
    let before = |seconds| at(stamped.as_second() - seconds);
    for (now, ended) in [(before(0), stamped), (before(1), stamped), (before(2), before(1))] {
        assert_eq!(end(&early, &bound(), QUIET, now).unwrap().at, ended);
    }
    early.is_over = false;
    assert_eq!(end(&early, &bound(), QUIET, at(60)), None);
}

#[test]
fn faults_of_a_node_name_it() {
    let pod = with(vec![container(container::PREFLIGHT, 1, "Error", Some(Reason::GpuLost))]);
    let end = ended(&pod, QUIET);
    assert!(end.finding.evidence.contains("node-1"), "{:?}", end.finding);
}

#[test]
fn a_program_that_writes_its_own_report_pays() {
    for said in Reason::ALL.iter().filter(|reason| reason.payer() == Payer::Infrastructure) {
        let mut main = container(container::MAIN, 1, "Error", Some(*said));
        if let ContainerState::Ended(ended) = &mut main.state {
            ended.finished_at = Some(at(50_000));
        }
        let found = reason(&with(vec![main]), None);
        let failed = *said == Reason::AgentFailed;
        let expected = if failed { Reason::CommandFailed } else { Reason::PodDeleted };
        assert_eq!((found, found.payer()), (expected, Payer::User), "{said}");
    }
}

#[test]
fn a_report_that_is_not_believed_changes_no_ordered_end() {
    let main = |said| with(vec![container(container::MAIN, 143, "Error", Some(said))]);
    let ordered = Some(Reason::MaxRuntimeReached);
    assert_eq!(reason(&main(Reason::GpuLost), ordered), Reason::MaxRuntimeReached);
    assert_eq!(reason(&main(Reason::Completed), ordered), Reason::Completed);
    // What leasehold ordered is repeated by the agent, also what it does not find by itself.
    let cdi = Reason::CdiDeviceUnresolved;
    assert_eq!(reason(&main(cdi), Some(cdi)), cdi);
}

#[test]
fn an_eviction_is_free_only_when_its_node_is_emptied() {
    let evicted = |by: &str| PodFacts {
        disrupted: Some(disrupted_by(by)),
        deletion_requested: true,
        ..with(vec![container(container::MAIN, 143, "Error", Some(Reason::PodDeleted))])
    };
    let asked = "EvictionByEvictionAPI";
    let (present, gone) = (HolderPresence::Present, HolderPresence::Gone);
    let table = [
        (asked, Some("cordoned"), present, Reason::PodDisrupted),
        (asked, Some("gone"), present, Reason::PodDisrupted),
        (asked, None, present, Reason::PodDeleted),
        (asked, None, gone, Reason::HolderDeleted),
        ("PreemptionByScheduler", None, present, Reason::PodDisrupted),
        ("DeletionByTaintManager", None, present, Reason::PodDisrupted),
        ("TerminationByKubelet", Some("cordoned"), present, Reason::PodDisrupted),
    ];
    for (by, emptied, holder, expected) in table {
        let end = ended(&evicted(by), Circumstances { holder, emptied, ..QUIET });
        assert_eq!(end.finding.reason, expected, "{by} {emptied:?} {holder:?}");
        assert!(emptied.is_none() || by != asked || end.finding.evidence.contains("node-1"));
    }
}

#[test]
fn a_pod_that_the_kubelet_ends_before_any_container_started_is_the_nodes_fault() {
    let state =
        ContainerState::Waiting { reason: "ContainerCreating".into(), message: String::new() };
    let waits = ContainerFacts::first(container::INSTALL, state);
    let pod = PodFacts {
        reason: Some("DeadlineExceeded".into()),
        unmet: vec!["PodReadyToStartContainers is False".into()],
        ..with(vec![waits])
    };
    let finding = ended(&pod, QUIET).finding;
    assert_eq!(finding.reason, Reason::NodeCouldNotStart);
    for words in ["node-1", "agent-install waits: ContainerCreating", "ToStartContainers is False"]
    {
        assert!(finding.evidence.contains(words), "{finding:?}");
    }
}
