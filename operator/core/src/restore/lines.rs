//! The logical lines of a requirements file, in pip's format. Pure; never fails, because uv judges
//! the syntax.
//!
//! Source: pip's reference of the requirements file format. A `#` begins a comment at the start of
//! a line and after a space; a backslash at the end joins the next line.

/// A logical line that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file's name, as the job or an including file gives it.
    pub file: String,
    /// Number of its first physical line, from 1.
    pub number: usize,
    /// Its text without comment and continuation marks.
    pub text: String,
    /// What it asks for.
    pub wish: Wish,
}

/// What a line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A package by its name, perhaps from a path or an address.
    Package {
        /// The name as written.
        name: String,
        /// The path after `@`, when it is one.
        path: Option<String>,
    },
    /// A package by its path alone.
    Path(String),
    /// A directory that is used in place, or an address that cannot be.
    Editable(String),
    /// Another file: `-r` or `-c`, and its name.
    Include {
        /// The option as written.
        option: String,
        /// The other file.
        file: String,
    },
    /// `--require-hashes`.
    RequireHashes,
    /// Another option, or what only uv can judge.
    Other,
}

impl Line {
    /// File and number, as editors and compilers write them.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.number)
    }

    /// Whether the line pins its package to hashes.
    #[must_use]
    pub fn is_hashed(&self) -> bool {
        self.text.split_whitespace().any(|word| word.starts_with("--hash"))
    }

    /// Whether the line is about this package.
    #[must_use]
    pub fn names(&self, package: &str) -> bool {
        matches!(&self.wish, Wish::Package { name, .. } if normalized(name) == normalized(package))
    }
}

/// A package's name as indexes compare it (PEP 503): lower case, runs of `-`, `_` and `.` are one.
#[must_use]
pub fn normalized(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The lines of a file that say something.
#[must_use]
pub fn split(file: &str, text: &str) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, physical) in (1..).zip(text.lines()) {
        let (first, mut joined) = open.take().unwrap_or((number, String::new()));
        let said = without_comment(physical);
        if let Some(said) = said.strip_suffix('\\') {
            joined.push_str(said);
            open = Some((first, joined));
            continue;
        }
        joined.push_str(said);
        lines.extend(line(file, first, &joined));
    }
    lines.extend(open.and_then(|(first, joined)| line(file, first, &joined)));
    lines
}

fn without_comment(line: &str) -> &str {
    let starts = line.match_indices('#').map(|(at, _)| at);
    let is_comment = |at: &usize| {
        line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with([' ', '\t']))
    };
    starts.into_iter().find(is_comment).and_then(|at| line.get(..at)).unwrap_or(line).trim_end()
}

fn line(file: &str, number: usize, text: &str) -> Option<Line> {
    let text = text.trim();
    (!text.is_empty()).then(|| Line {
        file: file.to_owned(),
        number,
        text: text.to_owned(),
        wish: wish(text),
    })
}

/// Long and short options whose argument matters here.
const INCLUDES: [&str; 4] = ["--requirement", "--constraint", "-r", "-c"];
const EDITABLES: [&str; 2] = ["--editable", "-e"];

fn wish(text: &str) -> Wish {
    for option in INCLUDES {
        if let Some(file) = argument(text, option) {
            return Wish::Include { option: option.to_owned(), file };
        }
    }
    for option in EDITABLES {
        if let Some(path) = argument(text, option) {
            return Wish::Editable(path);
        }
    }
    if text == "--require-hashes" {
        return Wish::RequireHashes;
    }
    if text.starts_with('-') {
        return Wish::Other;
    }
    if let Some(path) = path(first_word(text)) {
        return Wish::Path(path);
    }
    let end = text.find(|letter: char| !is_of_a_name(letter)).unwrap_or(text.len());
    match text.get(..end) {
        Some(name) if name.starts_with(|first: char| first.is_ascii_alphanumeric()) => {
            let rest = text.get(end..).unwrap_or_default();
            let source = rest.split_once('@').map(|(extras, source)| (extras.trim(), source));
            let source = source.filter(|(extras, _)| extras.is_empty() || extras.ends_with(']'));
            let path = source.and_then(|(_, source)| path(first_word(source)));
            Wish::Package { name: name.to_owned(), path }
        }
        _ => Wish::Other,
    }
}

/// The argument of an option: `-r x`, `-rx`, `--requirement x`, `--requirement=x`.
fn argument(text: &str, option: &str) -> Option<String> {
    let rest = text.strip_prefix(option)?;
    let is_long = option.starts_with("--");
    if is_long && !rest.starts_with(['=', ' ', '\t']) {
        return None;
    }
    let value = rest.trim_start().strip_prefix('=').unwrap_or(rest).trim();
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

fn first_word(text: &str) -> &str {
    // A marker follows after a space and a semicolon.
    text.split_whitespace().next().unwrap_or_default()
}

fn is_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

/// A path of this machine or another, also as a `file:` address.
pub(super) fn path(word: &str) -> Option<String> {
    if let Some(address) = word.strip_prefix("file:") {
        let path = address.strip_prefix("//localhost").unwrap_or(address);
        let path = path.strip_prefix("//").unwrap_or(path);
        let path = path.split(['#', '?']).next().unwrap_or_default();
        return Some(path.replace("%20", " "));
    }
    let has_drive =
        matches!(word.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let is_path = word == "."
        || word == ".."
        || ["./", "../", "/", "~/", "\\"].iter().any(|start| word.starts_with(start))
        || has_drive;
    let without_extras = word.split('[').next().unwrap_or_default();
    is_path.then(|| without_extras.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<(usize, String)> {
        split("r.txt", text).into_iter().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn comments_and_continuations_keep_the_first_lines_number() {
        let text =
            "\u{feff}# all\n\nidna==3.4 \\\n    --hash=sha256:0 # pinned\r\na#b\n  # c\nlast \\";
        assert_eq!(
            said(text),
            [
                (3, "idna==3.4     --hash=sha256:0".to_owned()),
                (5, "a#b".to_owned()),
                (7, "last".to_owned())
            ]
        );
        assert_eq!(said(""), []);
        assert!(split("r.txt", text)[0].is_hashed());
        assert_eq!(split("r.txt", text)[0].place(), "r.txt:3");
    }

    #[test]
    fn lines_are_told_apart() {
        let package = |name: &str, path: Option<&str>| Wish::Package {
            name: name.to_owned(),
            path: path.map(str::to_owned),
        };
        let include = |option: &str, file: &str| Wish::Include {
            option: option.to_owned(),
            file: file.to_owned(),
        };
        for (text, expected) in [
            ("numpy", package("numpy", None)),
            ("torch[x]==2.6.0+cu124; python_version > '3'", package("torch", None)),
            ("a.b_c-d>=1", package("a.b_c-d", None)),
            ("idna @ file:///croot/idna_17/work", package("idna", Some("/croot/idna_17/work"))),
            ("idna[x]@file://localhost/a%20b#sha256=0", package("idna", Some("/a b"))),
            ("idna @ https://host/a@1/idna.whl", package("idna", None)),
            ("idna @ ./idna ; os_name == 'posix'", package("idna", Some("./idna"))),
            ("./wheels/a.whl", Wish::Path("./wheels/a.whl".to_owned())),
            (".[dev]", Wish::Other),
            ("./[dev]", Wish::Path("./".to_owned())),
            (r"C:\work\a", Wish::Path(r"C:\work\a".to_owned())),
            ("-e .", Wish::Editable(".".to_owned())),
            ("--editable=/src/proj", Wish::Editable("/src/proj".to_owned())),
            ("-r base.txt", include("-r", "base.txt")),
            ("-cc.txt", include("-c", "c.txt")),
            ("--requirement=\"base.txt\"", include("--requirement", "base.txt")),
            ("--require-hashes", Wish::RequireHashes),
            ("--index-url https://host/simple", Wish::Other),
            ("-r", Wish::Other),
            ("???", Wish::Other),
        ] {
            assert_eq!(wish(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_compared_as_indexes_do() {
        let lines = split("r.txt", "Ruamel.YAML_clib==1");
        assert!(lines[0].names("ruamel-yaml--clib") && !lines[0].names("ruamel"));
    }
}
