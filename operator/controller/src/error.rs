//! What can go wrong between the controller and the API server, and what to do then.

use std::time::Duration;

/// A failed call, with what it was for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or did not answer.
    #[error("failed to {doing}")]
    Api {
        /// What the call was for, for example `create pod ml/train-r0-a1`.
        doing: String,
        /// What came back.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer within the time that a call may take.
    #[error("failed to {doing}: no answer within {}s", limit.as_secs())]
    Timeout {
        /// What the call was for.
        doing: String,
        /// How long it waited.
        limit: Duration,
    },
    /// An object of ours cannot be read.
    #[error("failed to read {what}: {why}")]
    Unreadable {
        /// Which object.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The lease of this name belongs to something else.
    #[error("lease {lease} belongs to another object: {owner}")]
    ForeignLease {
        /// The lease.
        lease: String,
        /// Whose it is.
        owner: String,
    },
}

/// What an error means for the next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may work later.
    Transient,
    /// What was seen is older than what is stored; look again.
    Conflict,
    /// A permission is missing.
    Denied,
    /// The request itself is refused.
    Refused,
    /// Something that should not be.
    Bug,
}

impl Error {
    /// Decides the retry.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Api { source, .. } => class_of(source),
            Self::Timeout { .. } => Class::Transient,
            Self::Unreadable { .. } | Self::ForeignLease { .. } => Class::Bug,
        }
    }

    /// The words of the API server, when it refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(&status.message),
                _ => None,
            },
            Self::Timeout { .. } | Self::Unreadable { .. } | Self::ForeignLease { .. } => None,
        }
    }
}

fn class_of(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) => match status.code {
            409 => Class::Conflict,
            401 | 403 => Class::Denied,
            400 | 422 => Class::Refused,
            _ => Class::Transient,
        },
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => Class::Bug,
        _ => Class::Transient,
    }
}

/// How long to wait before the next try, after so many failures in a row.
#[must_use]
pub fn backoff(class: Class, failures: u32) -> Duration {
    let base = match class {
        Class::Conflict => Duration::from_millis(50),
        Class::Transient => Duration::from_millis(500),
        Class::Denied | Class::Refused | Class::Bug => Duration::from_secs(5),
    };
    base.saturating_mul(1 << failures.min(8)).min(Duration::from_mins(1))
}
