//! What every pass shares.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuJob, GpuLease, GpuRequest, Settings};

use crate::{
    api_server::ASK_EVERY,
    backlog::Backlog,
    clock::Clock,
    cluster::Cluster,
    health::Health,
    index::Index,
    journal::Journal,
    leadership::Leadership,
    metrics::Metrics,
    run::{holder_of_job, holder_of_lease, holder_of_pod, holder_of_request},
    supply::Supply,
};

/// Watches' indexes, the supply of cards, and the ways out.
pub struct Context {
    /// The API server.
    pub cluster: Cluster,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// How often the API server is asked whether it is there.
    pub ask_every: Duration,
    /// Whether this operator may write.
    pub leadership: Leadership,
    /// The installation's settings.
    pub settings: Settings,
    /// The image that brings the agent into pods.
    pub agent_image: String,
    /// All jobs.
    pub jobs: Index<GpuJob>,
    /// Leases that are not sealed.
    pub leases: Index<GpuLease>,
    /// What people ask for.
    pub requests: Index<GpuRequest>,
    /// Pods of ours.
    pub pods: Index<Pod>,
    /// Free cards.
    pub supply: Supply,
    /// Pods that the API server refused.
    pub refusals: Refusals,
    /// What waits for a pass.
    pub backlog: Arc<Backlog>,
    /// Whether everything that is needed is there.
    pub health: Health,
    /// What is counted.
    pub metrics: Metrics,
    /// What happened.
    pub journal: Journal,
    /// Names of `GpuCard` objects.
    pub card_names: CardNames,
}

impl Context {
    /// Nothing is known yet. `leadership` is what holds back this client's writes, `metrics` are
    /// those that count its requests.
    #[must_use]
    pub fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        leadership: Leadership,
        settings: Settings,
        agent_image: String,
        metrics: Metrics,
    ) -> Self {
        Self {
            cluster: Cluster::new(client),
            health: Health::new(clock.now()),
            clock,
            ask_every: ASK_EVERY,
            leadership,
            settings,
            agent_image,
            jobs: Index::new(holder_of_job),
            leases: Index::new(holder_of_lease),
            requests: Index::new(holder_of_request),
            pods: Index::new(holder_of_pod),
            supply: Supply::default(),
            refusals: Refusals::default(),
            backlog: Arc::default(),
            journal: Journal::new(metrics.clone()),
            metrics,
            card_names: CardNames::default(),
        }
    }

    /// Everybody of whom there is anything, in order.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let mut all = self.jobs.holders();
        all.extend(self.leases.holders());
        all.extend(self.requests.holders());
        all.extend(self.pods.holders());
        all.sort();
        all.dedup();
        all
    }
}

/// Names of `GpuCard` objects that were seen: with the built-in catalog, all cards that nodes can
/// have. One that was deleted stays; no node has it then.
#[derive(Default)]
pub struct CardNames(Mutex<BTreeSet<String>>);

impl CardNames {
    /// There is a card of this name.
    pub fn seen(&self, name: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// The API server's words about pods that it refused, by holder, until the next lease.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Holder, (String, String)>>);

impl Refusals {
    /// Remembers why the pod of a lease was refused.
    pub fn note(&self, holder: &Holder, lease: &str, words: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(holder.clone(), (lease.to_owned(), words.to_owned()));
    }

    /// Why the pod of this lease was refused, if it was.
    #[must_use]
    pub fn of(&self, holder: &Holder, lease: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(holder).filter(|(name, _)| name == lease).map(|(_, words)| words.clone())
    }

    /// The holder's next pod is another matter.
    pub fn forget(&self, holder: &Holder) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(holder);
    }
}
