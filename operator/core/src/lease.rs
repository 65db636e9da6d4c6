//! The life of a lease: one period in which one pod holds cards on a node. Pure.
//!
//! ```text
//!              pod bound                last container ended, kubelet refused, pod lost
//!  Reserved ──────────────▶ Held ─────────────────────────────────────────────▶ Closed
//!     │                                                                           ▲
//!     │  pod never bound                                       charge, payer and  │
//!     └──────────────────▶ Void  (costs nothing)               reason are final ──┘
//! ```
//!
//! A lease is written before its pod and closed exactly once; `Closed` and `Void` never change.
//! [`crate::decide`] moves it, [`crate::diagnosis`] finds its end.

use jiff::{SignedDuration, Timestamp};

use crate::{
    money::{HourlyRate, Money},
    reason::{Finding, Payer, Reason},
};

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// Written; its pod is not on a node yet.
    Reserved,
    /// Its pod holds cards.
    Held,
    /// The cards came back; final.
    Closed,
    /// Its pod never got cards; final, costs nothing.
    Void,
}

impl LeaseState {
    /// All states.
    pub const ALL: &'static [Self] = &[Self::Reserved, Self::Held, Self::Closed, Self::Void];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "Reserved",
            Self::Held => "Held",
            Self::Closed => "Closed",
            Self::Void => "Void",
        }
    }

    /// Whether nothing can change any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Closed | Self::Void)
    }
}

/// How well the end of a lease is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndKnown {
    /// The kubelet said when the last container ended.
    Kubelet,
    /// The kubelet refused the pod; no container ran.
    Refused,
    /// The kubelet said that the pod is over but not since when; the end is when that was seen.
    Observed,
    /// The node stopped reporting and stayed silent; the end is when it was last known alive.
    NodeLost,
    /// The pod vanished; the end is when that was seen, and nobody pays.
    Lost,
}

impl EndKnown {
    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kubelet => "Kubelet",
            Self::Refused => "Refused",
            Self::Observed => "Observed",
            Self::NodeLost => "NodeLost",
            Self::Lost => "Lost",
        }
    }
}

/// Why a held lease has to end, or ends because its pod was evicted. An order to stop is in the lease
/// before the agent is told, so that nobody but the operator decides what a release is called and until
/// when it is paid; an eviction is judged when it is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why, with what was seen then.
    pub finding: Finding,
    /// When, by the operator's clock.
    pub at: Timestamp,
}

/// What is fixed when a lease is reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Name of the lease and of its pod.
    pub name: String,
    /// The run that it belongs to.
    pub rerun: i64,
    /// The hash of what the run runs; leases of holders without one have none.
    pub spec_hash: Option<String>,
    /// The attempt within the run.
    pub attempt: u32,
    /// The card's id.
    pub card: String,
    /// Cards held.
    pub count: u32,
    /// Price of one hour of one card; zero when the card is unpriced.
    pub per_hour: Money,
    /// The currency of all amounts.
    pub currency: String,
    /// The most that the lease may be charged.
    pub reserved: Money,
}

impl Terms {
    /// What all cards together cost.
    #[must_use]
    pub fn rate(&self) -> HourlyRate {
        HourlyRate::of(self.per_hour, self.count)
    }

    /// The bill for a closed lease: never more than was reserved; what exceeds it is absorbed.
    #[must_use]
    pub fn bill(
        &self,
        held: Held,
        ended_at: Timestamp,
        chargeable_until: Timestamp,
        payer: Payer,
    ) -> Bill {
        let whole = ended_at.duration_since(held.at).max(SignedDuration::ZERO);
        let billed =
            ended_at.min(chargeable_until).duration_since(held.at).max(SignedDuration::ZERO);
        let cost = self.rate().cost(whole);
        let charged = match payer {
            Payer::User => self.rate().cost(billed).min(self.reserved),
            Payer::Infrastructure => Money::ZERO,
        };
        let billed_seconds = match payer {
            Payer::User => whole_seconds(billed),
            Payer::Infrastructure => 0,
        };
        Bill { billed_seconds, charged, absorbed: cost.minus(charged) }
    }
}

/// When a lease began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// When the pod was bound to its node.
    pub at: Timestamp,
    /// When the program started.
    pub running_at: Option<Timestamp>,
}

/// What a closed lease costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Seconds that the holder pays for.
    pub billed_seconds: i64,
    /// What the holder pays.
    pub charged: Money,
    /// What the time cost beyond that; nobody is billed for it.
    pub absorbed: Money,
}

fn whole_seconds(time: SignedDuration) -> i64 {
    time.as_secs() + i64::from(time.subsec_nanos() > 0)
}

/// Everything that bounds an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Card held until the program starts, at most.
    pub startup: SignedDuration,
    /// Running time that is left to the run.
    pub runtime: SignedDuration,
    /// From the stop signal until the program is killed.
    pub grace: SignedDuration,
}

impl Bounds {
    /// The worst case of an attempt: every clock runs to its end.
    #[must_use]
    pub fn worst_case(self) -> SignedDuration {
        self.startup.saturating_add(self.runtime).saturating_add(self.grace)
    }
}

/// Slack of the kubelet's own deadline beyond everything that may happen before.
pub const CEILING_SLACK: SignedDuration = SignedDuration::from_secs(60);

/// How long a pod may live, by the kubelet's clock.
#[must_use]
pub fn ceiling(bounds: Bounds) -> SignedDuration {
    bounds.worst_case().saturating_add(CEILING_SLACK)
}

/// What to reserve: the worst case, or what is left of the limit when that is less.
#[must_use]
pub fn reservation(rate: HourlyRate, bounds: Bounds, left: Option<Money>) -> Money {
    let worst = rate.cost(bounds.worst_case());
    left.map_or(worst, |left| worst.min(left))
}

/// An instant at which a program is told to stop, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
}

/// Longest time that money allows between taking the card and the stop signal: what `left` pays,
/// less the grace period, which is charged as well.
#[must_use]
pub fn affordable_hold(
    rate: HourlyRate,
    grace: SignedDuration,
    left: Option<Money>,
) -> Option<SignedDuration> {
    rate.affordable(left?).map(|time| time.saturating_sub(grace).max(SignedDuration::ZERO))
}

/// The earliest deadline of a held lease: start-up, running time and money.
#[must_use]
pub fn deadline(
    held: Held,
    bounds: Bounds,
    rate: HourlyRate,
    limit_left: Option<Money>,
) -> Deadline {
    let time = match held.running_at {
        Some(start) => {
            Deadline { at: later(start, bounds.runtime), reason: Reason::MaxRuntimeReached }
        }
        None => Deadline { at: later(held.at, bounds.startup), reason: Reason::StartupTimeout },
    };
    let money = affordable_hold(rate, bounds.grace, limit_left)
        .map(|time| Deadline { at: later(held.at, time), reason: Reason::BudgetExhausted });
    money.map_or(time, |money| money.min(time))
}

/// `at + time`, at most the end of time.
#[must_use]
pub fn later(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

/// Whether a run with nothing charged yet can pay for anything at all: one second and the grace.
#[must_use]
pub fn pays_for_a_start(rate: HourlyRate, grace: SignedDuration, left: Option<Money>) -> bool {
    left.is_none_or(|left| rate.cost(grace.saturating_add(SignedDuration::from_secs(1))) <= left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn terms(per_hour: &str, count: u32, reserved: &str) -> Terms {
        Terms {
            name: "train-r0-a1".into(),
            rerun: 0,
            spec_hash: None,
            attempt: 1,
            card: "rtx4090".into(),
            count,
            per_hour: Money::parse(per_hour).unwrap(),
            currency: "CNY".into(),
            reserved: Money::parse(reserved).unwrap(),
        }
    }

    #[test]
    fn eight_cards_for_ninety_minutes_are_limited_by_the_money_for_eighty_eight() {
        let terms = terms("8.50", 8, "100");
        let bounds = Bounds {
            startup: SignedDuration::from_mins(30),
            runtime: SignedDuration::from_mins(90),
            grace: SignedDuration::ZERO,
        };
        let limit = Some(Money::parse("100").unwrap());
        assert_eq!(terms.rate().cost(bounds.runtime).to_string(), "102.00");
        assert_eq!(reservation(terms.rate(), bounds, limit).to_string(), "100.00");
        let held = Held { at: at(0), running_at: Some(at(0)) };
        let end = deadline(held, bounds, terms.rate(), limit);
        assert_eq!(end, Deadline { at: at(5_294), reason: Reason::BudgetExhausted });
    }

    #[test]
    fn the_earliest_deadline_brings_its_reason() {
        let bounds = Bounds {
            startup: SignedDuration::from_mins(30),
            runtime: SignedDuration::from_hours(1),
            grace: SignedDuration::from_secs(30),
        };
        let rate = terms("3.60", 1, "9").rate();
        let starting = Held { at: at(0), running_at: None };
        let running = Held { at: at(0), running_at: Some(at(100)) };
        assert_eq!(
            deadline(starting, bounds, rate, None),
            Deadline { at: at(1_800), reason: Reason::StartupTimeout }
        );
        assert_eq!(
            deadline(running, bounds, rate, None),
            Deadline { at: at(3_700), reason: Reason::MaxRuntimeReached }
        );
        let poor = Some(Money::parse("1").unwrap());
        assert_eq!(
            deadline(running, bounds, rate, poor),
            Deadline { at: at(970), reason: Reason::BudgetExhausted }
        );
    }

    #[test]
    fn infrastructure_pays_for_its_own_faults() {
        let held = Held { at: at(0), running_at: None };
        let bill = terms("3.60", 1, "9").bill(held, at(600), at(900), Payer::Infrastructure);
        assert_eq!(
            (bill.billed_seconds, bill.charged, bill.absorbed.to_string()),
            (0, Money::ZERO, "0.60".into())
        );
    }

    proptest! {
        #[test]
        fn a_charge_never_exceeds_the_reservation_and_nothing_is_lost(
            price in 0_i64..100_000_000, count in 1_u32..16, reserved in 0_i64..1_000_000_000, end in 0_i64..1_000_000, until in 0_i64..1_000_000
        ) {
            let mut terms = terms("1", count, "1");
            terms.per_hour = Money::from_micros(price);
            terms.reserved = Money::from_micros(reserved);
            let bill = terms.bill(Held { at: at(0), running_at: None }, at(end), at(until), Payer::User);
            prop_assert!(bill.charged <= terms.reserved);
            prop_assert_eq!(bill.charged.plus(bill.absorbed), terms.rate().cost(SignedDuration::from_secs(end)));
        }

        #[test]
        fn stopping_at_the_money_deadline_stays_within_the_limit(
            price in 1_i64..100_000_000, count in 1_u32..16, limit in 0_i64..1_000_000_000, grace in 0_i64..600
        ) {
            let rate = HourlyRate::of(Money::from_micros(price), count);
            let limit = Money::from_micros(limit);
            let grace = SignedDuration::from_secs(grace);
            prop_assume!(pays_for_a_start(rate, grace, Some(limit)));
            let hold = affordable_hold(rate, grace, Some(limit)).unwrap();
            prop_assert!(rate.cost(hold + grace) <= limit);
            prop_assert!(hold >= SignedDuration::from_secs(1));
        }
    }
}
