//! The only place that reads the environment: settings as validated values. Parsing can fail.
//!
//! | variable | for | meaning |
//! |---|---|---|
//! | `LEASEHOLD_TERMINATION_LOG` | all | file for reports, `/dev/termination-log` when missing |
//! | `LEASEHOLD_CARD` | preflight | id of the leased card |
//! | `LEASEHOLD_CARD_PRODUCTS` | preflight | JSON array of the names that nvidia-smi may print for it |
//! | `LEASEHOLD_CARD_MEMORY_MIB` | preflight | its memory; not compared when missing |
//! | `LEASEHOLD_COUNT` | preflight | number of cards |
//! | `LEASEHOLD_RUNTIME_SECONDS` | run | running time, from the program's start |
//! | `LEASEHOLD_HELD_SECONDS` | run | longest time from taking the card to the stop signal; unlimited when missing |
//! | `LEASEHOLD_GRACE_SECONDS` | run | from the stop signal to the kill, 30 when missing |
//! | `LEASEHOLD_LEASE_DIR` | prepare, run | directory in which the operator's orders appear |
//! | `LEASEHOLD_ENVIRONMENT_DIR` | prepare, run | directory of the restored environment, in both containers |
//! | `LEASEHOLD_CA_BUNDLE` | install, prepare, run | certificates that this installation trusts, PEM |
//! | `SSL_CERT_FILE` | prepare, run | the certificates that the image trusts |
//! | `PATH` | preflight, prepare, run | where commands are looked for |
//!
//! An empty variable is a missing one. [`restore`] has the variables of `install` and `prepare`
//! that are about environments.

pub mod restore;

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use leasehold_core::preflight::Expectation;

const TERMINATION_LOG: &str = "LEASEHOLD_TERMINATION_LOG";
const CARD: &str = "LEASEHOLD_CARD";
const CARD_PRODUCTS: &str = "LEASEHOLD_CARD_PRODUCTS";
const CARD_MEMORY_MIB: &str = "LEASEHOLD_CARD_MEMORY_MIB";
const COUNT: &str = "LEASEHOLD_COUNT";
const RUNTIME_SECONDS: &str = "LEASEHOLD_RUNTIME_SECONDS";
const HELD_SECONDS: &str = "LEASEHOLD_HELD_SECONDS";
const GRACE_SECONDS: &str = "LEASEHOLD_GRACE_SECONDS";
const LEASE_DIR: &str = "LEASEHOLD_LEASE_DIR";
const ENVIRONMENT_DIR: &str = "LEASEHOLD_ENVIRONMENT_DIR";
const CA_BUNDLE: &str = "LEASEHOLD_CA_BUNDLE";

/// Kubernetes' own default of a grace period.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// Why the environment cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEnvironment {
    /// A variable is needed and not there.
    #[error("the environment variable {name} is missing: set it to {wanted}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A variable has a value that cannot be used.
    #[error("the environment variable {name} is {value:?}: set it to {wanted}")]
    Unusable {
        /// The variable.
        name: &'static str,
        /// What it is.
        value: OsString,
        /// What it should be.
        wanted: &'static str,
    },
}

/// Settings of `preflight`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightSettings {
    /// What the lease says about the cards.
    pub expected: Expectation,
    /// Where commands are looked for.
    pub path: OsString,
}

/// Settings of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettings {
    /// Running time, from the program's start.
    pub runtime: Duration,
    /// Longest time from taking the card to the stop signal.
    pub held: Option<Duration>,
    /// From the stop signal to the kill.
    pub grace: Duration,
    /// Where the operator's orders appear.
    pub lease_directory: Option<PathBuf>,
    /// Where commands are looked for.
    pub path: OsString,
    /// Where `prepare` has restored an environment, if it has.
    pub environment_directory: Option<PathBuf>,
    /// Which servers the program trusts.
    pub trust: TrustSettings,
}

/// Which servers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustSettings {
    /// Certificates of this installation, PEM.
    pub installation: Option<String>,
    /// A file with the image's certificates, when the image names one.
    pub image: Option<PathBuf>,
}

/// Where reports go.
#[must_use]
pub fn termination_log() -> PathBuf {
    read(TERMINATION_LOG).map_or_else(|| PathBuf::from("/dev/termination-log"), PathBuf::from)
}

/// The settings of `preflight`.
pub fn for_preflight() -> Result<PreflightSettings, BadEnvironment> {
    preflight_settings(&read)
}

/// Whether a variable is set, be it to nothing.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// The settings of `run`.
pub fn for_run() -> Result<RunSettings, BadEnvironment> {
    run_settings(&read)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

type Read<'a> = &'a dyn Fn(&str) -> Option<OsString>;

fn preflight_settings(read: Read<'_>) -> Result<PreflightSettings, BadEnvironment> {
    const NAMES: &str =
        "a JSON array of the names that nvidia-smi prints, for example [\"NVIDIA L4\"]";
    let products: String = required(read, CARD_PRODUCTS, NAMES)?;
    let products: Vec<String> = serde_json::from_str(&products).map_err(|_| {
        BadEnvironment::Unusable { name: CARD_PRODUCTS, value: products.into(), wanted: NAMES }
    })?;
    Ok(PreflightSettings {
        expected: Expectation {
            card: required(read, CARD, "the id of the leased card")?,
            products,
            memory_mib: optional(read, CARD_MEMORY_MIB, "the card's memory in MiB")?,
            count: required(read, COUNT, "the number of leased cards")?,
        },
        path: read("PATH").unwrap_or_default(),
    })
}

fn run_settings(read: Read<'_>) -> Result<RunSettings, BadEnvironment> {
    const SECONDS: &str = "a number of seconds";
    Ok(RunSettings {
        runtime: Duration::from_secs(required(read, RUNTIME_SECONDS, SECONDS)?),
        held: optional(read, HELD_SECONDS, SECONDS)?.map(Duration::from_secs),
        grace: optional(read, GRACE_SECONDS, SECONDS)?.map_or(DEFAULT_GRACE, Duration::from_secs),
        lease_directory: read(LEASE_DIR).map(PathBuf::from),
        path: read("PATH").unwrap_or_default(),
        environment_directory: read(ENVIRONMENT_DIR).map(PathBuf::from),
        trust: trust_settings(read)?,
    })
}

fn trust_settings(read: Read<'_>) -> Result<TrustSettings, BadEnvironment> {
    Ok(TrustSettings {
        installation: optional(read, CA_BUNDLE, "certificates in PEM form")?,
        image: read("SSL_CERT_FILE").map(PathBuf::from),
    })
}

fn required<T: FromStr>(
    read: Read<'_>,
    name: &'static str,
    wanted: &'static str,
) -> Result<T, BadEnvironment> {
    optional(read, name, wanted)?.ok_or(BadEnvironment::Missing { name, wanted })
}

fn optional<T: FromStr>(
    read: Read<'_>,
    name: &'static str,
    wanted: &'static str,
) -> Result<Option<T>, BadEnvironment> {
    let Some(value) = read(name) else {
        return Ok(None);
    };
    match value.to_str().and_then(|text| text.parse().ok()) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(BadEnvironment::Unusable { name, value, wanted }),
    }
}

/// The directories of a search path.
pub fn directories(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn settings(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let pairs: Vec<(String, OsString)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        move |wanted| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    }

    #[test]
    fn run_needs_a_running_time_only() {
        let run = run_settings(&settings(&[(RUNTIME_SECONDS, "60")])).unwrap();
        assert_eq!(run.runtime, Duration::from_mins(1));
        assert_eq!((run.held, run.grace, run.lease_directory), (None, DEFAULT_GRACE, None));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named() {
        for (name, value) in [
            (RUNTIME_SECONDS, "1h"),
            (RUNTIME_SECONDS, "-1"),
            (HELD_SECONDS, "x"),
            (GRACE_SECONDS, "1.5"),
        ] {
            let good = if name == RUNTIME_SECONDS { HELD_SECONDS } else { RUNTIME_SECONDS };
            let error =
                run_settings(&settings(&[(good, "60"), (name, value)])).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
        let error = run_settings(&settings(&[])).unwrap_err().to_string();
        assert!(error.contains(RUNTIME_SECONDS), "{error}");
    }

    #[test]
    fn preflight_reads_what_the_lease_says() {
        let read = settings(&[(CARD, "l4"), (CARD_PRODUCTS, r#"["NVIDIA L4"]"#), (COUNT, "2")]);
        let expected = preflight_settings(&read).unwrap().expected;
        assert_eq!((expected.card.as_str(), expected.count, expected.memory_mib), ("l4", 2, None));
        assert_eq!(expected.products, ["NVIDIA L4"]);
        let read = settings(&[(CARD, "l4"), (CARD_PRODUCTS, "NVIDIA L4"), (COUNT, "2")]);
        assert!(preflight_settings(&read).unwrap_err().to_string().contains("NVIDIA L4"));
    }
}
