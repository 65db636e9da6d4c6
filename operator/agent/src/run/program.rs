//! What to start, and why it cannot be started. Does I/O: looks into the image.

use std::{
    ffi::{OsStr, OsString},
    io::{self, IsTerminal},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use leasehold_core::reason::{Finding, Reason};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::{Pid, tcsetpgrp},
};

use super::{script::Script, surroundings::Surroundings, tree::Tree};
use crate::{arguments::Wish, environment::directories, failure::Failure};

/// Exit codes of shells and container runtimes.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Longest name in a message, in characters.
const NAME_CHARACTERS: usize = 120;

/// A program to start.
#[derive(Debug)]
pub struct Program {
    /// The command in messages.
    pub name: String,
    command: Command,
    path: OsString,
    working_directory: Option<PathBuf>,
    /// Stays until the program has ended, because its file may exist through it only.
    script: Option<Script>,
}

/// Why a program cannot be started, through no fault of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstartable {
    /// What is wrong.
    pub finding: Finding,
    /// The agent's exit code.
    pub exit_code: i32,
}

impl Unstartable {
    fn not_found(reason: Reason, evidence: String) -> Self {
        Self { finding: Finding::new(reason, evidence), exit_code: NOT_FOUND }
    }

    fn not_executable(evidence: String) -> Self {
        Self {
            finding: Finding::new(Reason::CommandNotExecutable, evidence),
            exit_code: NOT_EXECUTABLE,
        }
    }
}

impl Program {
    /// The program that is wished for.
    pub fn of(
        wish: &Wish,
        surroundings: &Surroundings,
    ) -> Result<Result<Self, Unstartable>, Failure> {
        let script = wish.script.as_deref().map(Script::prepare).transpose()?;
        let words = script
            .iter()
            .flat_map(Script::words)
            .chain(wish.command.iter().map(OsString::as_os_str));
        let words: Vec<&OsStr> = words.collect();
        let Some((first, rest)) = words.split_first() else {
            return Ok(Err(Unstartable::not_found(
                Reason::CommandNotFound,
                "the command is empty".to_owned(),
            )));
        };
        let mut command = Command::new(first);
        command.args(rest).process_group(0);
        surroundings.give_to(&mut command);
        if let Some(directory) = &wish.working_dir {
            command.current_dir(directory);
        }
        Ok(Ok(Self {
            name: if script.is_some() { "the script".to_owned() } else { shortened(&words) },
            command,
            path: surroundings.path.clone(),
            working_directory: wish.working_dir.clone(),
            script,
        }))
    }

    /// Starts it.
    pub fn start(&mut self) -> Result<Result<Tree, Unstartable>, Failure> {
        if let Some(unstartable) = self.without_working_directory() {
            return Ok(Err(unstartable));
        }
        let child = match self.command.spawn() {
            Ok(child) => child,
            Err(error) => return self.explain(error).map(Err),
        };
        let pid = i32::try_from(child.id())
            .map_err(|_| self.failed(io::Error::other("unknown process id")))?;
        let program = Pid::from_raw(pid);
        hand_over_the_terminal(program);
        Ok(Ok(Tree::of(program)))
    }

    fn without_working_directory(&self) -> Option<Unstartable> {
        let missing = |words| Some(Unstartable::not_found(Reason::WorkingDirMissing, words));
        match &self.working_directory {
            Some(directory) if !directory.is_dir() => {
                missing(format!("{} is not a directory in the container", directory.display()))
            }
            Some(_) => None,
            None => match std::env::current_dir() {
                Ok(_) => None,
                Err(error) => {
                    missing(format!("the container's working directory cannot be entered: {error}"))
                }
            },
        }
    }

    fn explain(&self, error: io::Error) -> Result<Unstartable, Failure> {
        let name = Path::new(self.command.get_program()).display();
        let found = self.found();
        match (error.kind(), found, &self.script) {
            (io::ErrorKind::NotFound, None, Some(_)) => Ok(Unstartable::not_found(
                Reason::CommandNotFound,
                format!(
                    "the script needs {name}, which is not in the image: use another #! line, or command instead of script"
                ),
            )),
            (io::ErrorKind::NotFound, None, None) => Ok(Unstartable::not_found(
                Reason::CommandNotFound,
                format!(
                    "there is no {name} in the container; PATH is {:?}",
                    self.path.display().to_string()
                ),
            )),
            (io::ErrorKind::NotFound, Some(file), _) => Ok(Unstartable::not_executable(format!(
                "{} is there, but its interpreter (#! line) or its program loader is not: it was made for another system",
                file.display()
            ))),
            (io::ErrorKind::PermissionDenied, file, _) => {
                let file = file.unwrap_or_else(|| PathBuf::from(self.command.get_program()));
                Ok(Unstartable::not_executable(format!("{}: {error}", file.display())))
            }
            (io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory, ..) => Err(self.failed(error)),
            _ => Ok(Unstartable::not_executable(format!("{name}: {error}"))),
        }
    }

    /// The file of the command, whether it can be executed or not.
    fn found(&self) -> Option<PathBuf> {
        let name = Path::new(self.command.get_program());
        if name.components().count() > 1 || name.is_absolute() {
            // A relative name is relative to where the program starts.
            let file = self.working_directory.as_deref().unwrap_or(Path::new("")).join(name);
            return file.exists().then_some(file);
        }
        directories(&self.path).map(|directory| directory.join(name)).find(|file| file.is_file())
    }

    fn failed(&self, source: io::Error) -> Failure {
        Failure::Start { name: self.name.clone(), source }
    }
}

/// In an interactive container, the program reads the terminal and gets its Ctrl-C.
fn hand_over_the_terminal(program: Pid) {
    let stdin = io::stdin();
    if stdin.is_terminal() && tcsetpgrp(&stdin, program).is_ok() {
        // It may have been stopped for reading before the terminal was its own.
        let _ = killpg(program, Signal::SIGCONT);
    }
}

fn shortened(words: &[&OsStr]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.display().to_string()).collect();
    let text = words.join(" ");
    match text.char_indices().nth(NAME_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_shortened_at_a_character() {
        assert_eq!(shortened(&[OsStr::new("a"), OsStr::new("b")]), "a b");
        let long = "ä".repeat(200);
        assert_eq!(shortened(&[OsStr::new(&long)]).chars().count(), NAME_CHARACTERS + 1);
    }
}
