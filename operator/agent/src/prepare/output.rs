//! What a tool prints, as lines. Does I/O: a thread reads.
//!
//! # Guarantees
//! - No output fills the memory: a tool that prints faster than somebody listens waits.

use std::{
    io::{BufReader, PipeReader, Read},
    iter, mem,
    sync::mpsc::{self, Receiver, SyncSender},
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
    let (sender, receiver) = queue();
    thread::spawn(move || {
        for line in lines(output) {
            // It waits for its place. Nobody listens any more when the time is over.
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Where lines wait for being heard; when it is full, the next one waits before it.
fn queue() -> (SyncSender<Line>, Receiver<Line>) {
    mpsc::sync_channel(WAITING)
}

/// The lines of an output, of which no more is read than the next line needs and a buffer holds.
fn lines(output: impl Read) -> impl Iterator<Item = Line> {
    let mut bytes = BufReader::new(output).bytes();
    let mut line = Unfinished::default();
    iter::from_fn(move || {
        // An unreadable output ends like a closed one: the exit code tells the rest.
        while let Some(Ok(byte)) = bytes.next() {
            if let Some(line) = line.take_in(byte) {
                return Some(line);
            }
        }
        (line != Unfinished::default()).then(|| line.end())
    })
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
        cell::Cell,
        io::{self, Write},
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

    /// An output without end that counts what is read of it.
    struct Endless<'a>(&'a Cell<usize>);

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            for (at, byte) in buffer.iter_mut().enumerate() {
                if (self.0.get() + at) % LINE == LINE - 1 {
                    *byte = b'\n';
                }
            }
            self.0.set(self.0.get() + buffer.len());
            Ok(buffer.len())
        }
    }

    /// Length of its lines, with the line feed.
    const LINE: usize = 1_024;

    #[test]
    fn no_more_is_read_than_the_next_line_needs() {
        const BUFFER: usize = 8 << 10;
        let read = Cell::new(0);
        let mut lines = lines(Endless(&read));
        for count in 1..100 {
            assert_eq!(lines.next().map(|line| line.text.len()), Some(LINE - 1));
            assert!(read.get() <= count * LINE + BUFFER, "{count}: {read:?}");
        }
    }

    #[test]
    fn lines_wait_for_their_place() {
        let (sender, receiver) = queue();
        let filled = (0..=WAITING).take_while(|_| sender.try_send(Line::default()).is_ok());
        assert_eq!(filled.count(), WAITING);
        receiver.recv().unwrap();
        assert!(sender.try_send(Line::default()).is_ok());
    }

    #[test]
    fn an_output_that_is_heard_late_loses_nothing() {
        const LINES: usize = 2_000;
        let (reader, mut writer) = io::pipe().unwrap();
        let lines = listen(reader);
        // The queue and the pipe take in so much before anybody hears.
        let (filled, is_full) = mpsc::channel();
        thread::spawn(move || {
            for number in 0..LINES {
                if number == WAITING + 1 {
                    filled.send(()).unwrap();
                }
                writeln!(writer, "{number:01023}").unwrap();
            }
        });
        is_full.recv().unwrap();
        let numbers = lines.iter().map(|line| line.text.parse::<usize>().unwrap());
        assert!(numbers.eq(0..LINES));
    }
}
