//! The double as a service that kube's client talks to.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use http_body_util::{BodyExt, Collected, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Frame},
    header::{self, HeaderValue, USER_AGENT},
};
use jiff::{Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    refusal::Refusal,
    request::{Call, Parameters, Target},
    store::{Key, Store, stamp},
    versions::{Follower, Versions},
    watch::lines,
    write::{Part, merge},
};

/// An answer.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weather {
    /// It is answered after this time.
    After(Duration),
    /// It is refused.
    Refused(Refusal),
    /// It is carried out, and the answer is lost: the caller sees an error of the server.
    AnswerLost,
    /// Nobody ever answers.
    Silence,
    /// It is carried out, and nobody ever answers.
    SilenceAfterwards,
}

/// Decides the weather of each request.
pub type Forecast = Box<dyn FnMut(&Call) -> Weather + Send>;

/// The server. All clones are the same one.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

impl fmt::Debug for ApiServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ApiServer").finish()
    }
}

struct Inner {
    store: Mutex<Store>,
    versions: Versions,
    cuts: Versions,
    /// How long each watch lasts, whatever it asked for.
    watches_last: Mutex<Option<Duration>>,
    pages: Mutex<HashMap<String, Vec<Arc<Value>>>>,
    /// How many pages were promised so far: no token is given twice.
    promised: AtomicU64,
    forecast: Mutex<Forecast>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
}

impl ApiServer {
    /// An empty one, with this clock.
    #[must_use]
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            store: Mutex::default(),
            versions: Versions::default(),
            cuts: Versions::default(),
            watches_last: Mutex::default(),
            pages: Mutex::default(),
            promised: AtomicU64::new(0),
            forecast: Mutex::new(Box::new(|_| Weather::After(Duration::ZERO))),
            clock: Box::new(clock),
        }))
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// From now on requests fare as this says.
    pub fn weather(&self, forecast: impl FnMut(&Call) -> Weather + Send + 'static) {
        *locked(&self.0.forecast) = Box::new(forecast);
    }

    /// Breaks all watches off.
    pub fn cut_watches(&self) {
        self.0.cuts.grow();
    }

    /// Forgets history and pages, so that whoever goes on has to list anew.
    pub fn forget_history(&self) {
        locked(&self.0.store).forget_history();
        locked(&self.0.pages).clear();
    }

    /// The objects, to look at.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.0.store)
    }

    /// Reads or changes objects without a request, and tells the watches.
    pub fn with<T>(&self, use_it: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = locked(&self.0.store);
        let result = use_it(&mut store);
        self.0.versions.set(store.version());
        result
    }

    /// The newest version, and each one that follows.
    #[must_use]
    pub fn versions(&self) -> Follower {
        self.0.versions.follow()
    }

    /// The number of cuts, and each one that follows.
    pub(super) fn cuts(&self) -> Follower {
        self.0.cuts.follow()
    }

    /// Lets watches last longer than they ask for: where time is long and nothing is to be seen in
    /// their ends.
    pub fn let_watches_last(&self, time: Duration) {
        *locked(&self.0.watches_last) = Some(time);
    }

    pub(super) fn watches_last(&self) -> Option<Duration> {
        *locked(&self.0.watches_last)
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        let parameters = Parameters::of(head.uri.query());
        let Some(target) = Target::of(head.uri.path()) else {
            return self.about_itself(head.uri.path());
        };
        let caller = head.headers.get(USER_AGENT).and_then(|caller| caller.to_str().ok());
        let caller = caller.unwrap_or_default();
        let call = Call::of(caller, &head.method, &target, parameters.watch);
        let weather = (*locked(&self.0.forecast))(&call);
        match &weather {
            Weather::Silence => std::future::pending().await,
            Weather::Refused(refusal) => return refused(refusal),
            Weather::After(time) if *time > Duration::ZERO => tokio::time::sleep(*time).await,
            Weather::After(_) | Weather::AnswerLost | Weather::SilenceAfterwards => {}
        }
        if parameters.watch {
            return self.watched(&target, parameters);
        }
        let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let done = self.carry_out(&head.method, &target, &parameters, body);
        if weather == Weather::SilenceAfterwards {
            std::future::pending::<()>().await;
        }
        match done {
            _ if weather == Weather::AnswerLost => refused(&Refusal::internal()),
            Ok((code, answer)) => json_answer(code, &answer),
            Err(refusal) => refused(&refusal),
        }
    }

    fn carry_out(
        &self,
        method: &Method,
        target: &Target,
        parameters: &Parameters,
        body: Value,
    ) -> Result<(StatusCode, Value), Refusal> {
        let now = (self.0.clock)();
        let kind = target.kind;
        let key = |name: &str| Key::of(kind, target.namespace.as_deref().unwrap_or_default(), name);
        let part = match target.subresource.as_deref() {
            Some("status") => Part::Status,
            _ => Part::Object,
        };
        let ok = |object: Arc<Value>| Ok((StatusCode::OK, Value::clone(&object)));
        match (method.as_str(), target.name.as_deref()) {
            ("GET", Some(name)) => {
                let found = self.store().get(&key(name));
                ok(found.ok_or_else(|| Refusal::not_found(name))?)
            }
            ("GET", None) => Ok((StatusCode::OK, self.list(target, parameters)?)),
            ("POST", Some(name)) if target.subresource.as_deref() == Some("binding") => {
                ok(self.with(|store| store.change(&key(name), |pod| bound(pod, &body, now)))?)
            }
            ("POST", _) => {
                let mut body = body;
                let name = body.pointer("/metadata/name").and_then(Value::as_str);
                let key = key(name.ok_or_else(|| Refusal::bad_request("no name"))?);
                if kind.is_namespaced {
                    body["metadata"]["namespace"] = json!(key.namespace);
                }
                let made = self.with(|store| store.create(kind, &key, body, now))?;
                Ok((StatusCode::CREATED, Value::clone(&made)))
            }
            ("PUT", Some(name)) => {
                ok(self.with(|store| store.replace(kind, &key(name), body, part))?)
            }
            ("PATCH", Some(name)) => {
                ok(self.with(|store| store.patch(kind, &key(name), &body, part))?)
            }
            ("DELETE", Some(name)) => {
                let left = self.with(|store| store.delete(kind, &key(name), &body, now))?;
                let done = || json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
                Ok((StatusCode::OK, left.map_or_else(done, |object| Value::clone(&object))))
            }
            _ => Err(Refusal::bad_request("the double does not serve this")),
        }
    }

    /// A list, page by page; later pages show what the first one saw.
    fn list(&self, target: &Target, parameters: &Parameters) -> Result<Value, Refusal> {
        let store = self.store();
        let mut pages = locked(&self.0.pages);
        let mut all: Vec<Arc<Value>> = if let Some(token) = &parameters.continues {
            pages.remove(token).ok_or_else(Refusal::expired)?
        } else {
            let wanted = target.namespace.as_ref();
            let mine = store.of(target.kind).filter(|(key, object)| {
                wanted.is_none_or(|wanted| *wanted == key.namespace)
                    && parameters.selector.matches(object)
            });
            mine.map(|(_, object)| object.clone()).collect()
        };
        let mut metadata = json!({"resourceVersion": store.version().to_string()});
        if let Some(limit) = parameters.limit.filter(|limit| *limit < all.len()) {
            let number = self.0.promised.fetch_add(1, Ordering::SeqCst);
            let token = format!("{}-{number}", store.version());
            pages.insert(token.clone(), all.split_off(limit));
            metadata["continue"] = json!(token);
        }
        let items: Vec<&Value> = all.iter().map(AsRef::as_ref).collect();
        let kind = target.kind;
        Ok(json!({
            "apiVersion": kind.api_version, "kind": format!("{}List", kind.name),
            "metadata": metadata, "items": items,
        }))
    }

    fn watched(&self, target: &Target, parameters: Parameters) -> Answer {
        let lines = lines(self.clone(), target, parameters);
        let frames = lines.map(|line| Ok(Frame::data(Bytes::from(line))));
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    /// What is asked about the server and the caller's rights.
    fn about_itself(&self, path: &str) -> Answer {
        let version = json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": stamp((self.0.clock)()), "goVersion": "", "compiler": "", "platform": "",
        });
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "metadata": {}, "spec": {}, "status": {"allowed": true},
        });
        match path {
            "/version" => json_answer(StatusCode::OK, &version),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                json_answer(StatusCode::CREATED, &review)
            }
            _ => refused(&Refusal::not_found(path)),
        }
    }
}

/// The scheduler's choice, with the condition that the server sets for it
/// (`pkg/registry/core/pod/storage/storage.go`).
pub fn bound(pod: &Value, binding: &Value, now: Timestamp) -> Result<Value, Refusal> {
    if pod.pointer("/spec/nodeName").is_some_and(|node| node != "") {
        return Err(Refusal::conflict("pod is already assigned to a node"));
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return Err(Refusal::conflict("pod is being deleted, cannot be assigned to a host"));
    }
    let mut pod = pod.clone();
    merge(&mut pod, &json!({"spec": {"nodeName": binding["target"]["name"]}}));
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let others = conditions.into_iter().filter(|one| one["type"] != "PodScheduled");
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(now),
    });
    pod["status"]["conditions"] = others.chain([scheduled]).collect();
    Ok(pod)
}

/// As HTTP writes times.
fn http_date(now: Timestamp) -> String {
    let printer = rfc2822::DateTimePrinter::new();
    printer.timestamp_to_rfc9110_string(&now).unwrap_or_default()
}

fn json_answer(code: StatusCode, body: &Value) -> Answer {
    let body = Full::from(body.to_string()).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer
}

fn refused(refusal: &Refusal) -> Answer {
    json_answer(refusal.code, &refusal.status())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl tower::Service<Request<Body>> for ApiServer {
    type Response = Answer;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let clock = self.clone();
        let dated = move |mut answer: Answer| {
            let date = HeaderValue::try_from(http_date((clock.0.clock)()));
            answer.headers_mut().extend(date.ok().map(|date| (header::DATE, date)));
            answer.headers_mut().insert("audit-id", HeaderValue::from_static("double"));
            Ok(answer)
        };
        self.clone().answer(request).map(dated).boxed()
    }
}
