//! The processes of a program: signals reach all of them, ends are collected. Does I/O.
//!
//! As PID 1 the tree is everything in the namespace, and orphans are the agent's to reap. Elsewhere
//! it is the program's process group; signalling every process there would end the machine.

use std::cell::Cell;

use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, getpid},
};

use super::ending::Ending;

const INIT: Pid = Pid::from_raw(1);

/// To `kill`: all processes except the caller. To `waitpid`: any child.
const EVERY: Pid = Pid::from_raw(-1);

/// A started program with everything that it has started.
#[derive(Debug)]
pub struct Tree {
    program: Pid,
    ending: Cell<Option<Ending>>,
}

impl Tree {
    /// The tree of a child in its own process group.
    #[must_use]
    pub const fn of(program: Pid) -> Self {
        Self { program, ending: Cell::new(None) }
    }

    /// Signals every process of the tree. Processes that have ended meanwhile, and those that run
    /// as another user, are not an error.
    pub fn signal(&self, signal: Signal) {
        let _ = if getpid() == INIT { kill(EVERY, signal) } else { killpg(self.program, signal) };
    }

    /// Reaps all children that have ended; the program's ending once it has one.
    #[must_use]
    pub fn reap(&self) -> Option<Ending> {
        self.collect();
        self.ending.get()
    }

    /// Whether nothing of the tree is left.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let childless = self.collect() == Left::Nothing;
        if getpid() == INIT {
            childless
        } else {
            self.ending.get().is_some() && killpg(self.program, None) == Err(Errno::ESRCH)
        }
    }

    fn collect(&self) -> Left {
        // Elsewhere other children are somebody else's, who waits for their end.
        let whom = if getpid() == INIT { EVERY } else { self.program };
        loop {
            let (child, ending) = match waitpid(whom, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(child, code)) => (child, Ending::Code(code)),
                Ok(WaitStatus::Signaled(child, signal, _)) => (child, Ending::Signal(Some(signal))),
                Ok(WaitStatus::StillAlive) => return Left::Something,
                Err(Errno::ECHILD) => return Left::Nothing,
                // A child was ended by a real-time signal, which nix does not know; whose end it
                // was is seen by who is missing.
                Err(Errno::EINVAL) if kill(self.program, None) == Err(Errno::ESRCH) => {
                    (self.program, Ending::Signal(None))
                }
                Ok(_) | Err(_) => continue,
            };
            if child == self.program && self.ending.get().is_none() {
                self.ending.set(Some(ending));
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Left {
    Something,
    Nothing,
}
