//! Money as an exact integer of millionths. Pure; parsing can fail, arithmetic saturates.
//! [`crate::lease`] turns rates and times into charges with it.

use std::fmt;

use jiff::SignedDuration;

const SECONDS_PER_HOUR: i128 = 3_600;

/// An amount in millionths of a currency unit; the currency travels beside it.
///
/// Arithmetic saturates at the bounds of `i64` (±9.2 × 10¹² units), far above any budget that the
/// API accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i64);

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an amount: write digits with at most 6 decimals, for example \"25.00\"")]
pub struct NotAnAmount {
    /// The text as given.
    pub text: String,
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount from millionths of a unit.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// The amount in millionths of a unit.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Parses digits with at most six decimals; no sign, exponent or grouping.
    pub fn parse(text: &str) -> Result<Self, NotAnAmount> {
        let refuse = || NotAnAmount { text: text.to_owned() };
        let (units, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(units) || !digits(decimals) || decimals.len() > 6 {
            return Err(refuse());
        }
        let units: i64 = units.parse().map_err(|_| refuse())?;
        let decimals: i64 = format!("{decimals:0<6}").parse().map_err(|_| refuse())?;
        units
            .checked_mul(1_000_000)
            .and_then(|micros| micros.checked_add(decimals))
            .map(Self)
            .ok_or_else(refuse)
    }

    /// Sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, never below zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0).max(0))
    }
}

impl fmt::Display for Money {
    /// At least two decimals, more only where they are not zero: `25.00`, `0.0001`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.unsigned_abs();
        let mut decimals = format!("{:06}", micros % 1_000_000);
        while decimals.len() > 2 && decimals.ends_with('0') {
            decimals.pop();
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(out, "{sign}{}.{decimals}", micros / 1_000_000)
    }
}

/// What one hour of one or several cards costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HourlyRate(Money);

impl HourlyRate {
    /// The rate of `count` cards at `per_hour` each.
    #[must_use]
    pub fn of(per_hour: Money, count: u32) -> Self {
        Self(saturate(i128::from(per_hour.0) * i128::from(count)))
    }

    /// The price of one hour.
    #[must_use]
    pub const fn per_hour(self) -> Money {
        self.0
    }

    /// The cost of a held time: whole seconds, a started second counts, rounded up once to the
    /// next millionth. Negative times cost nothing.
    #[must_use]
    pub fn cost(self, held: SignedDuration) -> Money {
        let seconds = whole_seconds_up(held);
        let micros = (i128::from(self.0.0) * seconds + SECONDS_PER_HOUR - 1) / SECONDS_PER_HOUR;
        saturate(micros)
    }

    /// The longest whole-second time whose [`cost`](Self::cost) is at most `limit`; `None` when a
    /// free card can be held for ever.
    #[must_use]
    pub fn affordable(self, limit: Money) -> Option<SignedDuration> {
        if self.0.0 <= 0 {
            return None;
        }
        let seconds = i128::from(limit.0.max(0)) * SECONDS_PER_HOUR / i128::from(self.0.0);
        Some(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
    }
}

/// What a holder may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this amount, over all attempts of a run.
    Amount(Money),
    /// No limit in money; `maxRuntime` still ends the run.
    Unlimited,
}

impl Limit {
    /// What is left after `charged`; `None` without a limit.
    #[must_use]
    pub fn left_after(self, charged: Money) -> Option<Money> {
        match self {
            Self::Amount(limit) => Some(limit.minus(charged)),
            Self::Unlimited => None,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amount(limit) => limit.fmt(out),
            Self::Unlimited => out.write_str("Unlimited"),
        }
    }
}

fn whole_seconds_up(time: SignedDuration) -> i128 {
    let started = i128::from(time.subsec_nanos() > 0);
    (i128::from(time.as_secs()) + started).max(0)
}

fn saturate(micros: i128) -> Money {
    Money(i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_parsed_exactly_or_refused() {
        for (text, micros) in
            [("25.00", 25_000_000), ("100", 100_000_000), ("0.000001", 1), ("0.1", 100_000)]
        {
            assert_eq!(Money::parse(text).unwrap().micros(), micros, "{text}");
        }
        for text in
            ["", ".", "1.", ".5", "1e2", "1,000", "-5", "NaN", "0.30000000000000004", "+1", " 1"]
        {
            assert!(Money::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn amounts_print_with_two_decimals_or_more() {
        for (micros, text) in
            [(25_000_000, "25.00"), (100, "0.0001"), (1_500_000, "1.50"), (1, "0.000001")]
        {
            assert_eq!(Money::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn ten_steps_of_a_tenth_make_one() {
        let tenth = Money::parse("0.1").unwrap();
        let sum = (0..10).fold(Money::ZERO, |sum, _| sum.plus(tenth));
        assert_eq!(sum, Money::parse("1").unwrap());
    }

    #[test]
    fn a_price_by_the_hour_is_charged_by_the_second_and_rounded_up_once() {
        let price = Money::parse("3.60").unwrap();
        for (seconds, count, cost) in [
            (3_600, 1, "3.60"),
            (3_599, 1, "3.599"),
            (3_601, 1, "3.601"),
            (3_600, 8, "28.80"),
            (1, 8, "0.008"),
        ] {
            let rate = HourlyRate::of(price, count);
            assert_eq!(rate.cost(SignedDuration::from_secs(seconds)).to_string(), cost);
        }
        let odd = HourlyRate::of(Money::parse("1").unwrap(), 1);
        assert_eq!(odd.cost(SignedDuration::from_secs(1)).micros(), 278);
        assert_eq!(odd.cost(SignedDuration::new(0, 1)).micros(), 278);
    }

    proptest! {
        #[test]
        fn what_is_affordable_never_costs_more_than_the_limit(price in 1_i64..1_000_000_000, count in 1_u32..64, limit in 0_i64..1_000_000_000_000) {
            let rate = HourlyRate::of(Money::from_micros(price), count);
            let limit = Money::from_micros(limit);
            let time = rate.affordable(limit).unwrap();
            prop_assert!(rate.cost(time) <= limit);
            prop_assert!(rate.cost(time + SignedDuration::from_secs(1)) > limit);
        }

        #[test]
        fn amounts_survive_printing(micros in 0_i64..i64::MAX) {
            let money = Money::from_micros(micros);
            prop_assert_eq!(Money::parse(&money.to_string()).unwrap(), money);
        }
    }
}
