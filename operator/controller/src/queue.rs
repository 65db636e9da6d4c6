//! Which holders to look at, and when. No I/O beyond timers; cannot fail.
//!
//! Each holder is looked at by one pass at a time; changes that arrive meanwhile lead to exactly
//! one more pass. kube's own controller starts from existing objects; this queue also serves
//! holders that are gone but whose lease is still open.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::observed::Holder;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::time::{DelayQueue, delay_queue};

/// What to do after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Look again after this time, or earlier on a change.
    After(Duration),
    /// Look again on a change.
    OnChange,
}

/// Where changes are told.
#[derive(Clone)]
pub struct Bell(mpsc::UnboundedSender<Holder>);

impl Bell {
    /// Something of this holder changed.
    pub fn ring(&self, holder: Holder) {
        // The queue ends only with the process.
        let _ = self.0.send(holder);
    }
}

/// The waiting and running passes.
pub struct Queue {
    changes: mpsc::UnboundedReceiver<Holder>,
    timers: DelayQueue<Holder>,
    keys: HashMap<Holder, (delay_queue::Key, Instant)>,
    running: HashSet<Holder>,
    again: HashSet<Holder>,
    most: usize,
}

impl Queue {
    /// An empty queue that runs at most so many passes side by side.
    #[must_use]
    pub fn new(most: usize) -> (Self, Bell) {
        let (sender, changes) = mpsc::unbounded_channel();
        let queue = Self {
            changes,
            timers: DelayQueue::new(),
            keys: HashMap::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            most,
        };
        (queue, Bell(sender))
    }

    /// Runs passes until `stop` is done, then waits for those that are under way.
    pub async fn run<P>(mut self, pass: P, stop: impl Future<Output = ()>)
    where
        P: Fn(Holder) -> BoxFuture<'static, Next>,
    {
        let mut passes = FuturesUnordered::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some((holder, next)) = passes.next(), if !passes.is_empty() => self.finished(holder, next),
                Some(holder) = self.changes.recv() => self.changed(holder),
                Some(due) = self.timers.next(), if passes.len() < self.most && !self.timers.is_empty() => {
                    let holder = due.into_inner();
                    self.keys.remove(&holder);
                    self.running.insert(holder.clone());
                    passes.push(pass(holder.clone()).map(move |next| (holder, next)));
                }
            }
        }
        while passes.next().await.is_some() {}
    }

    fn changed(&mut self, holder: Holder) {
        if self.running.contains(&holder) {
            self.again.insert(holder);
        } else {
            self.schedule(holder, Duration::ZERO);
        }
    }

    fn finished(&mut self, holder: Holder, next: Next) {
        self.running.remove(&holder);
        if self.again.remove(&holder) {
            self.schedule(holder, Duration::ZERO);
        } else if let Next::After(delay) = next {
            self.schedule(holder, delay);
        }
    }

    /// The earlier of what was scheduled before and now wins.
    fn schedule(&mut self, holder: Holder, delay: Duration) {
        let at = Instant::now() + delay;
        match self.keys.get_mut(&holder) {
            Some((_, due)) if *due <= at => {}
            Some((key, due)) => {
                self.timers.reset_at(key, at);
                *due = at;
            }
            None => {
                let key = self.timers.insert_at(holder.clone(), at);
                self.keys.insert(holder, (key, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    fn holder(name: &str) -> Holder {
        Holder { namespace: "ml".into(), name: name.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_during_a_pass_lead_to_one_more() {
        let (queue, bell) = Queue::new(4);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let pass = {
            let (seen, bell) = (seen.clone(), bell.clone());
            move |holder: Holder| {
                let (seen, bell) = (seen.clone(), bell.clone());
                async move {
                    let first = {
                        let mut seen = seen.lock().unwrap();
                        seen.push(holder.name.clone());
                        seen.len() == 1
                    };
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    if first {
                        bell.ring(holder.clone());
                        bell.ring(holder);
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    Next::OnChange
                }
                .boxed()
            }
        };
        bell.ring(holder("train"));
        queue.run(pass, tokio::time::sleep(Duration::from_mins(1))).await;
        assert_eq!(*seen.lock().unwrap(), ["train", "train"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_wake_wins_and_is_exact() {
        let (queue, bell) = Queue::new(4);
        let start = Instant::now();
        let at = Arc::new(Mutex::new(Vec::new()));
        let pass = {
            let at = at.clone();
            move |_| {
                at.lock().unwrap().push(start.elapsed().as_secs());
                std::future::ready(Next::After(Duration::from_secs(100))).boxed()
            }
        };
        bell.ring(holder("train"));
        tokio::spawn({
            let bell = bell.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(30)).await;
                bell.ring(holder("train"));
            }
        });
        queue.run(pass, tokio::time::sleep(Duration::from_secs(150))).await;
        assert_eq!(*at.lock().unwrap(), [0, 30, 130]);
    }
}
