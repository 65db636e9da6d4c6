//! Several operators: one leads, and no two write at once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold::leadership::{LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD};
use leasehold_crds::Settings;
use leasehold_tests::{
    double::{refusal::Refusal, request::Call, server::Weather},
    environment::sized,
    world::{cluster::Cluster, operator::Operator},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
/// What passes in a test beside what it waits for: requests take no time, and timers whole
/// milliseconds.
const SLACK: Duration = Duration::from_millis(100);

/// Whether a request is about the Lease by which operators agree.
fn is_election(call: &Call) -> bool {
    call.resource == "leases"
}

/// When each operator wrote anything but that Lease.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<BTreeMap<String, Vec<Instant>>>>);

impl Writes {
    /// Notes all writes; what becomes of requests is up to `fare`.
    fn noted(cluster: &Cluster, fare: impl Fn(&Call) -> Weather + Send + 'static) -> Self {
        let writes = Self::default();
        cluster.server.weather({
            let writes = writes.clone();
            move |call| {
                let weather = fare(call);
                if call.is_write() && !is_election(call) {
                    let mut all = writes.all();
                    all.entry(call.caller.clone()).or_default().push(Instant::now());
                }
                weather
            }
        });
        writes
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, operator: &str) -> Vec<Instant> {
        self.all().get(operator).cloned().unwrap_or_default()
    }

    fn first(&self, operator: &str) -> Option<Instant> {
        self.of(operator).first().copied()
    }

    fn last(&self, operator: &str) -> Option<Instant> {
        self.of(operator).last().copied()
    }
}

fn clear(_: &Call) -> Weather {
    Weather::After(Duration::ZERO)
}

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.node("node-1", 4);
    cluster.price("rtx4090", "0.36");
    cluster
}

/// A job whose limit is changed four times a second for so long: whoever may write has something to
/// write all the time.
async fn busy_for(cluster: &Cluster, seconds: u64) {
    if cluster.read_job("busy").is_none() {
        cluster.job("busy", &json!({}));
    }
    for hours in (2..4).cycle().take(4 * usize::try_from(seconds).unwrap_or(0)) {
        cluster.respecify("busy", &json!({"maxRuntime": format!("{hours}h")}));
        sleep(SECOND / 4).await;
    }
}

/// Two operators, of which `a` leads.
async fn two(cluster: &Cluster) -> (Operator, Operator) {
    let a = Operator::elected(cluster, Settings::default(), "a");
    sleep(SECOND).await;
    let b = Operator::elected(cluster, Settings::default(), "b");
    sleep(SECOND).await;
    (a, b)
}

#[tokio::test(start_paused = true)]
async fn one_of_two_operators_writes_and_the_other_only_reads() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let (a, b) = two(&cluster).await;
    busy_for(&cluster, 60).await;
    assert!(writes.of("a").len() > 60 && writes.of("b").is_empty());
    b.end().await;
    busy_for(&cluster, 5).await;
    a.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_within_its_lease_and_one_look() {
    for after in [0, 700, 1_400, 1_999] {
        let cluster = cluster();
        let writes = Writes::noted(&cluster, clear);
        let (a, b) = two(&cluster).await;
        let env = json!([{"name": "PLAYGROUND_RUN_FOR", "value": "30s"}]);
        cluster.job("train", &json!({"env": env}));
        sleep(10 * SECOND + Duration::from_millis(after)).await;
        a.kill();
        let killed = Instant::now();
        busy_for(&cluster, 60).await;
        let took = writes.first("b").unwrap() - killed;
        assert!(took <= LEASE_DURATION + RETRY_PERIOD + SLACK, "{took:?}");
        assert_eq!(cluster.ready("train"), "Succeeded");
        b.end().await;
    }
}

/// Reading and writing the Lease takes nearly as long together as a leader may take to renew it.
#[tokio::test(start_paused = true)]
async fn an_operator_takes_over_also_where_answers_are_slow() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, |call| {
        let is_slow = call.caller == "b" && is_election(call);
        if is_slow { Weather::After(4 * SECOND) } else { clear(call) }
    });
    let (a, mut b) = two(&cluster).await;
    sleep(10 * SECOND).await;
    a.kill();
    busy_for(&cluster, 120).await;
    let why = tokio::time::timeout(Duration::ZERO, b.until_it_ends()).await.ok();
    assert_eq!(why, None);
    assert!(writes.last("b").unwrap().elapsed() < SECOND);
    b.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_in_order_is_followed_at_the_next_look() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let (a, b) = two(&cluster).await;
    busy_for(&cluster, 10).await;
    a.end().await;
    let ended = Instant::now();
    busy_for(&cluster, 10).await;
    let took = writes.first("b").unwrap() - ended;
    assert!(took <= RETRY_PERIOD + SLACK, "{took:?}");
    assert!(writes.last("a") < writes.first("b"));
    b.end().await;
}

/// What can happen to a leader's way to its Lease.
const CUTS: &[(&str, Weather)] = &[
    ("nobody answers", Weather::Silence),
    ("it is carried out and nobody answers", Weather::SilenceAfterwards),
    ("it is carried out and the answer is lost", Weather::AnswerLost),
    ("it takes three seconds", Weather::After(Duration::from_secs(3))),
    ("it takes six seconds", Weather::After(Duration::from_secs(6))),
];

/// Cuts the way of `a` to its Lease after so many milliseconds; gives when, and why it ended, if it
/// did. Nothing else is disturbed.
async fn cut_off(after: u64, weather: &Weather) -> (Writes, Instant, Option<String>) {
    let cluster = cluster();
    let (mut a, b) = two(&cluster).await;
    busy_for(&cluster, 3).await;
    sleep(Duration::from_millis(after)).await;
    let cut = Instant::now();
    let writes = Writes::noted(&cluster, {
        let weather = weather.clone();
        move |call| {
            if call.caller == "a" && is_election(call) { weather.clone() } else { clear(call) }
        }
    });
    busy_for(&cluster, 25).await;
    let why = tokio::time::timeout(Duration::ZERO, a.until_it_ends()).await.ok();
    b.end().await;
    (writes, cut, why)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_one_begins() {
    let refused = Weather::Refused(Refusal::forbidden("leases is forbidden"));
    let cuts = CUTS.iter().cloned().chain([("it is refused", refused)]);
    for (name, weather) in cuts {
        let instants = sized(3, 40);
        for instant in 0..instants {
            let after = 2_000 * instant as u64 / instants as u64;
            let (writes, cut, why) = cut_off(after, &weather).await;
            if weather == Weather::After(Duration::from_secs(3)) {
                assert!(why.is_none() && writes.of("b").is_empty(), "{name}: {why:?}");
                continue;
            }
            let (last, first) = (writes.last("a").unwrap(), writes.first("b"));
            let first = first.unwrap_or_else(|| panic!("{name} at {after}: nobody follows"));
            assert!(last < first, "{name} at {after}: two wrote at once");
            assert!(last - cut <= RENEW_DEADLINE + SLACK, "{name} at {after}: {:?}", last - cut);
            let why = why.unwrap_or_else(|| panic!("{name} at {after}: it goes on"));
            assert!(why.contains("leadership is lost"), "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_costs_no_leadership() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let (a, b) = two(&cluster).await;
    for step in [3_600, -3_600, -3_600] {
        for clock in [&a.clock, &b.clock] {
            clock.step(step);
            busy_for(&cluster, 40).await;
        }
    }
    assert!(writes.of("b").is_empty());
    let last = writes.last("a").unwrap();
    assert!(last.elapsed() <= SECOND, "{:?}", last.elapsed());
    b.end().await;
    a.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_machine_slept_writes_nothing_when_it_wakes() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let (mut a, b) = two(&cluster).await;
    busy_for(&cluster, 10).await;
    a.clock.sleep_through(60);
    let woke = Instant::now();
    busy_for(&cluster, 30).await;
    assert!(writes.last("a").unwrap() < woke);
    assert!(writes.last("a") < writes.first("b"));
    let why = a.until_it_ends().await;
    assert!(why.contains("leadership is lost: it was last renewed 6"), "{why}");
    b.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_name_in_its_lease_ends() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let (mut a, b) = two(&cluster).await;
    cluster.change(
        "Lease",
        "leasehold-system",
        "leasehold",
        &json!({
            "spec": {"holderIdentity": "somebody"},
        }),
    );
    let taken = Instant::now();
    let why = a.until_it_ends().await;
    assert!(why.contains("names somebody"), "{why}");
    assert!(taken.elapsed() <= RETRY_PERIOD + SLACK, "{:?}", taken.elapsed());
    busy_for(&cluster, 30).await;
    let followed = writes.first("b").unwrap() - taken;
    assert!(followed >= LEASE_DURATION, "{followed:?}");
    b.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_and_its_leader_leads_on() {
    let cluster = cluster();
    let writes = Writes::noted(&cluster, clear);
    let a = Operator::elected(&cluster, Settings::default(), "a");
    sleep(3 * SECOND).await;
    cluster.delete("Lease", "leasehold-system", "leasehold");
    busy_for(&cluster, 20).await;
    assert!(writes.last("a").unwrap().elapsed() <= SECOND);
    assert_eq!(cluster.all("Lease").len(), 1);
    a.end().await;
}
