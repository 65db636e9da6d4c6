//! Keeps writes of an operator that does not lead from going out: a layer around kube's client,
//! below everything that queues requests.
//!
//! A process that was stopped and goes on finds its tasks where it left them, and runs them in any
//! order; so it is asked not once per pass but whenever a write takes a step. What is left is the
//! instant in which a write is handed to the kernel: such a write is from before the stop, and
//! names the version of what it changes or has a name that exists only once.

use std::{
    future::{Future, poll_fn, ready},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::{Method, Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Leadership;

/// Wraps the client's stack.
#[derive(Clone)]
pub struct Fence(pub Leadership);

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, leadership: self.0.clone() }
    }
}

/// The wrapped stack.
#[derive(Clone)]
pub struct Fenced<S> {
    inner: S,
    leadership: Leadership,
}

impl<S, B> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            let answer = self.inner.call(request);
            return Box::pin(async { answer.await.map_err(Into::into) });
        }
        if let Err(error) = self.leadership.may_write() {
            return Box::pin(ready(Err(error.into())));
        }
        let leadership = self.leadership.clone();
        let mut answer = Some(Box::pin(self.inner.call(request)));
        Box::pin(poll_fn(move |context| {
            let allowed = leadership.may_write();
            match (&mut answer, allowed) {
                (Some(answer), Ok(())) => answer.as_mut().poll(context).map_err(Into::into),
                (_, Err(error)) => {
                    // What has not gone out by now never does.
                    answer = None;
                    Poll::Ready(Err(error.into()))
                }
                (None, Ok(())) => Poll::Pending,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc, time::Duration};

    use super::*;
    use crate::leadership::{RENEW_DEADLINE, tests::Steady};

    fn request(method: Method) -> Request<Body> {
        Request::builder().method(method).uri("/api/v1/pods").body(Body::empty()).unwrap()
    }

    /// Takes so long to send anything.
    fn slow(
        seconds: u64,
    ) -> impl Service<Request<Body>, Response = Response<()>, Error = Infallible, Future: Send + 'static>
    {
        tower::service_fn(move |_| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, Infallible>(Response::new(()))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_reads_and_does_not_write() {
        let leadership = Leadership::elected(Arc::new(Steady::new()));
        leadership.stands();
        let mut fenced = Fence(leadership.clone()).layer(slow(0));
        assert!(fenced.call(request(Method::GET)).await.is_ok());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = fenced.call(request(method)).await.unwrap_err().to_string();
            assert!(error.contains("does not lead"), "{error}");
        }
        leadership.renewed(Duration::ZERO);
        assert!(fenced.call(request(Method::POST)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_held_up_does_not_go_out_after_its_time() {
        let leadership = Leadership::elected(Arc::new(Steady::new()));
        leadership.stands();
        leadership.renewed(Duration::ZERO);
        let mut fenced = Fence(leadership).layer(slow(RENEW_DEADLINE.as_secs() + 1));
        let error = fenced.call(request(Method::POST)).await.unwrap_err().to_string();
        assert!(error.contains("last renewed 11s ago"), "{error}");
    }
}
