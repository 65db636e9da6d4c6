//! What `nvidia-smi` says: the cards it lists, and what its failures mean. Pure.
//!
//! The agent asks for [`CORE_FIELDS`]; [`crate::preflight`] judges the answer. Formats, texts and
//! exit codes are those of NVIDIA's drivers R450 to R610.

mod failures;

use crate::reason::{Finding, Reason};

/// Fields that every driver since R450 knows. One unknown field makes the whole call fail, so what
/// only newer drivers know is asked for in a second call.
pub const CORE_FIELDS: &str = "index,uuid,name,memory.total,driver_version";

/// Exit code of a damaged infoROM: a warning, the cards are listed nevertheless.
const INFOROM_CORRUPTED: i32 = 14;

/// Evidence kept of an output, in characters.
const EVIDENCE_CHARACTERS: usize = 300;

/// How a call of nvidia-smi ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It ran to its end.
    Exited {
        /// Its exit code, 128 + number for a signal.
        code: i32,
        /// What it printed.
        stdout: String,
        /// What it complained about.
        stderr: String,
    },
    /// There is no such file.
    NotFound {
        /// Where it was looked for.
        looked_in: String,
    },
    /// The file is there, but its program loader is not: an image without glibc.
    NoLoader {
        /// The file.
        path: String,
    },
    /// It could not be started for another reason.
    NotStarted {
        /// The system's words.
        error: String,
    },
    /// It did not end in time.
    TimedOut {
        /// How long it was waited for.
        seconds: u64,
    },
}

/// The cards of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Cards in the order of the answer, which says nothing about other containers of the pod.
    pub cards: Vec<Card>,
    /// What is wrong without keeping the cards from working.
    pub warning: Option<Finding>,
}

/// One card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The number in this container; `None` when it is not a number.
    pub index: Option<u32>,
    /// `GPU-…` or `MIG-…`.
    pub uuid: String,
    /// The name as printed, for example `NVIDIA GeForce RTX 4090`.
    pub name: String,
    /// Total memory in MiB; `None` when the driver does not know.
    pub memory_mib: Option<i64>,
    /// The driver's version; `None` when the driver does not know.
    pub driver: Option<String>,
}

impl std::fmt::Display for Card {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.memory_mib {
            Some(mib) => write!(out, "{} ({}, {mib} MiB)", self.name, self.uuid),
            None => write!(out, "{} ({}, memory unknown)", self.name, self.uuid),
        }
    }
}

/// What one cell of the answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// A value.
    Value(&'a str),
    /// The driver or the card has no such value. This is not zero.
    Unknown,
    /// The card is broken.
    Fault(Reason),
}

/// The cards of an answer to [`CORE_FIELDS`], or why there are none. Columns after the core fields
/// are looked at for faults only.
pub fn read(answer: &Answer) -> Result<Listing, Finding> {
    match answer {
        Answer::Exited { code, stdout, stderr } => read_output(*code, stdout, stderr),
        Answer::NotFound { looked_in } => Err(Finding::new(
            Reason::NvidiaSmiMissing,
            format!("there is no nvidia-smi in {looked_in}"),
        )),
        Answer::NoLoader { path } => Err(Finding::new(
            Reason::ImageLacksGlibc,
            format!("{path} is in the container, but the program loader that it needs is not"),
        )),
        Answer::NotStarted { error } => Err(Finding::new(
            Reason::NvidiaSmiFailed,
            format!("nvidia-smi could not be started: {error}"),
        )),
        Answer::TimedOut { seconds } => Err(Finding::new(
            Reason::NvidiaSmiTimeout,
            format!("nvidia-smi did not answer in {seconds} s and was killed"),
        )),
    }
}

/// What a cell says. Everything in brackets, and what older drivers print without them, is no value.
#[must_use]
pub fn cell(text: &str) -> Cell<'_> {
    let text = text.trim();
    let bare = text.trim_matches(['[', ']']).trim().to_ascii_lowercase();
    match bare.as_str() {
        "" | "n/a" | "not supported" | "not available" | "not found" => Cell::Unknown,
        "unknown error" | "err!" | "gpu is lost" => Cell::Fault(Reason::GpuLost),
        "gpu requires reset" | "reset required" => Cell::Fault(Reason::GpuNeedsReset),
        "insufficient permissions" => Cell::Fault(Reason::DevicePermissionDenied),
        _ if text.starts_with('[') => Cell::Unknown,
        _ => Cell::Value(text),
    }
}

/// A whole number; units that older drivers leave on are dropped. Anything else is unknown.
#[must_use]
pub fn number(text: &str) -> Option<i64> {
    let Cell::Value(value) = cell(text) else {
        return None;
    };
    let digits = value.split_once(' ').map_or(value, |(digits, _)| digits);
    digits.parse().ok()
}

fn read_output(code: i32, stdout: &str, stderr: &str) -> Result<Listing, Finding> {
    let rows: Vec<Vec<&str>> = stdout.lines().filter_map(row).collect();
    for cells in &rows {
        check(cells)?;
    }
    let finding = |reason| {
        Finding::new(reason, format!("nvidia-smi ended with {code}: {}", words(stdout, stderr)))
    };
    let cards: Vec<Card> = rows.iter().filter_map(|cells| card(cells)).collect();
    match code {
        0 if !cards.is_empty() => Ok(Listing { cards, warning: None }),
        INFOROM_CORRUPTED if !cards.is_empty() => {
            Ok(Listing { cards, warning: Some(finding(Reason::InforomCorrupted)) })
        }
        0 => {
            Err(finding(failures::explain(code, stdout, stderr).unwrap_or(Reason::NoDevicesFound)))
        }
        _ => {
            Err(finding(failures::explain(code, stdout, stderr).unwrap_or(Reason::NvidiaSmiFailed)))
        }
    }
}

/// The cells of a line, when it is a row of the answer and not a complaint.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let names_a_card =
        cells.get(1).is_some_and(|uuid| uuid.starts_with("GPU-") || uuid.starts_with("MIG-"));
    let has_a_fault = cells.iter().any(|text| matches!(cell(text), Cell::Fault(_)));
    let is_long = cells.len() >= CORE_FIELDS.split(',').count();
    (is_long && (names_a_card || has_a_fault)).then_some(cells)
}

/// Refuses a row with a fault in any cell.
fn check(cells: &[&str]) -> Result<(), Finding> {
    let fault = cells.iter().find_map(|text| match cell(text) {
        Cell::Fault(reason) => Some((text, reason)),
        Cell::Value(_) | Cell::Unknown => None,
    });
    fault.map_or(Ok(()), |(text, reason)| {
        Err(Finding::new(
            reason,
            format!("nvidia-smi prints {text} for a card: {}", cells.join(", ")),
        ))
    })
}

fn card(cells: &[&str]) -> Option<Card> {
    let [index, uuid, name, memory, driver, ..] = cells else {
        return None;
    };
    let known = |text| match cell(text) {
        Cell::Value(value) => Some(value.to_owned()),
        Cell::Unknown | Cell::Fault(_) => None,
    };
    Some(Card {
        index: number(index).and_then(|index| u32::try_from(index).ok()),
        uuid: known(uuid)?,
        name: known(name).unwrap_or_else(|| "a card without a name".to_owned()),
        memory_mib: number(memory),
        driver: known(driver),
    })
}

/// What was printed, in one line.
fn words(stdout: &str, stderr: &str) -> String {
    let lines = stderr.lines().chain(stdout.lines()).map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" / ");
    if text.is_empty() {
        "it printed nothing".to_owned()
    } else {
        text.chars().take(EVIDENCE_CHARACTERS).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exited(code: i32, stdout: &str, stderr: &str) -> Answer {
        Answer::Exited { code, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn cards_are_listed_by_new_and_old_drivers() {
        let listing = read(&exited(
            0,
            "0, GPU-5d5ba0d6, NVIDIA A100-SXM4-40GB, 40960, 580.65.06\n\
             1, GPU-5d5ba0d7, GeForce RTX 3090, 24576 MiB, 470.82\n\
             2, GPU-5d5ba0d8, NVIDIA L4, [N/A], [Not Supported], 0, [N/A]\n",
            "",
        ))
        .unwrap();
        let seen: Vec<_> = listing
            .cards
            .iter()
            .map(|card| (card.index, card.name.as_str(), card.memory_mib, card.driver.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                (Some(0), "NVIDIA A100-SXM4-40GB", Some(40_960), Some("580.65.06")),
                (Some(1), "GeForce RTX 3090", Some(24_576), Some("470.82")),
                (Some(2), "NVIDIA L4", None, None),
            ]
        );
        assert_eq!(listing.warning, None);
    }

    #[test]
    fn what_is_not_a_number_is_unknown_and_never_zero() {
        for (text, value) in [("24564", Some(24_564)), (" 24564 MiB", Some(24_564)), ("0", Some(0))]
        {
            assert_eq!(number(text), value, "{text:?}");
        }
        for text in [
            "",
            "N/A",
            "[N/A]",
            "[Not Supported]",
            "ERR!",
            "[Unknown Error]",
            "[Anything]",
            "many",
            "1.5",
        ] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_fault_in_any_cell_refuses_the_card() {
        for (text, reason) in [
            ("[Unknown Error]", Reason::GpuLost),
            ("ERR!", Reason::GpuLost),
            ("GPU is lost", Reason::GpuLost),
            ("[GPU requires reset]", Reason::GpuNeedsReset),
            ("[Insufficient Permissions]", Reason::DevicePermissionDenied),
        ] {
            for row in [
                format!("0, GPU-1, NVIDIA L4, {text}, 580.65.06"),
                format!("0, GPU-1, NVIDIA L4, 23034, 580.65.06, {text}"),
                format!("0, {text}, {text}, {text}, 580.65.06"),
            ] {
                let finding = read(&exited(0, &row, "")).unwrap_err();
                assert_eq!(finding.reason, reason, "{row}");
                assert!(finding.evidence.contains(text), "{}", finding.evidence);
            }
        }
    }

    #[test]
    fn what_keeps_it_from_running_is_told_apart() {
        for (answer, reason) in [
            (Answer::NotFound { looked_in: "/bin".to_owned() }, Reason::NvidiaSmiMissing),
            (Answer::NoLoader { path: "/bin/nvidia-smi".to_owned() }, Reason::ImageLacksGlibc),
            (Answer::NotStarted { error: "Exec format error".to_owned() }, Reason::NvidiaSmiFailed),
            (Answer::TimedOut { seconds: 20 }, Reason::NvidiaSmiTimeout),
        ] {
            assert_eq!(read(&answer).unwrap_err().reason, reason);
        }
    }

    #[test]
    fn a_damaged_inforom_is_a_warning() {
        let answer = exited(
            14,
            "0, GPU-1, NVIDIA L4, 23034, 580.65.06\nWARNING: infoROM is corrupted at gpu 0000:01:00.0",
            "",
        );
        let listing = read(&answer).unwrap();
        assert_eq!(listing.cards.len(), 1);
        assert_eq!(listing.warning.unwrap().reason, Reason::InforomCorrupted);
    }

    proptest! {
        #[test]
        fn any_output_is_explained(code in 0_i32..256, stdout in "\\PC{0,80}|[0-9a-zGPU,\\- \\[\\]/\n]{0,120}", stderr in "\\PC{0,40}") {
            match read(&exited(code, &stdout, &stderr)) {
                Ok(listing) => prop_assert!(!listing.cards.is_empty()),
                Err(finding) => prop_assert!(!finding.evidence.is_empty()),
            }
        }
    }
}
