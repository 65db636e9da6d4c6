//! Every name that leasehold writes into a cluster. Pure data.

/// The API group of all kinds.
pub const GROUP: &str = "leasehold.dev";
/// The version of all kinds.
pub const VERSION: &str = "v1alpha1";

/// Finalizer on a lease: it stays until the lease is final.
pub const FINALIZER_LEDGER: &str = "leasehold.dev/ledger";
/// Finalizer on a pod: it stays until its end is in the ledger.
pub const FINALIZER_METERING: &str = "leasehold.dev/metering";

/// Label on a lease, set once when it became final; a lease without it is open.
pub const LABEL_STATE: &str = "leasehold.dev/state";
/// The value of [`LABEL_STATE`].
pub const STATE_CLOSED: &str = "closed";
/// Label on a pod: the name of its holder.
pub const LABEL_HOLDER: &str = "leasehold.dev/holder";
/// Label on a pod: the name of its lease, which is also its own.
pub const LABEL_LEASE: &str = "leasehold.dev/lease";

/// Annotation on a pod: the order to stop the program, with its reason.
pub const ANNOTATION_STOP: &str = "leasehold.dev/stop";
/// Annotation on a pod: the running time in seconds that the agent enforces.
pub const ANNOTATION_RUNTIME_SECONDS: &str = "leasehold.dev/runtime-seconds";

/// Annotation on a pod: the node whose cards it counts on until it is bound.
pub const ANNOTATION_NODE_HINT: &str = "leasehold.dev/node-hint";

/// Environment variable of the program: the running time in seconds that its pod was made with.
pub const ENVIRONMENT_RUNTIME_SECONDS: &str = "LEASEHOLD_RUNTIME_SECONDS";
/// Environment variable of the program: its grace period in seconds.
pub const ENVIRONMENT_GRACE_SECONDS: &str = "LEASEHOLD_GRACE_SECONDS";
/// Environment variable of the program: seconds from taking the card until the stop at most.
pub const ENVIRONMENT_HELD_SECONDS: &str = "LEASEHOLD_HELD_SECONDS";
/// Environment variable of the program: the uid of the lease that its pod was made for.
pub const ENVIRONMENT_LEASE_UID: &str = "LEASEHOLD_LEASE_UID";
/// Beginning of all environment variables that belong to leasehold.
pub const ENVIRONMENT_PREFIX: &str = "LEASEHOLD_";

/// Most characters of a holder's name: the names of its attempts stay valid label values with it,
/// because `rerun` has at most 9 digits and an attempt 10.
pub const LONGEST_HOLDER_NAME: usize = 40;

#[cfg(test)]
mod tests {
    use leasehold_core::observed::Holder;

    use super::*;
    use crate::schema::HIGHEST_RERUN;

    #[test]
    fn the_longest_name_of_an_attempt_is_a_valid_label_value() {
        let holder = Holder { namespace: "ml".into(), name: "x".repeat(LONGEST_HOLDER_NAME) };
        assert_eq!(holder.attempt_name(HIGHEST_RERUN, u32::MAX).len(), 63);
    }
}
