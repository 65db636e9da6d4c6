//! The API server's time, as the `Date` of its answers tells it and the monotonic clock carries it on.
//!
//! Leases begin with times that the API server wrote. Another clock that is wrong, or that is put
//! right, would end them as much too early or too late.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use hyper::{Request, Response, header};
use jiff::{Timestamp, fmt::rfc2822};
use kube::client::Body;
use tower::{Layer, Service};

use crate::clock::Clock;

/// Only the API server's own answers carry it, and not those of a proxy in front of it:
/// <https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/>.
const SIGNATURE: &str = "audit-id";

/// How long answers have to speak of a later time before it is believed. Of servers whose clocks differ
/// the slowest counts, and one odd answer ends nothing.
const DOUBTED_FOR: Duration = Duration::from_secs(10);

/// `Date` is cut to whole seconds: <https://www.rfc-editor.org/rfc/rfc9110#name-date>.
const RESOLUTION: Duration = Duration::from_secs(1);

/// A clock, and the layer of the client that sets it. All clones are the same one.
#[derive(Clone)]
pub struct ServerTime {
    own: Arc<dyn Clock>,
    told: Arc<Mutex<Told>>,
}

/// What answers have told.
#[derive(Default)]
struct Told {
    known: Option<Known>,
    /// A later time that contradicts it, as it was told first.
    doubted: Option<Known>,
}

impl ServerTime {
    /// One that shows its machine's time until the API server has answered with its own.
    #[must_use]
    pub fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, told: Arc::default() }
    }

    fn learn(&self, date: Timestamp, asked: Duration, answered: Duration) {
        self.lock().take_in(Known::told(date, asked, answered));
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Timestamp {
        match self.lock().known {
            // Nothing ends early: what is a moment late is ended by the agent in time.
            Some(known) => known.at(self.own.uptime()).earliest,
            None => self.own.now(),
        }
    }

    fn uptime(&self) -> Duration {
        self.own.uptime()
    }
}

impl Told {
    fn take_in(&mut self, news: Known) {
        let Some(known) = self.known else {
            self.known = Some(news);
            return;
        };
        if let Some(both) = known.with(news) {
            *self = Self { known: Some(both), doubted: None };
        } else if news.earliest < known.at(news.at).earliest {
            // A clock was put back, or a slower server answered.
            *self = Self { known: Some(news), doubted: None };
        } else {
            match self.doubted.and_then(|doubted| Some((doubted.at, doubted.with(news)?))) {
                Some((since, both)) if news.at.saturating_sub(since) >= DOUBTED_FOR => {
                    *self = Self { known: Some(both), doubted: None };
                }
                Some(_) => {}
                None => self.doubted = Some(news),
            }
        }
    }
}

/// Between which times the server's clock was at an instant of the machine's uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    at: Duration,
    earliest: Timestamp,
    latest: Timestamp,
}

impl Known {
    /// The server wrote `date` at some instant between question and answer.
    fn told(date: Timestamp, asked: Duration, answered: Duration) -> Self {
        let travelled = answered.saturating_sub(asked);
        Self { at: answered, earliest: date, latest: later(date, RESOLUTION + travelled) }
    }

    /// What follows for a later instant.
    fn at(self, at: Duration) -> Self {
        let passed = at.saturating_sub(self.at);
        Self { at, earliest: later(self.earliest, passed), latest: later(self.latest, passed) }
    }

    /// What follows from both; `None` when not both can be true: a clock was put right since, or another
    /// server answered. Answers are not always taken in in the order in which they came.
    fn with(self, other: Self) -> Option<Self> {
        let at = self.at.max(other.at);
        let (one, other) = (self.at(at), other.at(at));
        let earliest = one.earliest.max(other.earliest);
        let latest = one.latest.min(other.latest);
        (earliest <= latest).then_some(Self { at, earliest, latest })
    }
}

fn later(at: Timestamp, time: Duration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}

impl<S> Layer<S> for ServerTime {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Timed<S> {
        Timed { inner, time: self.clone() }
    }
}

/// The wrapped stack.
#[derive(Clone)]
pub struct Timed<S> {
    inner: S,
    time: ServerTime,
}

impl<S, B> Service<Request<Body>> for Timed<S>
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
        let (time, asked) = (self.time.clone(), self.time.uptime());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(date) = date(&answer) {
                time.learn(date, asked, time.uptime());
            }
            Ok(answer)
        })
    }
}

fn date<B>(answer: &Response<B>) -> Option<Timestamp> {
    let headers = answer.headers();
    headers.get(SIGNATURE)?;
    let text = headers.get(header::DATE)?.to_str().ok()?;
    rfc2822::parse(text).ok().map(|date| date.timestamp())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::time::{Instant, advance};

    use super::*;

    /// A wall clock that stands still.
    struct Stands {
        at: Timestamp,
        begun: Instant,
    }

    impl Clock for Stands {
        fn now(&self) -> Timestamp {
            self.at
        }

        fn uptime(&self) -> Duration {
            self.begun.elapsed()
        }
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// A server that takes a second to answer, each time with the next of these dates.
    fn timed(
        own: &str,
        dates: &'static [&'static str],
    ) -> (ServerTime, impl Service<Request<Body>, Response = Response<()>, Error = Infallible>)
    {
        let clock = ServerTime::new(Arc::new(Stands { at: time(own), begun: Instant::now() }));
        let mut dates = dates.iter();
        let service = clock.layer(tower::service_fn(move |_| {
            let date = *dates.next().unwrap();
            let answer = Response::builder().header(SIGNATURE, "1").header(header::DATE, date);
            async move {
                advance(Duration::from_secs(1)).await;
                Ok(answer.body(()).unwrap())
            }
        }));
        (clock, service)
    }

    async fn ask(service: &mut impl Service<Request<Body>, Error = Infallible>) {
        let answer = service.call(Request::get("/").body(Body::empty()).unwrap());
        assert!(answer.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_the_machines_until_the_server_answers_and_then_the_servers() {
        let dates = &["Thu, 01 Jan 2026 12:00:00 GMT", "Thu, 01 Jan 2026 12:10:01 GMT"];
        let (clock, mut server) = timed("2026-01-01T13:00:00Z", dates);
        assert_eq!(clock.now(), time("2026-01-01T13:00:00Z"));
        ask(&mut server).await;
        // Between 12:00:00 and 12:00:02.
        assert_eq!(clock.now(), time("2026-01-01T12:00:00Z"));
        advance(Duration::from_mins(10)).await;
        assert_eq!(clock.now(), time("2026-01-01T12:10:00Z"));
        advance(Duration::from_millis(500)).await;
        ask(&mut server).await;
        // From 12:10:01.5 on by the first answer, from 12:10:01 on by the second one.
        assert_eq!(clock.now(), time("2026-01-01T12:10:01.5Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn two_answers_tell_more_than_one_and_a_clock_that_is_put_back_counts_at_once() {
        let dates = &[
            "Thu, 01 Jan 2026 12:00:00 GMT",
            "Thu, 01 Jan 2026 12:00:00 GMT",
            "Thu, 01 Jan 2026 11:00:00 GMT",
        ];
        let (clock, mut server) = timed("2026-01-01T13:00:00Z", dates);
        ask(&mut server).await;
        ask(&mut server).await;
        // The first answer says 12:00:01 to 12:00:03, the second one 12:00:00 to 12:00:02.
        assert_eq!(clock.now(), time("2026-01-01T12:00:01Z"));
        ask(&mut server).await;
        assert_eq!(clock.now(), time("2026-01-01T11:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_time_is_believed_when_all_answers_have_told_it_for_a_while() {
        let dates = &[
            "Thu, 01 Jan 2026 12:00:00 GMT",
            "Thu, 01 Jan 2026 13:00:01 GMT",
            "Thu, 01 Jan 2026 12:00:09 GMT",
            "Thu, 01 Jan 2026 13:00:10 GMT",
            "Thu, 01 Jan 2026 13:00:15 GMT",
            "Thu, 01 Jan 2026 13:00:21 GMT",
        ];
        let (clock, mut server) = timed("2026-01-01T14:00:00Z", dates);
        ask(&mut server).await;
        for (pause, now) in [
            (0, "2026-01-01T12:00:01Z"),
            // What was known is confirmed, so the odd answer is forgotten.
            (7, "2026-01-01T12:00:09Z"),
            (0, "2026-01-01T12:00:10Z"),
            (4, "2026-01-01T12:00:15Z"),
            (5, "2026-01-01T13:00:21Z"),
        ] {
            advance(Duration::from_secs(pause)).await;
            ask(&mut server).await;
            assert_eq!(clock.now(), time(now));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_taken_in_out_of_order_tell_the_same() {
        let own = Stands { at: time("2026-01-01T14:00:00Z"), begun: Instant::now() };
        let clock = ServerTime::new(Arc::new(own));
        let [first, second] = ["2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z"].map(time);
        let seconds = Duration::from_secs;
        advance(seconds(10)).await;
        clock.learn(second, seconds(9), seconds(10));
        clock.learn(first, seconds(4), seconds(5));
        assert_eq!(clock.now(), time("2026-01-01T12:00:05Z"));
    }

    #[test]
    fn a_date_that_cannot_be_read_changes_nothing() {
        let answer = |text: &str| {
            let answer = Response::builder().header(SIGNATURE, "1").header(header::DATE, text);
            answer.body(()).unwrap()
        };
        assert_eq!(date(&answer("yesterday")), None);
        let mut a_proxys = answer("Sun, 06 Nov 1994 08:49:37 GMT");
        a_proxys.headers_mut().remove(SIGNATURE);
        assert_eq!(date(&a_proxys), None);
        assert_eq!(date(&Response::new(())), None);
        let read = date(&answer("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(read, Some(time("1994-11-06T08:49:37Z")));
    }
}
