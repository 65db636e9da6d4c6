//! `prepare`: restores the Python environment of a job in the user's image. Does I/O.
//!
//! ```text
//! python ──► files ──► venv ──► uv pip install ──► commands ──► last report
//!    └─ none    └─ problems        └─ failure explained by core
//! ```
//!
//! - [`python`] finds the image's Python and asks it what it sees;
//! - [`files`] has the requirements files, [`leasehold_core::restore`] looks into them;
//! - [`uv`] knows how uv is called, [`tool`] calls it and ends it when the pod has to go, [`output`]
//!   reads what it prints;
//! - [`telling`] keeps the report up to date meanwhile;
//! - [`venv`] joins the environment to the image.
//!
//! # Guarantees
//! - Running again, as after a lost sandbox, makes the environment anew: nothing half-made stays.
//! - Nothing of the image is changed, and nothing outside the environment's directory is written.
//! - No secret of an address or a variable of an index is in the log or in a report.
//!
//! # Caveats
//! - uv does not count packages of the image as installed: what the files name is installed beside.
//! - A program that is called by the path of the image's Python, not by its name, does not see the
//!   environment.
//! - Without certificates of the installation uv trusts those that it was built with, and not the
//!   image's: many images have outdated ones. `UV_SYSTEM_CERTS=1` in the job changes that.
//! - No configuration file of uv counts, neither the image's nor one beside the files: nobody would
//!   know whose an index is that it names. uv's variables do count.

pub mod files;
pub mod output;
pub mod python;
pub mod telling;
pub mod tool;
pub mod uv;
pub mod venv;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use leasehold_core::{
    reason::{Finding, Reason},
    report::{Environment, Report},
    restore::{Progress, Requirements, failure, gather},
};
use signal_hook::consts::SIGTERM;

use crate::{
    REFUSED, clock,
    environment::restore::{self, PrepareSettings},
    failure::Failure,
    install, notice,
    run::{
        ending::{Ending, Stop},
        ends::Ends,
        memory,
        orders::Orders,
    },
    signals,
    termination::TerminationLog,
    trust,
};
use files::Place;
use python::Python;
use telling::{Reporter, Tail, at_work};
use tool::{Caller, Outcome};
use uv::Uv;

/// Exit code when the pod had to go: as if by SIGTERM.
const STOPPED: i32 = 143;

/// Why a restore ended early, through no fault of the agent.
#[derive(Debug)]
pub enum Interrupted {
    /// Something is wrong with image, files or indexes.
    Refused(Finding),
    /// The pod has to go.
    Stopped(Stop),
}

impl From<Finding> for Interrupted {
    fn from(finding: Finding) -> Self {
        Self::Refused(finding)
    }
}

impl From<Stop> for Interrupted {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// Restores the environment and reports it.
pub fn prepare(log: &mut TerminationLog) -> Result<Report, Failure> {
    let signals = signals::receive(&[SIGTERM])?;
    let started = clock::now()?;
    let settings = restore::for_prepare()?;
    let own_directory = install::own_directory()?;
    let held = install::held(&own_directory, settings.held)?;
    let ends = Ends { started, runtime: Duration::MAX, held };
    let caller = Caller::new(signals, Orders::from(settings.lease_directory.clone()), ends);
    let mut work =
        Work { settings: &settings, caller, log, started, state: Environment::default() };
    let result = work.restore(&own_directory);
    let report = work.conclude(result)?;
    Ok(report)
}

struct Work<'a> {
    settings: &'a PrepareSettings,
    caller: Caller,
    log: &'a mut TerminationLog,
    started: Duration,
    state: Environment,
}

/// A result whose failure is the agent's, or one that was interrupted.
type Step<T> = Result<Result<T, Interrupted>, Failure>;

/// Goes on with the value of a [`Step`], or returns its interruption.
macro_rules! step {
    ($step:expr) => {
        match $step? {
            Ok(value) => value,
            Err(interrupted) => return Ok(Err(interrupted)),
        }
    };
}

impl Work<'_> {
    fn restore(&mut self, own_directory: &Path) -> Step<()> {
        let settings = self.settings;
        self.report("looking for the image's Python")?;
        let python = step!(python::find(&mut self.caller, &settings.path));
        self.state.python.clone_from(&python.version);
        let (base, working_directory) = self.directories()?;
        let mut place = Place::new(base.clone(), working_directory.clone());
        let requirements = match gather(&settings.requirements, &mut place) {
            Ok(requirements) => requirements,
            Err(finding) => {
                let config_map = self.settings.config_map.as_deref();
                return Ok(Err(looked_in(finding, &base, config_map).into()));
            }
        };
        let environment = settings.directory.as_path();
        let uv = Uv {
            file: own_directory.join(install::UV),
            environment,
            working_directory: &working_directory,
            certificates: trust::bundle(&settings.trust, own_directory, &[environment])?,
        };
        let venv = venv::of(environment);
        for leftover in uv.leftovers().iter().chain([&venv]) {
            remove(leftover)?;
        }
        let scratch = uv.scratch();
        let made = fs::create_dir_all(&scratch);
        made.map_err(|source| Failure::Write { path: scratch, source })?;
        notice::say(&format!(
            "restoring {} with Python {} of the image ({})",
            settings.requirements.join(", "),
            python.version,
            python.executable.display()
        ));
        step!(self.call(uv.venv(&python), &requirements));
        venv::link(&venv, &python)?;
        let files = settings.requirements.iter().map(|name| place.file(name));
        let installed = step!(self.call(uv.install(files), &requirements));
        self.state.packages = installed.or(Some(0));
        tidy_up(&uv, &venv, &python)?;
        Ok(Ok(()))
    }

    /// Where the files are, and where paths of packages begin.
    fn directories(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let here = || std::env::current_dir().map_err(Failure::WorkingDirectory);
        if !self.settings.inline.is_empty() {
            return Ok((files::write(&self.settings.inline, &self.settings.directory)?, here()?));
        }
        let base = self.settings.files_directory.clone().map_or_else(here, Ok)?;
        Ok((base.clone(), base))
    }

    /// Calls uv; how many packages it installed.
    fn call(&mut self, command: Command, requirements: &Requirements) -> Step<Option<u32>> {
        let kills = memory::oom_kills();
        let mask = &self.settings.mask;
        let mut progress = Progress::default();
        let mut output = Tail::default();
        let mut reporter = Reporter::new(self.log, self.started, &self.state);
        let outcome = self.caller.call(command, Duration::MAX, mask, &mut |line| {
            if let Some(line) = line {
                progress.hear(line);
                output.push(line);
                // Last, because the log can keep it waiting.
                notice::pass_on(line);
            }
            reporter.tell(&progress.doing);
        });
        let ending = match outcome? {
            Outcome::Ended(Ending::Code(0)) => return Ok(Ok(progress.installed)),
            Outcome::Stopped(stop) => return Ok(Err(stop.into())),
            Outcome::Ended(ending) => Some(ending),
            Outcome::TooLong => None,
        };
        let killed = memory::oom_kills().zip(kills).is_some_and(|(now, before)| now > before);
        if killed {
            let words = format!(
                "the kernel killed a process for memory while the environment was restored ({})",
                progress.doing
            );
            return Ok(Err(Finding::new(Reason::HostOutOfMemory, words).into()));
        }
        let PrepareSettings { servers, variables, .. } = self.settings;
        let mut finding = failure::explain(&output.text, requirements, servers, variables);
        if let Some(signal @ Ending::Signal(_)) = ending {
            finding = Finding::new(
                Reason::RestoreFailed,
                format!("uv {signal} while {}", progress.doing),
            );
        }
        Ok(Err(finding.into()))
    }

    fn report(&mut self, doing: &str) -> Result<(), Failure> {
        let now = clock::now()?;
        self.log.write(&at_work(&self.state, now.saturating_sub(self.started), doing));
        Ok(())
    }

    fn conclude(&mut self, result: Step<()>) -> Result<Report, Failure> {
        let took = clock::now()?.saturating_sub(self.started);
        let report = at_work(&self.state, took, "");
        let seconds = took.as_secs();
        let venv = venv::of(&self.settings.directory);
        Ok(match result? {
            Ok(()) => {
                let count = self.state.packages.unwrap_or_default();
                notice::say(&format!(
                    "restored: {count} packages added in {seconds}s into {}",
                    venv.display()
                ));
                Report { reason: Some(Reason::Completed), exit_code: Some(0), ..report }
            }
            Err(Interrupted::Refused(finding)) => {
                let evidence = self.settings.mask.apply(&finding.evidence);
                let finding = Finding { evidence, ..finding };
                let first = format!("the environment is not restored: {}", finding.reason);
                let lines: Vec<String> =
                    std::iter::once(first).chain(notice::told(&finding)).collect();
                notice::say(&lines.join("\n"));
                Report {
                    reason: Some(finding.reason),
                    exit_code: Some(REFUSED),
                    evidence: finding.evidence,
                    ..report
                }
            }
            Err(Interrupted::Stopped(stop)) => {
                let evidence = format!("{}; the environment was not restored", stop.why);
                notice::say(&evidence);
                Report { reason: Some(stop.reason), exit_code: Some(STOPPED), evidence, ..report }
            }
        })
    }
}

/// What was only for the restore goes, so that the program has the disk.
fn tidy_up(uv: &Uv<'_>, venv: &Path, python: &Python) -> Result<(), Failure> {
    let adopted = venv::adopt_commands(venv, python)?;
    let before = clock::now()?;
    for leftover in &uv.leftovers() {
        remove(leftover)?;
    }
    let took = clock::now()?.saturating_sub(before).as_secs_f32();
    notice::say(&format!(
        "{adopted} commands of the image start this environment's Python; cache removed in {took:.1}s"
    ));
    Ok(())
}

/// A file that is missing is missing somewhere.
fn looked_in(finding: Finding, base: &Path, config_map: Option<&str>) -> Finding {
    if finding.reason != Reason::EnvironmentFileMissing {
        return finding;
    }
    let place = match config_map {
        Some(name) => format!("ConfigMap {name}, which does not exist or has no such key"),
        None => base.display().to_string(),
    };
    let evidence = format!("{}; looked in {place}", finding.evidence);
    Finding { evidence, ..finding }
}

/// Removes a file or a directory with everything in it; what is not there is removed already.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Failure::Remove { path: path.to_owned(), source }),
    }
}
