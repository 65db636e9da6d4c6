//! Asks the API server, for as long as the operator runs, whether it answers and whether it grants
//! what the operator needs. Reads only; failures are what it is there to tell.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::watch, time::Instant};

use crate::{
    context::Context,
    health::causes,
    leadership::election::{Election, LEASE},
    rights::{NEEDED, NEEDED_TO_LEAD, Right},
};

/// How often it is usually asked whether it is there.
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked for rights.
const RIGHTS_EVERY: Duration = Duration::from_mins(5);
/// The same while one is missing: whoever grants it wants to see it.
const MISSING_RIGHTS_EVERY: Duration = Duration::from_secs(15);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Questions for rights side by side.
const MOST_QUESTIONS: usize = 4;

/// The API server as something that may be away.
pub struct ApiServer {
    client: Client,
    election: Option<Election>,
    answered: watch::Sender<bool>,
}

impl ApiServer {
    /// Through this client; the rights to lead are asked for when there is an election. The
    /// receiver turns true with the first answer.
    #[must_use]
    pub fn new(client: Client, election: Option<Election>) -> (Self, watch::Receiver<bool>) {
        let (answered, receiver) = watch::channel(false);
        (Self { client, election, answered }, receiver)
    }

    /// Asks for ever.
    pub async fn follow(self, context: Arc<Context>) {
        let mut last = None;
        let mut rights_at = Instant::now();
        loop {
            let answer = self.version().await;
            if last != Some(answer.is_ok()) {
                match &answer {
                    Ok(server) => tracing::info!(server, "the API server answers"),
                    Err(error) => {
                        tracing::warn!(error, "the API server does not answer; asking again");
                    }
                }
            }
            last = Some(answer.is_ok());
            let answers = answer.is_ok();
            context.health.api_server(context.clock.now(), answer.map(|_| ()));
            if answers {
                // Nobody waits for the first answer any more once the watches run.
                let _ = self.answered.send(true);
            }
            if answers && Instant::now() >= rights_at {
                let missing = self.missing_rights().await;
                let pause = if missing.is_empty() { RIGHTS_EVERY } else { MISSING_RIGHTS_EVERY };
                rights_at = Instant::now() + pause;
                for right in context.health.missing_rights(missing) {
                    tracing::error!(%right, "a right is missing: {}", right.words());
                }
            }
            tokio::time::sleep(context.ask_every).await;
        }
    }

    async fn version(&self) -> Result<String, String> {
        match tokio::time::timeout(ANSWER_LIMIT, self.client.apiserver_version()).await {
            Ok(Ok(version)) => Ok(version.git_version),
            Ok(Err(error)) => Err(causes(&error)),
            Err(_) => Err(format!("no answer within {}s", ANSWER_LIMIT.as_secs())),
        }
    }

    /// The rights that are denied. One that could not be asked for is not: the calls that need it
    /// tell it then.
    async fn missing_rights(&self) -> Vec<Right> {
        let to_lead = if self.election.is_some() { NEEDED_TO_LEAD } else { &[] };
        let asked = [NEEDED, to_lead].concat().into_iter();
        let asked = asked.map(|right| async move { (right, self.is_denied(right).await) });
        stream::iter(asked)
            .buffered(MOST_QUESTIONS)
            .filter_map(|(right, denied)| std::future::ready(denied.then_some(right)))
            .collect()
            .await
    }

    async fn is_denied(&self, right: Right) -> bool {
        let text = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let election = self.election.as_ref().filter(|_| NEEDED_TO_LEAD.contains(&right));
        // No rule can name what does not exist yet.
        let name = election.filter(|_| right.verb != "create").map(|_| LEASE.to_owned());
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    namespace: election.map(|election| election.namespace.clone()),
                    name,
                    verb: text(right.verb),
                    group: text(right.group),
                    resource: text(right.resource),
                    subresource: text(right.subresource),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        match tokio::time::timeout(ANSWER_LIMIT, api.create(&params, &review)).await {
            Ok(Ok(answer)) => answer.status.is_some_and(|status| !status.allowed),
            Ok(Err(error)) => {
                tracing::debug!(%right, %error, "a right could not be asked for");
                false
            }
            Err(_) => false,
        }
    }
}
