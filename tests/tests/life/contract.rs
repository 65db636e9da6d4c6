//! The double keeps the contract, and the contract notices a double that does not.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use http_body_util::{BodyExt, Collected};
use hyper::Request;
use kube::{Client, client::Body};
use leasehold::clock::Clock;
use leasehold_tests::{contract, double::server::ApiServer, world::clock::VirtualClock};
use serde_json::Value;
use tower::Service;

fn server() -> ApiServer {
    let clock = VirtualClock::new();
    ApiServer::new(move || clock.now())
}

#[tokio::test(start_paused = true)]
async fn the_double_keeps_the_contract() {
    for (name, test) in contract::ALL {
        let kept = AssertUnwindSafe(test(server().client(), "ml".to_owned())).catch_unwind().await;
        assert!(kept.is_ok(), "{name}");
    }
}

/// A server that does not care which version somebody has seen.
#[derive(Clone)]
struct Careless(ApiServer);

impl Service<Request<Body>> for Careless {
    type Response = <ApiServer as Service<Request<Body>>>::Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut server = self.0.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
            let mut body: Value = serde_json::from_slice(&body).unwrap_or_default();
            if let Some(metadata) = body.pointer_mut("/metadata").and_then(Value::as_object_mut) {
                metadata.remove("resourceVersion");
            }
            let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
            server.call(Request::from_parts(head, Body::from(body))).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_double_that_ignores_versions_breaks_the_contract() {
    let mut broken = Vec::new();
    for (name, test) in contract::ALL {
        let client = Client::new(Careless(server()), "default");
        if AssertUnwindSafe(test(client, "ml".to_owned())).catch_unwind().await.is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.contains(&"a_version_that_is_not_the_newest_is_a_conflict"), "{broken:?}");
}
