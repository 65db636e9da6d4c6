//! Whether this operator may write: the port between whoever decides it and every writer. No I/O.
//!
//! [`election`] decides it, by a Lease of Kubernetes whose rules are in [`record`]; [`fence`] asks
//! before each write; [`crate::run`] starts what writes when leadership begins, and ends when it is
//! lost. Without election ([`Leadership::alone`]) the operator leads from the start.
//!
//! Leadership that is lost never comes back: what this process knows and what it had under way is
//! from before another one led, so it ends and begins anew.

pub mod election;
pub mod fence;
pub mod record;

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::clock::Clock;

/// How long those that wait leave a leader that shows no sign. This and the next two are what
/// Kubernetes' own components use:
/// <https://github.com/kubernetes/component-base/blob/master/config/v1alpha1/defaults.go>.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader leads after its last renewal. What is left of [`LEASE_DURATION`] then covers
/// clocks that go at different speeds, and writes that are on their way.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often a leader renews, and the others look.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// How long a leader that ends tries to give its lease back.
const RESIGN_LIMIT: Duration = Duration::from_secs(5);

/// Whether this operator leads. All clones are the same one.
#[derive(Clone)]
pub struct Leadership {
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// There is no election.
    Alone,
    /// It does not stand for election: not yet, or not any more.
    Away,
    /// It waits for its turn.
    Waits,
    /// It leads until this instant of the clock's uptime, if it does not renew before.
    Leads { until: Duration },
    /// It does not write any more, and gives its turn back.
    Resigns,
    /// For good.
    Lost(Lost),
}

/// Why an operator that led must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "leadership is lost: {0}; this process ends with everything unfinished and must be started again"
)]
pub struct Lost(String);

/// Why something was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not written, because this operator does not lead: {0}")]
pub struct NotLeading(String);

impl Leadership {
    /// Of an operator that leads without asking.
    #[must_use]
    pub fn alone(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: watch::Sender::new(State::Alone) }
    }

    /// Of an operator that has to be elected.
    #[must_use]
    pub fn elected(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: watch::Sender::new(State::Away) }
    }

    /// Whether a write may go out now.
    ///
    /// # Errors
    /// Why not. A leader that stood still is told here first, whatever else it wakes up to.
    pub fn may_write(&self) -> Result<(), NotLeading> {
        let why = match &*self.state.borrow() {
            State::Alone => return Ok(()),
            State::Leads { until } => {
                let now = self.clock.uptime();
                if now < *until {
                    return Ok(());
                }
                overdue(now, *until)
            }
            State::Away | State::Waits => "another one may".to_owned(),
            State::Resigns => "it has been told to end".to_owned(),
            State::Lost(Lost(why)) => why.clone(),
        };
        Err(NotLeading(why))
    }

    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.may_write().is_ok()
    }

    /// Waits until it leads.
    pub async fn until_leading(&self) {
        self.until(|state| matches!(state, State::Alone | State::Leads { .. })).await;
    }

    /// Waits until leadership is over, be it that somebody says so or that its time has run out.
    pub async fn until_lost(&self) -> Lost {
        let mut states = self.state.subscribe();
        loop {
            let state = states.borrow_and_update().clone();
            let left = match state {
                State::Lost(lost) => return lost,
                State::Leads { until } => until.saturating_sub(self.clock.uptime()),
                State::Alone | State::Away | State::Waits | State::Resigns => Duration::MAX,
            };
            if left == Duration::ZERO {
                self.expire();
                continue;
            }
            tokio::select! {
                _ = states.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// Stops writing and waits until those that wait can take over, as far as that can be had in a
    /// few seconds. What has been lost is not given back.
    pub async fn resign(&self) {
        let stands = self.state.send_if_modified(|state| {
            let stands = matches!(state, State::Waits | State::Leads { .. });
            if stands {
                *state = State::Resigns;
            }
            stands
        });
        if stands {
            // Those that wait find out by themselves, only later.
            let _ = tokio::time::timeout(
                RESIGN_LIMIT,
                self.until(|state| !matches!(state, State::Resigns)),
            )
            .await;
        }
    }

    async fn until(&self, is_so: impl FnMut(&State) -> bool) {
        // The sender lives as long as this.
        let _ = self.state.subscribe().wait_for(is_so).await;
    }

    fn expire(&self) {
        let now = self.clock.uptime();
        self.state.send_if_modified(|state| match state {
            State::Leads { until } if *until <= now => {
                *state = State::Lost(Lost(overdue(now, *until)));
                true
            }
            _ => false,
        });
    }
}

/// What only whoever decides about leadership says.
impl Leadership {
    /// It stands for election.
    pub fn stands(&self) {
        self.state.send_if_modified(|state| {
            let is_away = *state == State::Away;
            if is_away {
                *state = State::Waits;
            }
            is_away
        });
    }

    /// It leads, by a request that went out at this instant of the clock's uptime: those that wait
    /// may have seen it right then. A renewal that comes too late renews nothing.
    pub fn renewed(&self, sent_at: Duration) {
        self.expire();
        let until = sent_at.saturating_add(RENEW_DEADLINE);
        self.state.send_if_modified(|state| {
            let is_new = *state == State::Waits;
            if is_new || matches!(state, State::Leads { .. }) {
                *state = State::Leads { until };
            }
            is_new
        });
    }

    /// Another one leads, or may.
    pub fn lose(&self, why: &str) {
        self.state.send_if_modified(|state| {
            let had_it = matches!(state, State::Leads { .. });
            if had_it {
                *state = State::Lost(Lost(why.to_owned()));
            }
            had_it
        });
    }

    /// It does not stand any more, and whatever it had is given back.
    pub fn leaves(&self) {
        self.state.send_replace(State::Away);
    }

    /// How long it still leads without a renewal; `None` when it does not lead.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        match &*self.state.borrow() {
            State::Leads { until } => Some(until.saturating_sub(self.clock.uptime())),
            _ => None,
        }
    }

    /// Waits until it is told to end.
    pub async fn until_resigning(&self) {
        self.until(|state| matches!(state, State::Resigns)).await;
    }

    /// Whether leadership is over for good.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.expire();
        matches!(&*self.state.borrow(), State::Lost(_))
    }
}

fn overdue(now: Duration, until: Duration) -> String {
    let ago = now.saturating_sub(until).saturating_add(RENEW_DEADLINE).as_secs();
    let limit = RENEW_DEADLINE.as_secs();
    format!("it was last renewed {ago}s ago, and holds for {limit}s")
}

#[cfg(test)]
mod tests;
