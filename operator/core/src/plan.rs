//! Everything intended, visible before anything happens. Pure values.
//! Made by [`crate::decide`]; the controller records the status, then acts in order.

use jiff::{SignedDuration, Timestamp};

use crate::{
    condition::ConditionType,
    lease::{Bill, EndKnown, Held, Stop, Terms},
    reason::{Finding, Payer, Reason},
    request::Answer,
    status::Status,
};

/// One pass' intention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the holder's status shall say; `None` when its object is gone.
    pub status: Option<Status>,
    /// What to do, in this order; each is idempotent.
    pub commands: Vec<Command>,
    /// What to tell as Events.
    pub notices: Vec<Notice>,
    /// When to look again without a change.
    pub wake: Wake,
}

impl Plan {
    /// The commands that may be carried out although the status could not be recorded: they only
    /// end what has no right to go on.
    #[must_use]
    pub fn enforcing(&self) -> Vec<Command> {
        self.commands.iter().filter(|command| command.is_enforcing()).cloned().collect()
    }

    /// Whether more cards or other prices would change the answer.
    #[must_use]
    pub fn waits_for_supply(&self) -> bool {
        let Some(status) = &self.status else {
            return false;
        };
        status.lease.is_none()
            && status.conditions.iter().any(|condition| {
                condition.kind == ConditionType::Ready
                    && matches!(
                        condition.reason,
                        Reason::WaitingForCard | Reason::CountExceedsNodes | Reason::Unpriced
                    )
            })
    }
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At this instant, or earlier on a change.
    At(Timestamp),
    /// On a change only.
    OnChange,
}

/// An Event on the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look.
    pub severity: Severity,
    /// What is told.
    pub finding: Finding,
}

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Normal,
    /// Somebody should look.
    Warning,
}

impl Command {
    /// Whether it ends what has no right to go on, and therefore waits for no other write.
    #[must_use]
    pub fn is_enforcing(&self) -> bool {
        matches!(self, Self::OrderStop { .. } | Self::DeletePod { .. })
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Write the lease; nothing happens when it exists.
    ReserveLease(Terms),
    /// Create the pod of a lease that is still reserved and never had one.
    CreatePod(PodPlan),
    /// Record that the pod holds its cards.
    RecordHeld {
        /// The lease.
        lease: String,
        /// Its pod.
        pod_uid: String,
        /// The node.
        node: String,
        /// Since when.
        held: Held,
        /// The stop that is ordered, if any.
        stop: Option<Stop>,
    },
    /// Close the lease for good.
    CloseLease(Closing),
    /// Close a lease whose pod never held a card.
    VoidLease {
        /// The lease.
        lease: String,
        /// Why there was no pod.
        reason: Reason,
    },
    /// Mark a final lease, so that nobody watches it any more.
    SealLease {
        /// The lease.
        lease: String,
    },
    /// Tell the agent to stop the program.
    OrderStop {
        /// The pod.
        pod: String,
        /// Why.
        reason: Reason,
    },
    /// Put back what somebody took off: the labels by which the pod is watched, and our finalizer.
    MarkPod {
        /// The pod, which is named like its lease.
        pod: String,
        /// Which object of that name.
        uid: String,
    },
    /// Tell the agent another running time.
    TellRuntime {
        /// The pod.
        pod: String,
        /// From the program's start.
        runtime: SignedDuration,
    },
    /// Delete the pod.
    DeletePod {
        /// The pod.
        pod: String,
        /// Which object of that name.
        uid: String,
        /// Delete only this version; for pods that must not be deleted once they are bound.
        resource_version: Option<String>,
    },
    /// Write the answer into a request.
    AnswerRequest {
        /// The request.
        request: String,
        /// Which object of that name.
        uid: String,
        /// The answer.
        answer: Answer,
    },
    /// Delete a request that was answered long ago.
    DeleteRequest {
        /// The request.
        request: String,
        /// Which object of that name.
        uid: String,
    },
    /// Take our finalizer off the pod: its end is in the ledger.
    ForgetPod {
        /// The pod.
        pod: String,
        /// Which object of that name.
        uid: String,
    },
}

/// The final facts of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The lease.
    pub lease: String,
    /// Its pod.
    pub pod_uid: Option<String>,
    /// The node.
    pub node: Option<String>,
    /// When it began.
    pub held: Held,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How well that is known.
    pub end_known: EndKnown,
    /// Why it ended.
    pub finding: Finding,
    /// Who pays.
    pub paid_by: Payer,
    /// What it costs.
    pub bill: Bill,
}

/// A pod to create; the rest of it comes from the holder's specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlan {
    /// Name of pod and lease.
    pub name: String,
    /// The run.
    pub rerun: i64,
    /// The attempt.
    pub attempt: u32,
    /// The card's id.
    pub card: String,
    /// A node with room; only counted with, the scheduler decides.
    pub node_hint: String,
    /// Values of `nvidia.com/gpu.product` that mean this card.
    pub product_labels: Vec<String>,
    /// Names that nvidia-smi prints for this card.
    pub product_names: Vec<String>,
    /// Memory in MiB as nvidia-smi prints it.
    pub memory_mib: Option<i64>,
    /// Bounds of the label `nvidia.com/gpu.memory` (exclusive), where one label means several cards.
    pub memory_bounds_mib: Option<(i64, i64)>,
    /// Cards in the pod.
    pub count: u32,
    /// The cards' share of the node, used where the specification names no resources.
    pub share: Share,
    /// Running time that the agent enforces.
    pub runtime: SignedDuration,
    /// Longest time from taking the card to the stop signal that money pays.
    pub hold: Option<SignedDuration>,
    /// Stop signal until kill.
    pub grace: SignedDuration,
    /// The kubelet's own deadline.
    pub ceiling: SignedDuration,
}

/// Part of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Thousandths of a core.
    pub cpu_millis: i64,
    /// Bytes.
    pub memory_bytes: i64,
}
