//! From a `GpuJob` to the core's [`Desired`], or to what is wrong with it. Pure.
//!
//! Parse once: after this nothing re-checks, unwraps or defaults. What CEL can see is refused at
//! `kubectl apply` with the same words; these checks stand behind it for objects that came in
//! before the rules did. [`leasehold_core::decide`] reads the result.

mod environment;
mod program;

pub use environment::{DEFAULT_FILE, file_names};
use jiff::SignedDuration;
use kube::ResourceExt;
use leasehold_core::{
    desired::{Desired, GpuCount, Wish},
    duration,
    money::{Limit, Money},
    reason::{Finding, Reason},
};

use crate::{
    identity::spec_hash,
    job::{Budget, GpuJob, GpuJobSpec, Resources},
    names::LONGEST_HOLDER_NAME,
    quantity,
    scalar::Scalar,
    schema::{HIGHEST_RERUN, LONGEST_CARD_NAME, MOST_CARD_NAMES, says},
    settings::Settings,
};

/// CPU and memory as numbers; `None` where the cards' share of the node applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu_millis: Option<i64>,
    /// Bytes.
    pub memory_bytes: Option<i64>,
    /// Bytes of `/dev/shm`.
    pub shared_memory_bytes: Option<i64>,
}

/// Bounds of durations that have a default.
const LONGEST_GRACE: SignedDuration = SignedDuration::from_hours(1);
const LONGEST_KEEPING: SignedDuration = SignedDuration::from_hours(168);
const LONGEST_RUNTIME: SignedDuration = SignedDuration::from_hours(720);
/// One unit above the highest amount.
const TOO_MUCH: i64 = 1_000_000_000_000_000;

/// What the job wants, or the first thing that is wrong with its specification: the field, its
/// value and what to write instead.
pub fn desire(job: &GpuJob, settings: &Settings) -> Result<Desired, Finding> {
    let name = job.name_any();
    if name.chars().count() > LONGEST_HOLDER_NAME {
        return Err(invalid("metadata.name", &name, says::NAME));
    }
    let spec = &job.spec;
    program::check(spec)?;
    environment::check(spec.environment.as_ref())?;
    amounts(spec.resources.as_ref())?;
    Ok(Desired {
        rerun: rerun(spec)?,
        spec_hash: spec_hash(spec),
        cards: cards(&spec.gpu.cards)?,
        count: count(spec.gpu.count)?,
        max_runtime: max_runtime(&spec.max_runtime)?,
        grace_period: optional(
            "spec.gracePeriod",
            spec.grace_period.as_deref(),
            LONGEST_GRACE,
            says::GRACE_PERIOD,
        )?
        .unwrap_or(settings.grace_period),
        limit: limit(&spec.budget)?,
        currency: currency(spec.budget.currency.as_deref(), "spec.budget.currency", settings)?,
        wish: wish(spec.state.as_deref())?,
        keep_logs: optional(
            "spec.keepLogs",
            spec.keep_logs.as_deref(),
            LONGEST_KEEPING,
            says::KEEP_LOGS,
        )?
        .unwrap_or(settings.keep_logs),
    })
}

/// CPU and memory of a specification as numbers.
pub fn amounts(resources: Option<&Resources>) -> Result<Amounts, Finding> {
    let Some(resources) = resources else {
        return Ok(Amounts::default());
    };
    let memory = |field: &str, value: &Option<Scalar>| {
        value.as_ref().map(|value| memory_bytes(field, value)).transpose()
    };
    let cpu = resources.cpu.as_ref().map(|cpu| {
        quantity::cpu_millis(cpu.as_str())
            .ok_or_else(|| invalid("spec.resources.cpu", cpu.as_str(), says::CPU))
    });
    Ok(Amounts {
        cpu_millis: cpu.transpose()?,
        memory_bytes: memory("spec.resources.memory", &resources.memory)?,
        shared_memory_bytes: memory("spec.resources.sharedMemory", &resources.shared_memory)?,
    })
}

/// The currency as written, or the installation's.
pub(crate) fn currency(
    written: Option<&str>,
    field: &str,
    settings: &Settings,
) -> Result<String, Finding> {
    let Some(code) = written else {
        return Ok(settings.currency.clone());
    };
    let valid = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    valid.then(|| code.to_owned()).ok_or_else(|| invalid(field, code, says::CURRENCY))
}

/// An amount below 10⁹ units.
pub(crate) fn amount(text: &str) -> Option<Money> {
    let whole = text.split('.').next().unwrap_or_default();
    Money::parse(text).ok().filter(|money| whole.len() <= 9 && money.micros() < TOO_MUCH)
}

/// A refusal: the field, its value, and what to write instead.
pub(crate) fn invalid(field: &str, value: &str, says: &str) -> Finding {
    const SHOWN: usize = 80;
    let shown: String = value.chars().take(SHOWN).collect();
    let more = if value.chars().nth(SHOWN).is_some() { " and more" } else { "" };
    Finding::new(Reason::InvalidSpec, format!("{field} is {shown:?}{more}: {says}"))
}

fn memory_bytes(field: &str, value: &Scalar) -> Result<i64, Finding> {
    let text = value.as_str();
    if let Some(number) = text.strip_suffix('m') {
        return Err(invalid(
            field,
            text,
            &format!("{}; did you mean {number}Mi?", says::MILLIBYTES),
        ));
    }
    quantity::memory_bytes(text).ok_or_else(|| invalid(field, text, says::MEMORY))
}

fn rerun(spec: &GpuJobSpec) -> Result<i64, Finding> {
    let rerun = spec.rerun.unwrap_or(0);
    let valid = (0..=HIGHEST_RERUN).contains(&rerun);
    valid.then_some(rerun).ok_or_else(|| {
        invalid("spec.rerun", &rerun.to_string(), "rerun is a number from 0 to 999999999")
    })
}

fn cards(names: &[Scalar]) -> Result<Vec<String>, Finding> {
    if !(1..=MOST_CARD_NAMES).contains(&names.len()) {
        let cure = "name 1 to 8 cards, in order of preference";
        return Err(invalid("spec.gpu.cards", &names.len().to_string(), cure));
    }
    card_names("spec.gpu.cards", names.iter().map(Scalar::as_str))
}

/// Names of cards as people type them.
pub(crate) fn card_names<'a>(
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, Finding> {
    let allowed =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, ' ' | '.' | '_' | '-');
    names
        .enumerate()
        .map(|(index, name)| {
            let valid = name.starts_with(|first: char| first.is_ascii_alphanumeric())
                && name.len() <= LONGEST_CARD_NAME
                && name.chars().all(allowed);
            valid
                .then(|| name.to_owned())
                .ok_or_else(|| invalid(&format!("{field}[{index}]"), name, says::CARD_NAME))
        })
        .collect()
}

fn count(count: Option<i64>) -> Result<GpuCount, Finding> {
    let count = count.unwrap_or(1);
    u32::try_from(count).ok().and_then(GpuCount::new).ok_or_else(|| {
        invalid(
            "spec.gpu.count",
            &count.to_string(),
            "count is a whole number of cards from 1 to 64",
        )
    })
}

fn max_runtime(text: &str) -> Result<SignedDuration, Finding> {
    duration::parse(text)
        .ok()
        .filter(|time| *time > SignedDuration::ZERO && *time <= LONGEST_RUNTIME)
        .ok_or_else(|| invalid("spec.maxRuntime", text, says::MAX_RUNTIME))
}

fn optional(
    field: &str,
    text: Option<&str>,
    longest: SignedDuration,
    says: &str,
) -> Result<Option<SignedDuration>, Finding> {
    let parse = |text: &str| {
        duration::parse(text)
            .ok()
            .filter(|time| *time <= longest)
            .ok_or_else(|| invalid(field, text, says))
    };
    text.map(parse).transpose()
}

fn limit(budget: &Budget) -> Result<Limit, Finding> {
    let text = budget.limit.as_str();
    if text == "Unlimited" {
        return Ok(Limit::Unlimited);
    }
    amount(text)
        .filter(|limit| *limit > Money::ZERO)
        .map(Limit::Amount)
        .ok_or_else(|| invalid("spec.budget.limit", text, says::LIMIT))
}

fn wish(state: Option<&str>) -> Result<Wish, Finding> {
    match state {
        None | Some("Running") => Ok(Wish::Running),
        Some("Stopped") => Ok(Wish::Stopped),
        Some(other) => Err(invalid("spec.state", other, "state is Running or Stopped")),
    }
}
