//! What can happen in a week.

use std::{fmt::Write, ops::Range};

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Value, json};

/// Nodes of the cluster, with two cards each.
pub(super) const NODES: u8 = 3;
/// Names of jobs.
const JOBS: u8 = 8;
/// Seconds of a week.
const WEEK: u32 = 7 * 24 * 60 * 60;

/// A week.
#[derive(Clone, Debug)]
pub(super) struct Story(pub(super) Vec<Event>);

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When, in seconds.
    pub(super) at: u32,
    pub(super) what: Happening,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// A job is applied: it is new, or it changes.
    Applied { job: u8, spec: Spec },
    /// A job is deleted.
    Deleted { job: u8 },
    /// Somebody asks for a stop, or that the job goes on.
    Asked { job: u8, action: &'static str },
    /// Somebody deletes the job's pods.
    PodsDeleted { job: u8 },
    /// The operator is killed, and started again so many seconds later.
    Killed { down: u32 },
    /// So many of a hundred requests fare badly, for so many seconds.
    Storm { lasts: u32, share: u8, dice: u64 },
    /// All watches break off; the history that they would go on from may be forgotten.
    WatchesCut { history_is_lost: bool },
    /// The clock of the operator's machine is wrong by so many seconds, for so many seconds.
    ClockStepped { by: i32, lasts: u32 },
    /// A node is silent for so many seconds; after that it speaks again, or it is taken out and comes
    /// back empty.
    NodeSilent { node: u8, lasts: u32, comes_back: bool },
}

/// What a job asks for.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    rerun: u8,
    count: u8,
    max_runtime: u32,
    /// Cents, where money is limited.
    limit: Option<u32>,
    is_stopped: bool,
    /// Seconds after which its program ends by itself.
    run_for: Option<u32>,
    exit: u8,
    is_deaf: bool,
}

impl Spec {
    /// As it is applied for the first time, or with another run.
    pub(super) fn whole(&self) -> Value {
        let mut env = Vec::new();
        let mut set = |name: &str, value: String| env.push(json!({"name": name, "value": value}));
        if let Some(seconds) = self.run_for {
            set("PLAYGROUND_RUN_FOR", format!("{seconds}s"));
        }
        set("PLAYGROUND_EXIT", self.exit.to_string());
        if self.is_deaf {
            set("PLAYGROUND_DEAF", "yes".to_owned());
        }
        let mut whole = json!({"gpu": {"cards": ["4090"], "count": self.count}, "env": env});
        leasehold_tests::double::write::merge(&mut whole, &self.limits());
        whole
    }

    /// What may change while it runs.
    pub(super) fn limits(&self) -> Value {
        let budget = match self.limit {
            Some(cents) => {
                json!({"limit": format!("{}.{:02}", cents / 100, cents % 100), "currency": "USD"})
            }
            None => json!({"limit": "Unlimited", "currency": null}),
        };
        let state = if self.is_stopped { "Stopped" } else { "Running" };
        json!({
            "maxRuntime": format!("{}s", self.max_runtime), "budget": budget, "state": state,
            "keepLogs": "1h",
        })
    }

    pub(super) fn rerun(&self) -> i64 {
        self.rerun.into()
    }

    pub(super) fn max_runtime(&self) -> i64 {
        self.max_runtime.into()
    }

    /// In millionths; `None` without a limit.
    pub(super) fn limit(&self) -> Option<i64> {
        self.limit.map(|cents| i64::from(cents) * 10_000)
    }
}

impl Story {
    /// In words, one line for each event.
    pub(super) fn told(&self) -> String {
        let mut text = String::new();
        for Event { at, what } in &self.0 {
            let (days, hours, minutes) = (at / 86_400, at / 3_600 % 24, at / 60 % 60);
            // Writing to a string does not fail.
            let _ = writeln!(text, "  day {days} {hours:02}:{minutes:02}:{:02}  {what:?}", at % 60);
        }
        text
    }
}

/// All weeks.
pub(super) fn stories() -> impl Strategy<Value = Story> {
    proptest::collection::vec(events(), 1..100).prop_map(|mut events| {
        events.sort_by_key(|event| event.at);
        Story(events)
    })
}

fn events() -> impl Strategy<Value = Event> {
    // Some things happen at the same time.
    let at = prop_oneof![0..WEEK, (0..WEEK / 3_600).prop_map(|hour| hour * 3_600)];
    (at, happenings()).prop_map(|(at, what)| Event { at, what })
}

fn happenings() -> impl Strategy<Value = Happening> {
    let job = 0..JOBS;
    let lasts = |range: Range<u32>| range;
    prop_oneof![
        12 => (job.clone(), specs()).prop_map(|(job, spec)| Happening::Applied { job, spec }),
        3 => job.clone().prop_map(|job| Happening::Deleted { job }),
        2 => (job.clone(), prop_oneof![Just("Stop"), Just("Start")])
            .prop_map(|(job, action)| Happening::Asked { job, action }),
        2 => job.prop_map(|job| Happening::PodsDeleted { job }),
        4 => lasts(0..7_200).prop_map(|down| Happening::Killed { down }),
        4 => (lasts(1..3_600), 1..=100_u8, any::<u64>())
            .prop_map(|(lasts, share, dice)| Happening::Storm { lasts, share, dice }),
        2 => any::<bool>().prop_map(|history_is_lost| Happening::WatchesCut { history_is_lost }),
        2 => (-3_600..=3_600_i32, lasts(60..20_000))
            .prop_map(|(by, lasts)| Happening::ClockStepped { by, lasts }),
        3 => (0..NODES, lasts(10..3_000), any::<bool>())
            .prop_map(|(node, lasts, comes_back)| Happening::NodeSilent { node, lasts, comes_back }),
    ]
}

fn specs() -> impl Strategy<Value = Spec> {
    let run = (0..3_u8, 1..=2_u8, 60..20_000_u32);
    let money = proptest::option::weighted(0.4, 2..400_u32);
    let program = (proptest::option::weighted(0.7, 1..20_000_u32), 0..2_u8);
    let flags = (proptest::bool::weighted(0.1), proptest::bool::weighted(0.1));
    (run, money, program, flags).prop_map(
        |((rerun, count, max_runtime), limit, (run_for, exit), (is_stopped, is_deaf))| Spec {
            rerun,
            count,
            max_runtime,
            limit,
            is_stopped,
            run_for,
            exit,
            is_deaf,
        },
    )
}
