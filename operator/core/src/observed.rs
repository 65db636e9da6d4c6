//! What the controller saw in one pass. Pure values; [`crate::decide`] reads them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    catalog::Catalog,
    desired::Desired,
    lease::{Held, LeaseState, Stop, Terms},
    money::Money,
    plan::Share,
    pod::PodFacts,
    reason::Reason,
    request::Request,
    status::Status,
    taint::{Taint, Toleration},
};

/// The object that holds leases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Holder {
    /// The holder of an attempt, by the attempt's name, which nobody can change.
    #[must_use]
    pub fn of_attempt(namespace: &str, attempt: &str) -> Option<Self> {
        let digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (rest, _) = attempt.rsplit_once("-a").filter(|(_, number)| digits(number))?;
        let (name, _) = rest.rsplit_once("-r").filter(|(_, number)| digits(number))?;
        (!name.is_empty()).then(|| Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The name of an attempt's lease and pod: `train-r0-a1`.
    #[must_use]
    pub fn attempt_name(&self, rerun: i64, attempt: u32) -> String {
        format!("{}-r{rerun}-a{attempt}", self.name)
    }
}

/// Everything that a decision depends on, besides the specification and the time.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The holder's object; `None` once it is gone.
    pub object: Option<Object>,
    /// The lease that is not final yet.
    pub lease: Option<LeaseFacts>,
    /// All pods of the holder, those that have ended included.
    pub pods: Vec<PodFacts>,
    /// Runs of this name in the ledger; read when the object or its run is new, as [`needs_ledger`]
    /// says.
    pub ledger: Vec<PastRun>,
    /// Final leases that are not sealed yet, by name.
    pub unsealed: Vec<String>,
    /// Requests about the holder, oldest first.
    pub requests: Vec<Request>,
    /// How long a node may be silent until its leases are closed.
    pub node_patience: SignedDuration,
    /// Why the API server refused the lease or the pod of the newest attempt.
    pub refused: Option<String>,
    /// Cards, prices and free places.
    pub market: &'a Market,
}

/// Whether a decision must know the ledger: for an object whose specification was never in
/// effect, and for a new run.
#[must_use]
pub fn needs_ledger(status: &Status, desired: &Desired) -> bool {
    status.effective.is_none()
        || status.rerun != desired.rerun
        || status.spec_hash.as_ref() != Some(&desired.spec_hash)
}

impl PastRun {
    /// Whether it is a run as specified now. A lease without a hash is one of any specification:
    /// nothing is started twice.
    #[must_use]
    pub fn is_of(&self, desired: &Desired) -> bool {
        self.rerun == desired.rerun
            && self.spec_hash.as_ref().is_none_or(|hash| *hash == desired.spec_hash)
    }
}

/// The holder's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Which object of that name.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its deletion was requested, or it is being replaced.
    pub deletion_requested: bool,
    /// The last status.
    pub status: Status,
}

/// A lease that is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    /// Which object of that name.
    pub uid: String,
    /// What was fixed at the reservation.
    pub terms: Terms,
    /// The uid of the holder's object.
    pub holder_uid: String,
    /// Where it stands.
    pub state: LeaseState,
    /// The pod that holds, once recorded.
    pub pod_uid: Option<String>,
    /// The node, once recorded.
    pub node: Option<String>,
    /// Since when, once recorded.
    pub held: Option<Held>,
    /// The stop that was ordered.
    pub stop: Option<Stop>,
}

/// A run in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// Which run.
    pub rerun: i64,
    /// The hash of what it ran, if the lease has one.
    pub spec_hash: Option<String>,
    /// The attempt.
    pub attempt: u32,
    /// The lease's name.
    pub lease: String,
    /// Whether cards were held.
    pub was_held: bool,
    /// Why it was released, when it is closed.
    pub reason: Option<Reason>,
    /// When it was released.
    pub ended_at: Option<Timestamp>,
    /// How long its program ran.
    pub ran: SignedDuration,
    /// What it cost.
    pub charged: Money,
    /// The currency.
    pub currency: String,
}

/// Cards, prices and free places.
#[derive(Clone, Debug, Default)]
pub struct Market {
    /// Known cards, built-in and from `GpuCard` objects.
    pub catalog: Catalog,
    /// Prices by card id.
    pub prices: BTreeMap<String, Price>,
    /// Nodes with cards.
    pub nodes: Vec<NodeSupply>,
}

impl Market {
    /// The nodes that have this card.
    pub fn nodes_of(&self, card: &str) -> impl Iterator<Item = &NodeSupply> {
        self.nodes.iter().filter(move |node| node.card.as_deref() == Some(card))
    }
}

/// What a card costs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// One hour of one card.
    pub per_hour: Money,
    /// Its currency.
    pub currency: String,
}

/// Most of a node that its cards' shares add up to, in percent; the rest is for the node's own
/// pods.
const SHARED_PERCENT: i64 = 90;

impl NodeSupply {
    /// The part of the node that goes with so many of its cards.
    #[must_use]
    pub fn share(&self, count: u32) -> Share {
        let of = |whole: i64| {
            let cards = i64::from(self.allocatable.max(1));
            whole.saturating_mul(SHARED_PERCENT) / 100 / cards * i64::from(count)
        };
        Share { cpu_millis: of(self.cpu_millis), memory_bytes: of(self.memory_bytes) }
    }

    /// By what the node is being emptied of a pod that tolerates these taints, when it is.
    #[must_use]
    pub fn emptied_of(&self, tolerations: &[Toleration]) -> Option<String> {
        let taint = || self.taints.iter().find(|taint| taint.empties(tolerations));
        self.emptied.clone().or_else(|| taint().map(|taint| format!("tainted {taint}")))
    }
}

/// A node with cards of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSupply {
    /// The node's name.
    pub name: String,
    /// The card's id; `None` when its labels name no known card.
    pub card: Option<String>,
    /// Cards that the device plugin offers.
    pub allocatable: u32,
    /// Cards that no pod holds or is about to hold.
    pub free: u32,
    /// Ready and open for new pods.
    pub open: bool,
    /// By what it is being emptied of all pods, when it is: a cordon, its deletion.
    pub emptied: Option<String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Since when its kubelet has not reported, when that is so.
    pub silent_since: Option<Timestamp>,
    /// CPU that pods can have, in thousandths of a core.
    pub cpu_millis: i64,
    /// Memory that pods can have, in bytes.
    pub memory_bytes: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_names_its_holder() {
        for name in ["train", "exp.v1.2", "a-r1-a1", "x-r", "r0-a1"] {
            let holder = Holder { namespace: "ml".into(), name: name.into() };
            assert_eq!(Holder::of_attempt("ml", &holder.attempt_name(7, 12)), Some(holder));
        }
        for name in ["train", "train-r0", "train-r0-a", "train-rx-a1", "-r0-a1"] {
            assert_eq!(Holder::of_attempt("ml", name), None, "{name}");
        }
    }

    #[test]
    fn cards_share_their_node() {
        let node = NodeSupply {
            name: "a".into(),
            card: None,
            allocatable: 4,
            free: 4,
            open: true,
            emptied: None,
            taints: Vec::new(),
            silent_since: None,
            cpu_millis: 40_000,
            memory_bytes: 400,
        };
        assert_eq!(node.share(2), Share { cpu_millis: 18_000, memory_bytes: 180 });
    }
}
