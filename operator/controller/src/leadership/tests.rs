//! Leadership without an API server.

use jiff::Timestamp;
use tokio::time::{Instant, advance, sleep};

use super::*;

/// A clock that follows tokio's.
pub(super) struct Steady(Instant);

impl Steady {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Steady {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
}

fn leading() -> Leadership {
    let leadership = Leadership::elected(Arc::new(Steady::new()));
    leadership.stands();
    leadership.renewed(Duration::ZERO);
    leadership
}

#[tokio::test(start_paused = true)]
async fn leadership_runs_out_from_when_the_renewal_went_out() {
    let leadership = leading();
    advance(Duration::from_secs(9)).await;
    assert!(leadership.leads());
    leadership.renewed(Duration::from_secs(2));
    advance(Duration::from_secs(2)).await;
    assert!(leadership.leads());
    advance(Duration::from_secs(1)).await;
    assert!(!leadership.leads());
}

#[tokio::test(start_paused = true)]
async fn what_has_run_out_is_lost_for_good() {
    let leadership = leading();
    advance(RENEW_DEADLINE + Duration::from_secs(14)).await;
    let now = RENEW_DEADLINE + Duration::from_secs(14);
    leadership.renewed(now);
    assert!(!leadership.leads());
    let words = leadership.until_lost().await.to_string();
    assert!(words.contains("last renewed 24s ago"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn the_loss_is_told_when_the_time_is_over_and_not_before() {
    let leadership = leading();
    let begun = Instant::now();
    tokio::spawn({
        let leadership = leadership.clone();
        async move {
            sleep(Duration::from_secs(4)).await;
            leadership.renewed(Duration::from_secs(4));
        }
    });
    leadership.until_lost().await;
    assert_eq!(begun.elapsed().as_secs(), 14);
}

#[tokio::test(start_paused = true)]
async fn who_resigns_writes_nothing_more_and_waits_for_the_lease_to_be_given_back() {
    let leadership = leading();
    let gives_back = tokio::spawn({
        let leadership = leadership.clone();
        async move {
            leadership.until_resigning().await;
            let leads = leadership.leads();
            leadership.leaves();
            leads
        }
    });
    leadership.resign().await;
    assert!(!gives_back.await.unwrap());
    leadership.renewed(Duration::ZERO);
    assert!(!leadership.leads());
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_leads_always_and_resigns_at_once() {
    let leadership = Leadership::alone(Arc::new(Steady::new()));
    leadership.until_leading().await;
    leadership.lose("somebody else does");
    advance(Duration::from_hours(24)).await;
    assert!(leadership.leads());
    let begun = Instant::now();
    leadership.resign().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
