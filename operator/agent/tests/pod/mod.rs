//! A pod whose environment is restored: directories that its containers share, and a real uv.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test stops where it is wrong")]

use std::{fs, path::Path};

use leasehold_core::{reason::Reason, report::Stage};
use tempfile::TempDir;

use crate::{
    agent::{self, Agent, Seen},
    index::wheel,
};

/// A pod: an installed agent with uv beside it, and a directory for the environment.
pub(crate) struct Pod {
    /// Its directory.
    pub(crate) place: TempDir,
    /// uv as setup has brought it.
    pub(crate) uv: String,
}

/// A pod with an empty directory of wheels.
pub(crate) fn a_pod() -> Pod {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("wheels")).unwrap();
    Pod { place, uv: agent::uv() }
}

impl Pod {
    /// A place in its directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    /// An installed agent that is called so.
    pub(crate) fn installed(&self, call: &[&str]) -> Agent {
        Agent::called(call)
            .installed_beside(Path::new(&self.uv))
            .with("LEASEHOLD_ENVIRONMENT_DIR", &self.path("environment"))
    }

    /// `prepare` of inline files, with the pod's directory of wheels as the only index.
    pub(crate) fn prepares(&self, files: &[(&str, &str)]) -> Agent {
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let mut agent = self
            .installed(&["prepare"])
            .with("UV_DEFAULT_INDEX", &format!("file://{}", self.path("wheels")))
            .with("LEASEHOLD_REQUIREMENTS", &names.join("\n"));
        for (number, (name, text)) in files.iter().enumerate() {
            agent = agent.with(&format!("LEASEHOLD_FILE_{number}"), &format!("{name}\n{text}"));
        }
        agent
    }

    /// `run` with this command, to its end.
    pub(crate) fn runs(&self, words: &[&str]) -> Seen {
        self.installed(&[&["run", "--"], words].concat()).ends()
    }

    /// Adds a package to its directory of wheels.
    pub(crate) fn wheel(&self, name: &str, version: &str) {
        wheel(&self.place.path().join("wheels"), name, version);
    }
}

/// `prepare` has refused, with its cure in the log.
pub(crate) fn refused(seen: &Seen, reason: Reason, words: &[&str]) {
    assert_eq!((seen.code, seen.report.reason), (Some(1), Some(reason)), "{seen:?}");
    assert_eq!(seen.report.stage, Stage::Prepare);
    for word in words {
        assert!(seen.report.evidence.contains(word), "{word}: {seen:?}");
    }
    assert!(seen.stderr_text().contains(reason.cure()), "{seen:?}");
}
