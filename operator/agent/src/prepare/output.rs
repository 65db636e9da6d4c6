//! What a tool prints, as lines. Does I/O: a thread reads.
//!
//! # Guarantees
//! - No output fills the memory: a tool that prints faster than somebody listens waits.

use std::{
    io::{BufReader, PipeReader, Read},
    mem,
    sync::mpsc::{self, Receiver},
    thread,
};

use leasehold_core::restore::mask::Mask;

/// Lines that wait for being heard.
const WAITING: usize = 64;

/// How much of a line is kept, in bytes; what follows is dropped.
const KEPT: usize = 64 << 10;

/// A line of a tool, with the secrets that it may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    is_cut: bool,
}

impl Line {
    /// The line without secrets. Of a secret at the cut there is no half.
    #[must_use]
    pub fn shown(&self, mask: &Mask) -> String {
        if self.is_cut {
            format!("{}…", mask.apply_to_beginning(&self.text))
        } else {
            mask.apply(&self.text)
        }
    }
}

/// Reads lines in a thread, which stays behind when something keeps the output open.
#[must_use]
pub fn listen(output: PipeReader) -> Receiver<Line> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    thread::spawn(move || {
        let mut line = Unfinished::default();
        for byte in BufReader::new(output).bytes() {
            // An unreadable output ends like a closed one: the exit code tells the rest.
            let Ok(byte) = byte else { break };
            if let Some(line) = line.take_in(byte)
                && sender.send(line).is_err()
            {
                return;
            }
        }
        if line != Unfinished::default() {
            // Nobody listens any more when the time is over.
            let _ = sender.send(line.end());
        }
    });
    receiver
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Unfinished {
    bytes: Vec<u8>,
    is_cut: bool,
    /// The next letter is drawn over these.
    is_drawn_over: bool,
}

impl Unfinished {
    /// The line, when this byte ends it. A bar that is drawn over itself counts by its last state.
    fn take_in(&mut self, byte: u8) -> Option<Line> {
        match byte {
            b'\n' => return Some(self.end()),
            b'\r' => self.is_drawn_over = true,
            _ => {
                if self.is_drawn_over {
                    *self = Self::default();
                }
                if self.bytes.len() < KEPT {
                    self.bytes.push(byte);
                } else {
                    self.is_cut = true;
                }
            }
        }
        None
    }

    fn end(&mut self) -> Line {
        let Self { bytes, is_cut, .. } = mem::take(self);
        let text = String::from_utf8_lossy(&bytes);
        // Of a letter at the cut there may be a part.
        let text = if is_cut { text.trim_end_matches('\u{fffd}') } else { text.trim_end() };
        Line { text: text.to_owned(), is_cut }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use super::*;

    fn lines_of(text: &[u8]) -> Vec<Line> {
        let (reader, mut writer) = io::pipe().unwrap();
        let lines = listen(reader);
        writer.write_all(text).unwrap();
        drop(writer);
        lines.iter().collect()
    }

    #[test]
    fn lines_end_with_a_feed_and_bars_with_their_last_state() {
        let whole = |text: &str| Line { text: text.to_owned(), is_cut: false };
        let lines = lines_of(b"one\n\na\rtwo \r\n10%\r20%\r\nthree");
        assert_eq!(lines, ["one", "", "two", "20%", "three"].map(whole));
        assert_eq!(lines_of(b""), []);
    }

    #[test]
    fn of_a_secret_at_the_cut_nothing_is_shown() {
        let secret = "s3cret-of-the-team";
        let mask = Mask::knowing([secret.to_owned()]);
        for half in [1, secret.len() / 2, secret.len()] {
            let filling = "é".repeat((KEPT - half) / 2);
            let lines = lines_of(format!("{filling} {secret} and more\nnext\n").as_bytes());
            let shown = lines[0].shown(&mask);
            assert!(shown.starts_with("éé") && shown.ends_with('…'), "{half}");
            assert!(!shown.contains("s3"), "{half}");
            assert_eq!(lines[1].shown(&mask), "next");
        }
        // Longer than what is passed on at once, but whole.
        let long = lines_of(format!("{}{secret}\n", "é".repeat(2_047)).as_bytes());
        assert!(long[0].shown(&mask).ends_with("é***"));
    }

    #[test]
    fn an_output_that_nobody_hears_waits_and_loses_nothing() {
        const LINES: usize = 20_000;
        let (reader, mut writer) = io::pipe().unwrap();
        let lines = listen(reader);
        let written = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&written);
        thread::spawn(move || {
            for _ in 0..LINES {
                writer.write_all(&[&[b'x'; 1_023][..], b"\n"].concat()).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut before = 0;
        loop {
            thread::sleep(Duration::from_millis(300));
            let now = written.load(Ordering::SeqCst);
            if now == before && now > 0 {
                break;
            }
            before = now;
        }
        assert!(before < LINES, "everything was taken in");
        assert_eq!(lines.iter().count(), LINES);
    }
}
