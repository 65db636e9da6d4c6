//! The tests of one level against one playground: started before the first test, taken down and
//! checked for leftovers after the last.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use libtest_mimic::{Arguments, Trial};

use crate::{
    environment::Environment,
    operator::Operator,
    playground::{Playground, Shape},
    program::Failure,
    waiting::wait_for,
};

/// How many tests run at once. Most of their time they wait.
const AT_ONCE: usize = 8;

/// How long a playground waits for place on this machine.
const PLACE_WITHIN: Duration = Duration::from_mins(10);

/// What every test of a suite gets.
#[derive(Debug)]
pub struct Stage {
    /// The control plane.
    pub playground: Playground,
}

impl Stage {
    /// A control plane of its own for a test that would disturb the others; taken down when dropped.
    ///
    /// # Errors
    /// As [`Playground::up`].
    pub fn apart(&self, name: &str, shape: Shape<'_>) -> Result<Self, Failure> {
        let playground = new_playground(self.playground.environment(), name, shape)?;
        Ok(Self { playground })
    }
}

/// A test by name.
pub type Test = (&'static str, fn(&Stage));

/// Runs tests; those of `alone` one after the other, behind the others, because they change what
/// all share (the operator, a node's cards).
#[must_use]
pub fn run(
    level: &'static str,
    shape: Shape<'_>,
    operator: WithOperator,
    together: &[Test],
    alone: &[Test],
) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    if arguments.list {
        return libtest_mimic::run(&arguments, trials(None, together, alone)).exit_code();
    }
    let (stage, running) = match start(level, shape, operator) {
        Ok(stage) => stage,
        Err(error) => {
            eprintln!("{level}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let stage = Arc::new(stage);
    let side_by_side = libtest_mimic::run(&arguments, trials(Some(&stage), together, &[]));
    drop(running);
    let one_by_one = Arguments { test_threads: Some(1), ..arguments };
    let in_turn_failed = !alone.is_empty()
        && libtest_mimic::run(&one_by_one, trials(Some(&stage), &[], alone)).has_failed();
    let down = Arc::into_inner(stage).map(|stage| stage.playground.down());
    let clean = match down {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            eprintln!("{level}: {error}");
            false
        }
        None => false,
    };
    if clean && !side_by_side.has_failed() && !in_turn_failed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Whether an operator runs beside the tests that run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithOperator {
    /// One operator for all of them, with these lines of settings; tests that run alone start their
    /// own.
    Shared(&'static str),
    /// None.
    Absent,
}

fn start(
    level: &str,
    shape: Shape<'_>,
    operator: WithOperator,
) -> Result<(Stage, Option<Operator>), Box<dyn std::error::Error>> {
    let playground = new_playground(&Environment::read("test")?, level, shape)?;
    let running = match operator {
        WithOperator::Shared(settings) => Some(Operator::start_with(&playground, settings)?),
        WithOperator::Absent => None,
    };
    Ok((Stage { playground }, running))
}

fn new_playground(
    environment: &Environment,
    name: &str,
    shape: Shape<'_>,
) -> Result<Playground, Failure> {
    let runs = environment.cache.join("run");
    let directory = runs.join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&runs)
        .map_err(|error| Failure { doing: "make room".to_owned(), said: error.to_string() })?;
    for left in left_behind(&runs).chain([directory.clone()]) {
        drop(Playground::left(environment, &left));
    }
    // Programs that run beside this one have playgrounds as well, and take them down.
    let mut is_told = false;
    wait_for("there is place for a playground", PLACE_WITHIN, || {
        match Playground::up(environment, &directory, shape) {
            Err(full) if full.said.contains("inotify instances") => {
                if !std::mem::replace(&mut is_told, true) {
                    eprintln!("{name} waits: {full}");
                }
                Err(full)
            }
            done => Ok(done),
        }
    })
}

/// A run that was killed could not take its playgrounds down: their process is no more.
fn left_behind(runs: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let process = name.rsplit_once('-').and_then(|(_, process)| process.parse::<u32>().ok());
        path.is_dir()
            && process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
    })
}

fn trials(stage: Option<&Arc<Stage>>, together: &[Test], alone: &[Test]) -> Vec<Trial> {
    together
        .iter()
        .chain(alone)
        .map(|(name, test)| {
            let (stage, test) = (stage.cloned(), *test);
            Trial::test(*name, move || {
                if let Some(stage) = stage {
                    test(&stage);
                }
                Ok(())
            })
        })
        .collect()
}
