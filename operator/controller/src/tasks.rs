//! Tasks that run as long as the operator: one that ends is a fault, and is told by its name.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// What runs beside the passes.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A task ended, which it never should: what it does would be missing from now on.
#[derive(Debug, thiserror::Error)]
#[error("{task} ended ({why}); the operator cannot go on without it and must be started again")]
pub struct TaskEnded {
    /// What the task does.
    pub task: String,
    /// How it ended.
    pub why: String,
}

impl Tasks {
    /// Starts a task; `task` says what it does: `the watch of GpuJob`.
    pub fn spawn(&mut self, task: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(work);
        self.names.insert(handle.id(), task);
    }

    /// Waits until one of them ends.
    pub async fn first_to_end(&mut self) -> TaskEnded {
        let Some(ended) = self.set.join_next_with_id().await else {
            // Without tasks none ends.
            return std::future::pending().await;
        };
        let (id, why) = match ended {
            Ok((id, ())) => (id, "it returned".to_owned()),
            Err(error) => (error.id(), error.to_string()),
        };
        let task = self.names.get(&id).copied().unwrap_or("a task");
        TaskEnded { task: task.to_owned(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_task_that_ends_is_named_with_its_cause() {
        let mut tasks = Tasks::default();
        tasks.spawn("the watch of GpuJob", std::future::pending());
        tasks.spawn("the watch of Node", async { panic!("out of luck") });
        let words = tasks.first_to_end().await.to_string();
        assert!(words.contains("the watch of Node ended"), "{words}");
        assert!(words.contains("out of luck"), "{words}");
    }
}
