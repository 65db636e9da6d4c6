//! What people ask for outside of the specification. Pure values; `leasehold_crds` reads them from
//! `GpuRequest` objects, [`crate::decide`] acts on each once.

use jiff::{SignedDuration, Timestamp};

/// How long an answered request stays to be read.
pub const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give the card back, and start nothing until something says so.
    Stop,
    /// Go on after such a stop.
    Start,
}

impl Action {
    /// All actions.
    pub const ALL: &'static [Self] = &[Self::Stop, Self::Start];

    /// The word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "Stop",
            Self::Start => "Start",
        }
    }

    /// The action with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }
}

/// A request about a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object's name.
    pub name: String,
    /// Which object of that name.
    pub uid: String,
    /// What is asked for.
    pub action: Action,
    /// When it was made.
    pub asked_at: Timestamp,
    /// When it was answered; `None` while it is pending.
    pub answered_at: Option<Timestamp>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// It was done; otherwise it was refused.
    pub is_done: bool,
    /// What was done, or why not.
    pub said: String,
    /// When.
    pub at: Timestamp,
}

/// A request that was acted on, as the holder remembers it: it is not acted on again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handled {
    /// The object's name.
    pub name: String,
    /// Which object of that name.
    pub uid: String,
    /// What was asked for.
    pub action: Action,
    /// The answer.
    pub answer: Answer,
}

/// A stop that was asked for and still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOrder {
    /// The request's name.
    pub request: String,
    /// When it was acted on.
    pub at: Timestamp,
}
