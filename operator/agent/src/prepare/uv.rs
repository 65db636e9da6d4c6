//! The calls of uv: which words, which variables. Starts nothing; [`super::tool`] does.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{python::Python, venv};
use crate::environment;

/// uv's cache, in the environment's directory: on the same disk, so that packages are linked and
/// not copied.
const CACHE: &str = "cache";

/// Where builds keep what they need for a moment.
const SCRATCH: &str = "tmp";

/// Variables of an image or a job that would lead uv or a build away from the environment.
const REMOVED: [&str; 14] = [
    "CONDA_PREFIX",
    "PYTHONHOME",
    "UV_BREAK_SYSTEM_PACKAGES",
    // It counts even where `UV_NO_CONFIG` is set.
    "UV_CONFIG_FILE",
    "UV_MANAGED_PYTHON",
    "UV_NO_CACHE",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_VENV_RELOCATABLE",
    "UV_VENV_SEED",
    "UV_WORKING_DIR",
    "VIRTUAL_ENV",
];

/// Variables that the job may set otherwise. A server that accepts and then says nothing is given up
/// after (3 + 1) × 25 s and the pauses between: less than two minutes.
const DEFAULTS: [(&str, &str); 2] = [("UV_HTTP_TIMEOUT", "25"), ("UV_HTTP_RETRIES", "3")];

/// How uv is called.
#[derive(Debug)]
pub struct Uv<'a> {
    /// Its file.
    pub file: PathBuf,
    /// The environment's directory.
    pub environment: &'a Path,
    /// Where paths of packages begin.
    pub working_directory: &'a Path,
    /// A file with the certificates that are trusted.
    pub certificates: Option<PathBuf>,
}

impl Uv<'_> {
    /// Makes the virtual environment.
    #[must_use]
    pub fn venv(&self, python: &Python) -> Command {
        let mut command = self.command();
        command.args(["venv", "--quiet", "--no-project", "--python"]).arg(&python.executable);
        if python.sees_base {
            command.arg("--system-site-packages");
        }
        command.arg(venv::of(self.environment));
        command
    }

    /// Installs all files at once, so that their packages fit together.
    #[must_use]
    pub fn install(&self, files: impl Iterator<Item = PathBuf>) -> Command {
        let mut command = self.command();
        command.args(["pip", "install", "--python"]);
        command.arg(venv::python(&venv::of(self.environment)));
        for file in files {
            command.arg("--requirements").arg(file);
        }
        command
    }

    /// What is needed only while uv works.
    #[must_use]
    pub fn leftovers(&self) -> [PathBuf; 2] {
        [self.cache(), self.scratch()]
    }

    /// Where builds keep what they need for a moment.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.environment.join(SCRATCH)
    }

    fn cache(&self) -> PathBuf {
        self.environment.join(CACHE)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(self.working_directory);
        for name in REMOVED {
            command.env_remove(name);
        }
        for (name, value) in DEFAULTS {
            if !environment::is_set(name) {
                command.env(name, value);
            }
        }
        command
            .env("UV_CACHE_DIR", self.cache())
            .env("TMPDIR", self.scratch())
            .env("UV_NO_CONFIG", "1")
            .env("UV_PYTHON_DOWNLOADS", "never")
            // A build or a git server must not ask a terminal.
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("NO_COLOR", "1");
        if let Some(certificates) = &self.certificates {
            command.env("SSL_CERT_FILE", certificates).env("GIT_SSL_CAINFO", certificates);
        }
        command
    }
}
