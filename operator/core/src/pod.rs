//! What a pod tells, as rules read it. Pure values; the controller fills them from the wire.
//! [`crate::diagnosis`] explains them.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::{report::Report, taint::Toleration};

/// Names of the containers that leasehold puts into a pod.
pub mod container {
    /// Copies the agent into the pod.
    pub const INSTALL: &str = "agent-install";
    /// Checks the cards.
    pub const PREFLIGHT: &str = "preflight";
    /// Restores packages.
    pub const PREPARE: &str = "prepare";
    /// Runs the program.
    pub const MAIN: &str = "main";
}

/// A pod of an attempt.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts of one object")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Name, which is also its lease's.
    pub name: String,
    /// Which object of that name.
    pub uid: String,
    /// The uid of the lease that it was made for, which nobody can change in a pod that exists.
    pub lease_uid: Option<String>,
    /// It carries the labels by which it is watched.
    pub labelled: bool,
    /// For preconditions.
    pub resource_version: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Node and time of its binding.
    pub bound: Option<Bound>,
    /// Taints that it puts up with.
    pub tolerations: Vec<Toleration>,
    /// Why the scheduler has not bound it.
    pub scheduler_says: Option<String>,
    /// Somebody asked for its deletion.
    pub deletion_requested: bool,
    /// The API server or the cluster ends the pod: eviction, preemption, taint, garbage collection.
    pub disrupted: Option<Disruption>,
    /// Our finalizer is on it.
    pub metered: bool,
    /// The stop that the agent was told, in one word; only a messenger, the order is in the lease.
    pub stop_told: Option<String>,
    /// The running time that the agent was told.
    pub runtime_told: Option<SignedDuration>,
    /// What the pod was made with; it cannot be changed any more.
    pub granted: Granted,
    /// The kubelet's own deadline, counted from the binding.
    pub ceiling: Option<SignedDuration>,
    /// All containers have ended and none will start.
    pub is_over: bool,
    /// The pod's own reason, for example `Evicted` or `DeadlineExceeded`.
    pub reason: Option<String>,
    /// The pod's own message.
    pub message: Option<String>,
    /// Conditions on its way to the program that do not hold yet, in words, for example
    /// `PodReadyToStartContainers is False`.
    pub unmet: Vec<String>,
    /// Containers in the order in which they start.
    pub containers: Vec<ContainerFacts>,
}

/// Kubernetes' `DisruptionTarget`, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// One word, for example `PreemptionByScheduler`.
    pub reason: String,
    /// The rest.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

impl Disruption {
    /// Whether somebody asked the API server for it, as `kubectl drain` does and as everybody may
    /// who may edit pods: <https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/>.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.reason == "EvictionByEvictionAPI"
    }
}

impl fmt::Display for Disruption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.reason, self.message)
    }
}

/// Limits that were fixed when a pod was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Running time at most.
    pub runtime: SignedDuration,
    /// From the stop signal until the program is killed.
    pub grace: SignedDuration,
    /// From taking the card until the stop signal at most, where money limits it.
    pub hold: Option<SignedDuration>,
}

/// A binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The node.
    pub node: String,
    /// When, by the API server's clock.
    pub at: Timestamp,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: ContainerState,
    /// How often it was started again.
    pub restarts: u32,
    /// When it had started before it was started again.
    pub started_before: Option<Timestamp>,
}

impl ContainerState {
    /// Whether it started then.
    #[must_use]
    pub fn is_start_at(&self, at: Timestamp) -> bool {
        match self {
            Self::Running { started_at } => *started_at == Some(at),
            Self::Ended(ended) => ended.started_at == Some(at),
            Self::Waiting { .. } => false,
        }
    }
}

impl ContainerFacts {
    /// A container that was never started again.
    #[must_use]
    pub fn first(name: &str, state: ContainerState) -> Self {
        Self { name: name.to_owned(), state, restarts: 0, started_before: None }
    }
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Not started; why, in the kubelet's words.
    Waiting {
        /// One word, for example `ErrImagePull`.
        reason: String,
        /// The rest.
        message: String,
    },
    /// Started.
    Running {
        /// When.
        started_at: Option<Timestamp>,
    },
    /// Ended.
    Ended(Ended),
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it had started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Its exit code.
    pub exit_code: i32,
    /// The kubelet's word, for example `OOMKilled`, `Error`, `StartError`.
    pub reason: String,
    /// The termination message as it is.
    pub message: String,
    /// The agent's report, when the termination message is one.
    pub report: Option<Report>,
}

impl PodFacts {
    /// The container with this name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerState> {
        self.containers
            .iter()
            .find(|container| container.name == name)
            .map(|container| &container.state)
    }

    /// When the program started, for the first time that is still known.
    #[must_use]
    pub fn running_at(&self) -> Option<Timestamp> {
        let main = self.containers.iter().find(|one| one.name == container::MAIN)?;
        main.started_before.or(match &main.state {
            ContainerState::Running { started_at } => *started_at,
            ContainerState::Ended(ended) => ended.started_at,
            ContainerState::Waiting { .. } => None,
        })
    }

    /// Whether this container runs now.
    #[must_use]
    pub fn is_running(&self, name: &str) -> bool {
        matches!(self.container(name), Some(ContainerState::Running { .. }))
    }

    /// When the last container ended, as far as the kubelet said.
    #[must_use]
    pub fn last_end(&self) -> Option<Timestamp> {
        self.ends().filter_map(|(_, ended)| ended.finished_at).max()
    }

    /// Whether any container has started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.containers.iter().any(|container| match &container.state {
            ContainerState::Waiting { .. } => container.restarts > 0,
            ContainerState::Running { .. } => true,
            ContainerState::Ended(ended) => ended.started_at.is_some(),
        })
    }

    /// What it does on the way to its program: the first container that has not ended, and the
    /// conditions that do not hold where that container does not say why it waits.
    #[must_use]
    pub fn on_the_way(&self) -> String {
        let all = self.containers.iter().map(|one| (&one.name, &one.state));
        let mut doing = all.filter_map(|(name, state)| match state {
            ContainerState::Waiting { reason, message } if message.is_empty() => {
                Some(self.with_unmet(format!("container {name} waits: {reason}")))
            }
            ContainerState::Waiting { reason, message } => {
                Some(format!("container {name} waits: {reason}: {message}"))
            }
            ContainerState::Running { started_at: Some(at) } => {
                Some(format!("container {name} has been at work since {at}"))
            }
            ContainerState::Running { started_at: None } => {
                Some(format!("container {name} is at work"))
            }
            ContainerState::Ended(_) => None,
        });
        let doing = doing.next();
        doing.unwrap_or_else(|| self.with_unmet("nothing is known of its containers".to_owned()))
    }

    fn with_unmet(&self, said: String) -> String {
        if self.unmet.is_empty() { said } else { format!("{said}; {}", self.unmet.join(", ")) }
    }

    /// Whether a container beside the program runs.
    #[must_use]
    pub fn has_sidecar_running(&self) -> bool {
        self.containers.iter().any(|container| {
            container.name != container::MAIN
                && matches!(container.state, ContainerState::Running { .. })
        })
    }

    /// Containers that have ended, in starting order.
    pub fn ends(&self) -> impl Iterator<Item = (&str, &Ended)> {
        self.containers.iter().filter_map(|container| match &container.state {
            ContainerState::Ended(ended) => Some((container.name.as_str(), ended)),
            ContainerState::Waiting { .. } | ContainerState::Running { .. } => None,
        })
    }

    /// The first container that waits with a reason other than its turn.
    #[must_use]
    pub fn held_up(&self) -> Option<(&str, &str, &str)> {
        self.containers.iter().find_map(|container| match &container.state {
            ContainerState::Waiting { reason, message }
                if !reason.is_empty()
                    && reason != "PodInitializing"
                    && reason != "ContainerCreating" =>
            {
                Some((container.name.as_str(), reason.as_str(), message.as_str()))
            }
            ContainerState::Waiting { .. }
            | ContainerState::Running { .. }
            | ContainerState::Ended(_) => None,
        })
    }
}
