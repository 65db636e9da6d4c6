//! Leases that last.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::leadership::RETRY_PERIOD;
use leasehold_crds::Settings;
use leasehold_tests::{
    double::{kinds::Kind, server::Weather},
    environment::sized,
    world::{cluster::Cluster, operator::Operator},
};
use serde_json::json;
use tokio::time::sleep;

const HOUR: Duration = Duration::from_hours(1);
const MINUTE: Duration = Duration::from_mins(1);

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.node("node-1", 4);
    cluster.price("rtx4090", "0.36");
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_four_hours_ends_in_time() {
    let cluster = cluster();
    let operator = Operator::start(&cluster, Settings::default());
    cluster.job("train", &json!({"maxRuntime": "4h"}));
    sleep(HOUR).await;
    assert_eq!(cluster.ready("train"), "Running");
    sleep(4 * HOUR).await;
    assert_eq!(cluster.ready("train"), "MaxRuntimeReached");
    let leases = cluster.leases();
    let status = leases[0].status.clone().unwrap();
    assert_eq!((leases.len(), status.state.as_str()), (1, "Closed"));
    assert_eq!(status.charged.as_deref(), Some("1.4404"), "{status:?}");
    operator.end().await;
}

/// On four cards.
#[tokio::test(start_paused = true)]
async fn ten_leases_a_day_are_closed_day_by_day() {
    let cluster = cluster();
    let operator = Operator::start(&cluster, Settings::default());
    let days = sized(1, 30);
    for day in 0..days {
        for one in 0..10 {
            let name = format!("job-{day}-{one}");
            let env =
                json!([{"name": "PLAYGROUND_RUN_FOR", "value": format!("{}m", 30 + 10 * one)}]);
            cluster.job(&name, &json!({"env": env, "maxRuntime": "2h"}));
            sleep(2 * HOUR + 24 * MINUTE).await;
        }
    }
    let leases = cluster.leases();
    assert_eq!(leases.len(), 10 * days);
    for lease in leases {
        let status = lease.status.unwrap_or_default();
        let ended = status.released_because.unwrap_or_default();
        assert_eq!((status.state.as_str(), ended.as_str()), ("Closed", "Completed"));
    }
    operator.end().await;
}

/// Writes of what happens from now on: of Leases of Kubernetes, and others.
fn writes(cluster: &Cluster) -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (renewals, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    cluster.server.weather({
        let (renewals, others) = (renewals.clone(), others.clone());
        move |call| {
            let count = if call.resource == "leases" { &renewals } else { &others };
            count.fetch_add(usize::from(call.is_write()), Ordering::SeqCst);
            Weather::After(Duration::ZERO)
        }
    });
    (renewals, others)
}

/// Cards of a node.
const CARDS: usize = 50;

/// Jobs beside `train-0`, which runs, that are like it in everything but their names.
fn copy(cluster: &Cluster, copies: usize) {
    let one = |kind: &str| cluster.all(kind).first().unwrap().to_string();
    let kinds = ["GpuJob", "GpuLease", "Pod"].map(|kind| (kind, one(kind)));
    for copy in 1..=copies {
        // All of them have the same uids at other places: job, lease and pod of a copy are its own.
        let uid = format!("\"{copy:08}-");
        for (kind, text) in &kinds {
            let text = text.replace("train-0", &format!("train-{copy}"));
            let text = text.replace("\"00000000-", &uid);
            let text = text.replace("\"node-0\"", &format!("\"node-{}\"", copy / CARDS));
            let object = serde_json::from_str(&text).unwrap();
            cluster.server.with(|store| store.restore(Kind::named(kind), object));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_day_without_events_costs_no_write() {
    let leases = sized(200, 5_000);
    let cluster = Cluster::new();
    cluster.price("rtx4090", "0.36");
    for node in 0..leases.div_ceil(CARDS) {
        cluster.node(&format!("node-{node}"), CARDS.try_into().unwrap());
    }
    let operator = Operator::start(&cluster, Settings::default());
    cluster.job("train-0", &json!({"maxRuntime": "48h"}));
    sleep(10 * MINUTE).await;
    operator.end().await;
    copy(&cluster, leases - 1);
    let operator = Operator::start(&cluster, Settings::default());
    sleep(10 * MINUTE).await;
    let (renewals, others) = writes(&cluster);
    sleep(24 * HOUR).await;
    assert_eq!((renewals.load(Ordering::SeqCst), others.load(Ordering::SeqCst)), (0, 0));
    let held = cluster.leases().into_iter().filter_map(|lease| lease.status);
    assert_eq!(held.filter(|status| status.state == "Held").count(), leases);
    assert_eq!(cluster.ready(&format!("train-{}", leases - 1)), "Running");
    operator.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_two_operators_costs_no_write_but_the_leaders_renewals() {
    let cluster = cluster();
    let leader = Operator::elected(&cluster, Settings::default(), "a");
    sleep(MINUTE).await;
    let waiting = Operator::elected(&cluster, Settings::default(), "b");
    for number in 0..4 {
        cluster.job(&format!("job-{number}"), &json!({"maxRuntime": "48h"}));
    }
    sleep(10 * MINUTE).await;
    let (renewals, others) = writes(&cluster);
    let hours = sized(1, 24);
    for _ in 0..hours {
        sleep(HOUR).await;
    }
    let most = hours as u64 * HOUR.as_secs() / RETRY_PERIOD.as_secs() + 1;
    assert!(renewals.load(Ordering::SeqCst) as u64 <= most, "{renewals:?}");
    assert_eq!(others.load(Ordering::SeqCst), 0);
    waiting.end().await;
    leader.end().await;
}
