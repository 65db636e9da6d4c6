//! `run`: the user's program from start to end. Does I/O.
//!
//! ```text
//! start ──► running ── ends by itself ──────────────► swept ──► last report, exit
//!              │                                        ▲
//!              └─ time, money, order, SIGTERM ► stopping ┘   TERM, grace, KILL
//! ```
//!
//! - [`program`] finds out what to start, [`tree`] signals and reaps it;
//! - [`surroundings`] leads it to its restored environment and to what the installation trusts;
//! - [`ends`] knows when it has to end, [`orders`] what the operator says;
//! - [`ending`] says why it ended, and with which exit code.
//!
//! # Guarantees
//! - The program's output, input and exit code are its own.
//! - A program that has ended by itself is never reported as stopped, even at its deadline.
//! - After the grace period nothing of the tree is left that could hold a card.
//!
//! # Assumptions
//! - As PID 1 the agent owns every process that it can see. Otherwise it signals the program's
//!   process group only: what has left the group is not its own.
//!
//! # Caveats
//! - The program has the agent's user id and can kill or deceive it; operator and kubelet enforce.

pub mod ending;
pub mod ends;
pub mod memory;
pub mod orders;
pub mod program;
pub mod script;
pub mod surroundings;
pub mod tree;

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use jiff::SignedDuration;
use leasehold_core::{
    duration,
    report::{Report, Stage},
};
use nix::sys::signal::Signal;
use signal_hook::consts;

use crate::{
    arguments::Wish,
    clock,
    environment::{self, RunSettings},
    failure::Failure,
    install, notice, signals,
    termination::TerminationLog,
};
use ending::{Ending, Stop};
use ends::Ends;
use orders::Orders;
use program::{Program, Unstartable};
use surroundings::Surroundings;
use tree::Tree;

/// How often deadlines and orders are looked at.
const TICK: Duration = Duration::from_millis(250);

/// How often a quiet program is reported, so that the kubelet finds a recent state after a kill.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// Longest time that processes may outlive a program that ended by itself.
const SWEEP: Duration = Duration::from_secs(5);

/// Signals that are received: that of a stop, that of a child's end, and those that the program gets
/// as the agent gets them.
const RECEIVED: [i32; 9] = [
    consts::SIGTERM,
    consts::SIGCHLD,
    consts::SIGHUP,
    consts::SIGINT,
    consts::SIGQUIT,
    consts::SIGUSR1,
    consts::SIGUSR2,
    consts::SIGWINCH,
    consts::SIGCONT,
];

/// Runs the program to its end and reports it.
pub fn run(wish: &Wish, log: &mut TerminationLog) -> Result<Report, Failure> {
    let signals = signals::receive(&RECEIVED)?;
    let settings = environment::for_run()?;
    let own_directory = install::own_directory()?;
    let held = install::held(&own_directory, settings.held)?;
    let orders = Orders::from(settings.lease_directory.clone());
    let surroundings = Surroundings::of(&settings, &own_directory)?;
    let mut program = match Program::of(wish, &surroundings)? {
        Ok(program) => program,
        Err(unstartable) => return Ok(not_started(&unstartable)),
    };
    let started = clock::now()?;
    let ends = Ends { started, runtime: settings.runtime, held };
    let mut run = Run { signals, settings, orders, ends, log, passed_on: None, stop: None };
    if let Some(stop) = run.order_or_deadline(started) {
        notice::say(&format!("the program is not started: {}", stop.why));
        return Ok(ending::before_the_start(&stop));
    }
    let oom_kills = memory::oom_kills();
    let tree = match program.start()? {
        Ok(tree) => tree,
        Err(unstartable) => return Ok(not_started(&unstartable)),
    };
    let ending = run.until_the_end(&tree)?;
    let ran = clock::now()?.saturating_sub(started);
    let oom_killed =
        memory::oom_kills().is_some_and(|now| oom_kills.is_some_and(|before| now > before));
    let report = ending::report(
        ending,
        &ending::Circumstances {
            name: &program.name,
            ran,
            stop: run.stop.as_ref(),
            passed_on: run.passed_on,
            oom_killed,
        },
    );
    run.log.write(&report);
    run.sweep(&tree)?;
    Ok(report)
}

fn not_started(unstartable: &Unstartable) -> Report {
    notice::say(&format!("{}: {}", unstartable.finding.reason, unstartable.finding.message()));
    Report {
        reason: Some(unstartable.finding.reason),
        exit_code: Some(unstartable.exit_code),
        ran_seconds: Some(0),
        evidence: unstartable.finding.evidence.clone(),
        ..Report::new(Stage::Run)
    }
}

struct Run<'a> {
    signals: Receiver<i32>,
    settings: RunSettings,
    orders: Orders,
    ends: Ends,
    log: &'a mut TerminationLog,
    /// The last signal from outside that the program got.
    passed_on: Option<i32>,
    stop: Option<Stop>,
}

impl Run<'_> {
    /// Waits for the program's end and stops it when it has to end.
    fn until_the_end(&mut self, tree: &Tree) -> Result<Ending, Failure> {
        let mut reported: Option<Duration> = None;
        loop {
            // The end comes first: whoever is done in the last moment is done.
            if let Some(ending) = tree.reap() {
                return Ok(ending);
            }
            let now = clock::now()?;
            if self.stop.is_none()
                && let Some(stop) = self.order_or_deadline(now)
            {
                self.begin_stop(now, stop, tree);
            }
            if self.stop.as_ref().is_some_and(|stop| now >= stop.kill_at) {
                // Again at every tick: the tree may have grown since.
                tree.signal(Signal::SIGKILL);
            }
            if reported.is_none_or(|at| now >= at.saturating_add(REPORT_EVERY)) {
                self.report(now);
                reported = Some(now);
            }
            self.wait(now, tree);
        }
    }

    /// Sleeps until something happens, and passes signals on.
    fn wait(&mut self, now: Duration, tree: &Tree) {
        let next = self.stop.as_ref().map_or_else(|| self.ends.earliest().at, |stop| stop.kill_at);
        let pause = pause_until(next, now);
        match self.signals.recv_timeout(pause) {
            Ok(consts::SIGTERM) => {
                if self.stop.is_none() {
                    let stop = self.orders.stop().map_or_else(
                        || Stop::by_sigterm(now, self.settings.grace),
                        |order| Stop::by_order(order, now, self.settings.grace),
                    );
                    self.begin_stop(now, stop, tree);
                }
            }
            Ok(signal) if signal != consts::SIGCHLD => {
                if let Ok(known) = Signal::try_from(signal) {
                    self.passed_on = Some(signal);
                    tree.signal(known);
                }
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            // The thread of the signals is gone, which nothing in it can cause.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(pause),
        }
    }

    fn order_or_deadline(&mut self, now: Duration) -> Option<Stop> {
        let runtime = self.orders.runtime().unwrap_or(self.settings.runtime);
        if runtime != self.ends.runtime {
            notice::say(&format!("maxRuntime is now {}", readable(runtime)));
            self.ends.runtime = runtime;
        }
        if let Some(order) = self.orders.stop() {
            return Some(Stop::by_order(order, now, self.settings.grace));
        }
        let end = self.ends.earliest();
        (now >= end.at).then(|| Stop::by_end(&end, now, self.settings.grace))
    }

    fn begin_stop(&mut self, now: Duration, stop: Stop, tree: &Tree) {
        if tree.reap().is_some() {
            // It has ended in this moment, which the next pass of the loop finds out.
            return;
        }
        tree.signal(Signal::SIGTERM);
        let grace = readable(self.settings.grace);
        notice::say(&format!(
            "stopping the program: {}; killed in {grace} unless it ends",
            stop.why
        ));
        self.stop = Some(stop);
        self.report(now);
    }

    fn report(&mut self, now: Duration) {
        self.log.write(&Report {
            reason: self.stop.as_ref().map(|stop| stop.reason),
            ran_seconds: Some(whole_seconds(now.saturating_sub(self.ends.started))),
            evidence: self.stop.as_ref().map(|stop| stop.why.clone()).unwrap_or_default(),
            ..Report::new(Stage::Run)
        });
    }

    /// Ends what the program has left running: after a stop within its grace period, because a
    /// shell ends at once while what it started still saves; else within [`SWEEP`].
    fn sweep(&mut self, tree: &Tree) -> Result<(), Failure> {
        if tree.is_gone() {
            return Ok(());
        }
        let now = clock::now()?;
        let kill_at = if let Some(stop) = &self.stop {
            stop.kill_at
        } else {
            notice::say("ending what the program has left running");
            tree.signal(Signal::SIGTERM);
            now.saturating_add(self.settings.grace.min(SWEEP))
        };
        let give_up_at = kill_at.max(now).saturating_add(SWEEP);
        loop {
            let now = clock::now()?;
            if tree.is_gone() || now >= give_up_at {
                return Ok(());
            }
            if now >= kill_at {
                tree.signal(Signal::SIGKILL);
            }
            // The end of a child wakes it; whose end it was, `is_gone` finds out.
            let _ = self.signals.recv_timeout(pause_until(kill_at, now));
        }
    }
}

/// The time until `next`, at most a tick; a tick once it has passed.
fn pause_until(next: Duration, now: Duration) -> Duration {
    next.checked_sub(now).filter(|rest| !rest.is_zero()).map_or(TICK, |rest| rest.min(TICK))
}

/// Whole seconds of a duration for a report.
fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// A duration as people write it.
fn readable(duration: Duration) -> String {
    duration::format(SignedDuration::from_secs(whole_seconds(duration)))
}
