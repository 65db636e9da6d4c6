//! What no installer can restore in a pod, found before anything is installed. Pure: the files are
//! read through [`Files`].
//!
//! All problems are told at once, so that a long file is not corrected one line per run.

use super::lines::{Line, Wish, split};
use crate::reason::{Finding, Reason};

/// Kinds of files that uv reads in their own format, and no lines are looked at here.
const OTHER_FORMATS: [&str; 3] = [".toml", ".py", ".cfg"];

/// Files of conda.
const CONDA: [&str; 2] = [".yml", ".yaml"];

/// The requirements files of a job and what they include.
pub trait Files {
    /// The text of a file, by its name as given or as an including file leads to it.
    fn read(&mut self, file: &str) -> Result<String, Unreadable>;

    /// Whether a path is there, seen from the container's working directory.
    fn exists(&self, path: &str) -> bool;
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is not there.
    Missing,
    /// Another reason, in words.
    Because(String),
}

/// What the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// All lines, in the order in which an installer reads them.
    pub lines: Vec<Line>,
    /// Names and texts of the files, to find a line by its position.
    pub(super) files: Vec<(String, String)>,
}

/// Reads the files and everything that they include; the finding when something is wrong in them.
pub fn gather(names: &[String], files: &mut dyn Files) -> Result<Requirements, Finding> {
    let mut reader = Reader { files, read: Requirements::default(), problems: Vec::new() };
    for name in names {
        reader.enter(name, None, &mut Vec::new());
    }
    reader.judge();
    let Reader { read, problems, .. } = reader;
    let Some((reason, _)) = problems.first() else {
        return Ok(read);
    };
    let words: Vec<&str> = problems.iter().map(|(_, words)| words.as_str()).collect();
    Err(Finding::new(*reason, words.join("; ")))
}

struct Reader<'a> {
    files: &'a mut dyn Files,
    read: Requirements,
    problems: Vec<(Reason, String)>,
}

impl Reader<'_> {
    fn enter(&mut self, name: &str, from: Option<&Line>, above: &mut Vec<String>) {
        let name = tidy(name);
        let told =
            from.map_or_else(String::new, |line| format!("{}: `{}`: ", line.place(), line.text));
        if above.contains(&name) {
            let words = format!("{told}the files include each other in a circle");
            self.problems.push((Reason::RequirementsInvalid, words));
            return;
        }
        if self.read.files.iter().any(|(read, _)| *read == name) {
            return;
        }
        if has_ending(&name, &CONDA) {
            let words = format!(
                "{told}{name} is a file of conda, which is not supported: list its packages in a requirements file"
            );
            self.problems.push((Reason::RequirementsInvalid, words));
            return;
        }
        let text = match self.files.read(&name) {
            Ok(text) => text,
            Err(Unreadable::Missing) => {
                let words = format!("{told}there is no file {name}");
                self.problems.push((Reason::EnvironmentFileMissing, words));
                return;
            }
            Err(Unreadable::Because(why)) => {
                self.problems.push((Reason::RequirementsInvalid, format!("{told}{name}: {why}")));
                return;
            }
        };
        if has_ending(&name, &OTHER_FORMATS) {
            self.read.files.push((name, text));
            return;
        }
        let lines = split(&name, &text);
        self.read.files.push((name.clone(), text));
        above.push(name.clone());
        for line in lines {
            if let Wish::Include { file, .. } = &line.wish
                // uv fetches addresses and fills in variables; neither is known here.
                && !file.contains("://")
                && !file.contains("${")
            {
                self.enter(&beside(&name, file), Some(&line), above);
            }
            self.read.lines.push(line);
        }
        above.pop();
    }

    fn judge(&mut self) {
        let is_hashed =
            self.read.lines.iter().any(|line| line.is_hashed() || line.wish == Wish::RequireHashes);
        for line in &self.read.lines {
            let place = line.place();
            let text = &line.text;
            let is_away = |path: &str| !path.contains("${") && !self.files.exists(path);
            let problem = match &line.wish {
                Wish::Package { name, path: Some(path) } if is_away(path) => (
                    Reason::RequirementsNotPortable,
                    format!(
                        "{place}: `{text}` is a path of another machine: write {name}==<version>"
                    ),
                ),
                Wish::Path(path) if is_away(path) => (
                    Reason::RequirementsNotPortable,
                    format!("{place}: `{text}` is not in the pod: write <name>==<version>"),
                ),
                Wish::Editable(path) if !path.contains("://") && is_away(local(path)) => (
                    Reason::RequirementsNotPortable,
                    format!("{place}: `{text}`: the path is not in the pod"),
                ),
                Wish::Editable(_) if is_hashed => (
                    Reason::RequirementsInvalid,
                    format!(
                        "{place}: `{text}`: an editable package has no hash, and with --hash every package needs one"
                    ),
                ),
                Wish::Package { .. }
                | Wish::Path(_)
                | Wish::Editable(_)
                | Wish::Include { .. }
                | Wish::RequireHashes
                | Wish::Other => continue,
            };
            self.problems.push(problem);
        }
    }
}

impl Requirements {
    /// The line that names this package.
    #[must_use]
    pub fn line_of(&self, package: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.names(package))
    }

    /// The line of a file at a byte, as uv counts positions. uv may print the file with the
    /// directories before it.
    #[must_use]
    pub fn line_at(&self, file: &str, position: usize) -> Option<&Line> {
        let (name, text) = self.file(file)?;
        let before = text.get(..position).unwrap_or(text);
        let number = before.matches('\n').count().saturating_add(1);
        self.line_number(name, number)
    }

    /// The line of a file with this number, or that it continues.
    #[must_use]
    pub fn line_numbered(&self, file: &str, number: usize) -> Option<&Line> {
        let (name, _) = self.file(file)?;
        self.line_number(name, number)
    }

    fn line_number(&self, name: &str, number: usize) -> Option<&Line> {
        self.lines
            .iter()
            .filter(|line| line.file == name && line.number <= number)
            .max_by_key(|line| line.number)
    }

    fn file(&self, shown: &str) -> Option<(&str, &str)> {
        let shown = tidy(shown);
        let is_it = |name: &str| {
            shown.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let files = self.files.iter().filter(|(name, _)| is_it(name));
        files.max_by_key(|(name, _)| name.len()).map(|(name, text)| (name.as_str(), text.as_str()))
    }
}

/// The path of an editable requirement without its extras.
fn local(path: &str) -> &str {
    let path = path.strip_prefix("file:").unwrap_or(path);
    path.split('[').next().unwrap_or_default()
}

fn has_ending(name: &str, endings: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// A file that another one includes: its name is relative to the including file.
fn beside(including: &str, file: &str) -> String {
    match including.rsplit_once('/') {
        Some((directory, _)) if !file.starts_with('/') => format!("{directory}/{file}"),
        _ => file.to_owned(),
    }
}

/// A path without `.` and without `x/..`, so that a file has one name.
fn tidy(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." && parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Written<'a>(&'a [(&'a str, &'a str)]);

    impl Files for Written<'_> {
        fn read(&mut self, file: &str) -> Result<String, Unreadable> {
            let found = self.0.iter().find(|(name, _)| *name == file);
            match found {
                Some((_, "<broken>")) => Err(Unreadable::Because("it is a directory".to_owned())),
                Some((_, text)) => Ok((*text).to_owned()),
                None => Err(Unreadable::Missing),
            }
        }

        fn exists(&self, path: &str) -> bool {
            ["/opt/here", "./here", "."].contains(&path)
        }
    }

    fn read(names: &[&str], files: &[(&str, &str)]) -> Result<Requirements, Finding> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        gather(&names, &mut Written(files))
    }

    /// Files, reason, and words that the evidence has.
    type Case = (&'static [(&'static str, &'static str)], Reason, &'static [&'static str]);

    #[test]
    fn each_problem_names_file_and_line() {
        use Reason::{EnvironmentFileMissing, RequirementsInvalid, RequirementsNotPortable};
        let table: &[Case] = &[
            (&[("other", "")], EnvironmentFileMissing, &["there is no file r.txt"]),
            (
                &[("r.txt", "idna\n-r sub/base.txt\n")],
                EnvironmentFileMissing,
                &["r.txt:2: `-r sub/base.txt`: there is no file sub/base.txt"],
            ),
            (
                &[("r.txt", "-r sub/a.txt"), ("sub/a.txt", "x\n\n-c ../c/c.txt")],
                EnvironmentFileMissing,
                &["sub/a.txt:3: `-c ../c/c.txt`: there is no file c/c.txt"],
            ),
            (
                &[("r.txt", "-r sub/a.txt"), ("sub/a.txt", "-r ../r.txt\nidna")],
                RequirementsInvalid,
                &["sub/a.txt:1: `-r ../r.txt`: the files include each other"],
            ),
            (
                &[(
                    "r.txt",
                    "idna @ file:///croot/idna_17/work\nnumpy==1.26.4\n-e /src/proj\n-e file:../x[a]",
                )],
                RequirementsNotPortable,
                &[
                    "r.txt:1: `idna @ file:///croot/idna_17/work` is a path of another machine: write idna==<version>; ",
                    "r.txt:3: `-e /src/proj`: the path is not in the pod",
                    "r.txt:4:",
                ],
            ),
            (&[("r.txt", "../wheels/a-1-py3-none-any.whl")], RequirementsNotPortable, &["r.txt:1"]),
            (&[("r.txt", "-r environment.yml")], RequirementsInvalid, &["file of conda"]),
            (&[("r.txt", "<broken>")], RequirementsInvalid, &["r.txt: it is a directory"]),
            (
                &[("r.txt", "-r b.txt\n-e ."), ("b.txt", "idna==3.4 \\\n --hash=sha256:0")],
                RequirementsInvalid,
                &["r.txt:2: `-e .`: an editable package has no hash"],
            ),
            (&[("r.txt", "--require-hashes\n-e ./here")], RequirementsInvalid, &["r.txt:2"]),
        ];
        for (files, reason, words) in table {
            let finding = read(&["r.txt"], files).unwrap_err();
            assert_eq!(finding.reason, *reason, "{finding:?}");
            for word in *words {
                assert!(finding.evidence.contains(word), "{word} in {}", finding.evidence);
            }
        }
    }

    #[test]
    fn what_can_be_restored_passes() {
        for text in [
            "idna\n-r b.txt\n-r ./b.txt\n-c https://host/c.txt\n-r ${MORE}",
            "-e .\n-e ./here[dev]\na @ file:///opt/here\n./here",
            "-e git+https://host/x.git\na @ ${ROOT}/a.whl",
            "idna==3.4 --hash=sha256:0\n./here",
        ] {
            let files =
                [("r.txt", text), ("b.txt", "-r pyproject.toml"), ("pyproject.toml", "-e x")];
            assert!(read(&["r.txt", "r.txt"], &files).is_ok(), "{text}");
        }
    }

    #[test]
    fn lines_are_found_by_position_number_and_package() {
        let text = "# é\nidna>=3 \\\n  ,<4\n\nboto==\n";
        let files = [("sub/r.txt", text), ("r.txt", "attrs")];
        let read = read(&["sub/r.txt", "r.txt"], &files).unwrap();
        let at = |file, position| read.line_at(file, position).map(Line::place).unwrap_or_default();
        assert_eq!(at("sub/r.txt", 5), "sub/r.txt:2");
        assert_eq!(at("/leasehold/environment/files/sub/r.txt", 22), "sub/r.txt:5");
        assert_eq!(at("/srv/r.txt", 999), "r.txt:1");
        assert_eq!(at("/srv/other.txt", 0), "");
        let numbered = read.line_numbered("sub/r.txt", 3).map(Line::place);
        assert_eq!(numbered.as_deref(), Some("sub/r.txt:2"));
        assert_eq!(read.line_of("IDNA").map(Line::place).as_deref(), Some("sub/r.txt:2"));
    }

    #[test]
    fn a_file_has_one_name() {
        for (path, name) in
            [("./a", "a"), ("a/../b", "b"), ("../a", "../a"), ("a//./b", "a/b"), ("/a/../b", "/b")]
        {
            assert_eq!(tidy(path), name);
        }
    }
}
