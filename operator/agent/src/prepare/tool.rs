//! Calls a tool in the user's image, listens to it and ends it when the pod has to go. Does I/O.
//!
//! # Guarantees
//! - A stop ends the tool and everything that it has started at once, and is told with its reason.
//! - A tool that leaves processes behind keeps nobody waiting: they are ended.

use std::{
    io::{self, BufRead, BufReader, PipeReader, Read},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use signal_hook::{consts::SIGTERM, iterator::Signals};

use super::PrepareError;
use crate::{
    clock,
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

/// Longest line that is passed on, in bytes.
const LINE_LIMIT: u64 = 4_096;

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

    /// Calls a tool. `hear` gets each line that it prints, and `None` now and then.
    pub fn call(
        &self,
        mut command: Command,
        patience: Duration,
        hear: &mut dyn FnMut(Option<&str>),
    ) -> Result<Outcome, PrepareError> {
        let name = command.get_program().display().to_string();
        let failed = |source| PrepareError::Call { name: name.clone(), source };
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
                Ok(line) => hear(Some(&line)),
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
        if matches!(outcome, Outcome::Ended(_)) {
            while let Ok(line) = lines.recv_timeout(AFTER_THE_END) {
                hear(Some(&line));
            }
        }
        sweep(&tree)?;
        Ok(outcome)
    }

    /// Why the pod has to go, if it has to.
    #[must_use]
    pub fn stop(&self, now: Duration) -> Option<Stop> {
        if self.signals.try_recv().is_ok() {
            let by_order = |order| Stop::by_order(&order, now, Duration::ZERO);
            let stop = self.orders.stop().map(by_order);
            return Some(stop.unwrap_or_else(|| Stop::by_sigterm(now, Duration::ZERO)));
        }
        let end = self.ends.earliest();
        (now >= end.at).then(|| Stop::by_end(&end, now, Duration::ZERO))
    }
}

/// Receives SIGTERM from now on. Until then the kernel drops it for a PID 1.
pub fn receive_signals() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGTERM])?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || signals.forever().try_for_each(|signal| sender.send(signal)));
    Ok(receiver)
}

fn sweep(tree: &Tree) -> Result<(), PrepareError> {
    let give_up_at = clock::now()?.saturating_add(AFTER_THE_END);
    while !tree.is_gone() && clock::now()? < give_up_at {
        tree.signal(Signal::SIGKILL);
        thread::sleep(SHORT_TICK);
    }
    Ok(())
}

/// Reads lines in a thread, which stays behind when something keeps the output open.
fn listen(output: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = output.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line);
            let text = String::from_utf8_lossy(&line);
            // A bar that is drawn over itself counts by its last state.
            let text = text.trim_end().rsplit('\r').next().unwrap_or_default().to_owned();
            // An unreadable output ends like a closed one: the exit code tells the rest.
            if !read.is_ok_and(|count| count > 0) || sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(script: &str, patience: Duration) -> (Outcome, Vec<String>) {
        let far = Ends { started: Duration::ZERO, runtime: Duration::MAX, held: None };
        let (_never, signals) = mpsc::channel();
        let caller = Caller::new(signals, Orders::from(None), far);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let outcome =
            caller.call(command, patience, &mut |line| lines.extend(line.map(str::to_owned)));
        (outcome.unwrap(), lines)
    }

    #[test]
    fn both_outputs_are_heard_line_by_line_to_the_last() {
        let script = "echo one; printf 'a\\rtwo\\r\\n' >&2; printf three; exit 3";
        let (outcome, lines) = call(script, Duration::MAX);
        assert!(matches!(outcome, Outcome::Ended(Ending::Code(3))), "{outcome:?}");
        assert_eq!(lines, ["one", "two", "three"]);
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let (outcome, _) = call("sleep 600 & sleep 600", Duration::from_millis(200));
        assert!(matches!(outcome, Outcome::TooLong), "{outcome:?}");
    }
}
