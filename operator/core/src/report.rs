//! What a container of a pod tells at its end: one line of JSON in its termination message.
//!
//! Pure. The agent writes reports, [`crate::diagnosis`] reads them. The kubelet may cut a message at
//! any byte, and the container may have been written by another version of the agent; reading
//! therefore never fails on what is missing, it only knows less.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{pod::container, reason::Reason};

/// The longest line in bytes, without its line feed. The kubelet keeps 4096 bytes of a container
/// and 12 KiB of a pod.
pub const MAX_LINE: usize = 1_023;

/// Evidence that a list of cards may not push out of the line, in bytes.
const EVIDENCE_BEFORE_CARDS: usize = 512;

/// The longest escape of JSON, `\ud83d\ude00`, in bytes: a cut inside it is found by going back.
const LONGEST_ESCAPE: usize = 12;

/// Which container of the pod tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The agent is copied into the pod.
    Install,
    /// The cards are checked.
    Preflight,
    /// The Python environment is restored.
    Prepare,
    /// The program runs.
    Run,
}

impl Stage {
    /// All stages, in the order in which they run.
    pub const ALL: [Self; 4] = [Self::Install, Self::Preflight, Self::Prepare, Self::Run];

    /// The stage of the container with this name; `None` for one that is not leasehold's.
    #[must_use]
    pub fn of_container(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.container() == name)
    }

    /// The container in which it runs.
    #[must_use]
    pub const fn container(self) -> &'static str {
        match self {
            Self::Install => container::INSTALL,
            Self::Preflight => container::PREFLIGHT,
            Self::Prepare => container::PREPARE,
            Self::Run => container::MAIN,
        }
    }

    /// The word in the report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Install => "Install",
            Self::Preflight => "Preflight",
            Self::Prepare => "Prepare",
            Self::Run => "Run",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// Longest version of a Python in a report, in characters.
const VERSION_CHARACTERS: usize = 32;

/// A Python environment, as far as it is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Environment {
    /// Version of the image's Python, for example `3.11.2`; empty until it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub python: String,
    /// Packages that were added to those of the image; `None` until they are installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<u32>,
    /// Seconds since the restore began.
    pub seconds: u32,
}

impl Environment {
    fn to_field(&self) -> String {
        let python = self.python.chars().take(VERSION_CHARACTERS).collect();
        let short = Self { python, ..self.clone() };
        // A struct of texts and numbers cannot fail to become JSON.
        let value = serde_json::to_string(&short).unwrap_or_else(|_| "null".to_owned());
        format!(r#""environment":{value}"#)
    }
}

/// The state of a container, as its agent last wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which container tells.
    pub stage: Stage,
    /// Why it ended, or is being ended; `None` while it is at work, and for a reason that this
    /// version does not know.
    pub reason: Option<Reason>,
    /// The exit code of the agent, which is the program's in [`Stage::Run`]; `None` until the end.
    pub exit_code: Option<i32>,
    /// Seconds since the program started.
    pub ran_seconds: Option<i64>,
    /// The environment that is being or was restored, in [`Stage::Prepare`].
    pub environment: Option<Environment>,
    /// UUIDs of the cards that were seen; empty when they did not fit.
    pub cards: Vec<String>,
    /// What was seen, in words; a report that was cut has less of it.
    pub evidence: String,
}

impl Report {
    /// A report of a stage at work.
    #[must_use]
    pub const fn new(stage: Stage) -> Self {
        Self {
            stage,
            reason: None,
            exit_code: None,
            ran_seconds: None,
            environment: None,
            cards: Vec::new(),
            evidence: String::new(),
        }
    }

    /// One line of at most [`MAX_LINE`] bytes, the most important fields first.
    ///
    /// Cards are left out when they would push out evidence; evidence is cut at the end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let fields = [
            Some(r#""v":1"#.to_owned()),
            Some(format!(r#""stage":"{}""#, self.stage.name())),
            self.reason.map(|reason| format!(r#""reason":"{reason}""#)),
            self.exit_code.map(|code| format!(r#""exitCode":{code}"#)),
            self.ran_seconds.map(|seconds| format!(r#""ranSeconds":{seconds}"#)),
            self.environment.as_ref().map(Environment::to_field),
        ];
        let mut line = format!("{{{}", fields.into_iter().flatten().collect::<Vec<_>>().join(","));
        let evidence = escaped(&self.evidence);
        if !self.cards.is_empty() {
            let cards = format!(r#","cards":{}"#, Value::from(self.cards.as_slice()));
            let wanted = evidence.len().min(EVIDENCE_BEFORE_CARDS);
            if line.len() + cards.len() + EVIDENCE_FRAME + wanted <= MAX_LINE {
                line.push_str(&cards);
            }
        }
        if !evidence.is_empty() {
            let room = MAX_LINE.saturating_sub(line.len() + EVIDENCE_FRAME);
            line.push_str(r#","evidence":""#);
            line.push_str(&cut(&self.evidence, evidence, room));
            line.push('"');
        }
        line.push('}');
        line
    }

    /// Reads a line that may end at any byte; `None` when not even the stage can be read.
    ///
    /// Text after the first line is ignored. Of a cut line, complete fields are kept, and what there
    /// is of the evidence.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.trim_start().lines().next()?;
        let fields = complete_fields(line)?;
        let word = |name: &str| fields.get(name).and_then(Value::as_str);
        let number = |name: &str| fields.get(name).and_then(Value::as_i64);
        let cards = fields.get("cards").and_then(Value::as_array);
        Some(Self {
            stage: Stage::parse(word("stage")?)?,
            reason: word("reason").and_then(Reason::parse),
            exit_code: number("exitCode").and_then(|code| i32::try_from(code).ok()),
            ran_seconds: number("ranSeconds"),
            environment: fields
                .get("environment")
                .and_then(|environment| Environment::deserialize(environment).ok()),
            cards: cards
                .into_iter()
                .flatten()
                .filter_map(|card| card.as_str().map(str::to_owned))
                .collect(),
            evidence: word("evidence").unwrap_or_default().to_owned(),
        })
    }
}

/// Bytes around the evidence: `,"evidence":"` before, `"}` after.
const EVIDENCE_FRAME: usize = 15;

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
}

/// The longest beginning of `text` whose escaped form has at most `room` bytes, marked with `…`
/// where something is missing.
fn cut(text: &str, whole: String, room: usize) -> String {
    if whole.len() <= room {
        return whole;
    }
    let room = room.saturating_sub('…'.len_utf8());
    let mut kept = String::new();
    for character in text.chars() {
        let next = escaped(character.encode_utf8(&mut [0; 4]));
        if kept.len() + next.len() > room {
            break;
        }
        kept.push_str(&next);
    }
    kept.push('…');
    kept
}

/// The fields of a JSON object that may have been cut.
///
/// Closes the text at the latest place where it is valid. A number at the cut is not complete
/// (`14` may have been `143`), nor is a word other than the evidence.
fn complete_fields(line: &str) -> Option<Value> {
    let object = |text: String| serde_json::from_str(&text).ok().filter(Value::is_object);
    if let Some(whole) = object(line.to_owned()) {
        return Some(whole);
    }
    if line.ends_with(['"', ']'])
        && let Some(closed) = object(format!("{line}}}"))
    {
        return Some(closed);
    }
    if line.contains(r#","evidence":""#) {
        let starts = line.char_indices().rev().map(|(at, _)| at).take(LONGEST_ESCAPE);
        for end in std::iter::once(line.len()).chain(starts) {
            if let Some(closed) = object(format!("{}\"}}", line.get(..end)?)) {
                return Some(closed);
            }
        }
    }
    let mut commas = line.match_indices(',').rev();
    commas.find_map(|(at, _)| object(format!("{}}}", line.get(..at)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_report() -> Report {
        Report {
            reason: Some(Reason::MaxRuntimeReached),
            exit_code: Some(143),
            ran_seconds: Some(60),
            cards: vec!["GPU-5d5ba0d6".to_owned()],
            evidence: "maxRuntime 1m reached".to_owned(),
            ..Report::new(Stage::Run)
        }
    }

    #[test]
    fn a_report_is_one_line_with_the_important_fields_first() {
        assert_eq!(
            a_report().to_line(),
            r#"{"v":1,"stage":"Run","reason":"MaxRuntimeReached","exitCode":143,"ranSeconds":60,"cards":["GPU-5d5ba0d6"],"evidence":"maxRuntime 1m reached"}"#
        );
        assert_eq!(Report::new(Stage::Install).to_line(), r#"{"v":1,"stage":"Install"}"#);
        let environment =
            Environment { python: "3.11.2".to_owned(), packages: Some(5), seconds: 12 };
        let restored = Report { environment: Some(environment), ..Report::new(Stage::Prepare) };
        assert_eq!(
            restored.to_line(),
            r#"{"v":1,"stage":"Prepare","environment":{"python":"3.11.2","packages":5,"seconds":12}}"#
        );
    }

    #[test]
    fn what_cannot_be_read_leaves_the_rest() {
        let evidence = "the pod was asked to dance";
        for line in [
            r#"{"v":9,"stage":"Run","reason":"Dancing","tempo":{"bpm":[120]},"evidence":"the pod was asked to dance"}"#,
            r#"{"evidence":"the pod was asked to dance","exitCode":"x","cards":7,"stage":"Run"}"#,
            "\n{\"stage\":\"Run\",\"evidence\":\"the pod was asked to dance\"}\n{\"stage\":\"Preflight\"}",
        ] {
            let expected = Report { evidence: evidence.to_owned(), ..Report::new(Stage::Run) };
            assert_eq!(Report::parse(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn garbage_is_no_report() {
        for text in
            ["", "{", "null", "[1]", "Killed", r#"{"stage":"Dance"}"#, r#"{"stage":"R"#, "\u{0}"]
        {
            assert_eq!(Report::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn cards_give_way_to_evidence_and_evidence_to_nothing_else() {
        let cards: Vec<String> = (0..16).map(|card| format!("GPU-{card:036}")).collect();
        let loud = Report { evidence: "x".repeat(2_000), cards: cards.clone(), ..a_report() };
        assert!(loud.to_line().len() <= MAX_LINE);
        assert_eq!(Report::parse(&loud.to_line()).unwrap().cards, Vec::<String>::new());
        let terse = Report { cards: cards.clone(), ..a_report() };
        assert_eq!(Report::parse(&terse.to_line()).unwrap().cards, cards);
    }

    #[test]
    fn a_strange_environment_leaves_the_rest() {
        let line = r#"{"stage":"Prepare","environment":{"python":3},"evidence":"resolving"}"#;
        let expected = Report { evidence: "resolving".to_owned(), ..Report::new(Stage::Prepare) };
        assert_eq!(Report::parse(line), Some(expected));
        let python = "3".repeat(2_000);
        let environment = Some(Environment { python, ..Environment::default() });
        let line = Report { environment, ..a_report() }.to_line();
        assert!(line.len() <= MAX_LINE && line.contains("maxRuntime 1m reached"), "{line}");
    }

    #[test]
    fn a_number_at_the_cut_is_unknown() {
        let report = Report::parse(r#"{"v":1,"stage":"Run","reason":"Completed","exitCode":14"#);
        assert_eq!(report.unwrap().exit_code, None);
    }

    prop_compose! {
        fn environments()(
            python in "[0-9a-z.+]{0,12}",
            packages in prop::option::of(any::<u32>()),
            seconds in any::<u32>(),
        ) -> Environment {
            Environment { python, packages, seconds }
        }
    }

    prop_compose! {
        fn reports()(
            stage in prop::sample::select(Stage::ALL.to_vec()),
            reason in prop::option::of(prop::sample::select(Reason::ALL.to_vec())),
            exit_code in prop::option::of(any::<i32>()),
            ran_seconds in prop::option::of(any::<i64>()),
            environment in prop::option::of(environments()),
            cards in prop::collection::vec("GPU-[0-9a-f]{8}", 0..20),
            evidence in ".{0,900}|[\u{0}-\u{20}\"\\\\😀]{0,400}",
        ) -> Report {
            Report { stage, reason, exit_code, ran_seconds, environment, cards, evidence }
        }
    }

    proptest! {
        #[test]
        fn reports_survive_the_line(report in reports()) {
            let line = report.to_line();
            prop_assert!(line.len() <= MAX_LINE);
            prop_assert!(!line.contains('\n'));
            let read = Report::parse(&line).unwrap();
            prop_assert_eq!(read.reason, report.reason);
            prop_assert_eq!(read.exit_code, report.exit_code);
            prop_assert_eq!(read.ran_seconds, report.ran_seconds);
            prop_assert_eq!(read.environment, report.environment);
            prop_assert!(read.cards == report.cards || read.cards.is_empty());
            let kept = read.evidence.strip_suffix('…').unwrap_or(&read.evidence);
            prop_assert!(report.evidence.starts_with(kept));
        }

        #[test]
        fn a_cut_report_says_less_but_nothing_wrong(report in reports(), at in 0_usize..MAX_LINE) {
            let line = report.to_line();
            let bytes = line.as_bytes();
            let text = String::from_utf8_lossy(&bytes[..at.min(bytes.len())]);
            if let Some(read) = Report::parse(&text) {
                prop_assert_eq!(read.stage, report.stage);
                prop_assert!(read.reason.is_none() || read.reason == report.reason);
                prop_assert!(read.exit_code.is_none() || read.exit_code == report.exit_code);
                prop_assert!(read.ran_seconds.is_none() || read.ran_seconds == report.ran_seconds);
                prop_assert!(read.environment.is_none() || read.environment == report.environment);
                prop_assert!(read.cards.is_empty() || read.cards == report.cards);
                let kept = read.evidence.trim_end_matches(['…', '\u{fffd}']);
                prop_assert!(report.evidence.starts_with(kept));
            } else {
                prop_assert!(at < 30);
            }
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC*|[{}\",:\\[\\]a-z0-9\\\\]*") {
            let _ = Report::parse(&text);
        }
    }
}
