//! What uv's words mean when it fails. Pure.
//!
//! uv is brought with the agent, so its words are those of one version. It prints one line
//! `error: …`, then what caused it, from the outside in, as lines `  cause: …` with indented
//! continuations, then lines `hint: …`. The tests hold real output.

use super::{
    check::Requirements,
    servers::Servers,
    variables::{OFFLINE, Variables},
};
use crate::reason::{Finding, Reason};

/// Lines of uv that are told when nothing better is known, and of a build.
const LAST_LINES: usize = 3;

/// Longest line of a build that is told, in characters.
const LINE_CHARACTERS: usize = 300;

/// Explains a failure from everything that uv printed.
#[must_use]
pub fn explain(
    output: &str,
    requirements: &Requirements,
    servers: &Servers,
    variables: &Variables,
) -> Finding {
    let said = Said::read(output);
    bad_file(&said, requirements)
        .or_else(|| no_space(&said))
        .or_else(|| without_network(&said, variables))
        .or_else(|| refused_or_unreachable(&said, requirements, servers, variables))
        .or_else(|| bad_download(&said))
        .or_else(|| build(&said))
        .or_else(|| no_solution(&said, requirements))
        .unwrap_or_else(|| Finding::new(Reason::RestoreFailed, last_lines(output)))
}

/// uv's last message.
#[derive(Debug, Default)]
struct Said {
    /// The error and its causes, from the outside in; continuations are joined by line feeds.
    chain: Vec<String>,
    /// The hints.
    hints: Vec<String>,
}

impl Said {
    fn read(output: &str) -> Self {
        let mut said = Self::default();
        let mut is_hint = false;
        for line in output.lines() {
            if let Some(error) = line.strip_prefix("error: ") {
                said = Self { chain: vec![error.to_owned()], hints: Vec::new() };
                is_hint = false;
            } else if said.chain.is_empty() {
            } else if let Some(cause) = line.strip_prefix("  cause: ") {
                said.chain.push(cause.to_owned());
            } else if let Some(hint) = line.strip_prefix("hint: ") {
                said.hints.push(hint.to_owned());
                is_hint = true;
            } else if let Some(last) = said.chain.last_mut().filter(|_| !is_hint) {
                last.push('\n');
                last.push_str(line.trim());
            }
        }
        said
    }

    /// The first lines of error and causes: uv's own words, without the output of a build.
    fn own_words(&self) -> String {
        let firsts = self.chain.iter().filter_map(|words| words.lines().next());
        firsts.map(str::trim).filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ")
    }

    /// Whether git failed, which uv calls for `git+https://…`.
    fn is_of_git(&self) -> bool {
        self.chain.iter().any(|words| words.trim_end() == "Git operation failed")
    }

    /// Error, causes and hints in one line.
    fn all(&self) -> String {
        let words = self.chain.iter().skip(1).chain(self.hints.iter().take(1));
        let words = words.flat_map(|words| words.lines()).map(str::trim);
        words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// What stands between backquotes after these words.
    fn quoted_after(&self, words: &str) -> Option<&str> {
        let rest = self.chain.iter().find_map(|said| said.split_once(words))?.1;
        rest.trim_start().strip_prefix('`')?.split('`').next()
    }
}

/// How a line ends in which uv tells that a disk is full, with the number of the error.
const NO_SPACE: [&str; 2] =
    ["No space left on device (os error 28)", "Disk quota exceeded (os error 122)"];

/// How a line of git ends that does.
const NO_SPACE_FOR_GIT: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Only uv's own words count, and those of a git that it called: what a build prints is the
/// package's, and could say anything.
fn no_space(said: &Said) -> Option<Finding> {
    let ends = |line: &str, words: &[&str]| words.iter().any(|words| line.ends_with(words));
    let own = said.chain.iter().filter_map(|words| words.lines().next());
    let by_git = said
        .chain
        .iter()
        .filter(|_| said.is_of_git())
        .flat_map(|words| words.lines())
        .filter(|line| line.starts_with("fatal: ") || line.starts_with("error: "));
    let line = own
        .map(str::trim_end)
        .find(|line| ends(line, &NO_SPACE))
        .or_else(|| by_git.map(str::trim_end).find(|line| ends(line, &NO_SPACE_FOR_GIT)))?;
    Some(Finding::new(Reason::DiskFull, line))
}

/// Beginnings of uv's words about a file itself.
const FILE_ERRORS: [&str; 8] = [
    "Couldn't parse requirement in",
    "Error parsing included file in",
    "Unsupported requirement in",
    "Unsupported editable requirement in",
    "Invalid URL in",
    "Invalid value in",
    "Unsupported URL",
    "In `--require-hashes` mode",
];

fn bad_file(said: &Said, requirements: &Requirements) -> Option<Finding> {
    let error = said.chain.first()?;
    if let Some(path) = error.strip_prefix("Distribution not found at: ") {
        let words = format!("{path} is not in the pod");
        return Some(Finding::new(Reason::RequirementsNotPortable, words));
    }
    if let Some(file) = error.strip_prefix("File not found: ") {
        return Some(Finding::new(
            Reason::EnvironmentFileMissing,
            format!("there is no file {file}"),
        ));
    }
    // The innermost included file has the broken line.
    let place =
        said.chain.iter().rev().find_map(|words| place(words.lines().next()?, requirements));
    let is_known = FILE_ERRORS.iter().any(|words| error.starts_with(words))
        || error.contains("does not appear to be a Python project")
        || place.is_some();
    if !is_known {
        return None;
    }
    let inner = said.chain.last().and_then(|words| words.lines().next()).unwrap_or_default();
    if inner.contains("No such file or directory") {
        return Some(Finding::new(Reason::EnvironmentFileMissing, said.own_words()));
    }
    let evidence = place.map_or_else(|| said.own_words(), |place| format!("{place}: {inner}"));
    Some(Finding::new(Reason::RequirementsInvalid, evidence))
}

/// File, number and text of the line that uv's words name: `in `FILE` at position N`,
/// `in `FILE` at line N`, or `: FILE:LINE:COLUMN` at the end.
fn place(words: &str, requirements: &Requirements) -> Option<String> {
    let number_after = |words: &str, label: &str| -> Option<usize> {
        let rest = words.split_once(label)?.1;
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    };
    let line = if let Some((_, rest)) = words.split_once(" in `") {
        let (file, rest) = rest.split_once('`')?;
        match number_after(rest, " at position ") {
            Some(position) => requirements.line_at(file, position),
            None => requirements.line_numbered(file, number_after(rest, " at line ")?),
        }
    } else {
        let mut parts = words.rsplitn(3, ':');
        let (_column, number, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let file = rest.rsplit_once(": ").map_or(rest, |(_, file)| file);
        requirements.line_numbered(file, number.parse().ok()?)
    }?;
    Some(format!("{}: `{}`", line.place(), line.text))
}

/// Words about the way to an index or another server, in lower case, in the order in which they
/// are looked for.
const NETWORK: &[(&str, Reason)] = &[
    ("lack of valid authentication credentials", Reason::IndexRefused),
    ("returned a 403 forbidden", Reason::IndexRefused),
    ("client error (401", Reason::IndexRefused),
    ("client error (403", Reason::IndexRefused),
    ("client error (404", Reason::PackageNotFound),
    ("client error (410", Reason::PackageNotFound),
    ("status server error", Reason::IndexUnreachable),
    ("client error (429", Reason::IndexUnreachable),
    ("client error (408", Reason::IndexUnreachable),
    ("request failed after", Reason::IndexUnreachable),
    ("error sending request", Reason::IndexUnreachable),
    ("dns error", Reason::IndexUnreachable),
    ("operation timed out", Reason::IndexUnreachable),
    ("connection reset", Reason::IndexUnreachable),
    ("invalid peer certificate", Reason::IndexUnreachable),
    ("request or response body error", Reason::IndexUnreachable),
];

/// The words of git.
const GIT: &[(&str, Reason)] = &[
    ("authentication failed", Reason::IndexRefused),
    ("could not read username", Reason::IndexRefused),
    ("permission denied (publickey", Reason::IndexRefused),
    ("repository not found", Reason::IndexRefused),
    ("returned error: 403", Reason::IndexRefused),
    ("returned error: 5", Reason::IndexUnreachable),
    ("could not resolve host", Reason::IndexUnreachable),
    ("failed to connect to", Reason::IndexUnreachable),
    ("connection timed out", Reason::IndexUnreachable),
    ("connection refused", Reason::IndexUnreachable),
    ("certificate problem", Reason::IndexUnreachable),
];

/// uv was told not to use the network, and needs it.
fn without_network(said: &Said, variables: &Variables) -> Option<Finding> {
    let firsts = said.chain.iter().filter_map(|words| words.lines().next());
    let mut words = firsts.chain(said.hints.iter().map(String::as_str)).map(str::to_lowercase);
    let words = words.find(|words| OFFLINE.iter().any(|sign| words.contains(sign)))?;
    let evidence = blaming(&variables.behind(&words), &said.own_words())?;
    Some(Finding::new(Reason::OwnIndexUnreachable, evidence))
}

/// What was seen, with the variables that can have caused it; `None` without such variables.
fn blaming(variables: &[&str], seen: &str) -> Option<String> {
    let are = if variables.len() == 1 { "is" } else { "are" };
    let names = variables.join(", ");
    (!variables.is_empty()).then(|| format!("{names} {are} set by the job or its image: {seen}"))
}

fn refused_or_unreachable(
    said: &Said,
    requirements: &Requirements,
    servers: &Servers,
    variables: &Variables,
) -> Option<Finding> {
    let mut own = said.own_words();
    // What a hint says of an index explains why it has no package.
    let hint = said.hints.iter().find(|hint| hint.starts_with("An index"));
    if let Some(hint) = hint.filter(|_| own.contains(" was not found in ")) {
        own = format!("{hint}: {own}");
    }
    let is_git = said.is_of_git();
    let (text, table) = if is_git { (said.chain.join("\n"), GIT) } else { (own.clone(), NETWORK) };
    let text = text.to_lowercase();
    let (_, reason) = table.iter().find(|(words, _)| text.contains(words))?;
    let evidence = if is_git { format!("{}: {}", own, ends_of(said, LAST_LINES)) } else { own };
    if *reason != Reason::IndexUnreachable {
        return Some(Finding::new(*reason, evidence));
    }
    let blamed = blaming(&variables.behind(&text), &evidence);
    let is_own = blamed.is_some() || servers.is_own(&text, requirements);
    let reason = if is_own { Reason::OwnIndexUnreachable } else { *reason };
    Some(Finding::new(reason, blamed.unwrap_or(evidence)))
}

fn bad_download(said: &Said) -> Option<Finding> {
    let (package, rest) = said
        .chain
        .iter()
        .find_map(|words| words.strip_prefix("Hash mismatch for `")?.split_once('`'))?;
    let hashes: Vec<&str> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Some(Finding::new(Reason::PackageHashMismatch, format!("{package}: {}", hashes.join(" "))))
}

fn build(said: &Said) -> Option<Finding> {
    let package = said
        .quoted_after("Failed to build")
        .or_else(|| said.quoted_after("Failed to download and build"))?;
    let words = ends_of(said, LAST_LINES);
    Some(Finding::new(Reason::PackageBuildFailed, format!("{package} cannot be built: {words}")))
}

/// The last lines of the innermost cause, which of a build are its output's.
fn ends_of(said: &Said, count: usize) -> String {
    let lines = said.chain.last().map(String::as_str).unwrap_or_default();
    let lines: Vec<&str> =
        lines.lines().map(str::trim).filter(|line| says_something(line)).collect();
    let from = lines.len().saturating_sub(count);
    let words: Vec<String> = lines.iter().skip(from).map(|line| shortened(line)).collect();
    words.join(" | ")
}

/// Neither an empty line nor the marks under a line of a traceback.
fn says_something(line: &str) -> bool {
    line.contains(|letter| !matches!(letter, '^' | '~' | ' '))
}

fn no_solution(said: &Said, requirements: &Requirements) -> Option<Finding> {
    if !said.chain.first()?.starts_with("No solution found") {
        return None;
    }
    let all = said.all();
    let missing = all.split_once(" was not found in the ").map(|(before, _)| before);
    let missing = missing.and_then(|before| before.split_whitespace().next_back());
    let Some(package) = missing else {
        return Some(Finding::new(Reason::RequirementsConflict, all));
    };
    let evidence = match requirements.line_of(package) {
        Some(line) => format!("{}: `{}`: no index has {package}", line.place(), line.text),
        None => format!("no index has {package}: {all}"),
    };
    Some(Finding::new(Reason::PackageNotFound, evidence))
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let words: Vec<String> = lines.iter().skip(from).map(|line| shortened(line)).collect();
    if words.is_empty() { "uv ended without a word".to_owned() } else { words.join(" | ") }
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
