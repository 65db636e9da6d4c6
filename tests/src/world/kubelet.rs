//! Kubelets and the agents in their pods: each pod on a node runs through its containers and ends
//! as its agent would end it.
//!
//! On a node that is silent everything goes on as it was last heard of, and is told when the node is
//! back.
//!
//! What the program does stands in the job's own variables, the same that simulated nodes of a
//! playground read: `PLAYGROUND_RUN_FOR` (a duration, default for ever), `PLAYGROUND_EXIT` (its exit
//! code) and `PLAYGROUND_DEAF` (it does not hear the order to stop).

use std::{collections::HashSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use leasehold::clock::Clock;
use leasehold_core::{
    duration,
    pod::container,
    reason::Reason,
    report::{Report, Stage},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{clock::VirtualClock, nodes::is_silent};
use crate::double::{
    kinds::Kind,
    server::ApiServer,
    store::{Key, stamp},
    write::merge,
};

/// How long each container before the program takes.
const BEFORE_THE_PROGRAM: Duration = Duration::from_secs(2);

/// Runs all pods of all nodes for ever.
pub async fn follow(server: ApiServer, clock: VirtualClock) {
    let mut versions = server.versions();
    let mut known = HashSet::new();
    let mut lives = JoinSet::new();
    loop {
        for (key, uid) in placed(&server) {
            if known.insert(uid.clone()) {
                let pod = Life { server: server.clone(), clock: clock.clone(), key, uid };
                lives.spawn(pod.run());
            }
        }
        while lives.try_join_next().is_some() {}
        versions.changed().await;
    }
}

/// Pods on nodes that have not ended.
fn placed(server: &ApiServer) -> Vec<(Key, String)> {
    server.with(|store| {
        let pods = store.of(Kind::named("Pod")).filter(|(_, pod)| {
            let phase = pod.pointer("/status/phase").and_then(Value::as_str);
            pod.pointer("/spec/nodeName").is_some() && phase == Some("Pending")
        });
        pods.map(|(key, pod)| (key.clone(), text(pod, "/metadata/uid"))).collect()
    })
}

/// A pod on its node.
struct Life {
    server: ApiServer,
    clock: VirtualClock,
    key: Key,
    uid: String,
}

/// Why a container ends.
struct End {
    reason: Reason,
    exit_code: i32,
    /// The pod's own word, when the kubelet ends it.
    word: Option<&'static str>,
}

impl Life {
    async fn run(self) {
        if self.start().await.is_some() {
            let begun = self.clock.now();
            self.update(|pod| {
                set_main(pod, &json!({"running": {"startedAt": stamp(begun)}}), "Running");
            });
            if let Some((ended, end)) = self.until_the_end(begun).await {
                self.until_heard().await;
                self.end(begun, ended, &end);
            }
        }
        self.leave();
    }

    /// Runs what comes before the program; `None` when the pod has to go before that.
    async fn start(&self) -> Option<()> {
        for stage in [Stage::Install, Stage::Preflight] {
            sleep(BEFORE_THE_PROGRAM).await;
            self.until_heard().await;
            let pod = self.pod()?;
            if pod.pointer("/metadata/deletionTimestamp").is_some() {
                self.update(|pod| pod["status"]["phase"] = json!("Failed"));
                return None;
            }
            let done = Report { reason: Some(Reason::Completed), ..Report::new(stage) };
            let began = self.clock.now().saturating_sub(BEFORE_THE_PROGRAM).ok()?;
            let ended = terminated(began, self.clock.now(), 0, &done);
            self.update(|pod| add_init(pod, stage.container(), &ended));
        }
        Some(())
    }

    /// Waits for the end of the program, and tells when it was; `None` when the pod is gone before.
    async fn until_the_end(&self, begun: Timestamp) -> Option<(Timestamp, End)> {
        let mut versions = self.server.versions();
        let mut heard = self.pod()?;
        let mut seen_running = begun;
        loop {
            let pod = self.pod()?;
            if self.is_heard() {
                heard = pod;
            }
            let now = self.clock.now();
            let (at, end) = next_end(&heard, begun);
            if at <= now {
                // What is heard of too late, as an order is, is obeyed at once.
                return Some((if at < seen_running { now } else { at }, end));
            }
            seen_running = now;
            let rest = at.duration_since(now);
            let rest = Duration::try_from(rest).unwrap_or(Duration::ZERO);
            // An error means that the time is over.
            let _ = timeout(rest, versions.changed()).await;
        }
    }

    /// Whether the node hears and is heard; a pod that is gone is not waited for.
    fn is_heard(&self) -> bool {
        let Some(pod) = self.pod() else { return true };
        let node = Key::of(Kind::named("Node"), "", &text(&pod, "/spec/nodeName"));
        self.server.with(|store| store.get(&node)).is_some_and(|node| !is_silent(&node))
    }

    async fn until_heard(&self) {
        let mut versions = self.server.versions();
        while !self.is_heard() {
            versions.changed().await;
        }
    }

    fn end(&self, begun: Timestamp, ended: Timestamp, end: &End) {
        let report = Report {
            reason: Some(end.reason),
            exit_code: Some(end.exit_code),
            ..Report::new(Stage::Run)
        };
        let state = terminated(begun, ended, end.exit_code, &report);
        let phase = if end.exit_code == 0 { "Succeeded" } else { "Failed" };
        self.update(|pod| {
            set_main(pod, &state, phase);
            if let Some(word) = end.word {
                pod["status"]["reason"] = json!(word);
            }
        });
    }

    /// Lets go of a pod whose deletion was asked for.
    fn leave(&self) {
        let at_once = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}});
        let is_leaving =
            self.pod().is_some_and(|pod| pod.pointer("/metadata/deletionTimestamp").is_some());
        if is_leaving {
            let (kind, now) = (Kind::named("Pod"), self.clock.now());
            // It may have gone by itself, as one that has ended does.
            let _ = self.server.with(|store| store.delete(kind, &self.key, &at_once, now));
        }
    }

    /// The pod as it is now; `None` once another one has its name.
    fn pod(&self) -> Option<Value> {
        let pod = self.server.with(|store| store.get(&self.key))?;
        (text(&pod, "/metadata/uid") == self.uid).then(|| Value::clone(&pod))
    }

    fn update(&self, change: impl FnOnce(&mut Value)) {
        // A pod that is gone needs no status.
        let _ = self.server.with(|store| {
            store.change(&self.key, |pod| {
                let mut pod = pod.clone();
                change(&mut pod);
                Ok(pod)
            })
        });
    }
}

/// The next end that is known, and when it comes.
fn next_end(pod: &Value, begun: Timestamp) -> (Timestamp, End) {
    let later =
        |at: Timestamp, time: SignedDuration| at.saturating_add(time).unwrap_or(Timestamp::MAX);
    let seconds = |name: &str| variable(pod, name)?.parse().ok().map(SignedDuration::from_secs);
    let stopped = |reason| End { reason, exit_code: 143, word: None };
    // Before anything that runs.
    let at_once = Timestamp::MIN;
    let bound = pod.pointer("/status/conditions/0/lastTransitionTime").and_then(Value::as_str);
    let bound: Timestamp = bound.and_then(|text| text.parse().ok()).unwrap_or(begun);
    let is_deaf = variable(pod, "PLAYGROUND_DEAF").is_some();
    let annotation = |name: &str| pod.pointer("/metadata/annotations")?.get(name)?.as_str();
    let told = annotation("leasehold.dev/runtime-seconds").and_then(|text| text.parse().ok());
    let runtime =
        told.map(SignedDuration::from_secs).or_else(|| seconds("LEASEHOLD_RUNTIME_SECONDS"));
    let run_for = variable(pod, "PLAYGROUND_RUN_FOR").and_then(|text| duration::parse(text).ok());
    let code = variable(pod, "PLAYGROUND_EXIT").and_then(|text| text.parse().ok()).unwrap_or(0);
    let by_itself = if code == 0 { Reason::Completed } else { Reason::CommandFailed };
    let ceiling = pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    let mut ends: Vec<(Timestamp, End)> = Vec::new();
    ends.extend(
        run_for.map(|time| {
            (later(begun, time), End { reason: by_itself, exit_code: code, word: None })
        }),
    );
    ends.extend(ceiling.map(|time| {
        let word = Some("DeadlineExceeded");
        let end = End { exit_code: 137, word, ..stopped(Reason::PodDeleted) };
        (later(bound, SignedDuration::from_secs(time)), end)
    }));
    let deletion = pod.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let killed_at = deletion.and_then(|text| text.parse().ok());
    if is_deaf {
        ends.extend(killed_at.map(|at: Timestamp| (at, stopped(Reason::PodDeleted))));
    } else {
        let order = annotation("leasehold.dev/stop").and_then(Reason::parse);
        ends.extend(order.map(|reason| (at_once, stopped(reason))));
        ends.extend(killed_at.map(|_| (at_once, stopped(Reason::PodDeleted))));
        ends.extend(runtime.map(|time| (later(begun, time), stopped(Reason::MaxRuntimeReached))));
        let hold = seconds("LEASEHOLD_HELD_SECONDS");
        ends.extend(hold.map(|time| (later(bound, time), stopped(Reason::BudgetExhausted))));
    }
    let never = || (Timestamp::MAX, stopped(Reason::PodDeleted));
    ends.into_iter().min_by_key(|(at, _)| *at).unwrap_or_else(never)
}

fn variable<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let all = pod.pointer("/spec/containers/0/env")?.as_array()?;
    all.iter().find(|one| one["name"] == name)?["value"].as_str()
}

fn terminated(began: Timestamp, ended: Timestamp, exit_code: i32, report: &Report) -> Value {
    json!({"terminated": {
        "startedAt": stamp(began), "finishedAt": stamp(ended), "exitCode": exit_code,
        "reason": if exit_code == 0 { "Completed" } else { "Error" },
        "message": report.to_line(),
    }})
}

fn add_init(pod: &mut Value, name: &str, state: &Value) {
    let statuses = pod["status"]["initContainerStatuses"].as_array().cloned().unwrap_or_default();
    let status = json!({"name": name, "state": state, "restartCount": 0});
    pod["status"]["initContainerStatuses"] = statuses.into_iter().chain([status]).collect();
}

fn set_main(pod: &mut Value, state: &Value, phase: &str) {
    let status = json!({"name": container::MAIN, "state": state, "restartCount": 0});
    let new = json!({"status": {"phase": phase, "containerStatuses": [status]}});
    merge(pod, &new);
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
