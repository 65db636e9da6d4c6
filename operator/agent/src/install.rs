//! `install`: the agent copies itself to where the other containers of the pod find it, with what
//! they need beside it: uv for `prepare`, the certificates of this installation. Does I/O.
//!
//! The container that installs is the first of the pod, so the time at which it starts is the
//! earliest that the pod knows of holding its cards. Running again, as after a lost sandbox,
//! changes nothing.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold_core::{
    reason::Reason,
    report::{Report, Stage},
};

use crate::{
    clock,
    environment::restore::{self, Bring, InstallSettings},
    failure::Failure,
    notice, trust,
};

/// The agent's name in the directory.
const AGENT: &str = "leasehold-agent";

/// The name of uv in the directory.
pub const UV: &str = "uv";

/// Where uv is in the agent's image when it is not beside the agent.
const UV_IN_THE_IMAGE: &str = "/usr/bin/uv";

/// The file that says since when the cards are held, in seconds of `CLOCK_BOOTTIME`.
const HELD_SINCE: &str = "held-since";

/// Installs the agent in `directory`.
pub fn install(directory: &Path) -> Result<Report, Failure> {
    install_with(directory, &restore::for_install()?)
}

fn install_with(directory: &Path, settings: &InstallSettings) -> Result<Report, Failure> {
    let now = clock::now()?;
    let itself = std::env::current_exe().map_err(Failure::Itself)?;
    fs::create_dir_all(directory)
        .map_err(|source| Failure::Write { path: directory.to_owned(), source })?;
    copy(&itself, directory, AGENT)?;
    let earlier = held_since(directory).ok().filter(|since| *since <= now);
    if earlier.is_none() {
        place(directory, HELD_SINCE, &mut format!("{}\n", now.as_secs()).as_bytes(), 0o644)?;
    }
    notice::say(&format!("installed {}", directory.join(AGENT).display()));
    if let Some(certificates) = &settings.certificates {
        place(directory, trust::INSTALLATION, &mut certificates.as_bytes(), 0o644)?;
    }
    if settings.bring == Some(Bring::Uv) {
        copy(&uv_of_the_image(&itself)?, directory, UV)?;
        notice::say(&format!("installed {}", directory.join(UV).display()));
    }
    Ok(Report {
        reason: Some(Reason::Completed),
        exit_code: Some(0),
        ..Report::new(Stage::Install)
    })
}

fn uv_of_the_image(itself: &Path) -> Result<PathBuf, Failure> {
    let beside = itself.with_file_name(UV);
    let mut places = [beside.clone(), PathBuf::from(UV_IN_THE_IMAGE)].into_iter();
    let found = places.find(|file| file.is_file());
    found.ok_or(Failure::NoUv { beside, usual: UV_IN_THE_IMAGE })
}

/// Copies a program without holding it in memory: the container may have little of it.
fn copy(from: &Path, directory: &Path, name: &str) -> Result<(), Failure> {
    let mut file =
        fs::File::open(from).map_err(|source| Failure::Read { path: from.to_owned(), source })?;
    place(directory, name, &mut file, 0o755)
}

/// Since when the cards are held, as noted in the directory of an installation.
fn held_since(directory: &Path) -> Result<Duration, Failure> {
    let path = directory.join(HELD_SINCE);
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(seconds) => Ok(Duration::from_secs(seconds)),
            Err(_) => Err(Failure::Nonsense { path, text }),
        },
        Err(source) => Err(Failure::Read { path, source }),
    }
}

/// Since when the cards are held, and how long the money lasts; `None` when it lasts for ever.
pub fn held(
    directory: &Path,
    longest: Option<Duration>,
) -> Result<Option<(Duration, Duration)>, Failure> {
    longest.map(|longest| Ok((held_since(directory)?, longest))).transpose()
}

/// The directory in which the running agent is installed.
pub fn own_directory() -> Result<PathBuf, Failure> {
    let mut itself = std::env::current_exe().map_err(Failure::Itself)?;
    itself.pop();
    Ok(itself)
}

/// Writes a file that is there as a whole or not at all.
pub fn place(
    directory: &Path,
    name: &str,
    content: &mut dyn Read,
    mode: u32,
) -> Result<(), Failure> {
    let path = directory.join(name);
    let draft = directory.join(format!(".{name}.new"));
    let written = (|| {
        let _ = fs::remove_file(&draft);
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
        io::copy(content, &mut file)?;
        // The mode at creation is subject to the umask.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        fs::rename(&draft, &path)
    })();
    written.map_err(|source| Failure::Write { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_time_is_kept_unless_the_node_was_restarted() {
        let directory = tempfile::tempdir().unwrap();
        let note = directory.path().join(HELD_SINCE);
        let now = clock::now().unwrap().as_secs();
        for (before, kept) in [("1\n", true), ("99999999999\n", false), ("yesterday", false)] {
            fs::write(&note, before).unwrap();
            install_with(directory.path(), &InstallSettings::default()).unwrap();
            let after = held_since(directory.path()).unwrap().as_secs();
            if kept {
                assert_eq!(after, 1);
            } else {
                assert!(after >= now, "{before:?}");
            }
        }
    }

    #[test]
    fn certificates_of_the_installation_lie_beside_the_agent() {
        let directory = tempfile::tempdir().unwrap();
        let certificates = Some("PEM\n".to_owned());
        install_with(directory.path(), &InstallSettings { bring: None, certificates }).unwrap();
        let written = fs::read_to_string(directory.path().join(trust::INSTALLATION)).unwrap();
        assert_eq!(written, "PEM\n");
    }

    #[test]
    fn a_missing_note_is_an_error_and_not_zero() {
        let directory = tempfile::tempdir().unwrap();
        let error = held_since(directory.path()).unwrap_err().to_string();
        assert!(error.contains(HELD_SINCE), "{error}");
    }
}
