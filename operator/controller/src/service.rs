//! The operator's HTTP: `/livez`, `/readyz`, `/metrics`. Plain HTTP/1.1, read-only, nothing secret.

use std::{net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header, server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::{encoding::text, registry::Registry};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::Instant,
};

use crate::{
    context::Context,
    gauges::Gauges,
    health::{Detail, Report},
};

/// Connections side by side; more wait.
const MOST_CONNECTIONS: usize = 64;
/// How long a request may take to arrive.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may last: one request and its answer.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
/// The pause after a connection that could not be accepted, for example for want of file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Off,
    /// At this address; port 0 means any free one.
    At(SocketAddr),
}

/// A text that is no address.
#[derive(Debug, thiserror::Error)]
#[error(
    "write an IP address and a port, for example 127.0.0.1:8080, [::]:8080 or 0.0.0.0:8080, or none"
)]
pub struct NotAnAddress;

impl FromStr for Listen {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        if text == "none" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| NotAnAddress)
    }
}

/// An address where nothing can be served.
#[derive(Debug, thiserror::Error)]
#[error(
    "failed to listen on {address}: {source}; choose another address with --listen, or --listen none"
)]
pub struct CannotListen {
    address: SocketAddr,
    source: std::io::Error,
}

/// The server, listening.
pub struct Service {
    listener: TcpListener,
    pages: Arc<Pages>,
}

impl Service {
    /// Listens; what is asked meanwhile is answered once it runs.
    ///
    /// # Errors
    /// An address that is taken or not ours.
    pub async fn listen(address: SocketAddr, context: Arc<Context>) -> Result<Self, CannotListen> {
        let failed = |source| CannotListen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let chosen = listener.local_addr().map_err(failed)?;
        tracing::info!(address = %chosen, "serving /livez, /readyz and /metrics");
        Ok(Self { listener, pages: Arc::new(Pages::of(context)) })
    }

    /// Serves for ever.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let pages = self.pages.clone();
                    tokio::spawn(async move {
                        connection(stream, pages).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// One request, so that no connection is held open between scrapes.
async fn connection(stream: TcpStream, pages: Arc<Pages>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let answer = pages.answer(request.method(), request.uri().path(), request.uri().query());
        std::future::ready(answer)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match tokio::time::timeout(CONNECTION_LIMIT, served).await {
        Ok(Ok(())) => {}
        // Whoever asked went away or sent something else than HTTP.
        Ok(Err(error)) => tracing::debug!(%error, "a request was not served"),
        Err(_) => tracing::debug!("a request took too long"),
    }
}

/// What is served.
struct Pages {
    context: Arc<Context>,
    registry: Registry,
}

impl Pages {
    fn of(context: Arc<Context>) -> Self {
        let mut registry = context.metrics.registry();
        registry.register_collector(Box::new(Gauges(context.clone())));
        Self { context, registry }
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
    ) -> Result<Response<String>, hyper::http::Error> {
        if method != Method::GET && method != Method::HEAD {
            return page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET is served\n".to_owned());
        }
        match path {
            "/livez" => self.live(),
            "/readyz" => self.ready(query),
            "/metrics" => self.metrics(),
            _ => {
                let words = "served are /livez, /readyz, /readyz?verbose and /metrics\n";
                page(StatusCode::NOT_FOUND, PLAIN, words.to_owned())
            }
        }
    }

    fn live(&self) -> Result<Response<String>, hyper::http::Error> {
        match self.context.backlog.stuck_for(Instant::now()) {
            None => page(StatusCode::OK, PLAIN, "alive\n".to_owned()),
            Some(silent) => {
                let words = format!(
                    "the loop of passes has not turned for {}s; the operator must be started again\n",
                    silent.as_secs()
                );
                page(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, words)
            }
        }
    }

    fn ready(&self, query: Option<&str>) -> Result<Response<String>, hyper::http::Error> {
        let checks = self.context.health.checks(self.context.clock.now());
        let is_verbose = query.is_some_and(|query| {
            query.split('&').any(|part| matches!(part, "verbose" | "verbose=true" | "verbose=1"))
        });
        let detail = if is_verbose { Detail::All } else { Detail::Missing };
        let report = Report { checks: &checks, detail };
        let status =
            if report.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        page(status, PLAIN, report.to_string())
    }

    fn metrics(&self) -> Result<Response<String>, hyper::http::Error> {
        let mut text = String::new();
        match text::encode(&mut text, &self.registry) {
            Ok(()) => page(StatusCode::OK, OPEN_METRICS, text),
            Err(error) => {
                let words = format!("the metrics could not be printed: {error}\n");
                page(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, words)
            }
        }
    }
}

fn page(
    status: StatusCode,
    kind: &str,
    text: String,
) -> Result<Response<String>, hyper::http::Error> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "no-store")
        .header("x-content-type-options", "nosniff")
        .body(text)
}

#[cfg(test)]
mod tests;
