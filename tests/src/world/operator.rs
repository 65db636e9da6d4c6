//! Operators inside of the test.

use std::{sync::Arc, time::Duration};

use hyper::{
    Request,
    header::{HeaderValue, USER_AGENT},
};
use kube::client::{Body, ClientBuilder};
use leasehold::{
    calls::Counting,
    context::Context,
    leadership::{
        Leadership,
        election::{Election, NAMESPACE},
        fence::Fence,
    },
    metrics::Metrics,
    run::{Ended, run},
    server_time::ServerTime,
    tasks::Tasks,
};
use leasehold_crds::Settings;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{clock::VirtualClock, cluster::Cluster};

/// Asked every few seconds as usual, whether the API server is there would be most of what happens in a
/// virtual month.
const ASK_EVERY: Duration = Duration::from_hours(24);

/// A running operator; killed when dropped.
#[derive(Debug)]
pub struct Operator {
    task: JoinHandle<Result<(), Ended>>,
    stop: CancellationToken,
    /// What it counts.
    pub metrics: Metrics,
    /// The clock of its machine.
    pub clock: VirtualClock,
}

impl Operator {
    /// Starts one that knows nothing, and leads without being elected.
    #[must_use]
    pub fn start(cluster: &Cluster, settings: Settings) -> Self {
        let clock = cluster.operators_clock.clone();
        let leadership = Leadership::alone(Arc::new(clock.clone()));
        Self::begin(cluster, settings, clock, leadership, None)
    }

    /// Starts one that has to be elected, on a machine of its own. Its requests carry this name.
    #[must_use]
    pub fn elected(cluster: &Cluster, settings: Settings, name: &'static str) -> Self {
        let clock = cluster.operators_clock.another();
        let leadership = Leadership::elected(Arc::new(clock.clone()));
        Self::begin(cluster, settings, clock, leadership, Some(name))
    }

    fn begin(
        cluster: &Cluster,
        settings: Settings,
        clock: VirtualClock,
        leadership: Leadership,
        name: Option<&'static str>,
    ) -> Self {
        let metrics = Metrics::default();
        let counting = Counting(metrics.clone());
        let named = cluster.server.clone().map_request(move |mut request: Request<Body>| {
            let name = HeaderValue::from_static(name.unwrap_or("operator"));
            request.headers_mut().insert(USER_AGENT, name);
            request
        });
        let time = ServerTime::new(Arc::new(clock.clone()));
        let free = ClientBuilder::new(named.clone(), "default")
            .with_layer(&counting)
            .with_layer(&time)
            .build();
        let fenced = ClientBuilder::new(named, "default")
            .with_layer(&Fence(leadership.clone()))
            .with_layer(&counting)
            .with_layer(&time)
            .build();
        let election = name.map(|name| Election {
            client: free.clone(),
            namespace: NAMESPACE.to_owned(),
            identity: name.to_owned(),
        });
        let agent = "agent:test".to_owned();
        let time = Arc::new(time);
        let mut context = Context::new(fenced, time, leadership, settings, agent, metrics.clone());
        context.ask_every = ASK_EVERY;
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { run(Arc::new(context), free, election, Tasks::default(), stop).await }
        });
        Self { task, stop, metrics, clock }
    }

    /// Ends it as SIGTERM does.
    ///
    /// # Panics
    /// When it has ended by itself.
    pub async fn end(mut self) {
        self.stop.cancel();
        match (&mut self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(ended)) => panic!("the operator ended: {ended}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until it ends by itself, and tells why.
    ///
    /// # Panics
    /// When it ends as if it had been told to.
    pub async fn until_it_ends(&mut self) -> String {
        match (&mut self.task).await {
            Ok(Ok(())) => panic!("the operator ended in order"),
            Ok(Err(ended)) => ended.to_string(),
            Err(error) => panic!("{error}"),
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
