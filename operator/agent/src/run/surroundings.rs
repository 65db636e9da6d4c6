//! What the program finds in its environment beside what image and job put there: the restored
//! Python environment first, and the certificates of this installation. Does I/O.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    environment::{self, RunSettings},
    failure::Failure,
    notice, prepare, trust,
};

/// Where the certificates are written when no environment's directory takes them. Not beside the
/// agent: the program must not be able to write there.
const OTHER_PLACES: [&str; 2] = ["/tmp", "/dev/shm"];

/// What is changed in the program's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Where commands are looked for.
    pub path: OsString,
    /// The restored Python environment.
    venv: Option<PathBuf>,
    /// A file with all certificates that are trusted.
    certificates: Option<PathBuf>,
}

impl Surroundings {
    /// The surroundings of a program in this pod.
    pub fn of(settings: &RunSettings, own_directory: &Path) -> Result<Self, Failure> {
        let environment = settings.environment_directory.as_deref().filter(|place| place.is_dir());
        let venv = environment.map(prepare::venv::of).filter(|venv| venv.is_dir());
        let path = venv.as_ref().map_or_else(
            || settings.path.clone(),
            |venv| {
                let mut path = venv.join("bin").into_os_string();
                if !settings.path.is_empty() {
                    path.push(":");
                    path.push(&settings.path);
                }
                path
            },
        );
        let places: Vec<&Path> =
            environment.into_iter().chain(OTHER_PLACES.iter().map(Path::new)).collect();
        let certificates = trust::bundle(&settings.trust, own_directory, &places)?;
        Ok(Self { path, venv, certificates })
    }

    /// Gives them to a command. What image or job have set for certificates stays.
    pub fn give_to(&self, command: &mut Command) {
        if let Some(venv) = &self.venv {
            command.env("VIRTUAL_ENV", venv).env("PATH", &self.path);
            // It would lead every Python away from its environment.
            command.env_remove("PYTHONHOME");
        }
        let Some(certificates) = &self.certificates else { return };
        let (set, unset): (Vec<&str>, Vec<&str>) =
            trust::VARIABLES.into_iter().partition(|name| environment::is_set(name));
        for name in unset {
            command.env(name, certificates);
        }
        if !set.is_empty() {
            notice::say(&format!(
                "{} set already: this installation's certificates are in {}",
                set.join(", "),
                certificates.display()
            ));
        }
    }
}
