//! A job that runs: how it ends, and what it costs.

use super::*;

#[test]
fn a_job_runs_and_gives_its_card_back() {
    let mut world = World::with(a_job());
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::WaitingForScheduler));
    assert_eq!(world.created, ["train-r0-a1"]);
    world.after(1).bind();
    assert_eq!(world.ready(), (Truth::True, Reason::Preparing));
    world.after(4).run();
    assert_eq!(world.ready(), (Truth::True, Reason::Running));
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(606).unwrap()));
    world.after(100).exit(0, Reason::Completed);
    assert_eq!(world.ready(), (Truth::True, Reason::Succeeded));
    let closing = &world.closed[0];
    assert_eq!(
        (closing.bill.billed_seconds, closing.bill.charged.to_string()),
        (104, "0.0104".to_owned())
    );
    assert_eq!(world.status().cost.charged, closing.bill.charged);
    assert!(!world.pods[0].metered && !world.pods[0].deletion_requested);
    world.after(3_600).settle();
    assert!(world.pods.is_empty());
    assert_eq!((world.created.len(), world.closed.len()), (1, 1));
}

#[test]
fn a_pod_of_which_the_scheduler_has_said_nothing_changes_no_status() {
    let mut world = World::with(a_job());
    let plan = world.plan();
    world.apply(&plan, usize::MAX);
    let again = world.plan();
    assert_eq!((again.status, again.commands), (plan.status, Vec::new()));
    world.pod().scheduler_says = Some("0/1 nodes are available".into());
    world.settle();
    let ready = world.status().conditions.iter().find(|one| one.kind == ConditionType::Ready);
    assert!(ready.unwrap().message.contains("0/1 nodes"), "{ready:?}");
}

#[test]
fn a_job_that_does_not_end_is_told_to_stop_and_then_its_pod_is_deleted() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(600).settle();
    assert_eq!(world.stop(), None);
    world.after(1).settle();
    assert_eq!(world.stop(), Some(Reason::MaxRuntimeReached));
    assert!(!world.pod().deletion_requested);
    world.after(49).settle();
    assert!(!world.pod().deletion_requested);
    world.after(1).settle();
    assert!(world.pod().deletion_requested);
    world.exit(137, Reason::PodDeleted);
    assert_eq!(world.ready(), (Truth::False, Reason::MaxRuntimeReached));
    assert_eq!(world.closed[0].bill.billed_seconds, 630);
    assert_eq!(world.closed[0].bill.absorbed.to_string(), "0.0021");
}

#[test]
fn money_ends_a_job_before_time_does() {
    let mut job = a_job();
    job.limit = Limit::Amount(Money::parse("0.02").unwrap());
    let mut world = World::with(job);
    world.settle().bind().run();
    let lease = world.status().lease.clone().unwrap();
    assert_eq!(lease.ends_because, Some(Reason::BudgetExhausted));
    assert_eq!(lease.ends_at, Some(Timestamp::from_second(170).unwrap()));
    world.after(170).settle().after(30).exit(143, Reason::BudgetExhausted);
    assert_eq!(world.status().cost.charged.to_string(), "0.02");
    assert_eq!(world.ready(), (Truth::False, Reason::BudgetExhausted));
}

#[test]
fn limits_apply_live_up_to_what_the_pod_was_made_with() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    world.spec(|job| job.max_runtime = SignedDuration::from_mins(5));
    assert_eq!(world.pod().runtime_told, Some(SignedDuration::from_mins(5)));
    assert!(!world.message().contains("maxRuntime"));
    world.spec(|job| job.max_runtime = SignedDuration::from_hours(90));
    assert_eq!(world.pod().runtime_told, Some(SignedDuration::from_mins(10)));
    assert!(world.message().contains("made for 10m"), "{}", world.message());
}

#[test]
fn a_limit_below_what_was_used_stops_at_once_and_refunds_nothing() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(500);
    world.spec(|job| job.max_runtime = seconds(1));
    assert_eq!(world.stop(), Some(Reason::MaxRuntimeReached));
    world.after(2).exit(143, Reason::MaxRuntimeReached);
    assert_eq!(world.closed[0].bill.billed_seconds, 502);
}

#[test]
fn the_kubelets_deadline_comes_after_every_other_one() {
    let mut world = World::with(a_job());
    world.settle();
    let [startup, grace, slack] = [30 * 60, 30, 60];
    assert_eq!(world.pod().ceiling, Some(seconds(startup + 600 + grace + slack)));
    world.bind().run().after(100);
    world.spec(|job| job.wish = Wish::Stopped).exit(143, Reason::Stopped);
    world.spec(|job| job.wish = Wish::Running);
    assert_eq!(world.pod().ceiling, Some(seconds(startup + 500 + grace + slack)));
}

#[test]
fn a_limit_holds_over_all_attempts_of_a_run() {
    let mut job = a_job();
    job.limit = Limit::Amount(Money::parse("0.02").unwrap());
    let mut world = World::with(job);
    world.settle().bind().run().after(150);
    world.spec(|job| job.wish = Wish::Stopped).exit(143, Reason::Stopped);
    assert_eq!(world.status().cost.charged.to_string(), "0.015");
    world.spec(|job| job.wish = Wish::Running);
    assert_eq!(world.status().cost.reserved.to_string(), "0.005");
    world.bind().run();
    let lease = world.status().lease.clone().unwrap();
    assert_eq!(lease.ends_because, Some(Reason::BudgetExhausted));
    assert_eq!(lease.ends_at.unwrap().duration_since(world.at()), seconds(20));
    world.after(20).settle().after(30).exit(143, Reason::BudgetExhausted);
    assert_eq!(world.status().cost.charged.to_string(), "0.02");
    world.spec(|job| job.wish = Wish::Running);
    assert_eq!(world.created.len(), 2);
}

#[test]
fn deleting_the_job_does_not_make_its_time_free() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(500).delete_job();
    world.after(3).exit(143, Reason::PodDeleted);
    assert_eq!(world.closed[0].bill.billed_seconds, 503);
    assert_eq!(world.closed[0].finding.reason, Reason::HolderDeleted);
}

#[test]
fn a_stopped_job_goes_on_with_what_is_left() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(100);
    world.spec(|job| job.wish = Wish::Stopped);
    assert_eq!(world.stop(), Some(Reason::Stopped));
    world.exit(143, Reason::Stopped);
    assert_eq!(world.ready(), (Truth::True, Reason::Stopped));
    world.after(1_000).settle();
    assert_eq!(world.created.len(), 1);
    world.spec(|job| job.wish = Wish::Running).bind().run();
    assert_eq!(world.created, ["train-r0-a1", "train-r0-a2"]);
    let ends = world.status().lease.clone().unwrap().ends_at.unwrap();
    assert_eq!(ends.duration_since(world.at()), seconds(500));
}

#[test]
fn a_new_rerun_stops_the_old_run_first() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(10);
    world.spec(|job| job.rerun = 1);
    assert_eq!(world.stop(), Some(Reason::Superseded));
    assert_eq!(world.created.len(), 1);
    world.exit(143, Reason::Superseded);
    world.settle();
    assert_eq!(world.created, ["train-r0-a1", "train-r1-a1"]);
    assert_eq!(world.status().cost.charged, Money::ZERO);
}

#[test]
fn a_run_that_was_superseded_does_not_run_again() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(10);
    world.spec(|job| job.rerun = 1);
    world.spec(|job| job.rerun = 0);
    world.exit(143, Reason::Superseded);
    assert_eq!((world.ready().1, world.created.len()), (Reason::Superseded, 1));
}

#[test]
fn more_money_does_not_move_the_end_that_the_agent_was_told() {
    let mut job = a_job();
    job.limit = Limit::Amount(Money::parse("0.02").unwrap());
    let mut world = World::with(job);
    world.settle().bind().run();
    let ends = world.status().lease.clone().unwrap().ends_at;
    world.spec(|job| job.limit = Limit::Unlimited);
    assert_eq!(world.status().lease.clone().unwrap().ends_at, ends);
}

#[test]
fn money_that_was_spent_keeps_its_currency() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(100);
    world.spec(|job| {
        job.currency = "CNY".into();
        job.wish = Wish::Stopped;
    });
    assert_eq!(world.status().cost.currency, "USD");
    world.exit(143, Reason::Stopped);
    world.spec(|job| job.wish = Wish::Running);
    assert_eq!(world.ready(), (Truth::False, Reason::CurrencyMismatch));
    assert_eq!(world.created.len(), 1);
}

#[test]
fn annotations_decide_neither_the_reason_nor_the_bill() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(100);
    world.pod().stop_told = Some("GpuLost".into());
    world.pod().runtime_told = Some(SignedDuration::ZERO);
    world.exit(143, Reason::Stopped);
    assert_eq!((world.ready().1, world.created.len()), (Reason::PodDeleted, 1));
    assert_eq!(world.closed[0].bill.billed_seconds, 100);
}
