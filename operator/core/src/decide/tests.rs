//! Scenarios of one job, told step by step: each step decides and does what the plan says to a
//! small model of the cluster.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::decide;
use crate::{
    catalog::Catalog,
    condition::{ConditionType, Truth},
    desired::{Desired, GpuCount, Wish},
    lease::LeaseState,
    money::{Limit, Money},
    observed::{Holder, LeaseFacts, Market, NodeSupply, Object, Observed, PastRun, Price},
    plan::{Closing, Command, Plan, Wake},
    pod::{Bound, ContainerFacts, ContainerState, Ended, Granted, PodFacts, StopOrder, container},
    reason::{Finding, Payer, Reason},
    report::{Report, Stage},
    status::Status,
};

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

fn a_job() -> Desired {
    Desired {
        rerun: 0,
        cards: vec!["4090".into()],
        count: GpuCount::new(1).unwrap(),
        max_runtime: SignedDuration::from_mins(10),
        grace_period: seconds(30),
        limit: Limit::Amount(Money::parse("1").unwrap()),
        currency: "USD".into(),
        wish: Wish::Running,
        keep_logs: SignedDuration::from_hours(1),
    }
}

/// A cluster with one job, as small as can be.
struct World {
    now: i64,
    desired: Option<Result<Desired, Finding>>,
    object: Option<Object>,
    lease: Option<LeaseFacts>,
    pods: Vec<PodFacts>,
    closed: Vec<Closing>,
    voided: usize,
    created: Vec<String>,
    ledger: Vec<PastRun>,
    refuses: Option<String>,
    unsealed: Vec<String>,
    market: Market,
    last: Option<Plan>,
}

impl World {
    fn with(desired: Desired) -> Self {
        let node = NodeSupply {
            name: "node-1".into(),
            card: Some("rtx4090".into()),
            allocatable: 4,
            free: 4,
            open: true,
            cpu_millis: 16_000,
            memory_bytes: 1 << 34,
        };
        let price = Price { per_hour: Money::parse("0.36").unwrap(), currency: "USD".into() };
        Self {
            now: 0,
            desired: Some(Ok(desired)),
            object: Some(Object {
                uid: "u1".into(),
                generation: 1,
                deletion_requested: false,
                status: Status::default(),
            }),
            lease: None,
            pods: Vec::new(),
            closed: Vec::new(),
            voided: 0,
            created: Vec::new(),
            ledger: Vec::new(),
            refuses: None,
            unsealed: Vec::new(),
            market: Market {
                catalog: Catalog::built_in(),
                prices: BTreeMap::from([("rtx4090".to_owned(), price)]),
                nodes: vec![node],
            },
            last: None,
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    fn plan(&self) -> Plan {
        let seen = Observed {
            object: self.object.clone(),
            lease: self.lease.clone(),
            pods: self.pods.clone(),
            ledger: self.ledger.clone(),
            unsealed: self.unsealed.clone(),
            pod_refused: self.refuses.clone(),
            market: &self.market,
        };
        let holder = Holder { namespace: "ml".into(), name: "train".into() };
        decide(&holder, self.desired.as_ref(), &seen, self.at())
    }

    /// Decides and acts until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..10 {
            let plan = self.plan();
            let quiet = plan.commands.is_empty()
                && plan.status == self.object.as_ref().map(|object| object.status.clone());
            self.apply(&plan, usize::MAX);
            if quiet {
                return self;
            }
        }
        panic!("no fixed point: {:#?}", self.last);
    }

    /// Writes the status and the first `most` commands.
    fn apply(&mut self, plan: &Plan, most: usize) {
        if let (Some(object), Some(status)) = (&mut self.object, &plan.status) {
            object.status = status.clone();
        }
        for command in plan.commands.iter().take(most) {
            self.carry_out(command);
        }
        self.last = Some(plan.clone());
    }

    fn carry_out(&mut self, command: &Command) {
        let at = self.at();
        match command {
            Command::ReserveLease(terms) => {
                assert!(self.lease.is_none(), "a second open lease");
                self.lease = Some(LeaseFacts {
                    terms: terms.clone(),
                    holder_uid: "u1".into(),
                    state: LeaseState::Reserved,
                    pod_uid: None,
                    node: None,
                    held: None,
                });
            }
            Command::CreatePod(plan) => {
                assert!(!self.created.contains(&plan.name), "{} started twice", plan.name);
                self.created.push(plan.name.clone());
                self.pods.push(PodFacts {
                    name: plan.name.clone(),
                    uid: format!("uid-of-{}", plan.name),
                    resource_version: "1".into(),
                    created_at: at,
                    bound: None,
                    scheduler_says: None,
                    deletion_requested: false,
                    metered: true,
                    stop_order: None,
                    runtime_told: Some(plan.runtime),
                    granted: Granted { runtime: plan.runtime, grace: plan.grace },
                    disrupted: None,
                    ceiling: Some(plan.ceiling),
                    is_over: false,
                    reason: None,
                    message: None,
                    containers: Vec::new(),
                });
            }
            Command::RecordHeld { pod_uid, node, held, .. } => {
                let lease = self.lease.as_mut().unwrap();
                (lease.state, lease.held) = (LeaseState::Held, Some(*held));
                (lease.pod_uid, lease.node) = (Some(pod_uid.clone()), Some(node.clone()));
            }
            Command::CloseLease(closing) => {
                self.lease = None;
                self.unsealed.push(closing.lease.clone());
                self.closed.push(closing.clone());
            }
            Command::SealLease { lease } => self.unsealed.retain(|known| known != lease),
            Command::VoidLease { lease, .. } => {
                self.lease = None;
                self.unsealed.push(lease.clone());
                self.refuses = None;
                self.voided += 1;
            }
            Command::OrderStop { reason, at, .. } => {
                self.pod().stop_order = Some(StopOrder { reason: *reason, at: *at });
            }
            Command::TellRuntime { runtime, .. } => self.pod().runtime_told = Some(*runtime),
            Command::DeletePod { pod, .. } => {
                for known in self.pods.iter_mut().filter(|known| known.name == *pod) {
                    known.deletion_requested = true;
                }
                self.collect();
            }
            Command::ForgetPod { pod, .. } => {
                for known in self.pods.iter_mut().filter(|known| known.name == *pod) {
                    known.metered = false;
                }
                self.collect();
            }
        }
    }

    /// What has no finalizer and was deleted goes, once it is over or was never bound.
    fn collect(&mut self) {
        self.pods.retain(|pod| {
            !(pod.deletion_requested && !pod.metered && (pod.is_over || pod.bound.is_none()))
        });
    }

    fn pod(&mut self) -> &mut PodFacts {
        self.pods.last_mut().unwrap()
    }

    fn after(&mut self, time: i64) -> &mut Self {
        self.now += time;
        self
    }

    fn bind(&mut self) -> &mut Self {
        let at = self.at();
        self.pod().bound = Some(Bound { node: "node-1".into(), at });
        self.settle()
    }

    fn run(&mut self) -> &mut Self {
        let started_at = Some(self.at());
        self.pod().containers = vec![ContainerFacts {
            name: container::MAIN.into(),
            state: ContainerState::Running { started_at },
        }];
        self.settle()
    }

    fn end_container(&mut self, name: &str, exit_code: i32, reason: Option<Reason>) -> &mut Self {
        let finished_at = Some(self.at());
        let stage = if name == container::MAIN { Stage::Run } else { Stage::Preflight };
        let pod = self.pod();
        let ended = Ended {
            started_at: pod.running_at().or(finished_at),
            finished_at,
            exit_code,
            reason: "Error".into(),
            message: String::new(),
            report: reason.map(|reason| Report {
                stage,
                reason: Some(reason),
                exit_code: Some(exit_code),
                ran_seconds: None,
                evidence: "seen".into(),
                cards: Vec::new(),
            }),
        };
        pod.containers =
            vec![ContainerFacts { name: name.into(), state: ContainerState::Ended(ended) }];
        pod.is_over = true;
        self.settle();
        self.collect();
        self
    }

    fn exit(&mut self, code: i32, reason: Reason) -> &mut Self {
        self.end_container(container::MAIN, code, Some(reason))
    }

    fn status(&self) -> &Status {
        &self.object.as_ref().unwrap().status
    }

    fn ready(&self) -> (Truth, Reason) {
        let ready = self
            .status()
            .conditions
            .iter()
            .find(|condition| condition.kind == ConditionType::Ready)
            .unwrap();
        (ready.truth, ready.reason)
    }

    fn spec(&mut self, change: impl FnOnce(&mut Desired)) -> &mut Self {
        change(self.desired.as_mut().unwrap().as_mut().unwrap());
        self.object.as_mut().unwrap().generation += 1;
        self.settle()
    }

    fn delete_job(&mut self) -> &mut Self {
        (self.object, self.desired) = (None, None);
        for pod in &mut self.pods {
            pod.deletion_requested = true;
        }
        self.collect();
        self.settle()
    }
}

#[test]
fn a_job_runs_and_gives_its_card_back() {
    let mut world = World::with(a_job());
    world.settle();
    assert_eq!(world.ready(), (Truth::True, Reason::WaitingForScheduler));
    assert_eq!(world.created, ["train-r0-a1"]);
    world.after(1).bind();
    assert_eq!(world.ready(), (Truth::True, Reason::Preparing));
    world.after(4).run();
    assert_eq!(world.ready(), (Truth::True, Reason::Running));
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(606).unwrap()));
    world.after(100).exit(0, Reason::Completed);
    assert_eq!(world.ready(), (Truth::True, Reason::Succeeded));
    let closing = &world.closed[0];
    assert_eq!(
        (closing.bill.billed_seconds, closing.bill.charged.to_string()),
        (104, "0.0104".to_owned())
    );
    assert_eq!(world.status().cost.charged, closing.bill.charged);
    assert!(!world.pods[0].metered && !world.pods[0].deletion_requested);
    world.after(3_600).settle();
    assert!(world.pods.is_empty());
    assert_eq!((world.created.len(), world.closed.len()), (1, 1));
}

#[test]
fn a_job_that_does_not_end_is_told_to_stop_and_then_its_pod_is_deleted() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(600).settle();
    assert_eq!(world.pod().stop_order, None);
    world.after(1).settle();
    assert_eq!(world.pod().stop_order.unwrap().reason, Reason::MaxRuntimeReached);
    assert!(!world.pod().deletion_requested);
    world.after(49).settle();
    assert!(!world.pod().deletion_requested);
    world.after(1).settle();
    assert!(world.pod().deletion_requested);
    world.exit(137, Reason::PodDeleted);
    assert_eq!(world.ready(), (Truth::False, Reason::MaxRuntimeReached));
    assert_eq!(world.closed[0].bill.billed_seconds, 630);
    assert_eq!(world.closed[0].bill.absorbed.to_string(), "0.0021");
}

#[test]
fn money_ends_a_job_before_time_does() {
    let mut job = a_job();
    job.limit = Limit::Amount(Money::parse("0.02").unwrap());
    let mut world = World::with(job);
    world.settle().bind().run();
    let lease = world.status().lease.clone().unwrap();
    assert_eq!(lease.ends_because, Some(Reason::BudgetExhausted));
    assert_eq!(lease.ends_at, Some(Timestamp::from_second(170).unwrap()));
    world.after(170).settle().after(30).exit(143, Reason::BudgetExhausted);
    assert_eq!(world.status().cost.charged.to_string(), "0.02");
    assert_eq!(world.ready(), (Truth::False, Reason::BudgetExhausted));
}

#[test]
fn limits_apply_live_up_to_what_the_pod_was_made_with() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    world.spec(|job| job.max_runtime = SignedDuration::from_mins(5));
    assert_eq!(world.pod().runtime_told, Some(SignedDuration::from_mins(5)));
    world.spec(|job| job.max_runtime = SignedDuration::from_hours(90));
    assert_eq!(world.pod().runtime_told, Some(SignedDuration::from_mins(10)));
}

#[test]
fn a_limit_below_what_was_used_stops_at_once_and_refunds_nothing() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(500);
    world.spec(|job| job.max_runtime = seconds(1));
    assert_eq!(world.pod().stop_order.unwrap().reason, Reason::MaxRuntimeReached);
    world.after(2).exit(143, Reason::MaxRuntimeReached);
    assert_eq!(world.closed[0].bill.billed_seconds, 502);
}

#[test]
fn deleting_the_job_does_not_make_its_time_free() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(500).delete_job();
    world.after(3).exit(143, Reason::PodDeleted);
    assert_eq!(world.closed[0].bill.billed_seconds, 503);
    assert_eq!(world.closed[0].finding.reason, Reason::HolderDeleted);
}

#[test]
fn a_stopped_job_goes_on_with_what_is_left() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(100);
    world.spec(|job| job.wish = Wish::Stopped);
    assert_eq!(world.pod().stop_order.unwrap().reason, Reason::Stopped);
    world.exit(143, Reason::Stopped);
    assert_eq!(world.ready(), (Truth::True, Reason::Stopped));
    world.after(1_000).settle();
    assert_eq!(world.created.len(), 1);
    world.spec(|job| job.wish = Wish::Running).bind().run();
    assert_eq!(world.created, ["train-r0-a1", "train-r0-a2"]);
    let ends = world.status().lease.clone().unwrap().ends_at.unwrap();
    assert_eq!(ends.duration_since(world.at()), seconds(500));
}

#[test]
fn a_pod_that_stays_unbound_is_replaced_with_growing_pauses() {
    let mut world = World::with(a_job());
    world.settle();
    world.pod().scheduler_says = Some("0/1 nodes are available: 1 Insufficient cpu".into());
    world.after(60).settle();
    assert_eq!((world.voided, world.pods.len(), world.ready().1), (1, 0, Reason::PodUnbound));
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(70).unwrap()));
    world.after(10).settle();
    assert_eq!(world.created, ["train-r0-a1", "train-r0-a2"]);
    world.after(60).settle();
    assert_eq!(world.plan().wake, Wake::At(Timestamp::from_second(150).unwrap()));
    assert_eq!(world.closed.len(), 0);
    world.after(20).settle().bind();
    assert_eq!(world.status().pause, None);
}

#[test]
fn a_refused_pod_costs_nothing_and_is_tried_again_later() {
    let mut world = World::with(a_job());
    let plan = world.plan();
    world.apply(&plan, 1);
    world.refuses = Some("exceeded quota".into());
    world.settle();
    assert_eq!((world.voided, world.ready()), (1, (Truth::True, Reason::PodRefused)));
    world.after(10).settle();
    assert_eq!(world.created, ["train-r0-a2"]);
}

#[test]
fn a_sick_card_costs_nothing_and_says_where() {
    let mut world = World::with(a_job());
    world.settle().bind().after(5).end_container(
        container::PREFLIGHT,
        1,
        Some(Reason::TooFewCards),
    );
    let closing = &world.closed[0];
    assert_eq!((closing.paid_by, closing.bill.charged), (Payer::Infrastructure, Money::ZERO));
    assert!(closing.finding.evidence.contains("node-1"), "{:?}", closing.finding);
    assert_eq!(world.ready(), (Truth::False, Reason::TooFewCards));
    assert_eq!(world.created.len(), 1);
}

#[test]
fn an_image_that_cannot_be_pulled_holds_its_card_for_five_minutes() {
    let mut world = World::with(a_job());
    world.settle().bind();
    let waiting =
        ContainerState::Waiting { reason: "ErrImagePull".into(), message: "not found".into() };
    world.pod().containers =
        vec![ContainerFacts { name: container::PREFLIGHT.into(), state: waiting }];
    world.settle().after(301).settle();
    assert!(world.pod().deletion_requested);
    world.pod().is_over = true;
    world.settle();
    assert_eq!(world.ready(), (Truth::False, Reason::ImagePullFailed));
}

#[test]
fn a_run_in_the_ledger_is_adopted_and_never_started_again() {
    let past = |rerun, was_held| PastRun {
        rerun,
        attempt: 3,
        lease: format!("train-r{rerun}-a3"),
        was_held,
        reason: Some(Reason::Completed),
        ended_at: Some(Timestamp::from_second(-10).unwrap()),
        charged: Money::parse("0.5").unwrap(),
        currency: "USD".into(),
    };
    let mut world = World::with(a_job());
    world.ledger = vec![past(0, true)];
    world.settle();
    assert_eq!((world.ready(), world.created.len()), ((Truth::False, Reason::AlreadyRan), 0));
    assert!(
        world
            .status()
            .outcome
            .as_ref()
            .unwrap()
            .finding
            .evidence
            .contains("Completed and cost 0.50 USD")
    );
    world.spec(|job| job.rerun = 1);
    assert_eq!(world.created, ["train-r1-a1"]);

    let mut older = World::with(a_job());
    older.ledger = vec![past(7, true)];
    older.settle();
    assert_eq!((older.ready().1, older.created.len()), (Reason::Superseded, 0));

    let mut void_only = World::with(a_job());
    void_only.ledger = vec![past(0, false)];
    void_only.settle();
    assert_eq!(void_only.created, ["train-r0-a4"]);
}

#[test]
fn a_re_created_job_waits_for_the_lease_of_the_deleted_one_and_then_asks_the_ledger() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(10);
    let object = Object {
        uid: "u2".into(),
        generation: 1,
        deletion_requested: false,
        status: Status::default(),
    };
    world.object = Some(object);
    world.pod().deletion_requested = true;
    world.settle();
    assert_eq!((world.ready().1, world.status().observed_generation), (Reason::Releasing, -1));
    world.ledger = vec![PastRun {
        rerun: 0,
        attempt: 1,
        lease: "train-r0-a1".into(),
        was_held: true,
        reason: Some(Reason::HolderDeleted),
        ended_at: Some(world.at()),
        charged: Money::ZERO,
        currency: "USD".into(),
    }];
    world.exit(143, Reason::PodDeleted);
    assert_eq!((world.ready().1, world.created.len()), (Reason::AlreadyRan, 1));
    assert!(world.status().attempts.is_empty());
}

#[test]
fn a_corrected_specification_asks_the_ledger_too() {
    let mut world = World::with(a_job());
    let good = world.desired.replace(Err(Finding::new(Reason::InvalidSpec, "image: no")));
    world.settle();
    assert_eq!(world.ready(), (Truth::False, Reason::InvalidSpec));
    assert!(crate::observed::needs_ledger(world.status(), 0));
    world.desired = good;
    world.settle();
    assert!(!crate::observed::needs_ledger(world.status(), 0));
}

#[test]
fn a_new_rerun_stops_the_old_run_first() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(10);
    world.spec(|job| job.rerun = 1);
    assert_eq!(world.pod().stop_order.unwrap().reason, Reason::Superseded);
    assert_eq!(world.created.len(), 1);
    world.exit(143, Reason::Superseded);
    assert_eq!(world.created, ["train-r0-a1", "train-r1-a1"]);
    assert_eq!(world.status().cost.charged, Money::ZERO);
}

type Reach = fn(&mut World);

#[test]
fn a_start_that_takes_too_long_ends() {
    let mut world = World::with(a_job());
    world.settle().bind().after(1_801).settle();
    assert!(world.pod().deletion_requested);
    world.pod().is_over = true;
    world.settle();
    assert_eq!(world.ready(), (Truth::False, Reason::StartupTimeout));
}

#[test]
fn a_drained_pod_is_paid_by_nobody() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(5);
    world.pod().deletion_requested = true;
    world.pod().disrupted = Some("EvictionByEvictionAPI".into());
    world.exit(143, Reason::PodDeleted);
    assert_eq!(world.closed[0].paid_by, Payer::Infrastructure);
    assert_eq!(world.ready(), (Truth::False, Reason::PodDisrupted));
}

#[test]
fn a_bill_is_the_same_whichever_pass_makes_it() {
    for writes in 0..4 {
        let mut world = World::with(a_job());
        world.settle().bind().run().after(601).settle().after(10);
        let finished_at = Some(world.at());
        world.pod().is_over = true;
        world.pod().containers[0].state = ContainerState::Ended(Ended {
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at,
            exit_code: 0,
            reason: "Completed".into(),
            message: String::new(),
            report: None,
        });
        let plan = world.plan();
        world.apply(&plan, writes);
        world.settle();
        let closing = &world.closed[0];
        assert_eq!(closing.bill.billed_seconds, 611, "after {writes} writes");
        assert_eq!(world.status().cost.charged, closing.bill.charged, "after {writes} writes");
        assert_eq!(world.closed.len(), 1);
        assert!(world.unsealed.is_empty(), "after {writes} writes");
    }
}

/// Every stage of a job's life, by how far it went.
fn stages() -> Vec<(&'static str, Reach)> {
    vec![
        ("new", |_| {}),
        ("placed", |world| drop(world.settle())),
        ("bound", |world| drop(world.settle().after(1).bind())),
        ("running", |world| drop(world.settle().after(1).bind().after(1).run())),
        ("stopping", |world| drop(world.settle().bind().run().after(601).settle())),
        ("ended", |world| drop(world.settle().bind().run().after(60).exit(0, Reason::Completed))),
    ]
}

fn drop<T>(_: T) {}

#[test]
fn deleting_the_job_at_any_stage_frees_the_card_and_closes_the_lease() {
    for (name, reach) in stages() {
        let mut world = World::with(a_job());
        reach(&mut world);
        world.after(1).delete_job();
        if world.pods.iter().any(|pod| !pod.is_over) {
            world.exit(143, Reason::PodDeleted);
        }
        world.settle();
        assert!(world.pods.is_empty(), "{name}: {:?}", world.pods);
        assert!(world.lease.is_none(), "{name}");
        assert_eq!(world.created.len(), world.closed.len() + world.voided, "{name}");
    }
}

#[test]
fn a_crash_after_any_write_leads_to_the_same_end() {
    let finish = |world: &mut World| {
        if world.pods.last().is_some_and(|pod| pod.bound.is_none()) {
            world.bind();
        }
        if world.pods.last().is_some_and(|pod| !pod.is_over && pod.containers.is_empty()) {
            world.run();
        }
        if world.pods.last().is_some_and(|pod| !pod.is_over) {
            world.exit(0, Reason::Completed);
        }
        world.settle();
        (world.created.clone(), world.closed.len(), world.ready().1)
    };
    for (name, reach) in stages() {
        for writes in 0..4 {
            let mut world = World::with(a_job());
            reach(&mut world);
            let plan = world.plan();
            world.apply(&plan, writes);
            world.settle();
            let (created, closed, _) = finish(&mut world);
            assert_eq!((created.len(), closed), (1, 1), "{name} after {writes} writes");
        }
    }
}

#[test]
fn nothing_is_woken_later_than_its_deadline() {
    for (name, reach) in stages() {
        let mut world = World::with(a_job());
        reach(&mut world);
        let plan = world.plan();
        let Some(ends_at) = plan.status.as_ref().and_then(|status| status.lease.as_ref()?.ends_at)
        else {
            continue;
        };
        if world.pods.last().is_some_and(|pod| pod.stop_order.is_none()) {
            assert!(
                matches!(plan.wake, Wake::At(at) if at <= ends_at + super::STAMP_RESOLUTION),
                "{name}: {:?}",
                plan.wake
            );
        }
    }
}

#[test]
fn a_broken_specification_leaves_the_running_attempt_under_its_old_limits() {
    let mut world = World::with(a_job());
    world.settle().bind().run();
    world.desired = Some(Err(Finding::new(Reason::InvalidSpec, "maxRuntime: no")));
    world.settle().after(601).settle();
    assert_eq!(world.pod().stop_order.unwrap().reason, Reason::MaxRuntimeReached);
    world.exit(143, Reason::MaxRuntimeReached);
    assert_eq!(world.closed.len(), 1);
}

#[test]
fn a_pod_is_deleted_for_a_sidecar_but_not_for_a_kubelet_that_takes_its_time() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(9);
    let finished_at = Some(world.at());
    let ended = Ended {
        started_at: Some(Timestamp::UNIX_EPOCH),
        finished_at,
        exit_code: 0,
        reason: "Completed".into(),
        message: String::new(),
        report: None,
    };
    world.pod().containers[0].state = ContainerState::Ended(ended);
    world.settle();
    assert!(!world.pod().deletion_requested);
    let sidecar = ContainerState::Running { started_at: None };
    world.pod().containers.insert(0, ContainerFacts { name: "proxy".into(), state: sidecar });
    world.settle();
    assert!(world.pod().deletion_requested);
}

#[test]
fn a_vanished_pod_closes_its_lease_and_nobody_pays() {
    let mut world = World::with(a_job());
    world.settle().bind().run().after(50);
    world.pods.clear();
    world.settle();
    assert_eq!(
        (world.closed[0].paid_by, world.ready().1),
        (Payer::Infrastructure, Reason::PodLost)
    );
    assert_eq!(world.created.len(), 1);
}
