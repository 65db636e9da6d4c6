//! Asks a tool that may hang. Does I/O; the answer says what went wrong.
//!
//! A tool that waits in the driver cannot be killed (state D). It is therefore never waited for
//! after its time: the agent goes on without it.

use std::{
    ffi::OsStr,
    fmt,
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use leasehold_core::smi::Answer;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use crate::{clock, environment::directories};

/// Most bytes that are read of each output.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// How often an end without output is looked for.
const TICK: Duration = Duration::from_millis(10);

/// Where a tool of the driver is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Where container toolkits put it. They come first: an image can bring a tool of its own, which
    /// belongs to another driver or to none.
    pub toolkit: &'a [PathBuf],
    /// The image's search path.
    pub path: &'a OsStr,
}

impl Places<'_> {
    fn find(&self, tool: &str) -> Option<PathBuf> {
        let places = self.toolkit.iter().cloned().chain(directories(self.path));
        places.map(|place| place.join(tool)).find(|file| file.is_file())
    }
}

impl fmt::Display for Places<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.toolkit {
            write!(formatter, "{}, ", place.display())?;
        }
        write!(formatter, "PATH ({})", self.path.display())
    }
}

/// Calls a tool of the driver and waits at most `patience`.
#[must_use]
pub fn ask(tool: &str, arguments: &[&str], places: Places<'_>, patience: Duration) -> Answer {
    let Some(file) = places.find(tool) else {
        return Answer::NotFound { looked_in: places.to_string() };
    };
    call(&file, arguments, patience).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Answer::NoLoader { path: file.display().to_string() },
        _ => Answer::NotStarted { error: error.to_string() },
    })
}

fn call(file: &Path, arguments: &[&str], patience: Duration) -> io::Result<Answer> {
    let time = || clock::now().map_err(io::Error::other);
    let deadline = time()?.saturating_add(patience);
    let mut child = Command::new(file)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let mut answer = None;
    if let (Some(stdout), Some(stderr)) = (
        stdout.recv_timeout(deadline.saturating_sub(time()?)).ok(),
        stderr.recv_timeout(deadline.saturating_sub(time()?)).ok(),
    ) {
        answer = loop {
            if let Some(status) = child.try_wait()? {
                let signal = status.signal().map_or(-1, |signal| 128 + signal);
                break Some(Answer::Exited {
                    code: status.code().unwrap_or(signal),
                    stdout,
                    stderr,
                });
            }
            if time()? >= deadline {
                break None;
            }
            thread::sleep(TICK);
        };
    }
    Ok(answer.unwrap_or_else(|| {
        kill(&child);
        Answer::TimedOut { seconds: patience.as_secs() }
    }))
}

/// Reads an output in a thread, which stays behind when the tool never ends.
fn collect(output: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            // What was read before an error still explains the failure.
            let _ = output.take(OUTPUT_LIMIT).read_to_end(&mut bytes);
        }
        // Nobody listens any more when the time is over.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn kill(child: &Child) {
    if let Ok(group) = i32::try_from(child.id()) {
        // It may have ended by now.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}
