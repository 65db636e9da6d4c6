//! How `run` starts a program, and how it explains that it cannot or may not.
#![allow(clippy::panic, reason = "a test stops where it is wrong")]

mod agent;

use std::fs;

use agent::{Agent, Seen};
use leasehold_core::reason::Reason;

fn sh(script: &str) -> Agent {
    Agent::runs(&["/bin/sh", "-c", script])
}

fn the_reason(seen: &Seen) -> Reason {
    seen.report.reason.unwrap_or_else(|| panic!("no reason in {seen:?}"))
}

#[test]
fn a_command_that_cannot_be_started_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let plain = agent::file(directory.path(), "plain", "echo", 0o644);
    let orphan = agent::file(directory.path(), "orphan", "#!/no/such/interpreter\n", 0o755);
    for (command, code, reason, words) in [
        ("no-such-command", 127, Reason::CommandNotFound, "PATH is"),
        ("/no/such/command", 127, Reason::CommandNotFound, "/no/such/command"),
        (plain.as_str(), 126, Reason::CommandNotExecutable, "plain"),
        (orphan.as_str(), 126, Reason::CommandNotExecutable, "interpreter"),
        ("/tmp", 126, Reason::CommandNotExecutable, "/tmp"),
    ] {
        let seen = Agent::runs(&[command]).ends();
        assert_eq!((seen.code, the_reason(&seen)), (Some(code), reason), "{command}: {seen:?}");
        assert!(seen.report.evidence.contains(words), "{seen:?}");
        assert!(seen.stderr_text().contains(reason.name()), "{seen:?}");
    }
}

#[test]
fn a_missing_working_directory_is_explained() {
    let seen = Agent::called(&["run", "--working-dir", "/no/such/place", "true"]).ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(127), Reason::WorkingDirMissing), "{seen:?}");
    assert!(seen.report.evidence.contains("/no/such/place"), "{seen:?}");
    let seen = Agent::called(&["run", "--working-dir", "/usr", "pwd"]).ends();
    assert_eq!(seen.stdout_text(), "/usr\n");
}

#[test]
fn scripts_run_with_their_interpreter() {
    for (script, output, code) in [
        ("echo one\nfalse\necho two", "one\n", 1),
        ("echo \"$1\"", "argument\n", 0),
        ("#!/bin/sh\necho \"$1\"\nfalse\necho two", "argument\ntwo\n", 0),
        ("#!/usr/bin/env sh\nexit 6", "", 6),
    ] {
        let seen = Agent::called(&["run", "--script", script, "--", "argument"]).ends();
        assert_eq!(
            (seen.stdout_text(), seen.code),
            (output.to_owned(), Some(code)),
            "{script}: {seen:?}"
        );
    }
    let seen = Agent::called(&["run", "--script", "#!/no/such/shell\n"]).ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(127), Reason::CommandNotFound), "{seen:?}");
    assert!(seen.report.evidence.contains("/no/such/shell"), "{seen:?}");
}

#[test]
fn a_wrong_call_is_no_exit_code_of_a_program() {
    for agent in [
        Agent::called(&["run"]),
        Agent::called(&["dance"]),
        Agent::runs(&["true"]).with("LEASEHOLD_RUNTIME_SECONDS", "1h"),
        Agent::runs(&["true"]).with("LEASEHOLD_RUNTIME_SECONDS", ""),
    ] {
        let seen = agent.ends();
        assert_eq!((seen.code, the_reason(&seen)), (Some(125), Reason::AgentFailed), "{seen:?}");
        assert!(!seen.stderr.is_empty());
    }
}

#[test]
fn nothing_is_started_when_the_money_is_gone() {
    let agent = sh("echo started").installed().with("LEASEHOLD_HELD_SECONDS", "0");
    let seen = agent.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::BudgetExhausted), "{seen:?}");
    assert_eq!(seen.stdout, b"");
}

#[test]
fn nothing_is_started_after_the_order_to_stop() {
    let agent = sh("echo started");
    fs::write(agent.orders().join("stop"), "HolderDeleted").unwrap();
    let seen = agent.ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(143), Reason::HolderDeleted), "{seen:?}");
    assert_eq!(seen.stdout, b"");
}

#[test]
fn an_unknown_start_of_the_lease_is_an_error() {
    let seen = sh("echo started").with("LEASEHOLD_HELD_SECONDS", "100").ends();
    assert_eq!((seen.code, the_reason(&seen)), (Some(125), Reason::AgentFailed), "{seen:?}");
    assert!(seen.report.evidence.contains("held-since"), "{seen:?}");
}
