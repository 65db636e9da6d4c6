//! The image's Python: which it is and which packages it sees. Does I/O; asks the Python itself.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use leasehold_core::{
    reason::{Finding, Reason},
    restore::mask::Mask,
};
use serde::Deserialize;

use super::{
    Interrupted,
    tool::{Caller, Outcome},
};
use crate::{environment::directories, failure::Failure, run::ending::Ending};

/// The names of Python, in the order in which they are looked for.
const NAMES: [&str; 2] = ["python3", "python"];

/// The oldest Python that uv works with.
const OLDEST: (u32, u32) = (3, 6);

/// How long a Python may take to start; a cold image on a slow disk needs seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// Marks the answer among what an image's Python may print by itself.
const MARK: &str = "leasehold-python ";

/// Runs on Python 2 too, to name what is there. The working directory is not searched: a file
/// `json.py` in it would be taken for Python's.
const QUESTION: &str = r#"
import sys
sys.path = [path for path in sys.path if path]
import json, os
prefix = sys.prefix
base = getattr(sys, "base_prefix", prefix)
shared = prefix == base
if not shared:
    with open(os.path.join(prefix, "pyvenv.cfg")) as file:
        words = [line.replace(" ", "").strip().lower() for line in file]
    shared = "include-system-site-packages=true" in words
print("leasehold-python " + json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "executable": sys.executable or "",
    "scripts": os.path.join(prefix, "bin"),
    "is_virtual": prefix != base,
    "sees_base": shared,
    "packages": [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")],
}))
"#;

/// A Python of the image.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Python {
    /// For example `3.11.2`.
    pub version: String,
    /// Its file.
    pub executable: PathBuf,
    /// Where its packages have their commands.
    pub scripts: PathBuf,
    /// It is a virtual environment itself.
    pub is_virtual: bool,
    /// It sees the packages of the Python that it was made from; always true for that one.
    pub sees_base: bool,
    /// Directories with the packages that it sees.
    pub packages: Vec<String>,
}

impl Python {
    /// The first two numbers of the version.
    #[must_use]
    pub fn release(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// Finds the image's Python.
pub fn find(caller: &mut Caller, path: &OsStr) -> Result<Result<Python, Interrupted>, Failure> {
    let mut seen = Vec::new();
    for name in NAMES {
        let files = directories(path).map(|directory| directory.join(name));
        for file in files.filter(|file| file.is_file()) {
            let shown = file.display();
            match ask(caller, &file)? {
                Answer::Python(python) if python.release() >= Some(OLDEST) => {
                    return Ok(Ok(python));
                }
                Answer::Python(python) => {
                    let version = &python.version;
                    seen.push(format!("{shown} is Python {version}"));
                }
                Answer::Unusable(words) => seen.push(format!("{shown} {words}")),
                Answer::Interrupted(why) => return Ok(Err(why)),
            }
        }
    }
    let evidence = if seen.is_empty() {
        format!("there is neither python3 nor python in PATH ({})", path.display())
    } else {
        format!("{}; needed is Python {}.{} or newer", seen.join("; "), OLDEST.0, OLDEST.1)
    };
    Ok(Err(Finding::new(Reason::NoPythonInImage, evidence).into()))
}

enum Answer {
    Python(Python),
    Unusable(String),
    Interrupted(Interrupted),
}

fn ask(caller: &mut Caller, file: &Path) -> Result<Answer, Failure> {
    let mut command = Command::new(file);
    // Neither the user's own packages nor variables change what is seen.
    command.args(["-E", "-s", "-c", QUESTION]);
    let mut answer = None;
    let mut last = String::new();
    let mut hear = |line: Option<&str>| {
        if let Some(line) = line {
            answer = line.strip_prefix(MARK).map(str::to_owned).or(answer.take());
            line.clone_into(&mut last);
        }
    };
    // A known secret could be a part of a path in the answer; what is told is masked later.
    let outcome = match caller.call(command, PATIENCE, &Mask::default(), &mut hear) {
        Ok(outcome) => outcome,
        // Made for another system, or not executable: the next one may work.
        Err(Failure::Start { source, .. }) => {
            return Ok(Answer::Unusable(format!("cannot be started: {source}")));
        }
        Err(error) => return Err(error),
    };
    let python = answer.and_then(|answer| serde_json::from_str::<Python>(&answer).ok());
    Ok(match (outcome, python) {
        (Outcome::Stopped(stop), _) => Answer::Interrupted(stop.into()),
        (Outcome::TooLong, _) => {
            Answer::Unusable(format!("did not answer within {} s", PATIENCE.as_secs()))
        }
        (Outcome::Ended(Ending::Code(0)), Some(mut python)) => {
            if python.executable.as_os_str().is_empty() {
                file.clone_into(&mut python.executable);
            }
            Answer::Python(python)
        }
        (Outcome::Ended(ending), _) => Answer::Unusable(format!("{ending}: {last}")),
    })
}
