//! What stands in the Lease by which operators agree, and when somebody else's has run out. Pure.
//!
//! The rules are those of client-go (`tools/leaderelection/leaderelection.go`,
//! <https://pkg.go.dev/k8s.io/client-go/tools/leaderelection>). Times in the record are for people:
//! nobody compares them with a clock of another machine. What counts is how long one has seen the
//! record unchanged, on one's own steady clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};

use super::LEASE_DURATION;

/// The record by which `identity` leads, written at `now`: the first one, a renewal, or one that
/// follows that of another leader.
#[must_use]
pub fn held(before: Option<&LeaseSpec>, identity: &str, now: Timestamp) -> LeaseSpec {
    let now = MicroTime(now);
    let held = LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: seconds(LEASE_DURATION),
        renew_time: Some(now.clone()),
        ..before.cloned().unwrap_or_default()
    };
    if before.and_then(holder) == Some(identity) {
        return held;
    }
    let transitions = before.map_or(0, |before| before.lease_transitions.unwrap_or(0) + 1);
    LeaseSpec { acquire_time: Some(now), lease_transitions: Some(transitions), ..held }
}

/// The record of a leader that has gone. Its one second is for programs that do not know that an
/// empty holder is none.
#[must_use]
pub fn released(before: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    let now = Some(MicroTime(now));
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: now.clone(),
        renew_time: now,
        ..before.clone()
    }
}

/// Who leads by a record; an empty name is nobody's.
#[must_use]
pub fn holder(record: &LeaseSpec) -> Option<&str> {
    record.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// A record, and since when it has been seen unchanged, in uptime of one's own clock.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    record: LeaseSpec,
    since: Duration,
}

impl Sight {
    /// What is seen at `now`.
    pub fn look(&mut self, record: &LeaseSpec, now: Duration) {
        if self.record != *record {
            *self = Self { record: record.clone(), since: now };
        }
    }

    /// Who leads at `now`, if anybody does whose time has not run out, and how long it still lasts.
    #[must_use]
    pub fn leader(&self, now: Duration) -> Option<(&str, Duration)> {
        let lasts = self.record.lease_duration_seconds.and_then(|lasts| u64::try_from(lasts).ok());
        let lasts = lasts.map_or(LEASE_DURATION, Duration::from_secs);
        let left = self.since.saturating_add(lasts).saturating_sub(now);
        holder(&self.record).filter(|_| left > Duration::ZERO).map(|holder| (holder, left))
    }
}

fn seconds(time: Duration) -> Option<i32> {
    i32::try_from(time.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn up(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_renewal_keeps_since_when_and_how_often() {
        let first = held(None, "a", at(0));
        let renewed = held(Some(&first), "a", at(2));
        assert_eq!(renewed, LeaseSpec { renew_time: Some(MicroTime(at(2))), ..first.clone() });
        assert_eq!((first.lease_transitions, first.lease_duration_seconds), (Some(0), Some(15)));
    }

    #[test]
    fn another_leader_is_a_transition() {
        let first = held(None, "a", at(0));
        let second = held(Some(&first), "b", at(20));
        assert_eq!(second.lease_transitions, Some(1));
        assert_eq!(second.acquire_time, Some(MicroTime(at(20))));
        let again = held(Some(&released(&second, at(30))), "b", at(31));
        assert_eq!((again.lease_transitions, holder(&again)), (Some(2), Some("b")));
    }

    #[test]
    fn a_record_runs_out_by_being_seen_unchanged_whatever_its_times_say() {
        let mut sight = Sight::default();
        let ancient = held(None, "a", at(-100_000));
        sight.look(&ancient, up(100));
        assert_eq!(sight.leader(up(114)), Some(("a", up(1))));
        assert_eq!(sight.leader(up(115)), None);
        let renewed = held(Some(&ancient), "a", at(-99_998));
        sight.look(&renewed, up(115));
        sight.look(&renewed, up(129));
        assert_eq!(sight.leader(up(129)), Some(("a", up(1))));
        assert_eq!(sight.leader(up(130)), None);
    }

    #[test]
    fn a_released_record_is_nobodys_at_once() {
        let mut sight = Sight::default();
        sight.look(&released(&held(None, "a", at(0)), at(5)), up(0));
        assert_eq!(sight.leader(up(0)), None);
    }

    #[test]
    fn a_leader_with_a_longer_time_is_left_it() {
        let mut sight = Sight::default();
        let longer = LeaseSpec { lease_duration_seconds: Some(60), ..held(None, "a", at(0)) };
        sight.look(&longer, up(0));
        assert_eq!((sight.leader(up(59)), sight.leader(up(60))), (Some(("a", up(1))), None));
    }
}
