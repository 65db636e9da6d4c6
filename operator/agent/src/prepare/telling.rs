//! Keeps the report of a restore up to date, and what explains a failure. Does I/O; never fails.

use std::time::Duration;

use leasehold_core::report::{Environment, Report, Stage};

use crate::{clock, termination::TerminationLog};

/// How often the report follows what uv does.
const REPORT_EVERY: Duration = Duration::from_secs(3);

/// How much of uv's output is kept to explain a failure, in bytes.
const KEPT: usize = 64 << 10;

/// Tells what uv does, at most every [`REPORT_EVERY`].
#[derive(Debug)]
pub struct Reporter<'a> {
    log: &'a mut TerminationLog,
    started: Duration,
    state: &'a Environment,
    last: Option<Duration>,
}

impl<'a> Reporter<'a> {
    /// Tells of a restore that has begun at `started`.
    pub const fn new(
        log: &'a mut TerminationLog,
        started: Duration,
        state: &'a Environment,
    ) -> Self {
        Self { log, started, state, last: None }
    }

    /// Says what is being done.
    pub fn tell(&mut self, doing: &str) {
        // Without a clock the call ends with an error of its own.
        let Ok(now) = clock::now() else { return };
        if self.last.is_none_or(|last| now >= last.saturating_add(REPORT_EVERY)) {
            self.last = Some(now);
            self.log.write(&at_work(self.state, now.saturating_sub(self.started), doing));
        }
    }
}

/// The report of a restore at work.
#[must_use]
pub fn at_work(state: &Environment, took: Duration, doing: &str) -> Report {
    let seconds = u32::try_from(took.as_secs()).unwrap_or(u32::MAX);
    Report {
        environment: Some(Environment { seconds, ..state.clone() }),
        evidence: doing.to_owned(),
        ..Report::new(Stage::Prepare)
    }
}

/// The end of an output, in whole lines.
#[derive(Debug, Default)]
pub struct Tail {
    /// The lines.
    pub text: String,
}

impl Tail {
    /// Adds a line.
    pub fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() > 2 * KEPT {
            let cut = self.text.len() - KEPT;
            let end = self.text.char_indices().find(|(at, letter)| *at >= cut && *letter == '\n');
            let (at, _) = end.unwrap_or((0, ' '));
            self.text.drain(..=at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let mut tail = Tail::default();
        for number in 0..20_000 {
            tail.push(&format!("line {number} é"));
        }
        assert!(tail.text.len() <= 2 * KEPT + 20 && tail.text.starts_with("line "));
        assert!(tail.text.ends_with("line 19999 é\n"));
    }
}
