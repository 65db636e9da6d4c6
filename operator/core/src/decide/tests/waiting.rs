//! A job that cannot start yet, or never again.

use super::*;

#[test]
fn a_pod_that_stays_unbound_is_replaced_with_growing_pauses() {
    let mut world = World::with(a_job());
    world.settle();
    world.pod().scheduler_says = Some("0/1 nodes are available: 1 Insufficient cpu".into());
    world.after(60).settle();
    assert_eq!((world.voided, world.pods.len(), world.ready().1), (1, 0, Reason::PodUnbound));
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(70).unwrap()));
    world.after(10).settle();
    assert_eq!(world.created, ["train-r0-a1", "train-r0-a2"]);
    world.after(60).settle();
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(150).unwrap()));
    assert_eq!(world.closed.len(), 0);
    world.after(20).settle().bind();
    assert_eq!(world.status().pause, None);
}

#[test]
fn a_refused_pod_costs_nothing_and_is_tried_again_later() {
    let mut world = World::with(a_job());
    let plan = world.plan();
    world.apply(&plan, 1);
    world.refuses = Some("exceeded quota".into());
    world.settle();
    assert_eq!((world.voided, world.ready()), (1, (Truth::True, Reason::PodRefused)));
    world.after(10).settle();
    assert_eq!(world.created, ["train-r0-a2"]);
}

fn a_past_run(lease: &str, attempt: u32) -> PastRun {
    PastRun {
        ran: seconds(40),
        rerun: 0,
        spec_hash: Some("v1:a".into()),
        attempt,
        lease: lease.into(),
        was_held: true,
        reason: Some(Reason::Completed),
        ended_at: Some(Timestamp::from_second(-10).unwrap()),
        charged: Money::parse("0.5").unwrap(),
        currency: "USD".into(),
    }
}

#[test]
fn a_run_in_the_ledger_is_adopted_and_never_started_again() {
    let past = |rerun, was_held| PastRun {
        rerun,
        was_held,
        ..a_past_run(&format!("train-r{rerun}-a3"), 3)
    };
    let mut world = World::with(a_job());
    world.ledger = vec![past(0, true)];
    world.settle();
    assert_eq!((world.ready(), world.created.len()), ((Truth::False, Reason::AlreadyRan), 0));
    assert_eq!(world.status().runtime_used, seconds(40));
    assert!(
        world
            .status()
            .outcome
            .as_ref()
            .unwrap()
            .finding
            .evidence
            .contains("run 0 cost 0.50 USD; its last lease train-r0-a3 ended at")
    );
    world.spec(|job| job.rerun = 1);
    assert_eq!(world.created, ["train-r1-a1"]);

    let mut older = World::with(a_job());
    older.ledger = vec![past(7, true)];
    older.settle();
    assert_eq!((older.ready().1, older.created.len()), (Reason::Superseded, 0));

    let mut void_only = World::with(a_job());
    void_only.ledger = vec![past(0, false)];
    void_only.settle();
    assert_eq!(void_only.created, ["train-r0-a4"]);
}

#[test]
fn a_changed_specification_is_a_new_run() {
    let mut world = World::with(a_job());
    world.ledger =
        vec![PastRun { spec_hash: Some("v1:other".into()), ..a_past_run("train-r0-a2", 2) }];
    world.settle();
    assert_eq!(world.created, ["train-r0-a3"]);
    assert_eq!(world.status().cost.charged, Money::ZERO);
}

#[test]
fn a_corrected_specification_is_tried_at_once() {
    let mut world = World::with(a_job());
    world.settle();
    world.pods.clear();
    world.refuses = Some("forbidden: hostPath".into());
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::PodRefused));
    world.ledger = vec![PastRun { was_held: false, ..a_past_run("train-r0-a1", 1) }];
    world.spec(|job| job.spec_hash = "v1:b".into());
    assert_eq!(world.ready(), (Truth::True, Reason::WaitingForScheduler));
    assert_eq!(world.created.len(), 2);
}

#[test]
fn a_re_created_job_waits_for_the_lease_of_the_deleted_one_and_then_asks_the_ledger() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(10);
    let object = Object {
        uid: "u2".into(),
        generation: 1,
        deletion_requested: false,
        status: Status::default(),
    };
    world.object = Some(object);
    world.pod().deletion_requested = true;
    world.settle();
    assert_eq!((world.ready().1, world.status().observed_generation), (Reason::Releasing, -1));
    world.ledger = vec![PastRun { spec_hash: None, ..a_past_run("train-r0-a1", 1) }];
    world.exit(143, Reason::PodDeleted);
    assert_eq!((world.ready().1, world.created.len()), (Reason::AlreadyRan, 1));
    assert!(world.status().attempts.is_empty());
}

#[test]
fn a_corrected_specification_asks_the_ledger_too() {
    let mut world = World::with(a_job());
    let good = world.desired.replace(Err(Finding::new(Reason::InvalidSpec, "image: no")));
    world.settle();
    assert_eq!(world.ready(), (Truth::False, Reason::InvalidSpec));
    assert!(crate::observed::needs_ledger(world.status(), &a_job()));
    world.desired = good;
    world.settle();
    assert!(!crate::observed::needs_ledger(world.status(), &a_job()));
}

#[test]
fn a_refused_lease_keeps_its_number_and_waits_longer_each_time() {
    let mut world = World::with(a_job());
    for tries in 1..4 {
        let plan = world.plan();
        world.apply(&plan, 0);
        assert_eq!(world.status().attempt, 1);
        world.refuses = Some("gpuleases is forbidden".into());
        world.settle();
        assert_eq!(world.ready(), (Truth::True, Reason::PodRefused));
        assert_eq!(world.status().pause.as_ref().unwrap().tries, tries);
        world.refuses = None;
        world.after(600);
    }
    world.settle();
    assert_eq!(world.created, ["train-r0-a1"]);
}

#[test]
fn a_pod_of_our_name_that_is_not_ours_is_not_taken_for_ours() {
    let mut world = World::with(a_job());
    let plan = world.plan();
    world.apply(&plan, usize::MAX);
    world.pod().lease_uid = Some("another".into());
    let plan = world.plan();
    assert!(plan.commands.iter().any(|command| matches!(command, Command::CreatePod(_))));
}
