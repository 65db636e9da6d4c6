//! Where `make setup` put what tests need. The only place that reads environment variables, but for
//! those that are options of the demo.

use std::{ops::Range, path::PathBuf};

/// Programs and images, as `tests/setup/env` exports them.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The playground's program.
    pub playground: PathBuf,
    /// The operator's program.
    pub operator: PathBuf,
    /// Unpacked packages with the container runtime; needed for real nodes.
    pub packages: Option<PathBuf>,
    /// An image with Python; needed for real nodes.
    pub base_image: Option<PathBuf>,
    /// The agent's image; needed for real nodes.
    pub agent_image: Option<PathBuf>,
    /// The operator's image; needed where it runs in the cluster.
    pub operator_image: Option<PathBuf>,
    /// The agent's program, as it is in the image.
    pub agent: Option<PathBuf>,
    /// Kueue's program, definitions and webhooks; needed where it is compared with.
    pub kueue: Option<PathBuf>,
    /// The folder for everything that is kept.
    pub cache: PathBuf,
}

/// What is missing, and how to get it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{variable} is not set: run `make {target}`, or `eval \"$(tests/setup/env)\"` after `make setup`"
)]
pub struct Missing {
    variable: &'static str,
    target: &'static str,
}

impl Environment {
    /// Reads it.
    ///
    /// # Errors
    /// A variable that is not set.
    pub fn read(target: &'static str) -> Result<Self, Missing> {
        let needed = |variable| path(variable).ok_or(Missing { variable, target });
        Ok(Self {
            playground: needed("LEASEHOLD_PLAYGROUND")?,
            operator: needed("LEASEHOLD_OPERATOR")?,
            packages: path("LEASEHOLD_PACKAGES"),
            base_image: path("LEASEHOLD_BASE_IMAGE"),
            agent_image: path("LEASEHOLD_AGENT_IMAGE"),
            operator_image: path("LEASEHOLD_OPERATOR_IMAGE"),
            agent: path("LEASEHOLD_AGENT"),
            kueue: path("LEASEHOLD_KUEUE"),
            cache: needed("LEASEHOLD_CACHE")?,
        })
    }
}

/// A size that fits `make test`, or the one of `make soak`.
#[must_use]
pub fn sized(usual: usize, soak: usize) -> usize {
    if value("LEASEHOLD_SIZE").as_deref() == Some("soak") { soak } else { usual }
}

/// The seeds of random tests: so many, or as many as `LEASEHOLD_SEEDS` says, or the only one that
/// `LEASEHOLD_SEED` names.
///
/// # Panics
/// When one of them is no number.
#[must_use]
pub fn seeds(usual: usize, soak: usize) -> Range<usize> {
    match number("LEASEHOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LEASEHOLD_SEEDS").unwrap_or_else(|| sized(usual, soak)).max(1),
    }
}

fn number(variable: &'static str) -> Option<usize> {
    let text = value(variable)?;
    let number = text.parse();
    assert!(number.is_ok(), "{variable} is {text:?}, which is no number");
    number.ok()
}

fn path(variable: &'static str) -> Option<PathBuf> {
    value(variable).map(PathBuf::from)
}

fn value(variable: &'static str) -> Option<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one module that reads the environment"
    )]
    let value = std::env::var(variable).ok();
    value.filter(|value| !value.is_empty())
}
