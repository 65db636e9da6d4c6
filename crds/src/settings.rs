//! What an installation decides for all jobs: the file of `leasehold run --settings`. Pure; reading
//! can fail.
//!
//! [`SettingsFile`] is what people write, [`Settings`] what the operator uses. The schema for
//! editors is generated into `docs/settings.schema.json`.

use std::{fmt, ops::RangeInclusive};

use jiff::SignedDuration;
use leasehold_core::{desired::defaults, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::says;

/// Most bytes of `caBundle`: it travels in an environment variable.
pub const LARGEST_CA_BUNDLE: usize = 65_536;

/// What an installation decides for all jobs. Everything has a default.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(title = "Settings of leasehold")]
pub struct SettingsFile {
    /// The currency of prices and budgets that name none, ISO 4217. Default: `USD`.
    pub currency: Option<String>,
    /// Certificates in PEM, together at most 64 KiB, that pods trust beside those of their image.
    /// Default: none.
    pub ca_bundle: Option<String>,
    /// Where pods find what they install.
    pub mirrors: Mirrors,
    /// Values for jobs that say nothing.
    pub job_defaults: JobDefaults,
    /// How long a node may be silent until the leases on it are closed, 1m to 1h. Default: `5m`.
    pub node_lost_after: Option<String>,
}

/// Where pods find what they install.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Mirrors {
    /// Python packages.
    pub pypi: PackageIndex,
}

/// Indexes of Python packages (PEP 503).
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PackageIndex {
    /// The index in place of the public one. Default: the public one.
    pub index: Option<String>,
    /// Indexes that are asked first, in order. Default: none.
    pub extra: Vec<String>,
}

/// Values for jobs that say nothing.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JobDefaults {
    /// `gracePeriod`, 0s to 1h. Default: `30s`.
    pub grace_period: Option<String>,
    /// `keepLogs`, 0s to 168h. Default: `24h`.
    pub keep_logs: Option<String>,
}

/// The settings in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// ISO 4217 code that budgets and prices without one have.
    pub currency: String,
    /// Certificates in PEM that pods trust beside those of their image.
    pub ca_bundle: Option<String>,
    /// The index of Python packages in place of the public one.
    pub index: Option<String>,
    /// Indexes of Python packages that are asked first.
    pub extra_indexes: Vec<String>,
    /// `gracePeriod` of jobs that have none.
    pub grace_period: SignedDuration,
    /// `keepLogs` of jobs that have none.
    pub keep_logs: SignedDuration,
    /// How long a node may be silent until the leases on it are closed.
    pub node_lost_after: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            currency: "USD".to_owned(),
            ca_bundle: None,
            index: None,
            extra_indexes: Vec::new(),
            grace_period: defaults::GRACE_PERIOD,
            keep_logs: defaults::KEEP_LOGS,
            node_lost_after: SignedDuration::from_mins(5),
        }
    }
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSettings {
    /// The field; empty when the text is no YAML of this form.
    field: &'static str,
    /// Its value, where it may be shown.
    value: String,
    /// What is wrong and what to write.
    says: String,
}

impl fmt::Display for BadSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.field, self.value.as_str()) {
            ("", _) => out.write_str(&self.says),
            (field, "") => write!(out, "{field}: {}", self.says),
            (field, value) => write!(out, "{field} is {value:?}: {}", self.says),
        }
    }
}

impl std::error::Error for BadSettings {}

impl Settings {
    /// Settings from the text of a file in YAML or JSON; an empty one has all defaults.
    pub fn read(text: &str) -> Result<Self, BadSettings> {
        // A file of comments only is nothing at all to the parser.
        let blank = text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'));
        let file = if blank {
            SettingsFile::default()
        } else {
            serde_yaml::from_str(text).map_err(|error| bad("", "", &error.to_string()))?
        };
        Self::of(file)
    }

    fn of(file: SettingsFile) -> Result<Self, BadSettings> {
        let given = Self::default();
        let currency = file.currency.unwrap_or(given.currency);
        if currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return Err(bad("currency", &currency, says::CURRENCY));
        }
        let pypi = file.mirrors.pypi;
        for url in pypi.index.iter().chain(&pypi.extra) {
            check_url(url)?;
        }
        let defaults = file.job_defaults;
        let time =
            |field, text: Option<String>, within: RangeInclusive<_>, otherwise, says| match text {
                None => Ok(otherwise),
                Some(text) => duration::parse(&text)
                    .ok()
                    .filter(|time| within.contains(time))
                    .ok_or_else(|| bad(field, &text, says)),
            };
        let none = SignedDuration::ZERO;
        Ok(Self {
            currency,
            ca_bundle: file.ca_bundle.map(certificates).transpose()?,
            index: pypi.index,
            extra_indexes: pypi.extra,
            grace_period: time(
                "jobDefaults.gracePeriod",
                defaults.grace_period,
                none..=SignedDuration::from_hours(1),
                given.grace_period,
                says::GRACE_PERIOD,
            )?,
            keep_logs: time(
                "jobDefaults.keepLogs",
                defaults.keep_logs,
                none..=SignedDuration::from_hours(168),
                given.keep_logs,
                says::KEEP_LOGS,
            )?,
            node_lost_after: time(
                "nodeLostAfter",
                file.node_lost_after,
                SignedDuration::from_mins(1)..=SignedDuration::from_hours(1),
                given.node_lost_after,
                "nodeLostAfter is hours, minutes and seconds in that order, from 1m to 1h, for example 5m",
            )?,
        })
    }
}

fn certificates(bundle: String) -> Result<String, BadSettings> {
    if bundle.len() > LARGEST_CA_BUNDLE {
        let given = format!("{} bytes", bundle.len());
        let cure = "at most 64 KiB: write only the certificates that images do not have";
        return Err(bad("caBundle", &given, cure));
    }
    let begins = bundle.matches("-----BEGIN CERTIFICATE-----").count();
    let ends = bundle.matches("-----END CERTIFICATE-----").count();
    if begins == 0 || begins != ends || bundle.contains("PRIVATE KEY") {
        let cure = "certificates in PEM, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, and no private key";
        return Err(bad("caBundle", "", cure));
    }
    Ok(bundle)
}

/// An address that may stand in every pod.
fn check_url(url: &str) -> Result<(), BadSettings> {
    const FIELD: &str = "mirrors.pypi";
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if host.contains('@') {
        let cure = "pods of everybody would show the password: use a mirror without one";
        return Err(bad(FIELD, "", cure));
    }
    if host.is_empty() || url.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    {
        return Err(bad(FIELD, url, "an index has an http or https address"));
    }
    Ok(())
}

fn bad(field: &'static str, value: &str, says: &str) -> BadSettings {
    BadSettings { field, value: value.to_owned(), says: says.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    #[test]
    fn what_is_not_said_has_its_default() {
        for text in ["", "# nothing\n", "{}", "mirrors: {pypi: {}}"] {
            assert_eq!(Settings::read(text).unwrap(), Settings::default(), "{text:?}");
        }
    }

    #[test]
    fn everything_is_read() {
        let text = format!(
            "currency: CNY
caBundle: |
  {}
mirrors:
  pypi: {{index: \"https://mirror.example.com/simple\", extra: [\"http://10.0.0.7:3141/gpu/simple\"]}}
jobDefaults: {{gracePeriod: 2m, keepLogs: 1h}}
",
            PEM.replace('\n', "\n  ")
        );
        let settings = Settings::read(&text).unwrap();
        assert_eq!(settings.currency, "CNY");
        assert_eq!(settings.ca_bundle.as_deref().map(str::trim), Some(PEM.trim()));
        assert_eq!(settings.index.as_deref(), Some("https://mirror.example.com/simple"));
        assert_eq!(settings.extra_indexes, ["http://10.0.0.7:3141/gpu/simple"]);
        assert_eq!(settings.grace_period, SignedDuration::from_mins(2));
        assert_eq!(settings.keep_logs, SignedDuration::from_hours(1));
    }

    #[test]
    fn what_is_wrong_is_named_and_cured() {
        for (text, words) in [
            ("currency: euro", "currency is \"euro\": currency is an ISO 4217 code"),
            ("curency: EUR", "curency"),
            ("mirrors: {pypy: {}}", "pypy"),
            ("mirrors: {pypi: {index: mirror}}", "mirrors.pypi is \"mirror\""),
            ("mirrors: {pypi: {extra: [\"https://u:secret@m/simple\"]}}", "mirrors.pypi: pods of"),
            ("caBundle: hello", "caBundle: certificates in PEM"),
            ("jobDefaults: {gracePeriod: 2h}", "jobDefaults.gracePeriod is \"2h\""),
            ("jobDefaults: {keepLogs: 3 days}", "jobDefaults.keepLogs is \"3 days\""),
            ("nodeLostAfter: 30s", "nodeLostAfter is \"30s\""),
            ("- a list", ""),
        ] {
            let said = Settings::read(text).unwrap_err().to_string();
            assert!(said.contains(words) && !said.contains("secret"), "{text}: {said}");
        }
        let large = format!("caBundle: \"{}\"", "x".repeat(LARGEST_CA_BUNDLE + 1));
        assert!(Settings::read(&large).unwrap_err().to_string().contains("at most 64 KiB"));
    }
}
