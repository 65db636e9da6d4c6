//! A script as words to execute. Does I/O where the script needs a file.
//!
//! A script with a `#!` line is given to its interpreter as a file, as the kernel would do it; the
//! agent reads the line itself because volumes may be mounted `noexec`, and to name an interpreter
//! that is missing. Without such a line it is an argument of `/bin/sh -e`.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::failure::Failure;

/// Where a script is stored. Not beside the agent: the program must not be able to write there. Of a
/// read-only image `/dev/shm` is left, which every pod has.
const PLACES: [&str; 2] = ["/tmp", "/dev/shm"];

/// A script that is ready to be executed.
#[derive(Debug)]
pub struct Script {
    words: Vec<OsString>,
    /// Keeps a script in memory alive.
    _in_memory: Option<File>,
}

impl Script {
    /// Stores the script where the image allows it, else in memory.
    pub fn prepare(text: &str) -> Result<Self, Failure> {
        let Some(mut words) = interpreter(text) else {
            let words = ["/bin/sh", "-e", "-c", text, "script"].map(OsString::from).into();
            return Ok(Self { words, _in_memory: None });
        };
        let stored = PLACES.iter().find_map(|place| store(text, Path::new(place)).ok());
        let (file, in_memory) = match stored {
            Some(file) => (file, None),
            None => keep_in_memory(text).map_err(|source| Failure::Script {
                places: format!("{}, memory", PLACES.join(", ")),
                source,
            })?,
        };
        words.push(file.into_os_string());
        Ok(Self { words, _in_memory: in_memory })
    }

    /// The command and its arguments.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        self.words.iter().map(OsString::as_os_str)
    }
}

/// The interpreter of a `#!` line, with its argument: as in the kernel there is at most one.
fn interpreter(text: &str) -> Option<Vec<OsString>> {
    let line = text.strip_prefix("#!")?.lines().next()?.trim();
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let words = [program, argument.trim()].into_iter().filter(|word| !word.is_empty());
    Some(words.map(OsString::from).collect::<Vec<_>>()).filter(|words| !words.is_empty())
}

fn store(text: &str, directory: &Path) -> io::Result<PathBuf> {
    // A new file only: in a shared directory the name could be somebody's link.
    let path = directory.join(format!("leasehold-script-{}", process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
    file.write_all(text.as_bytes())?;
    Ok(path)
}

/// A file without a directory. It stays open in the program, whose interpreter opens it by number.
fn keep_in_memory(text: &str) -> io::Result<(PathBuf, Option<File>)> {
    let mut file = File::from(memfd_create("leasehold-script", MFdFlags::empty())?);
    file.write_all(text.as_bytes())?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_interpreter_and_one_argument() {
        for (text, words) in [
            ("#!/bin/bash\necho", Some(vec!["/bin/bash"])),
            ("#! /usr/bin/env python3 -u \nprint()", Some(vec!["/usr/bin/env", "python3 -u"])),
            ("#!/bin/sh -e", Some(vec!["/bin/sh", "-e"])),
            ("#!\necho", None),
            ("echo\n#!/bin/sh", None),
            ("", None),
        ] {
            let expected =
                words.map(|words| words.into_iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(interpreter(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_script_that_fits_nowhere_is_kept_in_memory() {
        let (path, file) = keep_in_memory("#!/bin/sh\nexit 7\n").unwrap();
        let status = process::Command::new("/bin/sh").arg(path).status().unwrap();
        assert_eq!(status.code(), Some(7));
        drop(file);
    }

    #[test]
    fn a_stored_script_never_replaces_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(store("one", directory.path()).is_ok());
        assert!(store("two", directory.path()).is_err());
    }
}
