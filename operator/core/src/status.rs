//! What a holder's status says. Pure values; `leasehold_crds` maps them to and from the wire.
//! [`crate::decide`] reads the last one and makes the next one.

use jiff::{SignedDuration, Timestamp};

use crate::{
    condition::Condition,
    money::{Limit, Money},
    reason::{Finding, Payer, Reason},
    request::{Handled, StopOrder},
};

/// The status of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The generation that this status speaks of; -1 before the first pass.
    pub observed_generation: i64,
    /// The run that the rest of the status speaks of.
    pub rerun: i64,
    /// The hash of what that run runs; `None` before the first.
    pub spec_hash: Option<String>,
    /// Number of the newest attempt of the run, 0 before the first. Never falls within a run.
    pub attempt: u32,
    /// Values in effect, defaults applied.
    pub effective: Option<Effective>,
    /// The chosen card's id.
    pub card: Option<String>,
    /// The node that holds the card.
    pub node: Option<String>,
    /// The open lease.
    pub lease: Option<LeaseView>,
    /// Money of the run; `charged` counts closed leases only.
    pub cost: Cost,
    /// Running time that closed attempts of the run have used.
    pub runtime_used: SignedDuration,
    /// Closed attempts that held a card, newest first, at most [`MOST_ATTEMPTS`].
    pub attempts: Vec<Attempt>,
    /// How the run ended; `None` while it can go on.
    pub outcome: Option<Outcome>,
    /// A stop that was asked for outside of the specification, while it holds.
    pub stopped_by: Option<StopOrder>,
    /// The newest requests that were acted on, newest first, at most [`MOST_REQUESTS`].
    pub requests: Vec<Handled>,
    /// The pause after a pod that the scheduler left unbound.
    pub pause: Option<Pause>,
    /// Sorted by type.
    pub conditions: Vec<Condition>,
}

/// How many requests the status remembers.
pub const MOST_REQUESTS: usize = 10;

/// How many closed attempts the status lists.
pub const MOST_ATTEMPTS: usize = 10;

impl Default for Status {
    fn default() -> Self {
        Self {
            observed_generation: -1,
            rerun: 0,
            spec_hash: None,
            attempt: 0,
            effective: None,
            card: None,
            node: None,
            lease: None,
            cost: Cost::default(),
            runtime_used: SignedDuration::ZERO,
            attempts: Vec::new(),
            outcome: None,
            stopped_by: None,
            requests: Vec::new(),
            pause: None,
            conditions: Vec::new(),
        }
    }
}

/// The limits in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Cards in the pod.
    pub count: u32,
    /// Running time at most.
    pub max_runtime: SignedDuration,
    /// Stop signal until kill.
    pub grace_period: SignedDuration,
    /// Card held until the program starts, at most.
    pub startup_timeout: SignedDuration,
    /// The finished pod stays that long.
    pub keep_logs: SignedDuration,
    /// The ids that the typed card names stand for, in order of preference.
    pub cards: Vec<String>,
}

/// Money of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The currency of all amounts.
    pub currency: String,
    /// Sum of the closed leases.
    pub charged: Money,
    /// What the open lease may cost at most.
    pub reserved: Money,
    /// What the run may cost at most; `None` before the first pass.
    pub limit: Option<Limit>,
}

impl Default for Cost {
    fn default() -> Self {
        Self { currency: String::new(), charged: Money::ZERO, reserved: Money::ZERO, limit: None }
    }
}

/// The open lease as the holder shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Name of the `GpuLease` and of its pod.
    pub name: String,
    /// The card's id.
    pub card: String,
    /// Cards held.
    pub count: u32,
    /// What one hour of all cards together costs.
    pub rate_per_hour: Money,
    /// The currency of the rate.
    pub currency: String,
    /// Since when the card is held.
    pub held_at: Option<Timestamp>,
    /// Since when the program runs.
    pub running_at: Option<Timestamp>,
    /// When the program will be told to stop.
    pub ends_at: Option<Timestamp>,
    /// Why it will be told then.
    pub ends_because: Option<Reason>,
    /// When the kubelet ends the pod whatever happens.
    pub ceiling_at: Option<Timestamp>,
}

/// A closed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number within the run.
    pub number: u32,
    /// The run.
    pub rerun: i64,
    /// Name of its lease and pod.
    pub lease: String,
    /// The card's id.
    pub card: String,
    /// The node.
    pub node: Option<String>,
    /// When the card was taken.
    pub held_at: Timestamp,
    /// When the program started.
    pub running_at: Option<Timestamp>,
    /// When the card came back.
    pub ended_at: Timestamp,
    /// Why.
    pub reason: Reason,
    /// Exit code of the program, when it ran.
    pub exit_code: Option<i32>,
    /// What it cost.
    pub charged: Money,
    /// Who paid.
    pub paid_by: Payer,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Reason and evidence.
    pub finding: Finding,
    /// When.
    pub at: Timestamp,
}

/// A pause before the next choice of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// How many pods in a row did not get a node.
    pub tries: u32,
    /// When the choice is made again.
    pub until: Timestamp,
    /// Why the last pod did not get one: `PodUnbound` or `PodRefused`.
    pub reason: Reason,
    /// The words of the scheduler or the API server.
    pub said: String,
}
