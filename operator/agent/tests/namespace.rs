//! `run` as PID 1, as it is in a container: it owns every process of its namespace.

mod agent;

use std::{fs, time::Duration};

use agent::Agent;
use leasehold_core::reason::Reason;
use nix::sys::signal::Signal;

/// A process that has left the program's group and session; its parent ends, so PID 1 inherits it.
const DAEMON: &str = "setsid sh -c 'trap \"echo daemon stopped; exit\" TERM; echo up; while :; do sleep 0.1; done' &";

fn sh(script: &str) -> Agent {
    Agent::runs(&["/bin/sh", "-c", script]).in_its_own_namespace()
}

#[test]
fn orphans_are_reaped() {
    // Orphans end while the program runs; it waits until none is left, not even as a zombie.
    let script = "test $PPID = 1 || exit 9; \
                  for orphan in 1 2 3 4 5; do sh -c 'sleep 0.1 & exit'; done; \
                  while ps -e -o comm= | grep -q sleep; do :; done; echo reaped";
    let agent = sh(script);
    let seen = agent.ends();
    assert_eq!((seen.code, seen.stdout_text().as_str()), (Some(0), "reaped\n"), "{seen:?}");
}

#[test]
fn what_left_the_programs_group_is_stopped_too() {
    let script = format!("{DAEMON} trap 'sleep 0.2; exit 5' TERM; while :; do sleep 0.1; done");
    let mut running = sh(&script).starts();
    running.says("up");
    running.signal(Signal::SIGTERM);
    let seen = running.ends();
    assert_eq!((seen.code, seen.report.reason), (Some(5), Some(Reason::PodDeleted)), "{seen:?}");
    assert!(seen.stdout_text().contains("daemon stopped"), "{seen:?}");
}

#[test]
fn daemons_end_with_the_program() {
    let mut running = sh(&format!("{DAEMON} read line")).starts();
    running.says("up");
    running.hears("go");
    let seen = running.ends();
    assert!(seen.stdout_text().contains("daemon stopped"), "{seen:?}");
    assert_eq!(seen.report.reason, Some(Reason::Completed), "{seen:?}");
}

#[test]
fn a_tree_that_ignores_the_stop_is_killed_whole() {
    let script = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) | cat & echo up; wait; sleep 600";
    let agent = sh(script).with("LEASEHOLD_GRACE_SECONDS", "1");
    let orders = agent.orders();
    let mut running = agent.starts();
    running.says("up");
    fs::write(orders.join("stop"), "BudgetExhausted").unwrap();
    let seen = running.ends();
    assert_eq!(
        (seen.code, seen.report.reason),
        (Some(137), Some(Reason::BudgetExhausted)),
        "{seen:?}"
    );
    assert!(seen.took >= Duration::from_secs(1));
}

#[test]
fn a_pipeline_saves_after_its_shell_has_ended() {
    let script = "(trap 'sleep 1; echo saved; exit' TERM; echo up; while :; do sleep 0.1; done) | (trap '' TERM; exec cat)";
    let agent = sh(script);
    let mut running = agent.starts();
    running.says("up");
    running.signal(Signal::SIGTERM);
    let seen = running.ends();
    assert_eq!((seen.code, seen.report.reason), (Some(143), Some(Reason::PodDeleted)), "{seen:?}");
    assert!(seen.stdout_text().ends_with("saved\n"), "{seen:?}");
}
