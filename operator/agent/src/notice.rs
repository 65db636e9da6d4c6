//! What the agent says in the container's log, beside its reports. Does I/O; never fails.
//!
//! What a tool prints for people is passed on by [`pass_on`]; its lines carry no mark.
//!
//! It speaks on stderr, in whole lines, because stdout belongs to the program. A log that is closed
//! or jammed must not keep the agent from ending the program: lines are left out then, and how many
//! is said as soon as somebody reads again.
//!
//! # Caveats
//! - The program shares the log and can fill it between the look at it and the write. The agent then
//!   waits until somebody reads; the operator and the kubelet enforce.

use std::{
    io::{self, Write},
    os::fd::AsFd,
    sync::{Mutex, PoisonError},
};

use leasehold_core::reason::{Finding, Payer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How long a line of a tool waits for a log that was open until now, in milliseconds.
const PATIENCE: u16 = 1_000;

/// Most that is written at once, in bytes: a pipe that can be written to takes so much without
/// waiting (`PIPE_BUF` of pipe(7)).
const AT_ONCE: usize = 4_096;

/// The container's log.
static LOG: Mutex<Log> = Mutex::new(Log { left_out: 0 });

/// Says one or more lines.
pub fn say(text: &str) {
    write(&format!("leasehold: {text}"), PollTimeout::ZERO);
}

/// Passes a line of a tool on, a long one in pieces. A tool can be faster than the log, so the line
/// waits a moment; but not for a log in which an earlier one found no place.
pub fn pass_on(line: &str) {
    write(line, PollTimeout::from(PATIENCE));
}

fn write(text: &str, patience: PollTimeout) {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.write(&mut io::stderr().lock(), text, patience);
}

/// A log, and what it lacks.
#[derive(Debug)]
struct Log {
    /// Lines that found no place since it was last open.
    left_out: usize,
}

impl Log {
    /// Writes lines, as many as it takes.
    fn write(&mut self, output: &mut (impl Write + AsFd), text: &str, patience: PollTimeout) {
        for lines in portions(text) {
            let patience = if self.left_out == 0 { patience } else { PollTimeout::ZERO };
            let is_written = is_open(output, patience)
                && self.owns_up(output)
                && output.write_all(lines.as_bytes()).is_ok();
            if !is_written {
                self.left_out = self.left_out.saturating_add(lines.matches('\n').count());
            }
        }
    }

    /// Says how many lines are missing here; whether there is place for more.
    fn owns_up(&mut self, output: &mut (impl Write + AsFd)) -> bool {
        if self.left_out == 0 {
            return true;
        }
        let count = self.left_out;
        let words =
            format!("leasehold: {count} lines are left out here, because nobody read the log\n");
        if output.write_all(words.as_bytes()).is_err() {
            return false;
        }
        self.left_out = 0;
        is_open(output, PollTimeout::ZERO)
    }
}

fn is_open(output: &impl AsFd, patience: PollTimeout) -> bool {
    let mut outputs = [PollFd::new(output.as_fd(), PollFlags::POLLOUT)];
    poll(&mut outputs, patience).is_ok_and(|ready| ready > 0)
}

/// The lines of a text, so many together as can be written at once: no line of the program gets
/// between them.
fn portions(text: &str) -> Vec<String> {
    let mut portions = Vec::new();
    let mut portion = String::new();
    for piece in text.split('\n').flat_map(pieces) {
        if portion.len() + piece.len() >= AT_ONCE {
            portions.push(std::mem::take(&mut portion));
        }
        portion.push_str(piece);
        portion.push('\n');
    }
    portions.push(portion);
    portions
}

/// A line in pieces, each of which has place for a line feed.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest.take()?;
        if line.len() < AT_ONCE {
            return Some(line);
        }
        let (piece, after) = line.split_at(line.floor_char_boundary(AT_ONCE - 1));
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

#[cfg(test)]
mod tests {
    use std::{
        io::{PipeReader, PipeWriter, Read},
        sync::mpsc,
        thread,
        time::Duration,
    };

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    /// Longest wait for what has to come; no test takes this long.
    const LONG: Duration = Duration::from_mins(1);

    /// A pipe that nobody reads and in which there is place for so many portions.
    fn a_jammed_pipe(free: usize) -> (PipeReader, PipeWriter) {
        let (mut reader, writer) = io::pipe().unwrap();
        let set = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
        set(OFlag::O_NONBLOCK);
        let full = loop {
            if let Err(error) = (&writer).write_all(&[b'.'; AT_ONCE]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        set(OFlag::empty());
        read(&mut reader, free * AT_ONCE);
        (reader, writer)
    }

    fn read(reader: &mut PipeReader, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        reader.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// What is done has to end, although nobody reads meanwhile.
    fn without_a_reader<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, done) = mpsc::channel();
        thread::spawn(move || sender.send(work()));
        done.recv_timeout(LONG).expect("it waits for a reader")
    }

    /// The lines after the filling of a pipe.
    fn heard(mut reader: PipeReader, writer: PipeWriter) -> Vec<String> {
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text.trim_start_matches('.').lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_jammed_log_is_waited_for_once_and_says_what_it_lacks() {
        let (mut reader, mut writer) = a_jammed_pipe(1);
        let (mut log, mut writer) = without_a_reader(move || {
            let mut log = Log { left_out: 0 };
            // With a wait for each this would take hours.
            for number in 0..10_000 {
                let line = format!("{number:04000}");
                log.write(&mut writer, &line, PollTimeout::from(PATIENCE));
            }
            (log, writer)
        });
        assert_eq!(log.left_out, 9_999);
        read(&mut reader, 8 * AT_ONCE);
        for line in ["one", "two"] {
            log.write(&mut writer, line, PollTimeout::from(PATIENCE));
        }
        let lines = heard(reader, writer);
        let gap = "leasehold: 9999 lines are left out here, because nobody read the log";
        assert_eq!(lines[0], format!("{:04000}", 0));
        assert_eq!(lines[1..], [gap, "one", "two"]);
    }

    #[test]
    fn a_text_that_is_longer_than_the_free_place_keeps_nobody_waiting() {
        for free in 0..4 {
            let (reader, writer) = a_jammed_pipe(free);
            let text =
                (0..10).map(|number| format!("{number:03000}")).collect::<Vec<_>>().join("\n");
            let (log, writer) = without_a_reader(move || {
                let (mut log, mut writer) = (Log { left_out: 0 }, writer);
                log.write(&mut writer, &text, PollTimeout::ZERO);
                (log, writer)
            });
            let lines: Vec<String> = (0..free).map(|number| format!("{number:03000}")).collect();
            assert_eq!(heard(reader, writer), lines);
            assert_eq!(log.left_out, 10 - free);
        }
    }

    #[test]
    fn a_closed_log_is_no_failure() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let mut log = Log { left_out: 0 };
        log.write(&mut writer, "one\ntwo", PollTimeout::ZERO);
        assert_eq!(log.left_out, 2);
    }

    #[test]
    fn a_long_line_is_passed_on_whole_in_pieces() {
        let line = "é".repeat(5_000);
        let passed = portions(&line);
        assert_eq!(passed.concat().replace('\n', ""), line);
        assert!(passed.len() == 3 && passed.iter().all(|portion| portion.len() <= AT_ONCE));
        assert_eq!(portions(""), ["\n"]);
        let text = format!("a\n\n{}\nb", "x".repeat(AT_ONCE - 4));
        assert_eq!(portions(&text), [format!("{}\n", &text[..text.len() - 2]), "b\n".to_owned()]);
    }
}
