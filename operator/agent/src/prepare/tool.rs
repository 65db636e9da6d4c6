//! Calls a tool in the user's image, listens to it and ends it when the pod has to go. Does I/O.
//!
//! # Guarantees
//! - A stop ends the tool and everything that it has started at once, and is told with its reason.
//! - A tool that leaves processes behind keeps nobody waiting: they are ended, and one that cannot
//!   be ended is listened to for a moment only.
//! - What is heard has no secrets.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use leasehold_core::restore::mask::Mask;
use nix::{sys::signal::Signal, unistd::Pid};

use super::output::{Line, listen};
use crate::{
    clock,
    failure::Failure,
    run::{
        ending::{Ending, Stop},
        ends::Ends,
        orders::Orders,
        tree::Tree,
    },
};

/// How often stops are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How often an end is looked for that is about to come.
const SHORT_TICK: Duration = Duration::from_millis(5);

/// Longest wait for output after a tool has ended, and for processes that were killed.
const AFTER_THE_END: Duration = Duration::from_secs(2);

/// How a call went.
#[derive(Debug)]
pub enum Outcome {
    /// The tool ended.
    Ended(Ending),
    /// It took longer than it may.
    TooLong,
    /// The pod has to go.
    Stopped(Stop),
}

/// Calls tools until the pod has to go.
#[derive(Debug)]
pub struct Caller {
    signals: Receiver<i32>,
    orders: Orders,
    ends: Ends,
}

impl Caller {
    /// A caller that stops for a signal of these and at the end of the money.
    #[must_use]
    pub const fn new(signals: Receiver<i32>, orders: Orders, ends: Ends) -> Self {
        Self { signals, orders, ends }
    }

    /// Calls a tool. `hear` gets each line that it prints, without secrets, and `None` now and then.
    pub fn call(
        &mut self,
        mut command: Command,
        patience: Duration,
        mask: &Mask,
        hear: &mut dyn FnMut(Option<&str>),
    ) -> Result<Outcome, Failure> {
        let name = command.get_program().display().to_string();
        let failed = |source| Failure::Start { name: name.clone(), source };
        let (reader, writer) = io::pipe().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let child = command.process_group(0).spawn().map_err(failed)?;
        // It holds an end of the pipe, which would never close.
        drop(command);
        let pid = i32::try_from(child.id()).map_err(|error| failed(io::Error::other(error)))?;
        let tree = Tree::of(Pid::from_raw(pid));
        let lines = listen(reader);
        let started = clock::now()?;
        let outcome = loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => hear(Some(&line.shown(mask))),
                Err(RecvTimeoutError::Timeout) => hear(None),
                // It has closed its output, and will end.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(SHORT_TICK),
            }
            let now = clock::now()?;
            if let Some(stop) = self.stop(now) {
                break Outcome::Stopped(stop);
            }
            if let Some(ending) = tree.reap() {
                break Outcome::Ended(ending);
            }
            if now.saturating_sub(started) >= patience {
                break Outcome::TooLong;
            }
        };
        // First of all: what the tool has left behind holds the output open.
        sweep(&tree)?;
        if matches!(outcome, Outcome::Ended(_)) {
            drain(&lines, &mut |line| hear(Some(&line.shown(mask))))?;
        }
        Ok(outcome)
    }

    /// Why the pod has to go, if it has to.
    #[must_use]
    pub fn stop(&mut self, now: Duration) -> Option<Stop> {
        if self.signals.try_recv().is_ok() {
            let by_order = |order| Stop::by_order(order, now, Duration::ZERO);
            let stop = self.orders.stop().map(by_order);
            return Some(stop.unwrap_or_else(|| Stop::by_sigterm(now, Duration::ZERO)));
        }
        let end = self.ends.earliest();
        (now >= end.at).then(|| Stop::by_end(&end, now, Duration::ZERO))
    }
}

/// Hears what was printed before the end. There is one deadline for all of it: a process that has
/// left the tool's group could go on printing for ever.
fn drain(lines: &Receiver<Line>, hear: &mut dyn FnMut(&Line)) -> Result<(), Failure> {
    let give_up_at = clock::now()?.saturating_add(AFTER_THE_END);
    while let Some(rest) = give_up_at.checked_sub(clock::now()?)
        && let Ok(line) = lines.recv_timeout(rest)
    {
        hear(&line);
    }
    Ok(())
}

fn sweep(tree: &Tree) -> Result<(), Failure> {
    let give_up_at = clock::now()?.saturating_add(AFTER_THE_END);
    while !tree.is_gone() && clock::now()? < give_up_at {
        tree.signal(Signal::SIGKILL);
        thread::sleep(SHORT_TICK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn call(script: &str, patience: Duration) -> (Outcome, Vec<String>) {
        let far = Ends { started: Duration::ZERO, runtime: Duration::MAX, held: None };
        let (_never, signals) = mpsc::channel();
        let mut caller = Caller::new(signals, Orders::from(None), far);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let mask = Mask::knowing(["s3cret".to_owned()]);
        let mut hear = |line: Option<&str>| lines.extend(line.map(str::to_owned));
        let outcome = caller.call(command, patience, &mask, &mut hear);
        (outcome.unwrap(), lines)
    }

    #[test]
    fn both_outputs_are_heard_line_by_line_to_the_last() {
        let script = "echo one; printf 'a\\rtwo s3cret\\r\\n' >&2; printf three; exit 3";
        let (outcome, lines) = call(script, Duration::MAX);
        assert!(matches!(outcome, Outcome::Ended(Ending::Code(3))), "{outcome:?}");
        assert_eq!(lines, ["one", "two ***", "three"]);
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let (outcome, _) = call("sleep 600 & sleep 600", Duration::from_millis(200));
        assert!(matches!(outcome, Outcome::TooLong), "{outcome:?}");
    }

    #[test]
    fn what_a_tool_leaves_behind_keeps_nobody_waiting() {
        // One stays in the tool's group, one has left it and holds the output until it is told.
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().display();
        for leftover in [
            "(trap '' TERM; while :; do echo noise; done)".to_owned(),
            format!("setsid sh -c 'while [ -e {place} ]; do echo noise; sleep 0.01; done'"),
        ] {
            let (outcome, lines) = call(&format!("{leftover} & echo first; exit 3"), Duration::MAX);
            assert!(matches!(outcome, Outcome::Ended(Ending::Code(3))), "{outcome:?}");
            assert!(lines.iter().any(|line| line == "first"), "{leftover}");
        }
    }
}
