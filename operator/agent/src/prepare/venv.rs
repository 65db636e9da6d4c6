//! The virtual environment beside uv's work: what it sees of the image, and which commands it has.
//! Does I/O.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::python::Python;
use crate::failure::Failure;

/// Where the environment is, in the environment's directory.
const VENV: &str = "venv";

/// Adds the image's packages where its Python is a virtual environment itself.
const LINK: &str = "_leasehold_image.pth";

/// Larger commands are programs of their own, not scripts.
const SCRIPT_LIMIT: u64 = 64 << 10;

/// The virtual environment in the environment's directory.
#[must_use]
pub fn of(environment: &Path) -> PathBuf {
    environment.join(VENV)
}

/// Its Python.
#[must_use]
pub fn python(venv: &Path) -> PathBuf {
    venv.join("bin/python")
}

/// Lets the environment see what an image's virtual environment sees. uv makes the new one from the
/// Python below it, whose packages are others.
pub fn link(venv: &Path, python: &Python) -> Result<(), Failure> {
    let Some((major, minor)) = python.release().filter(|_| python.is_virtual) else {
        return Ok(());
    };
    // A line that begins with `import` is executed: a bare path would not make Python read the
    // link files of that directory.
    let line = |path: &String| {
        format!("import site; site.addsitedir({})\n", serde_json::Value::from(path.as_str()))
    };
    let lines: String = python.packages.iter().map(line).collect();
    let path = venv.join(format!("lib/python{major}.{minor}/site-packages")).join(LINK);
    fs::write(&path, lines).map_err(|source| Failure::Write { path, source })
}

/// Gives the environment the commands of the image's packages. The image's own `torchrun` or `pip`
/// would start the image's Python, which does not see the environment.
pub fn adopt_commands(venv: &Path, python: &Python) -> Result<u32, Failure> {
    let entries = match fs::read_dir(&python.scripts) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(Failure::Read { path: python.scripts.clone(), source }),
    };
    let mut adopted = 0;
    for entry in entries {
        let entry =
            entry.map_err(|source| Failure::Read { path: python.scripts.clone(), source })?;
        let path = venv.join("bin").join(entry.file_name());
        // What was installed wins.
        if path.symlink_metadata().is_ok() {
            continue;
        }
        if let Some(script) = rewritten(&entry.path(), venv) {
            let written = fs::write(&path, script)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
            written.map_err(|source| Failure::Write { path, source })?;
            adopted += 1;
        }
    }
    Ok(adopted)
}

/// A command for the environment's Python; `None` for what is no script of the image's Python, or
/// cannot be read.
fn rewritten(command: &Path, venv: &Path) -> Option<String> {
    let file = fs::metadata(command).ok()?;
    if !file.is_file() || file.len() > SCRIPT_LIMIT {
        return None;
    }
    let text = fs::read_to_string(command).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let interpreter = Path::new(first.strip_prefix("#!")?.split_whitespace().next()?);
    // A script of another Python in the same directory stays as it is.
    let is_python = interpreter.file_name()?.to_str()?.starts_with("python");
    let is_its_own = interpreter.parent() == command.parent();
    (is_python && is_its_own).then(|| format!("#!{}\n{rest}", python(venv).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_image_start_the_environments_python() {
        let image = tempfile::tempdir().unwrap();
        let venv = tempfile::tempdir().unwrap();
        fs::create_dir(venv.path().join("bin")).unwrap();
        let bin = image.path().display().to_string();
        for (name, text) in [
            ("torchrun", format!("#!{bin}/python3.11\nimport torch\n")),
            ("pip", format!("#!{bin}/python\nimport pip\n")),
            ("ls", "#!/bin/sh\nls\n".to_owned()),
            ("other", "#!/opt/other/bin/python\n1\n".to_owned()),
            ("binary", "\u{7f}ELF".to_owned()),
        ] {
            fs::write(image.path().join(name), text).unwrap();
        }
        fs::write(venv.path().join("bin/pip"), "mine").unwrap();
        let python = Python {
            version: "3.11.2".to_owned(),
            executable: image.path().join("python3.11"),
            scripts: image.path().to_owned(),
            is_virtual: false,
            sees_base: true,
            packages: Vec::new(),
        };
        assert_eq!(adopt_commands(venv.path(), &python).unwrap(), 1);
        let script = fs::read_to_string(venv.path().join("bin/torchrun")).unwrap();
        let first = format!("#!{}/bin/python\n", venv.path().display());
        assert_eq!(script, format!("{first}import torch\n"));
        assert_eq!(fs::read_to_string(venv.path().join("bin/pip")).unwrap(), "mine");
        let nowhere = Python { scripts: image.path().join("nowhere"), ..python };
        assert_eq!(adopt_commands(venv.path(), &nowhere).unwrap(), 0);
    }
}
