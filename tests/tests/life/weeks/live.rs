//! Lets a story happen.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_crds::Settings;
use leasehold_tests::{
    double::{refusal::Refusal, request::Call, server::Weather},
    world::{
        cluster::{Cluster, NAMESPACE},
        operator::Operator,
        witness::Witness,
    },
};
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, sleep, sleep_until},
};

use super::{
    story::{Event, Happening, NODES, Spec, Story},
    verdict,
};

/// Cards of each node.
const CARDS: u32 = 2;
/// How long everything may take to come to its end once nothing happens any more: jobs wait for each
/// other's cards.
const SETTLED_AFTER: Duration = Duration::from_hours(30);

/// Lives through a week and what follows; tells what is wrong then.
pub(super) fn week(story: &Story) -> Result<(), String> {
    runtime().block_on(async {
        let mut week = Week::begin();
        week.go_through(story).await;
        week.end(story).await
    })
}

/// All requests of a week, in their order.
pub(super) fn requests_of(story: &Story) -> Vec<String> {
    runtime().block_on(async {
        let mut week = Week::begin();
        week.go_through(story).await;
        let asked = week.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// What follows from a happening, and what ends it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Happens(&'a Happening),
    OperatorStarts,
    StormEnds,
    ClockIsRight,
    NodeSpeaks(u8),
    NodeIsTakenOut(u8),
    NodeIsBack(u8),
}

struct Week {
    cluster: Cluster,
    operator: Option<Operator>,
    witness: Witness,
    /// Requests so far.
    asked: Arc<Mutex<Vec<String>>>,
    begun: Instant,
    clock_is_wrong_by: i64,
    requests: usize,
}

impl Week {
    fn begin() -> Self {
        let cluster = Cluster::new();
        // They break off often enough.
        cluster.server.let_watches_last(Duration::from_hours(4));
        for node in 0..NODES {
            cluster.node(&node_name(node), CARDS);
        }
        cluster.price("rtx4090", "0.36");
        let mut week = Self {
            operator: None,
            witness: Witness::default(),
            asked: Arc::default(),
            begun: Instant::now(),
            clock_is_wrong_by: 0,
            requests: 0,
            cluster,
        };
        week.weather(|_| Weather::After(Duration::ZERO));
        week.start();
        week
    }

    async fn go_through(&mut self, story: &Story) {
        for ((at, _), step) in steps(story) {
            sleep_until(self.begun + Duration::from_secs(at.into())).await;
            self.witness.look(&self.cluster.server);
            match step {
                Step::Happens(happening) => self.happens(happening),
                Step::OperatorStarts => self.start(),
                Step::StormEnds => self.weather(|_| Weather::After(Duration::ZERO)),
                Step::ClockIsRight => self.set_clock(0),
                Step::NodeSpeaks(node) => self.silence(node, false),
                Step::NodeIsTakenOut(node) => self.take_out(node),
                Step::NodeIsBack(node) => self.bring_back(node),
            }
        }
    }

    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Applied { job, spec } => self.apply(&job_name(*job), spec),
            Happening::Deleted { job } => self.delete("GpuJob", &job_name(*job)),
            Happening::Asked { job, action } => self.ask(&job_name(*job), action),
            Happening::PodsDeleted { job } => {
                let mine = format!("{}-r", job_name(*job));
                for pod in self.cluster.all("Pod") {
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    if name.starts_with(&mine) {
                        self.delete("Pod", name);
                    }
                }
            }
            Happening::Killed { .. } => drop(self.operator.take()),
            Happening::Storm { share, dice, .. } => {
                let (share, mut dice) = (*share, fastrand::Rng::with_seed(*dice));
                self.weather(move |call| in_storm(call, share, &mut dice));
            }
            Happening::WatchesCut { history_is_lost } => {
                if *history_is_lost {
                    self.cluster.server.forget_history();
                }
                self.cluster.server.cut_watches();
            }
            Happening::ClockStepped { by, .. } => self.set_clock((*by).into()),
            Happening::NodeSilent { node, .. } => self.silence(*node, true),
        }
    }

    fn start(&mut self) {
        if self.operator.is_none() {
            self.operator = Some(Operator::start(&self.cluster, Settings::default()));
        }
    }

    /// From now on requests fare so; all are noted.
    fn weather(&self, mut forecast: impl FnMut(&Call) -> Weather + Send + 'static) {
        let asked = self.asked.clone();
        let begun = self.begun;
        self.cluster.server.weather(move |call| {
            let name = call.name.as_deref().unwrap_or_default();
            let at = begun.elapsed().as_millis();
            let line = format!("{at} {} {} {name}", call.verb, call.resource);
            asked.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            forecast(call)
        });
    }

    fn set_clock(&mut self, wrong_by: i64) {
        self.cluster.operators_clock.step(wrong_by - self.clock_is_wrong_by);
        self.clock_is_wrong_by = wrong_by;
    }

    fn apply(&self, name: &str, spec: &Spec) {
        match self.cluster.read_job(name) {
            None => {
                let mut whole = spec.whole();
                whole["rerun"] = json!(spec.rerun());
                self.cluster.job(name, &whole);
            }
            Some(job) if job.spec.rerun.unwrap_or(0) == spec.rerun() => {
                self.cluster.respecify(name, &spec.limits());
            }
            Some(_) => {
                let mut whole = spec.whole();
                whole["rerun"] = json!(spec.rerun());
                self.cluster.respecify(name, &whole);
            }
        }
    }

    fn ask(&mut self, name: &str, action: &str) {
        self.requests += 1;
        let request = json!({
            "metadata": {"name": format!("request-{}", self.requests)},
            "spec": {"target": {"kind": "GpuJob", "name": name}, "action": action},
        });
        self.cluster.create("GpuRequest", NAMESPACE, request);
    }

    fn delete(&self, kind: &str, name: &str) {
        if self.cluster.has(kind, NAMESPACE, name) {
            self.cluster.delete(kind, NAMESPACE, name);
        }
    }

    fn silence(&self, node: u8, is_silent: bool) {
        let name = node_name(node);
        if self.cluster.has("Node", "", &name) {
            self.cluster.silence(&name, is_silent);
        }
    }

    fn take_out(&self, node: u8) {
        let name = node_name(node);
        if self.cluster.has("Node", "", &name) {
            self.cluster.delete("Node", "", &name);
        }
    }

    fn bring_back(&self, node: u8) {
        let name = node_name(node);
        if !self.cluster.has("Node", "", &name) {
            self.cluster.node(&name, CARDS);
        }
    }

    /// Nothing happens any more: everything comes to its end, and stays as it is.
    async fn end(mut self, story: &Story) -> Result<(), String> {
        self.weather(|_| Weather::After(Duration::ZERO));
        self.set_clock(0);
        for node in 0..NODES {
            self.bring_back(node);
            self.silence(node, false);
        }
        self.start();
        sleep(SETTLED_AFTER).await;
        let writes = Arc::new(AtomicUsize::new(0));
        self.cluster.server.weather({
            let writes = writes.clone();
            move |call| {
                // Requests are cleared away a week after their answer.
                let counts = call.is_write() && call.resource != "gpurequests";
                writes.fetch_add(usize::from(counts), Ordering::SeqCst);
                Weather::After(Duration::ZERO)
            }
        });
        sleep(Duration::from_hours(1)).await;
        self.witness.look(&self.cluster.server);
        if let Some(operator) = self.operator.take() {
            operator.end().await;
        }
        let written = writes.load(Ordering::SeqCst);
        if written > 0 {
            return Err(format!("{written} writes in an hour in which nothing happened"));
        }
        verdict::of(story, &self.cluster, &self.witness)
    }
}

/// Everything in its order.
fn steps(story: &Story) -> BTreeMap<(u32, usize), Step<'_>> {
    let mut steps = BTreeMap::new();
    for (number, Event { at, what }) in story.0.iter().enumerate() {
        let mut add = |after: u32, step: Step<'static>| {
            steps.insert((at + after, 2 * number + 1), step);
        };
        match what {
            Happening::Killed { down } => add(*down, Step::OperatorStarts),
            Happening::Storm { lasts, .. } => add(*lasts, Step::StormEnds),
            Happening::ClockStepped { lasts, .. } => add(*lasts, Step::ClockIsRight),
            Happening::NodeSilent { node, lasts, comes_back: true } => {
                add(*lasts, Step::NodeSpeaks(*node));
            }
            Happening::NodeSilent { node, lasts, comes_back: false } => {
                add(*lasts, Step::NodeIsTakenOut(*node));
                add(*lasts + 600, Step::NodeIsBack(*node));
            }
            Happening::Applied { .. }
            | Happening::Deleted { .. }
            | Happening::Asked { .. }
            | Happening::PodsDeleted { .. }
            | Happening::WatchesCut { .. } => {}
        }
        steps.insert((*at, 2 * number), Step::Happens(what));
    }
    steps
}

/// How a request fares in a storm: so many of a hundred badly.
fn in_storm(call: &Call, share: u8, dice: &mut fastrand::Rng) -> Weather {
    if dice.u8(1..=100) > share {
        return Weather::After(Duration::from_millis(dice.u64(0..500)));
    }
    let refusals = [
        Refusal::internal(),
        Refusal::conflict("somebody was faster"),
        Refusal::forbidden("a policy does not want it"),
        Refusal::too_many(),
    ];
    let slow = Weather::After(Duration::from_millis(dice.u64(0..9_000)));
    // kube's client bounds lists and watches by itself, beneath what is played here.
    let hangs = !matches!(call.verb, "list" | "watch");
    match dice.u8(0..8) {
        kind @ 0..4 => Weather::Refused(refusals[usize::from(kind)].clone()),
        4 if hangs => Weather::Silence,
        5 if hangs => Weather::SilenceAfterwards,
        6 if call.is_write() => Weather::AnswerLost,
        _ => slow,
    }
}

fn node_name(node: u8) -> String {
    format!("node-{node}")
}

fn job_name(job: u8) -> String {
    format!("job-{job}")
}
