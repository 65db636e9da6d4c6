//! The requirements files where the pod has them. Does I/O.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use leasehold_core::restore::{Files, Unreadable};

use super::remove;
use crate::{environment::restore::InlineFile, failure::Failure};

/// Where files that the job brings along are written, in the environment's directory.
const FILES: &str = "files";

/// The directory to which names of files are relative.
#[derive(Debug)]
pub struct Place {
    base: PathBuf,
    working_directory: PathBuf,
}

impl Place {
    /// Names are relative to `base`, paths of packages to the working directory.
    #[must_use]
    pub const fn new(base: PathBuf, working_directory: PathBuf) -> Self {
        Self { base, working_directory }
    }

    /// The file with this name.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }
}

impl Files for Place {
    fn read(&mut self, file: &str) -> Result<String, Unreadable> {
        let path = self.file(file);
        match fs::read(&path) {
            Ok(bytes) => text(&bytes).ok_or_else(|| {
                Unreadable::Because("it is not text in UTF-8: save it in that encoding".to_owned())
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unreadable::Missing),
            Err(error) => Err(Unreadable::Because(error.to_string())),
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.working_directory.join(path).exists()
    }
}

/// Text in UTF-8, or in UTF-16 with its mark: PowerShell writes `pip freeze > file` so, and uv reads
/// it.
fn text(bytes: &[u8]) -> Option<String> {
    let units = |of: fn([u8; 2]) -> u16, bytes: &[u8]| -> Option<String> {
        let units = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(of);
        String::from_utf16(&units.collect::<Vec<_>>()).ok()
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => units(u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => units(u16::from_be_bytes, rest),
        bytes => std::str::from_utf8(bytes).ok().map(str::to_owned),
    }
}

/// Writes the files that the job brings along; the directory in which they are.
pub fn write(files: &[InlineFile], environment: &Path) -> Result<PathBuf, Failure> {
    let directory = environment.join(FILES);
    // What an earlier try left may not be among the files of this one.
    remove(&directory)?;
    let made = fs::create_dir_all(&directory);
    made.map_err(|source| Failure::Write { path: directory.clone(), source })?;
    for file in files {
        let path = directory.join(&file.name);
        fs::write(&path, &file.content).map_err(|source| Failure::Write { path, source })?;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_other_systems_are_read() {
        let utf16 = |of: fn(u16) -> [u8; 2]| {
            let units = "\u{feff}idna é\r\n".encode_utf16();
            units.flat_map(of).collect::<Vec<u8>>()
        };
        for bytes in [utf16(u16::to_le_bytes), utf16(u16::to_be_bytes), "idna é\r\n".into()] {
            assert_eq!(text(&bytes).as_deref(), Some("idna é\r\n"));
        }
        assert_eq!(text(b"caf\xe9"), None);
    }

    #[test]
    fn a_file_that_is_not_there_is_told_from_one_that_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().to_owned();
        let mut place = Place::new(here.clone(), here);
        assert_eq!(place.read("r.txt"), Err(Unreadable::Missing));
        assert!(matches!(place.read("."), Err(Unreadable::Because(_))));
        assert!(place.exists(".") && !place.exists("r.txt"));
    }

    #[test]
    fn files_of_an_earlier_try_are_gone() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| InlineFile { name: name.to_owned(), content: "idna\n".to_owned() };
        write(&[file("old.txt")], directory.path()).unwrap();
        let files = write(&[file("new.txt")], directory.path()).unwrap();
        assert!(files.join("new.txt").is_file() && !files.join("old.txt").exists());
    }
}
