//! What people ask for outside of the specification.

use super::*;
use crate::status::MOST_REQUESTS;

#[test]
fn a_stop_gives_the_card_back_and_a_start_goes_on() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(100);
    world.ask("a", Action::Stop);
    assert_eq!(world.stop(), Some(Reason::Stopped));
    world.exit(143, Reason::Stopped);
    assert_eq!(world.ready(), (Truth::True, Reason::Stopped));
    assert!(world.message().contains("GpuRequest ask-a"), "{}", world.message());
    world.after(1_000).settle();
    world.ask("b", Action::Stop).ask("c", Action::Start).bind().run();
    assert_eq!(world.created.len(), 2);
    let ends = world.status().lease.clone().unwrap().ends_at.unwrap();
    assert_eq!(ends.duration_since(world.at()), seconds(500));
    let answers: Vec<_> = world.answers.iter().map(|(_, done)| *done).collect();
    assert_eq!(answers, [true, true, true]);
}

#[test]
fn a_waiting_job_can_be_stopped_too() {
    let mut world = World::with(a_job());
    world.market.nodes[0].free = 0;
    world.settle().ask("a", Action::Stop);
    world.market.nodes[0].free = 4;
    world.settle();
    assert_eq!((world.ready().1, world.created.len()), (Reason::Stopped, 0));
}

#[test]
fn another_run_and_the_state_in_the_specification_end_a_stop() {
    let mut world = World::with(a_job());
    world.ask("a", Action::Stop);
    world.spec(|job| job.wish = Wish::Stopped);
    world.spec(|job| job.wish = Wish::Running);
    assert_eq!(world.created, ["train-r0-a1"]);
    world.bind().run().ask("b", Action::Stop).exit(143, Reason::Stopped);
    world.spec(|job| job.rerun = 1);
    assert_eq!(world.created, ["train-r0-a1", "train-r1-a1"]);
}

#[test]
fn what_cannot_be_done_is_refused_and_says_why() {
    let mut world = World::with(a_job());
    world.settle().ask("a", Action::Start);
    world.bind().run().exit(0, Reason::Completed);
    world.ask("b", Action::Stop).ask("c", Action::Start);
    world.delete_job();
    world.ask("d", Action::Stop);
    assert_eq!(world.answers.len(), 4);
    assert!(world.answers.iter().all(|(_, done)| !done));
}

#[test]
fn a_request_is_acted_on_once_although_its_answer_was_lost() {
    let mut world = World::with(a_job());
    world.ask("a", Action::Stop).ask("b", Action::Start);
    assert_eq!(world.ready().1, Reason::WaitingForScheduler);
    world.requests[0].answered_at = None;
    world.settle();
    assert_eq!(world.ready().1, Reason::WaitingForScheduler);
}

#[test]
fn what_is_not_answered_yet_is_remembered_and_no_more_is_taken_on_than_that() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    let asked_at = world.at();
    for number in 0..3 * MOST_REQUESTS {
        let (name, uid) = (format!("ask-{number}"), number.to_string());
        let request = Request { name, uid, action: Action::Stop, asked_at, answered_at: None };
        world.requests.push(request);
    }
    let uids = |plan: &Plan| -> Vec<_> {
        let handled = &plan.status.as_ref().unwrap().requests;
        handled.iter().map(|handled| handled.uid.clone()).collect()
    };
    let first = world.plan();
    assert_eq!(uids(&first).len(), MOST_REQUESTS);
    // No answer can be written: the same ones are tried again, and none is forgotten.
    world.object.as_mut().unwrap().status = first.status.clone().unwrap();
    let second = world.plan();
    assert_eq!(uids(&second), uids(&first));
    world.settle();
    assert!(world.requests.iter().all(|request| request.answered_at.is_some()));
    assert_eq!(world.answers.len(), 3 * MOST_REQUESTS);
}

#[test]
fn an_answer_holds_up_nothing() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    let (name, asked_at) = ("ask-a".into(), world.at());
    let request =
        Request { name, uid: "a".into(), action: Action::Stop, asked_at, answered_at: None };
    world.requests.push(request);
    let commands = world.plan().commands;
    assert!(matches!(commands.last(), Some(Command::AnswerRequest { .. })), "{commands:?}");
    assert!(commands.len() > 1, "{commands:?}");
}

#[test]
fn an_answered_request_is_deleted_after_a_week() {
    let mut world = World::with(a_job());
    world.ask("a", Action::Stop);
    let week = 7 * 24 * 3_600;
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(week).unwrap()));
    world.after(week - 1).settle();
    assert_eq!(world.requests.len(), 1);
    world.after(1).settle();
    assert!(world.requests.is_empty());
}

#[test]
fn a_running_attempt_with_a_broken_specification_can_be_stopped() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    world.desired = Some(Err(Finding::new(Reason::InvalidSpec, "maxRuntime: no")));
    world.settle().ask("a", Action::Stop);
    assert_eq!(world.stop(), Some(Reason::Stopped));
}
