//! The container's termination message, in which the agent tells its state. Does I/O; a failure
//! is a warning, because a program must not end for want of a report.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::PathBuf,
};

use leasehold_core::report::Report;

use crate::notice;

/// The file that the kubelet reads when the container has ended.
#[derive(Debug)]
pub struct TerminationLog {
    path: PathBuf,
    warned: bool,
}

impl TerminationLog {
    /// A log in this file.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path, warned: false }
    }

    /// Replaces what was told before; warns once when that fails.
    pub fn write(&mut self, report: &Report) {
        if let Err(error) = self.replace(&report.to_line())
            && !self.warned
        {
            self.warned = true;
            notice::say(&format!("warning: failed to write {}: {error}", self.path.display()));
        }
    }

    /// The file is a mount, so it is written in place: first the new line, then the cut. A process
    /// that is killed in between leaves a whole line.
    fn replace(&self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
        file.write_all(line.as_bytes())?;
        file.set_len(u64::try_from(line.len()).unwrap_or(u64::MAX))
    }
}
