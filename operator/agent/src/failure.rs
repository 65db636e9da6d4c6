//! Why the agent cannot do its work: its own failures and those of its node, told from what is wrong
//! with image, job or indexes. Pure.

use std::{error::Error, io, path::PathBuf};

use leasehold_core::{
    reason::{Finding, Reason},
    report::Stage,
    restore::mask::Mask,
};

use crate::{clock::NoClock, environment::BadEnvironment};

/// Why the agent cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The agent was called wrongly.
    #[error(transparent)]
    Call(#[from] clap::Error),
    /// The environment cannot be used.
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    /// The clock cannot be read.
    #[error(transparent)]
    Clock(#[from] NoClock),
    /// Signals cannot be received.
    #[error("failed to receive signals")]
    Signals(#[source] io::Error),
    /// The agent does not find itself.
    #[error("failed to find the agent's own file")]
    Itself(#[source] io::Error),
    /// The agent's image has no uv.
    #[error("the agent's image has no uv, neither {beside} nor {usual}", beside = beside.display())]
    NoUv {
        /// Where it was looked for first.
        beside: PathBuf,
        /// Where it was looked for then.
        usual: &'static str,
    },
    /// The note of the installation makes no sense.
    #[error("{path} does not say since when the card is held: {text:?}", path = path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// What is in it.
        text: String,
    },
    /// The container has no working directory.
    #[error("failed to enter the container's working directory")]
    WorkingDirectory(#[source] io::Error),
    /// The script cannot be stored.
    #[error("failed to store the script in any of {places}")]
    Script {
        /// Where it was tried.
        places: String,
        /// The last failure.
        source: io::Error,
    },
    /// A program cannot be started.
    #[error("failed to start {name}")]
    Start {
        /// The program.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("failed to read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("failed to write {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What an earlier try left cannot be removed.
    #[error("failed to remove {path}", path = path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Failure {
    /// The reason and all causes in words, without secrets.
    #[must_use]
    pub fn finding(&self, stage: Stage, mask: &Mask) -> Finding {
        let causes = std::iter::successors(self.source(), |cause| (*cause).source());
        let words: Vec<String> =
            std::iter::once(self.to_string()).chain(causes.map(ToString::to_string)).collect();
        Finding::new(self.reason(stage), mask.apply(words.join(": ").trim()))
    }

    /// A disk that is full is named, but not where the program runs: what it writes can be what
    /// filled the disk.
    fn reason(&self, stage: Stage) -> Reason {
        let is_full = matches!(self, Self::Write { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded));
        if is_full && stage != Stage::Run { Reason::DiskFull } else { Reason::AgentFailed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kind: io::ErrorKind) -> Failure {
        Failure::Write { path: PathBuf::from("/environment/a.txt"), source: kind.into() }
    }

    #[test]
    fn a_full_disk_is_told_from_other_failures_but_not_beside_the_program() {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, StorageFull};
        for (kind, stage, reason) in [
            (StorageFull, Stage::Install, Reason::DiskFull),
            (StorageFull, Stage::Prepare, Reason::DiskFull),
            (QuotaExceeded, Stage::Prepare, Reason::DiskFull),
            (StorageFull, Stage::Run, Reason::AgentFailed),
            (PermissionDenied, Stage::Prepare, Reason::AgentFailed),
        ] {
            let finding = write(kind).finding(stage, &Mask::default());
            assert_eq!(finding.reason, reason, "{kind} in {stage:?}");
            assert!(finding.evidence.starts_with("failed to write /environment/a.txt: "));
        }
    }

    #[test]
    fn the_words_of_a_failure_have_no_secrets() {
        let failure = Failure::Start {
            name: "https://user:s3cret@host/tool".to_owned(),
            source: io::Error::other("t0ken-of-team is no file"),
        };
        let mask = Mask::knowing(["t0ken-of-team".to_owned()]);
        let words = failure.finding(Stage::Prepare, &mask).evidence;
        assert_eq!(words, "failed to start https://***@host/tool: *** is no file");
    }
}
