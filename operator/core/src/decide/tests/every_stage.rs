//! What is true at every stage of a job's life, and after a crash between any two writes.

use super::*;

type Reach = fn(&mut World);

/// Every stage of a job's life, by how far it went.
fn stages() -> Vec<(&'static str, Reach)> {
    vec![
        ("new", |_| {}),
        ("placed", |world| drop(world.settle())),
        ("bound", |world| drop(world.settle().after(1).bind())),
        ("running", |world| drop(world.settle().after(1).bind().after(1).run())),
        ("stopping", |world| drop(world.settle().bind().run().after(601).settle())),
        ("ended", |world| drop(world.settle().bind().run().after(60).exit(0, Reason::Completed))),
    ]
}

fn drop<T>(_: T) {}

#[test]
fn a_bill_is_the_same_whichever_pass_makes_it() {
    for writes in 0..4 {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(601).settle().after(10);
        let finished_at = Some(world.at());
        world.pod().is_over = true;
        world.pod().containers[0].state = ContainerState::Ended(Ended {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at,
            exit_code: 0,
            reason: "Completed".into(),
            message: String::new(),
            report: None,
        });
        let plan = world.plan();
        world.apply(&plan, writes);
        world.settle();
        let closing = &world.closed[0];
        assert_eq!(closing.bill.billed_seconds, 611, "after {writes} writes");
        assert_eq!(world.status().cost.charged, closing.bill.charged, "after {writes} writes");
        assert_eq!(world.closed.len(), 1);
        assert!(world.unsealed.is_empty(), "after {writes} writes");
    }
}

#[test]
fn deleting_the_job_at_any_stage_frees_the_card_and_closes_the_lease() {
    for (name, reach) in stages() {
        let mut world = World::with(a_job());
        reach(&mut world);
        world.after(1).delete_job();
        if world.pods.iter().any(|pod| !pod.is_over) {
            world.exit(143, Reason::PodDeleted);
        }
        world.settle();
        assert!(world.pods.is_empty(), "{name}: {:?}", world.pods);
        assert!(world.lease.is_none(), "{name}");
        assert_eq!(world.created.len(), world.closed.len() + world.voided, "{name}");
    }
}

#[test]
fn a_crash_after_any_write_leads_to_the_same_end() {
    let finish = |world: &mut World| {
        if world.pods.last().is_some_and(|pod| pod.bound.is_none()) {
            world.bind();
        }
        if world.pods.last().is_some_and(|pod| !pod.is_over && pod.containers.is_empty()) {
            world.run();
        }
        if world.pods.last().is_some_and(|pod| !pod.is_over) {
            world.exit(0, Reason::Completed);
        }
        world.settle();
        (world.created.clone(), world.closed.len(), world.ready().1)
    };
    for (name, reach) in stages() {
        for writes in 0..4 {
            let mut world = World::with(a_job());
            reach(&mut world);
            let plan = world.plan();
            world.apply(&plan, writes);
            world.settle();
            let (created, closed, _) = finish(&mut world);
            assert_eq!((created.len(), closed), (1, 1), "{name} after {writes} writes");
        }
    }
}

#[test]
fn nothing_is_woken_later_than_its_deadline() {
    for (name, reach) in stages() {
        let mut world = World::with(a_job());
        reach(&mut world);
        let plan = world.plan();
        let Some(ends_at) = plan.status.as_ref().and_then(|status| status.lease.as_ref()?.ends_at)
        else {
            continue;
        };
        if world.lease.as_ref().is_some_and(|lease| lease.stop.is_none()) {
            assert!(
                matches!(plan.wake, Wake::At(at) if at <= ends_at + crate::decide::STAMP_RESOLUTION),
                "{name}: {:?}",
                plan.wake
            );
        }
    }
}
