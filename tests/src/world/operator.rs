//! The operator inside of the test.

use std::{sync::Arc, time::Duration};

use kube::client::ClientBuilder;
use leasehold::{
    calls::Counting, context::Context, metrics::Metrics, run::run, server_time::ServerTime,
    tasks::Tasks,
};
use leasehold_crds::Settings;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;

/// Asked every few seconds as usual, whether the API server is there would be most of what happens in a
/// virtual month.
const ASK_EVERY: Duration = Duration::from_hours(24);

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
        let clock = ServerTime::new(Arc::new(cluster.operators_clock.clone()));
        let client = ClientBuilder::new(cluster.server.clone(), "default")
            .with_layer(&counting)
            .with_layer(&clock)
            .build();
        let clock = Arc::new(clock);
        let agent = "agent:test".to_owned();
        let mut context = Context::new(client.clone(), clock, settings, agent, metrics.clone());
        context.ask_every = ASK_EVERY;
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
