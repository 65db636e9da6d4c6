//! What disturbs a playground: processes that hang, or are killed.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    playground::Playground,
    program::{Failure, answer},
};

/// Processes that hang: they answer nobody, but close no connection. They go on when this is
/// dropped.
#[derive(Debug)]
pub struct Hanging {
    processes: Vec<u64>,
}

impl Hanging {
    fn stop(processes: Vec<u64>) -> Result<Self, Failure> {
        signal("-STOP", &processes)?;
        Ok(Self { processes })
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        // A process that is gone is told by whoever asks it next.
        let _ = signal("-CONT", &self.processes);
    }
}

impl Playground {
    /// Kills every process of the playground without a chance to clean up, and tells how many.
    ///
    /// # Errors
    /// A status that cannot be read.
    pub fn kill_all(&self) -> Result<usize, Failure> {
        let processes: Vec<u64> = numbers(&self.status()?, |_| true);
        // Killing one may end another before its turn.
        let _ = signal("-KILL", &processes);
        Ok(processes.len())
    }

    /// Makes the API server hang.
    ///
    /// # Errors
    /// A status that cannot be read, or a process that cannot be signalled.
    pub fn hang_api_server(&self) -> Result<Hanging, Failure> {
        Hanging::stop(numbers(&self.status()?, |process| process["name"] == "kube-apiserver"))
    }

    /// Makes the kubelet of a node hang; its containers run on.
    ///
    /// # Errors
    /// As [`Self::hang_api_server`].
    pub fn hang_kubelet(&self, node: &str) -> Result<Hanging, Failure> {
        Hanging::stop(self.on_node(node, "kubelet")?)
    }

    /// Kills the containerd of a node; the node starts it again, the containers run on.
    ///
    /// # Errors
    /// As [`Self::hang_api_server`].
    pub fn kill_containerd(&self, node: &str) -> Result<(), Failure> {
        signal("-KILL", &self.on_node(node, "containerd")?)
    }

    /// Kills the kubelet of a node; the node starts it again.
    ///
    /// # Errors
    /// As [`Self::hang_api_server`].
    pub fn kill_kubelet(&self, node: &str) -> Result<(), Failure> {
        signal("-KILL", &self.on_node(node, "kubelet")?)
    }

    /// What the first process of a node has started from this program.
    fn on_node(&self, node: &str, program: &str) -> Result<Vec<u64>, Failure> {
        let is_it = |process: &u64| {
            words(*process)
                .iter()
                .take(2)
                .any(|word| Path::new(word).file_name().is_some_and(|name| name == program))
        };
        let found: Vec<u64> = numbers(&self.status()?, |process| process["node"] == node)
            .into_iter()
            .flat_map(children)
            .filter(is_it)
            .collect();
        if found.is_empty() {
            let doing = format!("find {program} of {node}");
            return Err(Failure { doing, said: "there is no such process".to_owned() });
        }
        Ok(found)
    }
}

/// Numbers of the chosen processes in a status.
fn numbers(status: &Value, chosen: impl Fn(&Value) -> bool) -> Vec<u64> {
    let all = status.get("status").and_then(Value::as_array).into_iter().flatten();
    all.filter(|process| chosen(process))
        .filter_map(|process| process.get("pid")?.as_u64())
        .collect()
}

fn children(process: u64) -> Vec<u64> {
    let list = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(list).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The command line of a process.
fn words(process: u64) -> Vec<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn signal(signal: &str, processes: &[u64]) -> Result<(), Failure> {
    let mut kill = Command::new("kill");
    kill.arg(signal).args(processes.iter().map(u64::to_string));
    answer(&mut kill, "", "signal the playground's processes").map(|_| ())
}
