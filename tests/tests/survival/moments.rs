//! The operator is killed between every two of its writes. At each moment the write that would end it
//! hangs, so that it is surely this moment and no later one.

use k8s_openapi::api::core::v1::Pod;
use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::{
    LIMIT,
    cases::{POD, times_of_the_program},
    gates::{Gates, Write},
};

/// When the operator is killed.
struct Moment {
    name: &'static str,
    /// The write that does not happen before; without one the moment lasts by itself.
    before: Option<Write>,
    job: Kind,
    /// Whether it is this moment, by what the server has.
    is_now: fn(Seen<'_>) -> bool,
}

/// What a moment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A program that ends by itself.
    Short,
    /// One that ends when it is told so.
    UntilTold,
    /// The same, stopped while it runs.
    Stopped,
    /// A job whose image is awaited, stopped then.
    StoppedBeforeStart,
}

const UNTIL_TOLD: &str = "script: \"until [ -e /tmp/enough ]; do sleep 0.2; done\"";
/// A registry that does not answer.
const AWAITED: &str = "127.0.0.1:1/team/train:1";

impl Kind {
    fn job(self) -> Job<'static> {
        let job = Job::named("train");
        match self {
            Self::Short => job,
            Self::UntilTold | Self::Stopped => job.running(UNTIL_TOLD),
            Self::StoppedBeforeStart => job.from_image(AWAITED),
        }
    }

    /// The word after which it is stopped.
    fn stopped_when(self) -> Option<&'static str> {
        match self {
            Self::Short | Self::UntilTold => None,
            Self::Stopped => Some("Running"),
            Self::StoppedBeforeStart => Some("WaitingForImage"),
        }
    }
}

const fn pods(operation: &'static str, resource: &'static str, when: &'static str) -> Write {
    Write { operation, group: "", resource, when }
}

const fn leases(operation: &'static str, resource: &'static str, when: &'static str) -> Write {
    Write { operation, group: "leasehold.dev", resource, when }
}

const UNBOUND: &str = "created";

const MOMENTS: &[Moment] = &[
    Moment {
        name: "decided",
        before: Some(leases("CREATE", "gpuleases", "true")),
        job: Kind::Short,
        is_now: |seen| seen.job("/status/lease/name") && !seen.lease(""),
    },
    Moment {
        name: "reserved",
        before: Some(pods("CREATE", "pods", "true")),
        job: Kind::Short,
        is_now: |seen| seen.lease("") && !seen.pod(""),
    },
    Moment {
        name: UNBOUND,
        before: Some(pods("CREATE", "pods/binding", "true")),
        job: Kind::Short,
        is_now: |seen| seen.pod("") && !seen.pod("/spec/nodeName"),
    },
    Moment {
        name: "bound",
        before: Some(leases("UPDATE", "gpuleases/status", "has(object.status.heldAt)")),
        job: Kind::Short,
        is_now: |seen| seen.pod("/spec/nodeName") && !seen.lease("/status/heldAt"),
    },
    Moment {
        name: "started",
        before: Some(leases("UPDATE", "gpuleases/status", "has(object.status.runningAt)")),
        job: Kind::UntilTold,
        is_now: |seen| seen.pod(MAIN_RUNS) && !seen.lease("/status/runningAt"),
    },
    Moment {
        name: "running",
        before: None,
        job: Kind::UntilTold,
        is_now: |seen| seen.pod(MAIN_RUNS) && seen.lease("/status/runningAt"),
    },
    Moment {
        name: "stopped",
        before: Some(pods(
            "UPDATE",
            "pods",
            "\"leasehold.dev/stop\" in object.metadata.annotations",
        )),
        job: Kind::Stopped,
        is_now: |seen| {
            seen.lease("/status/stop")
                && seen.pod(MAIN_RUNS)
                && !seen.pod("/metadata/annotations/leasehold.dev~1stop")
        },
    },
    Moment {
        name: "stopped-early",
        before: Some(pods("DELETE", "pods", "true")),
        job: Kind::StoppedBeforeStart,
        is_now: |seen| seen.lease("/status/stop") && !seen.pod("/metadata/deletionTimestamp"),
    },
    Moment {
        name: "ended",
        before: Some(leases("UPDATE", "gpuleases/status", "has(object.status.endedAt)")),
        job: Kind::Short,
        is_now: |seen| {
            seen.pod("/status/containerStatuses/0/state/terminated")
                && !seen.lease("/status/endedAt")
        },
    },
    Moment {
        name: "closed",
        before: Some(leases("UPDATE", "gpuleases", "true")),
        job: Kind::Short,
        is_now: |seen| seen.lease("/status/endedAt") && seen.lease("/metadata/finalizers"),
    },
    Moment {
        name: "sealed",
        before: Some(pods("UPDATE", "pods", "!has(object.metadata.finalizers)")),
        job: Kind::Short,
        is_now: |seen| !seen.lease("/metadata/finalizers") && seen.pod("/metadata/finalizers"),
    },
];

const MAIN_RUNS: &str = "/status/containerStatuses/0/state/running";

/// Looks at the server.
#[derive(Clone, Copy)]
struct Seen<'a> {
    stage: &'a Stage,
    namespace: &'a str,
}

impl Seen<'_> {
    fn job(self, path: &str) -> bool {
        self.has("gpujob", "train", path)
    }

    fn lease(self, path: &str) -> bool {
        self.has("gpulease", POD, path)
    }

    fn pod(self, path: &str) -> bool {
        self.has("pod", POD, path)
    }

    fn has(self, kind: &str, name: &str, path: &str) -> bool {
        let object: Option<Value> = self.stage.playground.get(self.namespace, kind, name).unwrap();
        object.is_some_and(|object| object.pointer(path).is_some())
    }
}

impl Moment {
    fn namespace(&self) -> String {
        format!("killed-{}", self.name)
    }

    /// Brings a job to its moment, but for what the operator still has to do.
    fn approach(&self, stage: &Stage) {
        let namespace = self.namespace();
        if let Some(word) = self.job.stopped_when() {
            jobs::until_ready_is(stage, &namespace, "train", word, LIMIT);
            let stopped = self.job.job().within("maxRuntime: 20m\nstate: Stopped");
            stopped.apply(stage, &namespace);
        }
        if self.before.is_none() {
            wait_for(&format!("it is {}", self.name), LIMIT, || {
                let seen = Seen { stage, namespace: &namespace };
                if (self.is_now)(seen) { Ok(()) } else { Err("not yet") }
            });
        }
    }

    fn is_over_in_order(&self, stage: &Stage) {
        let namespace = self.namespace();
        if self.job == Kind::UntilTold {
            let tell = ["exec", POD, "-n", &namespace, "-c", "main", "--", "touch", "/tmp/enough"];
            stage.playground.kubectl(&tell).unwrap();
        }
        let is_stopped = self.job.stopped_when().is_some();
        let (word, reason) =
            if is_stopped { ("Stopped", "Stopped") } else { ("Succeeded", "Completed") };
        jobs::until_ready_is(stage, &namespace, "train", word, LIMIT);
        let status = jobs::ended_as(stage, &namespace, "train", (reason, "User"), LIMIT);
        assert_eq!(jobs::pods_made(stage, &namespace), 1, "{}", self.name);
        if self.job == Kind::StoppedBeforeStart {
            assert_eq!(status.running_at, None, "{}", self.name);
            return;
        }
        let (started, finished) = times_of_the_program(stage, &namespace);
        let times = (status.running_at.as_deref(), status.ended_at.as_deref());
        let stamp = |text: Option<&str>| text.unwrap().parse().unwrap();
        assert_eq!((stamp(times.0), stamp(times.1)), (started, finished), "{}", self.name);
        let pod: Pod = stage.playground.get(&namespace, "pod", POD).unwrap().unwrap();
        let containers = pod.status.unwrap().container_statuses.unwrap();
        assert!(containers.iter().all(|one| one.restart_count == 0), "{}", self.name);
    }
}

pub(crate) fn killed_at_every_moment(stage: &Stage) {
    let mut writes = Vec::new();
    for moment in MOMENTS {
        let namespace = jobs::namespace(stage, &moment.namespace());
        writes.extend(moment.before.map(|write| (namespace, write)));
    }
    let gates = Gates::shut(stage, &writes);
    let operator = Operator::start(&stage.playground).unwrap();
    // A pod that is not bound is given up after a minute: the one that waits for it comes last.
    let (unbound, others): (Vec<_>, Vec<_>) =
        MOMENTS.iter().partition(|moment| moment.name == UNBOUND);
    for moments in [others, unbound] {
        for moment in &moments {
            moment.job.job().apply(stage, &moment.namespace());
        }
        for moment in moments {
            moment.approach(stage);
        }
    }
    let waiting = gates.until_all_are_waited_at();
    operator.kill().unwrap();
    for moment in MOMENTS {
        let seen = Seen { stage, namespace: &moment.namespace() };
        assert!((moment.is_now)(seen), "it was not {} when the operator was killed", moment.name);
    }
    drop(waiting);
    gates.open();
    let operator = Operator::start(&stage.playground).unwrap();
    for moment in MOMENTS {
        moment.is_over_in_order(stage);
    }
    operator.kill().unwrap();
}
