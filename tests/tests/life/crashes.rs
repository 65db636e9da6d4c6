//! The operator is killed after each single write, and started again: the end is the same.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use leasehold_crds::Settings;
use leasehold_tests::{
    double::server::Weather,
    world::{
        cluster::{Cluster, NAMESPACE},
        operator::Operator,
    },
};
use serde_json::json;
use tokio::{sync::Notify, time::sleep};

const MINUTE: Duration = Duration::from_mins(1);

/// What happens to a cluster; it takes some time.
type Story = fn(&Cluster) -> BoxFuture<'_, ()>;

const STORIES: &[(&str, Story)] = &[
    ("a program that ends by itself", |cluster| {
        let run_for = json!([{"name": "PLAYGROUND_RUN_FOR", "value": "5m"}]);
        cluster.job("train", &json!({"env": run_for}));
        Box::pin(sleep(10 * MINUTE))
    }),
    ("a program that fails", |cluster| {
        let env = json!([
            {"name": "PLAYGROUND_RUN_FOR", "value": "5m"}, {"name": "PLAYGROUND_EXIT", "value": "3"},
        ]);
        cluster.job("train", &json!({"env": env}));
        Box::pin(sleep(10 * MINUTE))
    }),
    ("the end of maxRuntime", |cluster| {
        cluster.job("train", &json!({"maxRuntime": "5m"}));
        Box::pin(sleep(10 * MINUTE))
    }),
    ("the end of the money", |cluster| {
        cluster.job("train", &json!({"budget": {"limit": "0.01", "currency": "USD"}}));
        Box::pin(sleep(10 * MINUTE))
    }),
    ("a program that does not hear", |cluster| {
        let deaf = json!([{"name": "PLAYGROUND_DEAF", "value": "yes"}]);
        cluster.job("train", &json!({"maxRuntime": "5m", "env": deaf}));
        Box::pin(sleep(10 * MINUTE))
    }),
    ("a job that is stopped and goes on", |cluster| {
        let run_for = json!([{"name": "PLAYGROUND_RUN_FOR", "value": "5m"}]);
        cluster.job("train", &json!({"env": run_for}));
        Box::pin(async move {
            sleep(2 * MINUTE).await;
            cluster.respecify("train", &json!({"state": "Stopped"}));
            sleep(2 * MINUTE).await;
            cluster.respecify("train", &json!({"state": "Running"}));
            sleep(10 * MINUTE).await;
        })
    }),
    ("a job that is deleted and comes back", |cluster| {
        cluster.job("train", &json!({}));
        Box::pin(async move {
            sleep(2 * MINUTE).await;
            cluster.delete("GpuJob", NAMESPACE, "train");
            sleep(2 * MINUTE).await;
            cluster.job("train", &json!({}));
            sleep(2 * MINUTE).await;
        })
    }),
    ("a pod that is deleted", |cluster| {
        cluster.job("train", &json!({}));
        Box::pin(async move {
            sleep(2 * MINUTE).await;
            cluster.delete("Pod", NAMESPACE, "train-r0-a1");
            sleep(2 * MINUTE).await;
        })
    }),
];

/// What is left in the end, but for times: they differ by as long as a restart takes.
fn end(cluster: &Cluster) -> Vec<String> {
    let leases = cluster.leases().into_iter().map(|lease| {
        let status = lease.status.unwrap_or_default();
        let name = lease.metadata.name.unwrap_or_default();
        format!(
            "{name}: {} {} {} {}",
            status.state,
            status.released_because.unwrap_or_default(),
            status.paid_by.unwrap_or_default(),
            status.charged.unwrap_or_default()
        )
    });
    let pods = cluster.all("Pod").len();
    leases.chain([format!("{} with {pods} pods", cluster.ready("train"))]).collect()
}

/// Tells a story, and kills the operator after its n-th write. Gives the end, and whether there were
/// so many writes.
async fn told(story: Story, killed_after: usize) -> (Vec<String>, bool) {
    let cluster = Cluster::new();
    cluster.node("node-1", 4);
    cluster.price("rtx4090", "0.36");
    let (writes, dead) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    cluster.server.weather({
        let (writes, dead) = (writes.clone(), dead.clone());
        move |call| {
            let before = writes.load(Ordering::SeqCst);
            if before == killed_after {
                return Weather::Silence;
            }
            if !call.is_write() || call.resource.starts_with("events") {
                return Weather::After(Duration::ZERO);
            }
            writes.store(before + 1, Ordering::SeqCst);
            if before + 1 < killed_after {
                return Weather::After(Duration::ZERO);
            }
            dead.notify_one();
            Weather::SilenceAfterwards
        }
    });
    let operator = Operator::start(&cluster, Settings::default());
    let others = async {
        dead.notified().await;
        operator.kill();
        cluster.server.weather(|_| Weather::After(Duration::ZERO));
        let _restarted = Operator::start(&cluster, Settings::default());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = story(&cluster) => {}
        () = others => {}
    }
    let is_killed = writes.load(Ordering::SeqCst) == killed_after;
    (end(&cluster), is_killed)
}

#[tokio::test(start_paused = true)]
async fn an_operator_killed_after_any_write_leads_to_the_same_end() {
    for (name, story) in STORIES {
        let (expected, _) = told(*story, usize::MAX).await;
        let mut killed_after = 1;
        loop {
            let (found, is_killed) = told(*story, killed_after).await;
            if !is_killed {
                break;
            }
            assert_eq!(found, expected, "{name}, killed after write {killed_after}");
            killed_after += 1;
        }
        assert!(killed_after > 5, "{name}: {killed_after} writes are no life of a lease");
    }
}
