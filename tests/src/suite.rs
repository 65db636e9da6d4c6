//! The tests of one level against one playground: started before the first test, taken down and
//! checked for leftovers after the last.

use std::{path::Path, process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Trial};

use crate::{
    environment::Environment,
    operator::Operator,
    playground::{Playground, Shape},
};

/// What every test of a suite gets.
#[derive(Debug)]
pub struct Stage {
    /// The control plane.
    pub playground: Playground,
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
    let arguments = Arguments::from_args();
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
    let environment = Environment::read("test")?;
    let runs = environment.cache.join("run");
    std::fs::create_dir_all(&runs)?;
    take_down_what_was_left(&environment, &runs, level);
    let directory = runs.join(format!("{level}-{}", std::process::id()));
    let playground = Playground::up(&environment, &directory, shape)?;
    let running = match operator {
        WithOperator::Shared(settings) => Some(Operator::start_with(&playground, settings)?),
        WithOperator::Absent => None,
    };
    Ok((Stage { playground }, running))
}

/// A run that was killed could not take its playground down.
fn take_down_what_was_left(environment: &Environment, runs: &Path, level: &str) {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(level).and_then(|rest| rest.strip_prefix('-'));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            drop(Playground::left(environment, &entry.path()));
        }
    }
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
