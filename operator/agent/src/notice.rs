//! What the agent says in the container's log, beside its reports. Does I/O; never fails.
//!
//! It speaks on stderr, in whole lines, because stdout belongs to the program. A log that is closed
//! or jammed must not keep the agent from ending the program: the line is dropped then.

use std::{
    io::{self, Write},
    os::fd::AsFd,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Says one or more lines.
pub fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    let mut outputs = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    let is_open = poll(&mut outputs, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
    if is_open {
        // One write, so that no line of the program gets between.
        let _ = stderr.write_all(format!("leasehold: {text}\n").as_bytes());
    }
}
