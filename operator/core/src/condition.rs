//! Conditions: what is true of a holder, in Kubernetes' form. Pure.
//! [`crate::decide`] makes them; the wire form is k8s `meta/v1` Condition.

use jiff::Timestamp;

use crate::reason::{Finding, Reason};

/// The conditions of a job. `Ready`, `Reconciling` and `Stalled` are kstatus' trio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// The specification is in order.
    Accepted,
    /// The money for the worst case is set aside.
    Funded,
    /// A card is held on a node.
    Placed,
    /// The card passed its checks and the program could start.
    Prepared,
    /// In order for a git controller; its reason is the one word that people read.
    Ready,
    /// The controller has work in progress that a deployment should wait for.
    Reconciling,
    /// The card was given back.
    Released,
    /// It will not become ready without a change.
    Stalled,
    /// The work was done.
    Succeeded,
}

impl ConditionType {
    /// All types, sorted by name.
    pub const ALL: &'static [Self] = &[
        Self::Accepted,
        Self::Funded,
        Self::Placed,
        Self::Prepared,
        Self::Ready,
        Self::Reconciling,
        Self::Released,
        Self::Stalled,
        Self::Succeeded,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Funded => "Funded",
            Self::Placed => "Placed",
            Self::Prepared => "Prepared",
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Released => "Released",
            Self::Stalled => "Stalled",
            Self::Succeeded => "Succeeded",
        }
    }

    /// The type with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// The value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Not known yet.
    Unknown,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which.
    pub kind: ConditionType,
    /// Its value.
    pub truth: Truth,
    /// One word.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// The generation that it speaks of.
    pub observed_generation: i64,
    /// When the value last changed.
    pub since: Timestamp,
}

/// A condition before it knows since when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub kind: ConditionType,
    /// Its value.
    pub truth: Truth,
    /// One word.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl Claim {
    /// A claim from a finding; the message carries evidence and cure.
    #[must_use]
    pub fn new(kind: ConditionType, truth: Truth, finding: &Finding) -> Self {
        Self { kind, truth, reason: finding.reason, message: finding.message() }
    }

    /// A claim whose message only says what the reason means; `Ready` carries the evidence.
    #[must_use]
    pub fn brief(kind: ConditionType, truth: Truth, reason: Reason) -> Self {
        Self { kind, truth, reason, message: reason.meaning().to_owned() }
    }
}

/// Sorts claims and keeps the time of each value that did not change.
#[must_use]
pub fn settle(
    claims: Vec<Claim>,
    last: &[Condition],
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    let mut settled: Vec<Condition> = claims
        .into_iter()
        .map(|claim| {
            let since = last
                .iter()
                .find(|old| old.kind == claim.kind && old.truth == claim.truth)
                .map_or(now, |old| old.since);
            Condition {
                kind: claim.kind,
                truth: claim.truth,
                reason: claim.reason,
                message: claim.message,
                observed_generation: generation,
                since,
            }
        })
        .collect();
    settled.sort_by_key(|condition| condition.kind);
    settled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found_again() {
        let names: Vec<_> = ConditionType::ALL.iter().map(|kind| kind.name()).collect();
        assert!(names.is_sorted());
        for kind in ConditionType::ALL {
            assert_eq!(ConditionType::parse(kind.name()), Some(*kind));
        }
    }

    #[test]
    fn the_time_moves_only_with_the_value() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let claim =
            |truth| Claim::new(ConditionType::Ready, truth, &Finding::new(Reason::Running, "x"));
        let first = settle(vec![claim(Truth::True)], &[], 1, at(10));
        let second = settle(vec![claim(Truth::True)], &first, 2, at(20));
        assert_eq!((second[0].since, second[0].observed_generation), (at(10), 2));
        let third = settle(vec![claim(Truth::False)], &second, 2, at(30));
        assert_eq!(third[0].since, at(30));
    }
}
