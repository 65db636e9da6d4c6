//! What was measured, kept as JSON from one run to the next: a part that is measured again replaces
//! what was there.

use std::{collections::BTreeMap, io::ErrorKind, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Failure, contender::Contender, counting::Counts, machine::Machine};

/// Everything.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) rounds: Option<Rounds>,
    pub(crate) restart: Option<Restart>,
    pub(crate) quiet: Option<Quiet>,
}

/// Contenders in turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// Objects of one turn.
    pub(crate) objects: usize,
    pub(crate) nodes: u32,
    pub(crate) turns: Vec<Turn>,
}

/// What is measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Course {
    /// From objects to pods; no pod gets a node.
    Pods,
    /// From objects to the end of what says that the card is free.
    Ends,
}

/// One contender's turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) contender: Contender,
    pub(crate) course: Course,
    pub(crate) round: usize,
    /// Objects per second, from the first that was sent to the last pod, or the last end.
    pub(crate) rate: f64,
    /// Writes per object, until nothing is written any more.
    pub(crate) writes: Counts,
    /// Requests per object of the operator, reads among them.
    #[serde(default)]
    pub(crate) requests: Counts,
    /// CPU time per object of each process, in milliseconds.
    pub(crate) cpu_millis: BTreeMap<String, f64>,
    /// The most memory that the contender's own process had, in MiB.
    pub(crate) memory_mib: f64,
}

/// The operator is started again.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Restart {
    /// Ended jobs; each has a sealed lease beside it.
    pub(crate) jobs: usize,
    pub(crate) with: Start,
    /// The same without any.
    pub(crate) without: Start,
}

/// How a start went.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Start {
    /// From the start of the process until it is ready: all watches are complete.
    pub(crate) ready_seconds: f64,
    /// Until a job that was waiting has its pod.
    pub(crate) pod_seconds: f64,
    /// Until every holder had its pass.
    pub(crate) drained_seconds: f64,
    pub(crate) passes: f64,
    pub(crate) cpu_seconds: f64,
    /// The most memory until then.
    pub(crate) memory_mib: f64,
    /// Requests of the operator.
    pub(crate) requests: Counts,
}

/// Held leases, and nothing happens.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Quiet {
    pub(crate) leases: usize,
    pub(crate) seconds: f64,
    /// From the first job to the last held lease.
    pub(crate) held_per_second: f64,
    /// Writes per object, whoever made them, until its program runs.
    #[serde(default)]
    pub(crate) writes_to_run: Counts,
    /// What the operator asked of the API server meanwhile.
    pub(crate) requests: Counts,
    /// What anybody wrote meanwhile.
    pub(crate) writes: Counts,
    /// CPU time of the operator, in milliseconds per second.
    pub(crate) cpu_millis_per_second: f64,
    pub(crate) memory_mib: f64,
    /// The same operator, started again with these leases.
    pub(crate) start: Start,
}

impl Report {
    /// What is kept; nothing when there is no file yet.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}; move it away", file.display()).into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display()).into()),
        }
    }

    /// Keeps it.
    pub(crate) fn write(&self, file: &Path) -> Result<(), Failure> {
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }
}

/// The middle one, the least and the greatest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) middle: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = values.collect();
        all.sort_by(f64::total_cmp);
        Some(Self {
            middle: *all.get(all.len() / 2)?,
            least: *all.first()?,
            greatest: *all.last()?,
        })
    }
}

impl Rounds {
    /// The turns of one contender on one course.
    pub(crate) fn turns(
        &self,
        contender: Contender,
        course: Course,
    ) -> impl Iterator<Item = &Turn> {
        let all = self.turns.iter();
        all.filter(move |turn| turn.contender == contender && turn.course == course)
    }

    /// Rates of one contender on one course.
    pub(crate) fn rate(&self, contender: Contender, course: Course) -> Option<Spread> {
        Spread::of(self.turns(contender, course).map(|turn| turn.rate))
    }

    /// leasehold's rate in terms of another's, round by round.
    pub(crate) fn ratio(&self, to: Contender, course: Course) -> Option<Spread> {
        let ours = self.turns(Contender::Leasehold, course);
        Spread::of(ours.filter_map(|own| {
            let other = self.turns(to, course).find(|other| other.round == own.round)?;
            Some(own.rate / other.rate)
        }))
    }
}
