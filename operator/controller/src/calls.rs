//! Counts requests to the API server, as a layer around kube's client: whatever talks to the
//! server is counted, and nothing that talks knows of it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{Method, Request, Response};
use kube::client::Body;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics::{CallLabels, Metrics, RequestLabels};

/// Wraps the client's stack.
#[derive(Clone)]
pub struct Counting(pub Metrics);

impl<S> Layer<S> for Counting {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, metrics: self.0.clone() }
    }
}

/// The wrapped stack.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, B> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = call(request.method(), request.uri().path(), request.uri().query());
        let mut open =
            Open { metrics: self.metrics.clone(), call, begun: Instant::now(), done: false };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(response) => open.answered(response.status().as_str()),
                Err(_) => open.answered("error"),
            }
            answer
        })
    }
}

/// A request that has no answer yet.
struct Open {
    metrics: Metrics,
    call: CallLabels,
    begun: Instant,
    done: bool,
}

impl Open {
    fn answered(&mut self, code: &str) {
        self.done = true;
        let CallLabels { verb, resource } = self.call.clone();
        let labels = RequestLabels { verb, resource, code: code.to_owned() };
        self.metrics.requests.get_or_create(&labels).inc();
        if self.call.verb != "watch" {
            let took = self.begun.elapsed().as_secs_f64();
            self.metrics.request_duration.get_or_create(&self.call).observe(took);
        }
    }
}

impl Drop for Open {
    /// Whoever asked has given up.
    fn drop(&mut self) {
        if !self.done {
            self.answered("timeout");
        }
    }
}

/// Verb and resource of a request, in Kubernetes' words. Paths are
/// `/api/v1/…` or `/apis/GROUP/VERSION/…`, then `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUB]]`.
fn call(method: &Method, path: &str, query: Option<&str>) -> CallLabels {
    let mut parts = path.trim_matches('/').split('/');
    let skipped = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        other => {
            let verb = verb(method, true, false);
            return CallLabels { verb, resource: format!("/{}", other.unwrap_or_default()) };
        }
    };
    let mut rest: Vec<&str> = parts.skip(skipped).collect();
    if rest.len() > 2 && rest.first() == Some(&"namespaces") {
        rest.drain(..2);
    }
    let is_watch = query.is_some_and(|query| query.split('&').any(|part| part == "watch=true"));
    let resource = match (rest.first(), rest.get(2)) {
        (Some(resource), Some(part)) => format!("{resource}/{part}"),
        (Some(resource), None) => (*resource).to_owned(),
        (None, _) => "/".to_owned(),
    };
    CallLabels { verb: verb(method, rest.len() > 1, is_watch), resource }
}

fn verb(method: &Method, is_named: bool, is_watch: bool) -> &'static str {
    match (method.as_str(), is_named) {
        ("GET", _) if is_watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn requests_are_named_in_kubernetes_words() {
        for (method, path, query, verb, resource) in [
            (Method::GET, "/version", None, "get", "/version"),
            (Method::GET, "/api/v1/nodes", Some("limit=500"), "list", "nodes"),
            (Method::GET, "/api/v1/pods", Some("&watch=true&x=y"), "watch", "pods"),
            (Method::POST, "/api/v1/namespaces/ml/pods", Some(""), "create", "pods"),
            (
                Method::PUT,
                "/apis/leasehold.dev/v1alpha1/namespaces/ml/gpujobs/train/status",
                Some("&fieldManager=leasehold"),
                "update",
                "gpujobs/status",
            ),
            (
                Method::GET,
                "/apis/leasehold.dev/v1alpha1/namespaces/ml/gpuleases/a",
                None,
                "get",
                "gpuleases",
            ),
            (Method::GET, "/api/v1/namespaces/ml", None, "get", "namespaces"),
            (Method::DELETE, "/api/v1/namespaces/ml/pods/a", None, "delete", "pods"),
        ] {
            let named = CallLabels { verb, resource: resource.to_owned() };
            assert_eq!(call(&method, path, query), named, "{method} {path}");
        }
    }

    fn request() -> Request<Body> {
        Request::get("/api/v1/pods").body(Body::empty()).unwrap()
    }

    fn count(metrics: &Metrics, code: &str) -> u64 {
        let labels = RequestLabels { verb: "list", resource: "pods".into(), code: code.to_owned() };
        metrics.requests.get_or_create(&labels).get()
    }

    #[tokio::test(start_paused = true)]
    async fn answers_and_requests_that_were_given_up_are_counted() {
        let metrics = Metrics::default();
        let mut quick = Counting(metrics.clone()).layer(tower::service_fn(|_| {
            std::future::ready(Ok::<_, Infallible>(Response::new(())))
        }));
        quick.call(request()).await.unwrap();
        let mut silent = Counting(metrics.clone()).layer(tower::service_fn(|_| {
            std::future::pending::<Result<Response<()>, Infallible>>()
        }));
        let limit = std::time::Duration::from_secs(10);
        assert!(tokio::time::timeout(limit, silent.call(request())).await.is_err());
        assert_eq!((count(&metrics, "200"), count(&metrics, "timeout")), (1, 1));
    }
}
