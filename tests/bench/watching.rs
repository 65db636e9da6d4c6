//! Takes the time at which objects come true, as a watch tells it.

use std::{collections::HashSet, time::Duration};

use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::watch::{Receiver, Sender, channel},
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::Failure;

/// A watch that counts; it ends when dropped.
pub(crate) struct Watching {
    what: &'static str,
    seen: Receiver<Seen>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_complete: bool,
    count: usize,
    last: Option<Instant>,
}

impl Watching {
    /// Counts objects that are there.
    pub(crate) async fn existing(
        what: &'static str,
        api: Api<PartialObjectMeta<DynamicObject>>,
    ) -> Self {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = events.filter_map(|event| std::future::ready(event.ok()));
        Self::follow(what, events.boxed(), |_: &PartialObjectMeta<DynamicObject>| true).await
    }

    /// Counts objects of which something is true.
    pub(crate) async fn until(
        what: &'static str,
        api: Api<DynamicObject>,
        is_true: impl Fn(&DynamicObject) -> bool + Send + 'static,
    ) -> Self {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let events = events.filter_map(|event| std::future::ready(event.ok()));
        Self::follow(what, events.boxed(), is_true).await
    }

    /// A watch that breaks off is begun again, and what was seen stays seen.
    async fn follow<K: ResourceExt + Send + 'static>(
        what: &'static str,
        mut events: futures::stream::BoxStream<'static, Event<K>>,
        is_true: impl Fn(&K) -> bool + Send + 'static,
    ) -> Self {
        let (sender, mut seen): (Sender<Seen>, Receiver<Seen>) = channel(Seen::default());
        let task = tokio::spawn(async move {
            let mut names = HashSet::new();
            while let Some(event) = events.next().await {
                let now = Instant::now();
                match event {
                    Event::Apply(object) | Event::InitApply(object) => {
                        if is_true(&object) && names.insert(object.name_any()) {
                            sender.send_modify(|seen| {
                                seen.count += 1;
                                seen.last = Some(now);
                            });
                        }
                    }
                    Event::InitDone => sender.send_modify(|seen| seen.is_complete = true),
                    Event::Init | Event::Delete(_) => {}
                }
            }
        });
        // The sender lives as long as the task, which never ends by itself.
        let _ = seen.wait_for(|seen| seen.is_complete).await;
        Self { what, seen, task }
    }

    /// How many were seen so far.
    pub(crate) fn count(&self) -> usize {
        self.seen.borrow().count
    }

    /// Waits until so many were seen; when the last of them was.
    pub(crate) async fn all(&mut self, count: usize, limit: Duration) -> Result<Instant, Failure> {
        // An error is that the time is over.
        let last = match timeout(limit, self.seen.wait_for(|seen| seen.count >= count)).await {
            Ok(seen) => seen?.last,
            Err(_) => None,
        };
        let so_far = self.count();
        let (what, seconds) = (self.what, limit.as_secs());
        last.ok_or_else(|| format!("{so_far} of {count} {what} within {seconds} s").into())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}
