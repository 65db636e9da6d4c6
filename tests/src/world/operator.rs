//! The operator inside of the test.

use std::sync::Arc;

use kube::client::ClientBuilder;
use leasehold::{calls::Counting, context::Context, metrics::Metrics, run::run, tasks::Tasks};
use leasehold_crds::Settings;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

/// A running operator; killed when dropped.
#[derive(Debug)]
pub struct Operator {
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// What it counts.
    pub metrics: Metrics,
}

impl Operator {
    /// Starts one that knows nothing.
    ///
    /// # Panics
    /// In its task, when it ends by itself.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: Settings) -> Self {
        let metrics = Metrics::default();
        let counting = Counting(metrics.clone());
        let client =
            ClientBuilder::new(cluster.server.clone(), "default").with_layer(&counting).build();
        let clock = Arc::new(cluster.operators_clock.clone());
        let agent = "agent:test".to_owned();
        let context = Context::new(client.clone(), clock, settings, agent, metrics.clone());
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Err(ended) = run(Arc::new(context), client, Tasks::default(), stop).await {
                    panic!("the operator ended: {ended}");
                }
            }
        });
        Self { task, stop, metrics }
    }

    /// Ends it as SIGTERM does.
    ///
    /// # Panics
    /// When it has ended by itself.
    pub async fn end(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            panic!("{error}");
        }
    }

    /// Ends it as SIGKILL does.
    pub fn kill(self) {}
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}
