//! What the agent says in the container's log, beside its reports. Does I/O; never fails.
//!
//! What a tool prints for people is passed on by [`pass_on`]; its lines carry no mark.
//!
//! It speaks on stderr, in whole lines, because stdout belongs to the program. A log that is closed
//! or jammed must not keep the agent from ending the program: the line is dropped then.

use std::{
    io::{self, Write},
    os::fd::AsFd,
};

use leasehold_core::reason::{Finding, Payer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a line of a tool waits for a log that is jammed, in milliseconds.
const PATIENCE: u16 = 1_000;

/// Says one or more lines.
pub fn say(text: &str) {
    write(&format!("leasehold: {text}\n"), PollTimeout::ZERO);
}

/// Passes a line of a tool on. A tool can be faster than the log, so the line waits a moment.
pub fn pass_on(line: &str) {
    write(&format!("{line}\n"), PollTimeout::from(PATIENCE));
}

/// The lines that tell a finding: what was seen, how to cure it, who pays.
#[must_use]
pub fn told(finding: &Finding) -> [String; 3] {
    let payer = match finding.reason.payer() {
        Payer::User => "the job pays for the time",
        Payer::Infrastructure => "the job does not pay for the time",
    };
    [
        format!("    seen: {}", finding.evidence),
        format!("    to cure it: {}", finding.reason.cure()),
        format!("    {payer}"),
    ]
}

fn write(text: &str, patience: PollTimeout) {
    let mut stderr = io::stderr().lock();
    let mut outputs = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let is_open = poll(&mut outputs, patience).is_ok_and(|ready| ready > 0);
    if is_open {
        // One write, so that no line of the program gets between.
        let _ = stderr.write_all(text.as_bytes());
    }
}
