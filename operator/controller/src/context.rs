//! What every pass shares.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::Pod;
use leasehold_core::observed::Holder;
use leasehold_crds::{GpuJob, GpuLease, GpuRequest, Settings};

use crate::{clock::Clock, cluster::Cluster, index::Index, supply::Supply};

/// Watches' indexes, the supply of cards, and the ways out.
pub struct Context {
    /// The API server.
    pub cluster: Cluster,
    /// The time.
    pub clock: Arc<dyn Clock>,
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
