//! `preflight`: gathers what the judges of [`leasehold_core::preflight`] look at, and tells their
//! verdict in the log and the report. Does I/O; only the environment can make it fail.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold_core::{
    preflight::{Facts, Verdict, examine},
    reason::{Finding, Reason},
    report::{Report, Stage},
    smi::{self, CORE_FIELDS},
};

use crate::{
    REFUSED,
    environment::{self, BadEnvironment, PreflightSettings},
    notice,
    probe::{self, Places},
};

/// Checks the container's cards. `devices` is where device files are, `toolkit` where container
/// toolkits put nvidia-smi, `patience` how long it may take.
pub fn preflight(
    devices: &Path,
    toolkit: &[PathBuf],
    patience: Duration,
) -> Result<Report, BadEnvironment> {
    let settings = environment::for_preflight()?;
    let facts = gather(devices, toolkit, settings, patience);
    Ok(tell(&facts, &examine(&facts)))
}

fn gather(
    devices: &Path,
    toolkit: &[PathBuf],
    settings: PreflightSettings,
    patience: Duration,
) -> Facts {
    let query = format!("--query-gpu={CORE_FIELDS}");
    let arguments = [query.as_str(), "--format=csv,noheader,nounits"];
    let places = Places { toolkit, path: &settings.path };
    let answer = probe::ask("nvidia-smi", &arguments, places, patience);
    Facts {
        device_files: device_files(devices),
        listing: smi::read(&answer),
        expected: settings.expected,
    }
}

/// Device files of cards: `nvidia` and a number.
fn device_files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("nvidia")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
        .iter()
        .map(|number| directory.join(format!("nvidia{number}")).display().to_string())
        .collect()
}

fn tell(facts: &Facts, verdicts: &[(&str, Verdict)]) -> Report {
    let expected = &facts.expected;
    let cards = facts.listing.as_ref().map_or(&[][..], |listing| &listing.cards);
    let mut lines = vec![format!("checked for {} × {}", expected.count, expected.card)];
    lines.extend(cards.iter().map(|card| {
        format!("  seen: {card}, driver {}", card.driver.as_deref().unwrap_or("unknown"))
    }));
    let mut report = Report {
        reason: Some(Reason::Completed),
        exit_code: Some(0),
        cards: cards.iter().map(|card| card.uuid.clone()).collect(),
        ..Report::new(Stage::Preflight)
    };
    for (subject, verdict) in verdicts {
        match verdict {
            Verdict::Pass => lines.push(format!("  passed: {subject}")),
            Verdict::Warn(finding) => {
                lines.extend(explain("warning", subject, finding));
                report.evidence = format!("warning: {}: {}", finding.reason, finding.evidence);
            }
            Verdict::Refuse(finding) => {
                lines.extend(explain("refused", subject, finding));
                report.reason = Some(finding.reason);
                report.exit_code = Some(REFUSED);
                report.evidence.clone_from(&finding.evidence);
            }
        }
    }
    notice::say(&lines.join("\n"));
    report
}

fn explain(verdict: &str, subject: &str, finding: &Finding) -> impl Iterator<Item = String> {
    let first = format!("  {verdict}: {subject}: {}", finding.reason);
    std::iter::once(first).chain(notice::told(finding))
}
