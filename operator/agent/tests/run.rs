//! `run` as a user meets it: the real binary, real processes, real time. Times are lower bounds,
//! so that a slow machine fails nothing.
#![allow(clippy::panic, reason = "a test stops where it is wrong")]

mod agent;

use std::{fs, time::Duration};

use agent::{Agent, Seen};
use leasehold_core::{
    reason::Reason,
    report::{Report, Stage},
};
use nix::sys::signal::Signal;

/// Traps TERM and says so.
const STUBBORN: &str = "trap 'echo ignored' TERM; echo ready; while :; do sleep 0.1; done";

fn sh(script: &str) -> Agent {
    Agent::runs(&["/bin/sh", "-c", script])
}

fn the_reason(seen: &Seen) -> Reason {
    seen.report.reason.unwrap_or_else(|| panic!("no reason in {seen:?}"))
}

#[test]
fn the_exit_code_is_the_programs_own() {
    for (script, code, reason) in [
        ("exit 0", 0, Reason::Completed),
        ("exit 3", 3, Reason::CommandFailed),
        ("exit 255", 255, Reason::CommandFailed),
        ("kill -KILL $$", 137, Reason::CommandKilled),
        ("kill -SEGV $$", 139, Reason::CommandKilled),
        ("kill -34 $$", 162, Reason::CommandKilled),
    ] {
        let seen = sh(script).ends();
        assert_eq!((seen.code, the_reason(&seen)), (Some(code), reason), "{script}: {seen:?}");
        assert_eq!(seen.report.exit_code, Some(code));
        assert_eq!(seen.report.stage, Stage::Run);
    }
}

#[test]
fn output_input_and_arguments_are_unchanged() {
    let seen = Agent::runs(&[
        "/bin/sh",
        "-c",
        "cat; printf '%s|' \"$@\"; printf '\\0\\377' >&2",
        "name",
        "--a b",
        "-c",
        "",
    ])
    .given(b"in\0put")
    .ends();
    assert_eq!(seen.stdout, b"in\0put--a b|-c||");
    assert_eq!(seen.stderr, b"\0\xff");
}

#[test]
fn a_program_that_ignores_the_stop_is_killed_after_its_grace() {
    let agent = sh(STUBBORN).with("LEASEHOLD_GRACE_SECONDS", "2");
    let orders = agent.orders();
    let mut running = agent.starts();
    running.says("ready");
    fs::write(orders.join("runtime-seconds"), "1").unwrap();
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(137), Reason::MaxRuntimeReached), "{seen:?}");
    assert!(seen.took >= Duration::from_secs(3), "{seen:?}");
    assert!(seen.report.ran_seconds.is_some_and(|seconds| seconds >= 3), "{seen:?}");
    assert!(seen.stdout_text().contains("ready\nignored"), "{seen:?}");
    let line =
        "leasehold: stopping the program: maxRuntime 1s reached; killed in 2s unless it ends";
    assert!(seen.stderr_text().lines().any(|said| said == line), "{seen:?}");
}

#[test]
fn a_program_that_obeys_keeps_its_exit_code() {
    let agent = sh("trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done");
    let orders = agent.orders();
    let mut running = agent.starts();
    running.says("ready");
    fs::write(orders.join("runtime-seconds"), "0").unwrap();
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(7), Reason::MaxRuntimeReached), "{seen:?}");
}

#[test]
fn what_a_shell_started_keeps_the_grace_period_to_save() {
    // The shell ends at once; what it started needs a second to save.
    let mut running =
        sh("(trap 'sleep 1; echo saved; exit' TERM; echo up; while :; do sleep 0.1; done) & wait")
            .starts();
    running.says("up");
    running.signal(Signal::SIGTERM);
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::PodDeleted), "{seen:?}");
    assert!(seen.stdout_text().ends_with("saved\n"), "{seen:?}");
}

#[test]
fn the_deadline_in_the_environment_holds_without_an_operator() {
    let seen = sh("exec sleep 600")
        .with("LEASEHOLD_RUNTIME_SECONDS", "1")
        .with("LEASEHOLD_LEASE_DIR", "/no/such/place")
        .ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::MaxRuntimeReached), "{seen:?}");
    assert!(seen.took >= Duration::from_secs(1), "{seen:?}");
}

#[test]
fn the_money_ends_what_the_time_would_allow() {
    let agent = sh("exec sleep 60").installed().with("LEASEHOLD_HELD_SECONDS", "2");
    let seen = agent.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::BudgetExhausted), "{seen:?}");
    assert!(seen.report.evidence.contains("2s"), "{seen:?}");
}

#[test]
fn the_operator_orders_a_stop() {
    let agent = sh("echo ready; exec sleep 60");
    let orders = agent.orders();
    let mut running = agent.starts();
    running.says("ready");
    fs::write(orders.join("stop"), "Stopped\n").unwrap();
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::Stopped), "{seen:?}");
}

#[test]
fn what_is_no_order_of_the_operator_stops_nothing_and_is_said_once() {
    for word in ["GpuLost", "Completed", "Nonsense"] {
        let agent = sh("sleep 1; exit 3");
        fs::write(agent.orders().join("stop"), word).unwrap();
        let seen = agent.ends();
        assert_eq!((seen.code, the_reason(&seen)), (Some(3), Reason::CommandFailed), "{seen:?}");
        assert_eq!(seen.stderr_text().matches(word).count(), 1, "{seen:?}");
    }
}

#[test]
fn a_changed_running_time_replaces_the_first() {
    let agent = sh("sleep 2; echo done").with("LEASEHOLD_RUNTIME_SECONDS", "1");
    fs::write(agent.orders().join("runtime-seconds"), "3600").unwrap();
    let seen = agent.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(0), Reason::Completed), "{seen:?}");
    assert!(seen.stderr_text().contains("maxRuntime is now 1h"), "{seen:?}");
}

#[test]
fn a_deleted_pod_stops_the_program_with_the_reason_that_is_known() {
    for (order, reason) in [
        ("", Reason::PodDeleted),
        ("GpuLost", Reason::PodDeleted),
        ("BudgetExhausted", Reason::BudgetExhausted),
    ] {
        let agent = sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done");
        let orders = agent.orders();
        let mut running = agent.starts();
        running.says("ready");
        fs::write(orders.join("stop"), order).unwrap();
        running.signal(Signal::SIGTERM);
        let seen = running.ends();
        assert_eq!((seen.code, the_reason(&seen)), (Some(5), reason), "{seen:?}");
    }
}

#[test]
fn signals_are_passed_on() {
    for signal in
        [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2]
    {
        let name = signal.as_str().trim_start_matches("SIG");
        let mut running =
            sh(&format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.1; done"))
                .starts();
        running.says("ready");
        running.signal(signal);
        let seen = running.ends();
        assert_eq!(
            (seen.code, the_reason(&seen)),
            (Some(9), Reason::CommandFailed),
            "{signal}: {seen:?}"
        );
    }
}

#[test]
fn the_kubelet_finds_a_report_while_the_program_runs() {
    let mut running = sh("echo ready; read line").starts();
    running.says("ready");
    let report = running.report_that(|report| report.ran_seconds.is_some());
    assert_eq!(report, Report { ran_seconds: Some(0), ..Report::new(Stage::Run) });
    running.kill();

    let mut running = sh(STUBBORN).with("LEASEHOLD_GRACE_SECONDS", "600").starts();
    running.says("ready");
    running.signal(Signal::SIGTERM);
    let report = running.report_that(|report| report.reason.is_some());
    assert_eq!((report.reason, report.exit_code), (Some(Reason::PodDeleted), None));
    running.kill();
}

#[test]
fn background_processes_end_with_the_program() {
    let mut running = sh(
        "(trap 'echo swept; exit' TERM; echo up; while :; do sleep 0.1; done) & read line; exit 4",
    )
    .starts();
    running.says("up");
    running.hears("go");
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(4), Reason::CommandFailed), "{seen:?}");
    assert!(seen.stdout_text().ends_with("swept\n"), "{seen:?}");

    let seen = sh("trap '' TERM; sleep 600 & exit 0").with("LEASEHOLD_GRACE_SECONDS", "1").ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(0), Reason::Completed), "{seen:?}");
}

#[test]
fn an_unwritable_report_is_a_warning() {
    let seen = sh("echo done").with("LEASEHOLD_TERMINATION_LOG", "/no/such/place/log").ends();
    assert_eq!((seen.code, seen.stdout_text().as_str()), (Some(0), "done\n"));
    assert_eq!(seen.stderr_text().matches("warning").count(), 1, "{seen:?}");
}

#[test]
fn a_jammed_log_does_not_keep_the_agent_from_its_deadline() {
    // Nobody reads stderr, and the program fills it.
    let agent = Agent::runs(&["/bin/sh", "-c", "while :; do echo noise >&2; done"])
        .with("LEASEHOLD_RUNTIME_SECONDS", "1");
    let seen = agent.unheard().ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::MaxRuntimeReached), "{seen:?}");
}

#[test]
fn who_is_done_in_the_last_moment_is_done() {
    let agent = sh("echo ready; read line; exit 0");
    let orders = agent.orders();
    let mut running = agent.starts();
    running.says("ready");
    // While the agent cannot look, the program ends, its time is over and a stop is ordered.
    running.signal(Signal::SIGSTOP);
    running.hears("go");
    running.program_has_ended();
    fs::write(orders.join("runtime-seconds"), "0").unwrap();
    fs::write(orders.join("stop"), "Stopped").unwrap();
    running.signal(Signal::SIGTERM);
    running.signal(Signal::SIGCONT);
    let seen = running.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(0), Reason::Completed), "{seen:?}");
}
