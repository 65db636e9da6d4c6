//! What disturbs a playground: processes that hang, or are killed.

use std::process::Command;

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

    /// Makes the scheduler hang: pods are created and stay without a node.
    ///
    /// # Errors
    /// As [`Self::hang_api_server`].
    pub fn hang_scheduler(&self) -> Result<Hanging, Failure> {
        Hanging::stop(numbers(&self.status()?, |process| process["name"] == "kube-scheduler"))
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

    fn on_node(&self, node: &str, name: &str) -> Result<Vec<u64>, Failure> {
        Ok(numbers(&self.status()?, |process| process["node"] == node && process["name"] == name))
    }
}

/// Numbers of the chosen processes in a status.
fn numbers(status: &Value, chosen: impl Fn(&Value) -> bool) -> Vec<u64> {
    let all = status.get("status").and_then(Value::as_array).into_iter().flatten();
    all.filter(|process| chosen(process))
        .filter_map(|process| process.get("pid")?.as_u64())
        .collect()
}

fn signal(signal: &str, processes: &[u64]) -> Result<(), Failure> {
    let mut kill = Command::new("kill");
    kill.arg(signal).args(processes.iter().map(u64::to_string));
    answer(&mut kill, "", "signal the playground's processes").map(|_| ())
}
