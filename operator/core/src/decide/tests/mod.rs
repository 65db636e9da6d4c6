//! Scenarios of one job, told step by step: each step decides and does what the plan says to a
//! small model of the cluster.

mod ends;
mod every_stage;
mod life;
mod requests;
mod starts;
mod waiting;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::decide;
use crate::{
    catalog::Catalog,
    condition::{Condition, ConditionType, Truth},
    desired::{Desired, GpuCount, Wish},
    lease::LeaseState,
    money::{Limit, Money},
    observed::{Holder, LeaseFacts, Market, NodeSupply, Object, Observed, PastRun, Price},
    plan::{Closing, Command, Plan, Wake},
    pod::{Bound, ContainerFacts, ContainerState, Disruption, Ended, Granted, PodFacts, container},
    reason::{Finding, Payer, Reason},
    report::{Report, Stage},
    request::{Action, Request},
    status::Status,
    taint::{Taint, Toleration},
};

fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

fn a_job() -> Desired {
    Desired {
        rerun: 0,
        spec_hash: "v1:a".into(),
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
    requests: Vec<Request>,
    refuses: Option<String>,
    unsealed: Vec<String>,
    answers: Vec<(String, bool)>,
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
            emptied: None,
            taints: Vec::new(),
            silent_since: None,
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
            requests: Vec::new(),
            refuses: None,
            unsealed: Vec::new(),
            answers: Vec::new(),
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
            requests: self.requests.clone(),
            node_patience: SignedDuration::from_mins(5),
            unsealed: self.unsealed.clone(),
            refused: self.refuses.clone(),
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
                    uid: format!("uid-of-lease-{}", terms.name),
                    terms: terms.clone(),
                    holder_uid: "u1".into(),
                    state: LeaseState::Reserved,
                    pod_uid: None,
                    node: None,
                    held: None,
                    stop: None,
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
                    stop_told: None,
                    lease_uid: self.lease.as_ref().map(|lease| lease.uid.clone()),
                    tolerations: Vec::new(),
                    labelled: true,
                    runtime_told: Some(plan.runtime),
                    granted: Granted { runtime: plan.runtime, grace: plan.grace, hold: plan.hold },
                    disrupted: None,
                    ceiling: Some(plan.ceiling),
                    is_over: false,
                    reason: None,
                    message: None,
                    unmet: Vec::new(),
                    containers: Vec::new(),
                });
            }
            Command::RecordHeld { pod_uid, node, held, stop, .. } => {
                let lease = self.lease.as_mut().unwrap();
                (lease.state, lease.held) = (LeaseState::Held, Some(*held));
                (lease.pod_uid, lease.node) = (Some(pod_uid.clone()), Some(node.clone()));
                lease.stop = stop.clone();
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
            Command::OrderStop { reason, .. } => {
                self.pod().stop_told = Some(reason.name().to_owned());
            }
            Command::MarkPod { .. } => {
                (self.pod().labelled, self.pod().metered) = (true, true);
            }
            Command::TellRuntime { runtime, .. } => self.pod().runtime_told = Some(*runtime),
            Command::DeletePod { pod, .. } => {
                for known in self.pods.iter_mut().filter(|known| known.name == *pod) {
                    known.deletion_requested = true;
                }
                self.collect();
            }
            Command::AnswerRequest { uid, answer, .. } => {
                let asked = self.requests.iter_mut().find(|request| request.uid == *uid);
                asked.unwrap().answered_at = Some(answer.at);
                self.answers.push((uid.clone(), answer.is_done));
            }
            Command::DeleteRequest { uid, .. } => {
                self.requests.retain(|request| request.uid != *uid);
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
        let state = ContainerState::Running { started_at };
        self.pod().containers = vec![ContainerFacts::first(container::MAIN, state)];
        self.settle()
    }

    fn end_container(&mut self, name: &str, exit_code: i32, reason: Option<Reason>) -> &mut Self {
        let finished_at = Some(self.at());
        let stage = Stage::of_container(name).unwrap();
        let pod = self.pod();
        let ended = Ended {
            started_at: pod.running_at().or(finished_at),
            finished_at,
            exit_code,
            reason: "Error".into(),
            message: String::new(),
            report: reason.map(|reason| Report {
                reason: Some(reason),
                exit_code: Some(exit_code),
                evidence: "seen".into(),
                ..Report::new(stage)
            }),
        };
        pod.containers = vec![ContainerFacts::first(name, ContainerState::Ended(ended))];
        pod.is_over = true;
        self.settle();
        self.collect();
        self
    }

    fn exit(&mut self, code: i32, reason: Reason) -> &mut Self {
        self.end_container(container::MAIN, code, Some(reason))
    }

    /// The stop that is ordered, in the lease and to the agent.
    fn stop(&self) -> Option<Reason> {
        let stop = self.lease.as_ref().and_then(|lease| lease.stop.as_ref())?;
        let told = self.pods.last().and_then(|pod| pod.stop_told.as_deref());
        assert!(told == Some(stop.finding.reason.name()), "{told:?}");
        Some(stop.finding.reason)
    }

    fn status(&self) -> &Status {
        &self.object.as_ref().unwrap().status
    }

    fn condition(&self) -> &Condition {
        let all = &self.status().conditions;
        all.iter().find(|condition| condition.kind == ConditionType::Ready).unwrap()
    }

    fn ready(&self) -> (Truth, Reason) {
        (self.condition().truth, self.condition().reason)
    }

    fn message(&self) -> &str {
        &self.condition().message
    }

    fn spec(&mut self, change: impl FnOnce(&mut Desired)) -> &mut Self {
        change(self.desired.as_mut().unwrap().as_mut().unwrap());
        self.object.as_mut().unwrap().generation += 1;
        self.settle()
    }

    fn ask(&mut self, uid: &str, action: Action) -> &mut Self {
        let (name, asked_at) = (format!("ask-{uid}"), self.at());
        let request = Request { name, uid: uid.into(), action, asked_at, answered_at: None };
        self.requests.push(request);
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
