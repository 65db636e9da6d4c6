//! Whether the cards in a container are the cards of the lease. Pure.
//!
//! [`JUDGES`] reads like the specification: each judge looks at the same [`Facts`] and the first
//! refusal ends the examination, because later judges would only repeat it. The agent gathers the
//! facts and tells the verdict.

use crate::{
    catalog::{MEMORY_TOLERANCE_PERCENT, is_same_memory, normalize},
    reason::{Finding, Reason},
    smi::{Card, Listing},
};

/// What the lease says about the cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The card's id in the catalog.
    pub card: String,
    /// The names that nvidia-smi may print for it.
    pub products: Vec<String>,
    /// Its memory in MiB; `None` is not compared.
    pub memory_mib: Option<i64>,
    /// How many cards.
    pub count: u32,
}

/// What the judges look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Device files of cards, for example `/dev/nvidia0`.
    pub device_files: Vec<String>,
    /// What nvidia-smi said.
    pub listing: Result<Listing, Finding>,
    /// What the lease says.
    pub expected: Expectation,
}

impl Facts {
    fn cards(&self) -> &[Card] {
        self.listing.as_ref().map_or(&[], |listing| &listing.cards)
    }
}

/// What one judge says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to say.
    Pass,
    /// The job may run, but somebody should know.
    Warn(Finding),
    /// The job may not run on these cards.
    Refuse(Finding),
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// What is checked, for the log.
    pub subject: &'static str,
    /// The check.
    pub judge: fn(&Facts) -> Verdict,
}

/// All checks, in order.
pub const JUDGES: &[Judge] = &[
    Judge { subject: "device files", judge: devices_are_present },
    Judge { subject: "nvidia-smi", judge: nvidia_smi_runs },
    Judge { subject: "number of cards", judge: the_count_is_right },
    Judge { subject: "model of the cards", judge: the_model_is_right },
    Judge { subject: "memory of the cards", judge: the_memory_is_right },
];

/// The verdicts, in order, up to and including the first refusal.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<(&'static str, Verdict)> {
    let mut verdicts = Vec::new();
    for Judge { subject, judge } in JUDGES {
        let verdict = judge(facts);
        let refused = matches!(verdict, Verdict::Refuse(_));
        verdicts.push((*subject, verdict));
        if refused {
            break;
        }
    }
    verdicts
}

fn devices_are_present(facts: &Facts) -> Verdict {
    if !facts.device_files.is_empty() {
        return Verdict::Pass;
    }
    refuse(
        Reason::DevicesMissing,
        format!("expected {}, found no /dev/nvidia* in the container", wanted(&facts.expected)),
    )
}

fn nvidia_smi_runs(facts: &Facts) -> Verdict {
    match &facts.listing {
        Ok(Listing { warning: Some(finding), .. }) => Verdict::Warn(finding.clone()),
        Ok(_) => Verdict::Pass,
        Err(finding) => Verdict::Refuse(finding.clone()),
    }
}

fn the_count_is_right(facts: &Facts) -> Verdict {
    let seen = facts.cards().len();
    let expected = usize::try_from(facts.expected.count).unwrap_or(usize::MAX);
    let reason = match seen.cmp(&expected) {
        std::cmp::Ordering::Equal => return Verdict::Pass,
        std::cmp::Ordering::Less => Reason::TooFewCards,
        std::cmp::Ordering::Greater => Reason::TooManyCards,
    };
    refuse(
        reason,
        format!(
            "expected {}, nvidia-smi shows {seen}: {}; device files: {}",
            wanted(&facts.expected),
            list(facts.cards()),
            facts.device_files.join(", ")
        ),
    )
}

fn the_model_is_right(facts: &Facts) -> Verdict {
    let wanted: Vec<String> = facts.expected.products.iter().map(|name| normalize(name)).collect();
    let others: Vec<&Card> =
        facts.cards().iter().filter(|card| !wanted.contains(&normalize(&card.name))).collect();
    if others.is_empty() {
        return Verdict::Pass;
    }
    refuse(
        Reason::WrongCard,
        format!(
            "expected {} (printed as {}), got {}",
            facts.expected.card,
            facts.expected.products.join(" or "),
            list(others)
        ),
    )
}

fn the_memory_is_right(facts: &Facts) -> Verdict {
    let Some(expected) = facts.expected.memory_mib else {
        return Verdict::Pass;
    };
    let others: Vec<&Card> = facts
        .cards()
        .iter()
        .filter(|card| card.memory_mib.is_some_and(|seen| !is_same_memory(seen, expected)))
        .collect();
    let unknown: Vec<&Card> =
        facts.cards().iter().filter(|card| card.memory_mib.is_none()).collect();
    let evidence = |cards: Vec<&Card>| {
        let card = &facts.expected.card;
        format!(
            "expected {expected} MiB (± {MEMORY_TOLERANCE_PERCENT} %) on each {card}, got {}",
            list(cards)
        )
    };
    if !others.is_empty() {
        return refuse(Reason::WrongMemory, evidence(others));
    }
    if !unknown.is_empty() {
        return Verdict::Warn(Finding::new(Reason::WrongMemory, evidence(unknown)));
    }
    Verdict::Pass
}

fn refuse(reason: Reason, evidence: String) -> Verdict {
    Verdict::Refuse(Finding::new(reason, evidence))
}

fn wanted(expected: &Expectation) -> String {
    format!("{} × {}", expected.count, expected.card)
}

fn list<'a>(cards: impl IntoIterator<Item = &'a Card>) -> String {
    let names: Vec<String> = cards.into_iter().map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smi::{Answer, read};

    fn facts_with(rows: &[(&str, &str)]) -> Facts {
        let lines: Vec<String> = rows
            .iter()
            .enumerate()
            .map(|(at, (name, memory))| {
                format!("{at}, GPU-{at}{at}{at}, {name}, {memory}, 580.65.06")
            })
            .collect();
        let stdout = lines.join("\n");
        Facts {
            device_files: (0..rows.len()).map(|at| format!("/dev/nvidia{at}")).collect(),
            listing: read(&Answer::Exited { code: 0, stdout, stderr: String::new() }),
            expected: Expectation {
                card: "rtx4090".to_owned(),
                products: vec!["NVIDIA GeForce RTX 4090".to_owned()],
                memory_mib: Some(24_564),
                count: 2,
            },
        }
    }

    const GOOD: (&str, &str) = ("NVIDIA GeForce RTX 4090", "24564");

    fn last(facts: &Facts) -> (&'static str, Verdict) {
        examine(facts).pop().unwrap()
    }

    #[test]
    fn the_leased_cards_pass_every_judge() {
        let old_driver = ("GeForce RTX 4090", "24217");
        for rows in [[GOOD, GOOD], [GOOD, old_driver]] {
            let verdicts = examine(&facts_with(&rows));
            assert_eq!(verdicts.len(), JUDGES.len());
            assert!(verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Pass), "{verdicts:?}");
        }
    }

    #[test]
    fn each_failure_has_its_reason_and_names_what_was_seen() {
        let no_devices = Facts { device_files: Vec::new(), ..facts_with(&[GOOD, GOOD]) };
        let broken =
            Facts { listing: read(&Answer::TimedOut { seconds: 20 }), ..facts_with(&[GOOD, GOOD]) };
        let table = [
            (no_devices, "device files", Reason::DevicesMissing, vec!["2 × rtx4090"]),
            (broken, "nvidia-smi", Reason::NvidiaSmiTimeout, vec!["20 s"]),
            (
                facts_with(&[GOOD]),
                "number of cards",
                Reason::TooFewCards,
                vec!["2 × rtx4090", "shows 1", "GPU-000", "/dev/nvidia0"],
            ),
            (
                facts_with(&[GOOD, GOOD, GOOD]),
                "number of cards",
                Reason::TooManyCards,
                vec!["shows 3", "GPU-222"],
            ),
            (
                facts_with(&[GOOD, ("NVIDIA GeForce RTX 4090 D", "24564")]),
                "model of the cards",
                Reason::WrongCard,
                vec!["NVIDIA GeForce RTX 4090 D (GPU-111", "expected rtx4090"],
            ),
            (
                facts_with(&[("NVIDIA H200", "24564"), GOOD]),
                "model of the cards",
                Reason::WrongCard,
                vec!["NVIDIA H200", "GPU-000"],
            ),
            (
                facts_with(&[("NVIDIA GeForce RTX 4090 MIG 1g.5gb", "4864"), GOOD]),
                "model of the cards",
                Reason::WrongCard,
                vec!["MIG 1g.5gb"],
            ),
            (
                facts_with(&[GOOD, ("NVIDIA GeForce RTX 4090", "49140")]),
                "memory of the cards",
                Reason::WrongMemory,
                vec!["24564 MiB", "49140 MiB", "GPU-111"],
            ),
        ];
        for (facts, subject, reason, values) in table {
            let (judge, Verdict::Refuse(finding)) = last(&facts) else {
                panic!("{reason} was not refused")
            };
            assert_eq!((judge, finding.reason), (subject, reason));
            for value in values {
                assert!(finding.evidence.contains(value), "{value} in {}", finding.evidence);
            }
        }
    }

    #[test]
    fn a_missing_device_is_told_before_what_follows_from_it() {
        let facts = Facts {
            device_files: Vec::new(),
            listing: read(&Answer::NotFound { looked_in: "/bin".to_owned() }),
            ..facts_with(&[])
        };
        assert_eq!(examine(&facts).len(), 1);
    }

    #[test]
    fn unknown_memory_is_a_warning_and_no_expectation_is_none() {
        let facts = facts_with(&[GOOD, ("NVIDIA GeForce RTX 4090", "[N/A]")]);
        assert!(
            matches!(last(&facts).1, Verdict::Warn(finding) if finding.evidence.contains("memory unknown"))
        );
        let mut facts = facts_with(&[GOOD, ("NVIDIA GeForce RTX 4090", "49140")]);
        facts.expected.memory_mib = None;
        assert_eq!(last(&facts).1, Verdict::Pass);
    }

    #[test]
    fn memory_may_differ_by_eight_percent() {
        for (seen, expected, same) in [
            (46_068, 49_140, true),
            (49_140, 24_564, false),
            (15_079, 16_384, true),
            (15_000, 16_384, false),
            (i64::MAX, i64::MIN, false),
            (i64::MAX, 0, false),
        ] {
            assert_eq!(is_same_memory(seen, expected), same, "{seen} {expected}");
        }
    }
}
