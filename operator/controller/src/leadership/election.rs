//! Leader election by a Lease of Kubernetes, with the protocol of client-go: the leader renews the
//! record, the others take it once they have seen it unchanged for as long as it says.
//!
//! Written here because every write asks when the lease was last renewed ([`super::fence`]), on a
//! clock that tests can drive and that goes on while the machine sleeps. Of the crates that fit
//! this kube, `k8s-controller` tells neither that instant nor who leads and keeps to std's clock,
//! and `kube-lease-manager` compares times of different machines.
//!
//! A request is given up after [`REQUEST_LIMIT`], so that a connection that hangs leaves time for
//! another try. Nothing here fails: what goes wrong is told and tried again.

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::{sleep, timeout};

use super::{RENEW_DEADLINE, RETRY_PERIOD, record};
use crate::{
    cluster::{MANAGER, already_exists, is_conflict, is_not_found},
    context::Context,
    error::{Class, Error},
    health::causes,
};

/// The name of the Lease.
pub const LEASE: &str = "leasehold";
/// The namespace of an operator that runs outside of its cluster.
pub const NAMESPACE: &str = "leasehold-system";

/// How long one request may take: two of them fit into [`RENEW_DEADLINE`].
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Who stands for election, and where.
#[derive(Clone)]
pub struct Election {
    /// A client whose writes are not held back by what this decides.
    pub client: Client,
    /// Where the Lease lies.
    pub namespace: String,
    /// A name that no other process has, nor had.
    pub identity: String,
}

/// What a try came to.
enum Turn {
    /// The record names this operator, by a request that went out then.
    Ours { sent_at: Duration },
    /// It names another one whose time has not run out.
    Theirs(String),
    /// Another one was faster.
    Contested,
}

impl Election {
    /// Stands for election until leadership is lost or the operator ends.
    pub async fn run(self, context: Arc<Context>) {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        let candidate = Candidate {
            api,
            place: format!("{}/{LEASE}", self.namespace),
            identity: self.identity,
            context,
            sight: record::Sight::default(),
            ours: None,
            told: None,
        };
        candidate.run().await;
    }
}

struct Candidate {
    api: Api<Lease>,
    /// Namespace and name.
    place: String,
    identity: String,
    context: Arc<Context>,
    sight: record::Sight,
    /// The object as this operator last wrote it.
    ours: Option<Lease>,
    /// What was last said, so that it is said once.
    told: Option<String>,
}

impl Candidate {
    async fn run(mut self) {
        let leadership = self.context.leadership.clone();
        leadership.stands();
        loop {
            let begun = self.context.clock.uptime();
            self.turn().await;
            if leadership.is_lost() {
                // The operator ends by it, not by this.
                return std::future::pending().await;
            }
            tokio::select! {
                () = leadership.until_resigning() => break,
                () = sleep(self.pause(begun)) => {}
            }
        }
        self.release().await;
        leadership.leaves();
        std::future::pending::<()>().await;
    }

    /// How long until the next try: those that wait are there when the leader's time runs out. Where
    /// answers are slow, the next try begins the sooner.
    fn pause(&self, begun: Duration) -> Duration {
        let now = self.context.clock.uptime();
        match self.sight.leader(now) {
            Some((_, left)) => left.min(RETRY_PERIOD),
            None => RETRY_PERIOD.saturating_sub(now.saturating_sub(begun)),
        }
    }

    /// One try to lead, or to go on leading.
    async fn turn(&mut self) {
        let leadership = self.context.leadership.clone();
        // A leader that stood still, and whose time is over, asks for nothing more.
        if leadership.is_lost() {
            return;
        }
        let led = leadership.left();
        let Ok(answer) = timeout(led.unwrap_or(RENEW_DEADLINE), self.attempt()).await else {
            return;
        };
        let now = self.context.clock.now();
        self.context.health.election(now, answer.as_ref().map(|_| ()).map_err(cured));
        match answer {
            Ok(Turn::Ours { sent_at }) => {
                leadership.renewed(sent_at);
                if led.is_none() && leadership.leads() {
                    tracing::info!(lease = self.place, identity = self.identity, "leading");
                }
                self.told = None;
            }
            Ok(Turn::Theirs(leader)) if led.is_some() => {
                leadership.lose(&format!("the lease {} names {leader}", self.place));
            }
            Ok(Turn::Theirs(leader)) => self.tell(&format!("waiting: the leader is {leader}")),
            Ok(Turn::Contested) => {}
            Err(error) => {
                let error = cured(&error);
                if self.told.as_ref() != Some(&error) {
                    tracing::warn!(lease = self.place, error, "leader election; trying again");
                    self.told = Some(error);
                }
            }
        }
    }

    fn tell(&mut self, words: &str) {
        if self.told.as_deref() != Some(words) {
            tracing::info!(lease = self.place, identity = self.identity, "{words}");
            self.told = Some(words.to_owned());
        }
    }

    async fn attempt(&mut self) -> Result<Turn, Error> {
        if let Some(ours) = self.ours.take() {
            match self.write(ours).await {
                Err(error) if is_conflict(&error) || is_not_found(&error) => {}
                other => return other,
            }
        }
        let Some(found) = self.ask("read", self.api.get_opt(LEASE)).await? else {
            return self.create().await;
        };
        let now = self.context.clock.uptime();
        self.sight.look(&spec(&found), now);
        match self.sight.leader(now) {
            Some((leader, _)) if leader != self.identity => Ok(Turn::Theirs(leader.to_owned())),
            _ => match self.write(found).await {
                Err(error) if is_conflict(&error) => Ok(Turn::Contested),
                answer => answer,
            },
        }
    }

    /// Writes the record on top of what was seen: who sees the same can write it only once.
    async fn write(&mut self, seen: Lease) -> Result<Turn, Error> {
        let next = record::held(Some(&spec(&seen)), &self.identity, self.context.clock.now());
        let next = Lease { spec: Some(next), ..seen };
        let sent_at = self.context.clock.uptime();
        self.keep(sent_at, self.ask("write", self.api.replace(LEASE, &post(), &next)).await)
    }

    async fn create(&mut self) -> Result<Turn, Error> {
        let first = Lease {
            metadata: ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() },
            spec: Some(record::held(None, &self.identity, self.context.clock.now())),
        };
        let sent_at = self.context.clock.uptime();
        match self.ask("create", self.api.create(&post(), &first)).await {
            Err(error) if already_exists(&error) => Ok(Turn::Contested),
            answer => self.keep(sent_at, answer),
        }
    }

    fn keep(&mut self, sent_at: Duration, answer: Result<Lease, Error>) -> Result<Turn, Error> {
        self.ours = Some(answer?);
        Ok(Turn::Ours { sent_at })
    }

    /// Lets those that wait take over at once. Whoever has it by then is left it.
    async fn release(&mut self) {
        let seen = match self.ours.take() {
            Some(ours) => Ok(Some(ours)),
            None => self.ask("read", self.api.get_opt(LEASE)).await,
        };
        let released = match seen {
            Ok(Some(seen)) if record::holder(&spec(&seen)) == Some(&self.identity) => {
                let next = record::released(&spec(&seen), self.context.clock.now());
                let next = Lease { spec: Some(next), ..seen };
                self.ask("release", self.api.replace(LEASE, &post(), &next)).await.map(|_| ())
            }
            Ok(_) => return,
            Err(error) => Err(error),
        };
        match released {
            Ok(()) => tracing::info!(lease = self.place, "leadership is given back"),
            Err(error) => {
                let error = causes(&error);
                tracing::warn!(
                    lease = self.place,
                    error,
                    "leadership is not given back and runs out"
                );
            }
        }
    }

    async fn ask<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let doing = format!("{doing} the Lease {}", self.place);
        match timeout(REQUEST_LIMIT, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(Error::Api { doing, source: Box::new(source) }),
            Err(_) => Err(Error::Timeout { doing, limit: REQUEST_LIMIT }),
        }
    }
}

fn spec(lease: &Lease) -> LeaseSpec {
    lease.spec.clone().unwrap_or_default()
}

fn post() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// What went wrong, and the cure where there is one.
fn cured(error: &Error) -> String {
    let words = causes(error);
    if error.class() == Class::Denied || is_not_found(error) {
        return format!(
            "{words}; apply charts/leasehold/rbac.yaml, choose --leader-election-namespace, or, where no \
             other operator can run, --leader-election=false"
        );
    }
    words
}

impl fmt::Debug for Election {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Election({} in {})", self.identity, self.namespace)
    }
}
