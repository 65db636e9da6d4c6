//! Which holders to look at, and when. No I/O beyond timers; cannot fail.
//!
//! Each holder is looked at by one pass at a time; changes that arrive meanwhile lead to exactly
//! one more pass. kube's own controller starts from existing objects; this queue also serves
//! holders that are gone but whose lease is still open.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::observed::Holder;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::time::DelayQueue;

use crate::backlog::Backlog;

/// How long passes that are under way may take when the queue is told to end. A pass that is cut
/// off is finished by the next operator: any prefix of its writes leads to the same end.
pub const DRAIN: Duration = Duration::from_secs(15);

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

    /// Something concerns all of these holders.
    pub fn ring_all(&self, holders: Vec<Holder>) {
        for holder in holders {
            self.ring(holder);
        }
    }
}

/// The waiting and running passes.
pub struct Queue {
    changes: mpsc::UnboundedReceiver<Holder>,
    timers: DelayQueue<Holder>,
    backlog: Arc<Backlog>,
    running: HashSet<Holder>,
    again: HashSet<Holder>,
    most: usize,
}

impl Queue {
    /// An empty queue that runs at most so many passes side by side; `backlog` shows what waits.
    #[must_use]
    pub fn new(most: usize, backlog: Arc<Backlog>) -> (Self, Bell) {
        let (sender, changes) = mpsc::unbounded_channel();
        let queue = Self {
            changes,
            timers: DelayQueue::new(),
            backlog,
            running: HashSet::new(),
            again: HashSet::new(),
            most,
        };
        (queue, Bell(sender))
    }

    /// Lets changes pass by until `begins` is done: another operator sees to them, and the indexes
    /// have what they led to.
    pub async fn stand_by(&mut self, begins: impl Future<Output = ()>) {
        tokio::pin!(begins);
        loop {
            tokio::select! {
                biased;
                () = &mut begins => return,
                Some(_) = self.changes.recv() => {}
            }
        }
    }

    /// Runs passes until `stop` is done, then waits for those that are under way, at most for
    /// [`DRAIN`]. Tells the holders whose passes were cut off.
    pub async fn run<P>(mut self, pass: P, stop: impl Future<Output = ()>) -> Vec<Holder>
    where
        P: Fn(Holder) -> BoxFuture<'static, Next>,
    {
        let mut passes = FuturesUnordered::new();
        tokio::pin!(stop);
        let backlog = self.backlog.clone();
        backlog.turns();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = backlog.is_asked() => backlog.turns(),
                Some((holder, next)) = passes.next(), if !passes.is_empty() => self.finished(holder, next),
                Some(holder) = self.changes.recv() => self.changed(holder),
                Some(due) = self.timers.next(), if passes.len() < self.most && !self.timers.is_empty() => {
                    let holder = due.into_inner();
                    self.backlog.begun(&holder);
                    self.running.insert(holder.clone());
                    passes.push(pass(holder.clone()).map(move |next| (holder, next)));
                }
            }
        }
        let rest = async {
            while let Some((holder, _)) = passes.next().await {
                self.running.remove(&holder);
            }
        };
        if timeout(DRAIN, rest).await.is_ok() {
            return Vec::new();
        }
        self.running.into_iter().collect()
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
        match self.backlog.due(&holder) {
            Some((_, due)) if due <= at => {}
            Some((key, _)) => {
                self.timers.reset_at(&key, at);
                self.backlog.set(holder, key, at);
            }
            None => {
                let key = self.timers.insert_at(holder.clone(), at);
                self.backlog.set(holder, key, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn holder(name: &str) -> Holder {
        Holder { namespace: "ml".into(), name: name.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_during_a_pass_lead_to_one_more() {
        let (queue, bell) = Queue::new(4, Arc::default());
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
    async fn who_stands_by_keeps_no_changes() {
        let (mut queue, bell) = Queue::new(4, Arc::default());
        for _ in 0..1_000 {
            bell.ring(holder("train"));
        }
        queue.stand_by(tokio::time::sleep(Duration::from_secs(1))).await;
        assert!(queue.changes.is_empty());
        bell.ring(holder("next"));
        queue.stand_by(std::future::ready(())).await;
        assert_eq!(queue.changes.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_wake_wins_and_is_exact() {
        let (queue, bell) = Queue::new(4, Arc::default());
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

    #[tokio::test(start_paused = true)]
    async fn a_pass_under_way_is_finished_and_one_that_hangs_is_named() {
        let (queue, bell) = Queue::new(4, Arc::default());
        let finished = Arc::new(Mutex::new(Vec::new()));
        let pass = {
            let finished = finished.clone();
            move |holder: Holder| {
                let finished = finished.clone();
                let takes = if holder.name == "hangs" { 1_000 } else { 5 };
                async move {
                    tokio::time::sleep(Duration::from_secs(takes)).await;
                    finished.lock().unwrap().push(holder.name);
                    Next::OnChange
                }
                .boxed()
            }
        };
        bell.ring(holder("slow"));
        bell.ring(holder("hangs"));
        let cut = queue.run(pass, tokio::time::sleep(Duration::from_secs(1))).await;
        assert_eq!(*finished.lock().unwrap(), ["slow"]);
        assert_eq!(cut, [holder("hangs")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_turns_is_not_stuck_whatever_its_passes_wait_for() {
        let backlog = Arc::new(Backlog::default());
        let (queue, bell) = Queue::new(4, backlog.clone());
        bell.ring(holder("waits"));
        let pass = |_| std::future::pending().boxed();
        let asks = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_mins(2)).await;
                assert_eq!(backlog.stuck_for(Instant::now()), None);
            }
        };
        queue.run(pass, asks).await;
    }
}
