//! Changes as a stream of lines.

use std::{collections::VecDeque, time::Duration};

use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::{
    kinds::Kind,
    request::{Parameters, Target},
    server::ApiServer,
    store::Change,
    versions::Follower,
};

/// How long a watch lasts that does not say so.
const USUAL: Duration = Duration::from_mins(30);

/// How often the version is told to those who want it: kube's watches take a silence that is longer
/// than they last for a broken connection. A server does it each minute.
const BOOKMARK_EVERY: Duration = Duration::from_mins(4);

/// A watch under way.
struct Watch {
    server: ApiServer,
    kind: &'static Kind,
    namespace: Option<String>,
    parameters: Parameters,
    position: u64,
    versions: Follower,
    cut: Follower,
    ends_at: Instant,
    bookmark_at: Instant,
    ready: VecDeque<Value>,
    is_over: bool,
}

/// The lines of a watch, from the version that it names on.
pub fn lines(
    server: ApiServer,
    target: &Target,
    parameters: Parameters,
) -> impl Stream<Item = Vec<u8>> + use<> {
    let (mut versions, cut) = (server.versions(), server.cuts());
    let position = parameters.resource_version.unwrap_or_else(|| versions.newest());
    let asked = parameters.timeout.map_or(USUAL, Duration::from_secs);
    let lasts = server.watches_last().unwrap_or(asked);
    let watch = Watch {
        kind: target.kind,
        namespace: target.namespace.clone(),
        position,
        ends_at: Instant::now() + lasts,
        bookmark_at: Instant::now() + BOOKMARK_EVERY,
        ready: VecDeque::new(),
        is_over: false,
        server,
        parameters,
        versions,
        cut,
    };
    stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((format!("{event}\n").into_bytes(), watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            self.read();
            if !self.ready.is_empty() || self.is_over {
                continue;
            }
            tokio::select! {
                biased;
                () = self.cut.changed() => return None,
                () = self.versions.changed() => {}
                () = sleep_until(self.ends_at.min(self.bookmark_at)) => {
                    self.is_over = Instant::now() >= self.ends_at;
                    self.bookmark_at = Instant::now() + BOOKMARK_EVERY;
                    self.ready.extend(self.parameters.bookmarks.then(|| self.bookmark()));
                }
            }
        }
    }

    fn bookmark(&self) -> Value {
        json!({"type": "BOOKMARK", "object": {
            "apiVersion": self.kind.api_version, "kind": self.kind.name,
            "metadata": {"resourceVersion": self.position.to_string()},
        }})
    }

    /// Takes what has changed since.
    fn read(&mut self) {
        let newest = self.versions.newest();
        let store = self.server.store();
        match store.since(self.position) {
            Ok(changes) => {
                let mine = changes.filter(|change| {
                    let key = &change.key;
                    key.plural == self.kind.plural
                        && self.namespace.as_ref().is_none_or(|wanted| *wanted == key.namespace)
                });
                let events = mine.filter_map(|change| event(change, &self.parameters));
                self.ready.extend(events);
                self.position = self.position.max(newest);
            }
            Err(refusal) => {
                self.ready.push_back(json!({"type": "ERROR", "object": refusal.status()}));
                self.is_over = true;
            }
        }
    }
}

/// A change as those see it who look at some objects only: what no longer matches is gone for them.
fn event(change: &Change, parameters: &Parameters) -> Option<Value> {
    let selector = &parameters.selector;
    let before = change.before.as_ref().filter(|object| selector.matches(object));
    let after = change.after.as_ref().filter(|object| selector.matches(object));
    Some(match (before, after) {
        (None, None) => return None,
        (None, Some(object)) => json!({"type": "ADDED", "object": **object}),
        (Some(_), Some(object)) => json!({"type": "MODIFIED", "object": **object}),
        (Some(object), None) => {
            let mut object = Value::clone(object);
            object["metadata"]["resourceVersion"] = json!(change.version.to_string());
            json!({"type": "DELETED", "object": object})
        }
    })
}
