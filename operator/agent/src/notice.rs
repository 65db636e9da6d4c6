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

/// Most of a line that is passed on at once, in bytes: with its line feed a pipe that can be written
/// to takes so much without waiting (`PIPE_BUF` of pipe(7)).
const PIECE: usize = 4_095;

/// Says one or more lines.
pub fn say(text: &str) {
    write(&format!("leasehold: {text}\n"), PollTimeout::ZERO);
}

/// Passes a line of a tool on, a long one in pieces. A tool can be faster than the log, so the line
/// waits a moment; of a line that waited too long the rest is dropped.
pub fn pass_on(line: &str) {
    pieces(line).all(|piece| write(&format!("{piece}\n"), PollTimeout::from(PATIENCE)));
}

fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        if line.len() <= PIECE {
            return Some(line);
        }
        let (piece, after) = line.split_at(line.floor_char_boundary(PIECE));
        rest = Some(after);
        Some(piece)
    })
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

/// Whether it was written.
fn write(text: &str, patience: PollTimeout) -> bool {
    let mut stderr = io::stderr().lock();
    let mut outputs = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let is_open = poll(&mut outputs, patience).is_ok_and(|ready| ready > 0);
    // One write, so that no line of the program gets between.
    is_open && stderr.write_all(text.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_passed_on_whole_in_pieces() {
        let line = "é".repeat(5_000);
        let passed: Vec<&str> = pieces(&line).collect();
        assert_eq!(passed.concat(), line);
        assert!(passed.len() == 3 && passed.iter().all(|piece| piece.len() <= PIECE));
        assert_eq!(pieces("").collect::<Vec<_>>(), [""]);
    }
}
