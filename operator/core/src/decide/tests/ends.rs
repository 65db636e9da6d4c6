//! Ends that somebody has to look at.

use super::*;

#[test]
fn a_sick_card_costs_nothing_and_says_where() {
    let mut world = World::with(a_job());
    world.settle().bind().after(5).end_container(
        container::PREFLIGHT,
        1,
        Some(Reason::TooFewCards),
    );
    let closing = &world.closed[0];
    assert_eq!((closing.paid_by, closing.bill.charged), (Payer::Infrastructure, Money::ZERO));
    assert!(closing.finding.evidence.contains("node-1"), "{:?}", closing.finding);
    assert_eq!(world.ready(), (Truth::False, Reason::TooFewCards));
    assert_eq!(world.created.len(), 1);
}

/// A program that ended well and whose report is not there.
fn completed(started_at: Option<Timestamp>, finished_at: Option<Timestamp>) -> ContainerState {
    ContainerState::Ended(Ended {
        started_at,
        finished_at,
        exit_code: 0,
        reason: "Completed".into(),
        message: String::new(),
        report: None,
    })
}

fn evicted() -> Disruption {
    Disruption { reason: "EvictionByEvictionAPI".into(), message: "evicted".into(), since: None }
}

#[test]
fn a_drained_pod_is_paid_by_nobody() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(5);
    world.pod().deletion_requested = true;
    world.pod().disrupted = Some(evicted());
    world.market.nodes[0].emptied = Some("cordoned".into());
    world.exit(143, Reason::PodDeleted);
    assert_eq!(world.closed[0].paid_by, Payer::Infrastructure);
    assert_eq!(world.ready(), (Truth::False, Reason::PodDisrupted));
}

#[test]
fn an_eviction_that_somebody_asked_for_is_paid_like_a_deletion() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(300);
    world.pod().deletion_requested = true;
    world.pod().disrupted = Some(evicted());
    world.exit(143, Reason::PodDeleted);
    assert_eq!((world.closed[0].paid_by, world.ready().1), (Payer::User, Reason::PodDeleted));
    assert_eq!(world.closed[0].bill.billed_seconds, 300);
    assert!(world.message().contains("evicted by a request"), "{}", world.message());
}

#[test]
fn an_eviction_from_a_node_that_is_gone_is_paid_by_nobody() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(300);
    world.pod().deletion_requested = true;
    world.pod().disrupted = Some(evicted());
    world.market.nodes.clear();
    world.exit(143, Reason::PodDeleted);
    assert_eq!(world.ready(), (Truth::False, Reason::PodDisrupted));
    assert_eq!(world.closed[0].bill.charged, Money::ZERO);
}

#[test]
fn an_eviction_is_judged_when_it_is_first_seen() {
    let cordoned = Some("cordoned");
    for (at_first, soon, at_the_end, expected) in [
        (cordoned, None, None, Reason::PodDisrupted),
        (None, None, cordoned, Reason::PodDeleted),
        // The watch of nodes is late.
        (None, cordoned, None, Reason::PodDisrupted),
    ] {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(300);
        world.market.nodes[0].emptied = at_first.map(str::to_owned);
        let since = Some(world.at());
        world.pod().disrupted = Some(Disruption { since, ..evicted() });
        world.pod().deletion_requested = true;
        world.settle();
        assert_eq!(world.lease.as_ref().unwrap().stop.is_some(), at_first.is_some());
        world.after(3);
        if soon.is_some() {
            world.market.nodes[0].emptied = soon.map(str::to_owned);
        }
        world.settle().after(7).settle();
        let stop = world.lease.as_ref().unwrap().stop.clone().unwrap();
        assert_eq!(stop.finding.reason, expected);
        assert_eq!(world.pod().stop_told, None, "the kubelet tells the agent");
        assert_eq!(world.ready().1, Reason::Releasing);
        world.market.nodes[0].emptied = at_the_end.map(str::to_owned);
        world.after(20).exit(143, Reason::PodDeleted);
        assert_eq!(world.ready(), (Truth::False, expected));
        assert_eq!(world.closed[0].paid_by, expected.payer());
    }
}

#[test]
fn a_taint_that_the_pod_tolerates_empties_no_node() {
    let taint = Taint { key: "pool".into(), value: "ml".into(), effect: "NoSchedule".into() };
    let tolerated = Toleration {
        key: "pool".into(),
        operator: "Exists".into(),
        value: String::new(),
        effect: String::new(),
    };
    for (tolerations, expected) in
        [(vec![tolerated], Reason::PodDeleted), (Vec::new(), Reason::PodDisrupted)]
    {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(300);
        world.market.nodes[0].taints = vec![taint.clone()];
        world.pod().tolerations = tolerations;
        world.pod().disrupted = Some(evicted());
        world.pod().deletion_requested = true;
        world.exit(143, Reason::PodDeleted);
        assert_eq!(world.ready(), (Truth::False, expected));
    }
}

/// The program's container is started again, as a kubelet does when its image was changed.
fn change(world: &mut World, state: ContainerState) {
    let started_before = world.pod().running_at();
    let changed = ContainerFacts {
        restarts: 1,
        started_before,
        ..ContainerFacts::first(container::MAIN, state)
    };
    world.pod().containers = vec![changed];
}

#[test]
fn a_program_whose_container_was_changed_is_stopped_and_paid_from_its_first_start_on() {
    let waiting = |reason: &str| ContainerState::Waiting {
        reason: reason.into(),
        message: "unresolvable CDI devices".into(),
    };
    let again = Timestamp::from_second(301).ok();
    for (state, has_agent) in [
        (ContainerState::Running { started_at: again }, true),
        (waiting("ErrImagePull"), false),
        (waiting("CreateContainerError"), false),
    ] {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(300);
        change(&mut world, state);
        world.settle();
        assert_eq!(world.lease.as_ref().unwrap().held.unwrap().running_at.unwrap().as_second(), 0);
        assert_eq!(world.pod().deletion_requested, !has_agent);
        if has_agent {
            assert_eq!(world.stop(), Some(Reason::PodChanged));
        }
        world.after(5).exit(143, Reason::PodChanged);
        assert_eq!((world.closed[0].paid_by, world.ready().1), (Payer::User, Reason::PodChanged));
        assert_eq!(world.closed[0].bill.billed_seconds, 305);
    }
}

#[test]
fn a_container_that_was_made_twice_and_started_once_was_changed_by_nobody() {
    let mut world = World::with(a_job());
    world.settle().bind();
    let started_at = Some(world.at());
    let state = ContainerState::Running { started_at };
    let made_twice =
        ContainerFacts { restarts: 1, ..ContainerFacts::first(container::MAIN, state) };
    world.pod().containers = vec![made_twice];
    world.settle().after(60).settle();
    assert_eq!((world.ready().1, world.stop()), (Reason::Running, None));
    let finished_at = Some(world.at());
    world.pod().containers[0].state = completed(started_at, finished_at);
    world.pod().is_over = true;
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::Succeeded));
}

#[test]
fn a_copy_of_a_pod_is_not_the_pod() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(300);
    world.pod().uid = "of-the-copy".into();
    world.settle();
    assert_eq!(
        (world.closed[0].paid_by, world.ready().1),
        (Payer::Infrastructure, Reason::PodLost)
    );
    assert!(world.pods.is_empty() || world.pod().deletion_requested);
}

#[test]
fn a_changed_container_that_ended_unseen_makes_no_held_hour_free() {
    let failed = |started_at, reason: &str, report: Option<Reason>| Ended {
        started_at,
        finished_at: Timestamp::from_second(302).ok(),
        exit_code: 128,
        reason: reason.into(),
        message: "unresolvable CDI devices".into(),
        report: report.map(|reason| Report { reason: Some(reason), ..Report::new(Stage::Run) }),
    };
    let again = Timestamp::from_second(301).ok();
    for ended in [
        failed(None, "StartError", None),
        failed(again, "Error", Some(Reason::AgentFailed)),
        failed(again, "OOMKilled", None),
    ] {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(302);
        change(&mut world, ContainerState::Ended(ended));
        world.pod().is_over = true;
        world.settle();
        assert_eq!(world.ready(), (Truth::False, Reason::PodChanged));
        assert_eq!(world.closed[0].bill.billed_seconds, 302);
        assert!(world.message().contains("somebody changed container main"));
    }
}

#[test]
fn a_program_that_claims_a_fault_of_its_node_pays_for_its_time() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(300).exit(1, Reason::GpuLost);
    assert_eq!((world.closed[0].paid_by, world.ready().1), (Payer::User, Reason::PodDeleted));
    assert_eq!(world.closed[0].bill.billed_seconds, 300);
}

#[test]
fn a_broken_specification_leaves_the_running_attempt_under_its_old_limits() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    world.desired = Some(Err(Finding::new(Reason::InvalidSpec, "maxRuntime: no")));
    world.settle().after(601).settle();
    assert_eq!(world.stop(), Some(Reason::MaxRuntimeReached));
    world.exit(143, Reason::MaxRuntimeReached);
    assert_eq!(world.closed.len(), 1);
}

#[test]
fn a_pod_is_deleted_for_a_sidecar_but_not_for_a_kubelet_that_takes_its_time() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(9);
    let finished_at = Some(world.at());
    world.pod().containers[0].state = completed(Some(Timestamp::UNIX_EPOCH), finished_at);
    world.settle();
    assert!(!world.pod().deletion_requested);
    let sidecar = ContainerState::Running { started_at: None };
    world.pod().containers.insert(0, ContainerFacts::first("proxy", sidecar));
    world.settle();
    assert!(world.pod().deletion_requested);
}

#[test]
fn a_node_that_comes_back_has_lost_nothing() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(50);
    world.market.nodes[0].silent_since = Some(world.at());
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::NodeSilent));
    world.after(299).settle();
    world.market.nodes[0].silent_since = None;
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::Running));
    world.exit(0, Reason::Completed);
    assert_eq!(world.closed[0].bill.billed_seconds, 349);
}

#[test]
fn a_lost_node_closes_its_lease_and_nobody_pays() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(50);
    world.market.nodes[0].silent_since = Some(world.at());
    world.settle();
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(350).unwrap()));
    world.after(300).settle();
    let closing = &world.closed[0];
    assert_eq!(closing.paid_by, Payer::Infrastructure);
    assert_eq!(closing.ended_at, Timestamp::from_second(50).unwrap());
    assert_eq!((closing.bill.charged, world.ready().1), (Money::ZERO, Reason::NodeLost));
    assert!(world.pod().deletion_requested && !world.pod().metered);
    world.after(1_000).settle();
    assert_eq!((world.created.len(), world.closed.len()), (1, 1));
}

#[test]
fn a_vanished_pod_closes_its_lease_and_nobody_pays() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(50);
    world.pods.clear();
    world.settle();
    assert_eq!(
        (world.closed[0].paid_by, world.ready().1),
        (Payer::Infrastructure, Reason::PodLost)
    );
    assert_eq!(world.created.len(), 1);
}

#[test]
fn a_pod_that_lost_its_labels_or_its_finalizer_gets_them_back() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    (world.pod().labelled, world.pod().metered) = (false, true);
    world.settle();
    assert!(world.pod().labelled);
    (world.pod().labelled, world.pod().metered) = (true, false);
    world.settle();
    assert!(world.pod().metered);
    // The API server takes no new one for a pod that is being deleted.
    (world.pod().deletion_requested, world.pod().metered) = (true, false);
    let plan = world.plan();
    assert!(!plan.commands.iter().any(|command| matches!(command, Command::MarkPod { .. })));
}
