//! What a holder wants, parsed once: after this nothing re-checks, unwraps or defaults.
//! Made by `leasehold_crds::desire`, read by [`crate::decide`].

use jiff::SignedDuration;

use crate::money::Limit;

/// Bounds and defaults of the specification.
pub mod defaults {
    use jiff::SignedDuration;

    /// `gracePeriod` when the specification has none.
    pub const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(30);
    /// `keepLogs` when the specification has none.
    pub const KEEP_LOGS: SignedDuration = SignedDuration::from_hours(24);
    /// How long a card may be held before the program starts.
    pub const STARTUP_TIMEOUT: SignedDuration = SignedDuration::from_mins(30);
    /// Most cards in one pod.
    pub const MOST_CARDS: u32 = 64;
}

/// How many cards the pod gets, 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuCount(u32);

impl GpuCount {
    /// A count from 1 to [`defaults::MOST_CARDS`]; `None` outside.
    #[must_use]
    pub fn new(count: u32) -> Option<Self> {
        (1..=defaults::MOST_CARDS).contains(&count).then_some(Self(count))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Whether the holder shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Run, when there are card and money.
    Running,
    /// Give the card back and start nothing.
    Stopped,
}

/// The specification of a job as rules read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// Which run this is; each value runs at most once.
    pub rerun: i64,
    /// The hash of what is run; together with `rerun` it names the run.
    pub spec_hash: String,
    /// Card names as typed, in order of preference.
    pub cards: Vec<String>,
    /// Cards in the pod.
    pub count: GpuCount,
    /// Running time of all attempts of the run together.
    pub max_runtime: SignedDuration,
    /// From the stop signal until the program is killed.
    pub grace_period: SignedDuration,
    /// What the run may cost.
    pub limit: Limit,
    /// The currency of `limit`.
    pub currency: String,
    /// Run or stop.
    pub wish: Wish,
    /// How long the finished pod stays readable.
    pub keep_logs: SignedDuration,
}
