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

/// What an API server says, with code 500, of an object that its store does not take: etcd's limit
/// <https://etcd.io/docs/v3.6/dev-guide/limit/>, and that of the connection to it.
const TOO_LARGE: [&str; 2] = ["request is too large", "message larger than max"];

fn class_of(error: &kube::Error) -> Class {
    match error {
        kube::Error::Api(status) => match status.code {
            409 => Class::Conflict,
            401 | 403 => Class::Denied,
            400 | 413 | 422 => Class::Refused,
            _ if TOO_LARGE.iter().any(|words| status.message.contains(words)) => Class::Refused,
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

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_store_does_not_take_is_refused_for_good() {
        for (code, message, class) in [
            (500, "etcdserver: request is too large", Class::Refused),
            (500, "trying to send message larger than max (3 vs. 2)", Class::Refused),
            (500, "etcdserver: leader changed", Class::Transient),
            (413, "limit is 3145728", Class::Refused),
            (409, "modified", Class::Conflict),
            (403, "quota exceeded", Class::Denied),
        ] {
            let status = Status { code, message: message.to_owned(), ..Status::default() };
            assert_eq!(class_of(&kube::Error::Api(status.boxed())), class, "{message}");
        }
    }
}
