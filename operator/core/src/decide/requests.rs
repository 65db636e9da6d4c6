//! Acts on what people ask for outside of the specification, each request once. Pure.

use jiff::Timestamp;

use super::Draft;
use crate::{
    desired::{Desired, Wish},
    lease,
    observed::{Observed, needs_ledger},
    plan::Command,
    reason::Finding,
    request::{Action, Answer, Handled, KEPT, Request, StopOrder},
    status::MOST_REQUESTS,
};

/// Takes in all requests, oldest first; the rest of the decision sees what they changed. Gives what is
/// to be written into them, which must hold up nothing else.
pub(super) fn take_in(
    draft: &mut Draft,
    desired: Option<&Result<Desired, Finding>>,
    seen: &Observed<'_>,
    now: Timestamp,
) -> Vec<Command> {
    let desired = desired.and_then(|desired| desired.as_ref().ok());
    let is_new_run =
        seen.lease.is_none() && desired.is_some_and(|desired| needs_ledger(&draft.status, desired));
    let state_rules = desired.is_some_and(|desired| desired.wish == Wish::Stopped);
    if is_new_run || state_rules {
        draft.status.stopped_by = None;
    }
    let is_over = draft.status.outcome.is_some() && !is_new_run;
    let mut commands = Vec::new();
    let mut room = MOST_REQUESTS.saturating_sub(waiting(&draft.status.requests, seen).count());
    for request in &seen.requests {
        if let Some(answered_at) = request.answered_at {
            commands.extend(clear_away(draft, request, answered_at, now));
            continue;
        }
        let known = draft.status.requests.iter().find(|handled| handled.uid == request.uid);
        let answer = match known {
            Some(handled) => handled.answer.clone(),
            // The rest waits for the next pass: what was acted on must be remembered until its
            // answer is written, and the status has no room for more.
            None if room == 0 => continue,
            None => {
                room -= 1;
                act_on(draft, request, seen, desired, is_over, now)
            }
        };
        let (name, uid) = (request.name.clone(), request.uid.clone());
        commands.push(Command::AnswerRequest { request: name, uid, answer });
    }
    forget_oldest(&mut draft.status.requests, seen);
    commands
}

/// Those that were acted on and whose answer is not written yet.
fn waiting<'a>(
    handled: &'a [Handled],
    seen: &'a Observed<'_>,
) -> impl Iterator<Item = &'a Handled> {
    handled.iter().filter(|handled| {
        let mut pending = seen.requests.iter().filter(|request| request.answered_at.is_none());
        pending.any(|request| request.uid == handled.uid)
    })
}

fn forget_oldest(handled: &mut Vec<Handled>, seen: &Observed<'_>) {
    let waiting: Vec<_> = waiting(handled, seen).map(|handled| handled.uid.clone()).collect();
    while handled.len() > MOST_REQUESTS {
        let Some(oldest) = handled.iter().rposition(|one| !waiting.contains(&one.uid)) else {
            return;
        };
        handled.remove(oldest);
    }
}

fn clear_away(
    draft: &mut Draft,
    request: &Request,
    answered_at: Timestamp,
    now: Timestamp,
) -> Option<Command> {
    let until = lease::later(answered_at, KEPT);
    if now < until {
        draft.wake_by(until);
        return None;
    }
    let (request, uid) = (request.name.clone(), request.uid.clone());
    Some(Command::DeleteRequest { request, uid })
}

fn act_on(
    draft: &mut Draft,
    request: &Request,
    seen: &Observed<'_>,
    desired: Option<&Desired>,
    is_over: bool,
    now: Timestamp,
) -> Answer {
    let is_there = seen.object.as_ref().is_some_and(|object| !object.deletion_requested);
    let status = &mut draft.status;
    let done = |said: &str| Answer { is_done: true, said: said.to_owned(), at: now };
    let refused = |said: &str| Answer { is_done: false, said: said.to_owned(), at: now };
    let answer = match request.action {
        _ if !is_there => refused("there is no job of this name"),
        Action::Stop if is_over => refused("the run is over and holds no card"),
        Action::Stop if status.stopped_by.is_some() => done("it was stopped already"),
        Action::Stop => {
            status.stopped_by = Some(StopOrder { request: request.name.clone(), at: now });
            done("the job is stopped; a request to Start, or another rerun, lets it go on")
        }
        Action::Start if status.stopped_by.take().is_some() => done("the job goes on"),
        Action::Start if desired.is_some_and(|desired| desired.wish == Wish::Stopped) => {
            refused("spec.state is Stopped: change it where the job is written")
        }
        Action::Start if is_over => {
            refused("the run is over: set spec.rerun to a number that has not run yet")
        }
        Action::Start => refused("no request has stopped it"),
    };
    status.requests.insert(
        0,
        Handled {
            name: request.name.clone(),
            uid: request.uid.clone(),
            action: request.action,
            answer: answer.clone(),
        },
    );
    answer
}
