//! An operator as a process whose pages and log can be read.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use leasehold_tests::{
    operator::own_kubeconfig,
    playground::{AGENT_IMAGE, Playground},
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

/// How long an answer may take before the operator counts as silent.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// An operator whose log is JSON and whose address is known; killed when dropped.
pub(crate) struct Served {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Served {
    /// Starts one that does not ask whether another one runs.
    pub(crate) fn start(playground: &Playground, name: &str) -> Self {
        Self::start_with(playground, name, &["--leader-election=false"])
    }

    /// Starts one with these options.
    pub(crate) fn start_with(playground: &Playground, name: &str, more: &[&str]) -> Self {
        let kubeconfig = own_kubeconfig(playground).unwrap();
        let log = playground.directory().join(format!("{name}.log"));
        let (variable, mark) = playground.mark().unwrap();
        let child = Command::new(&playground.environment().operator)
            .args(["run", "--listen", "127.0.0.1:0", "--log-format", "json"])
            .args(more)
            .args(["--agent-image", AGENT_IMAGE, "--kubeconfig"])
            .arg(&kubeconfig)
            .env(variable, mark)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let address = wait_for("the operator serves", LIMIT, || {
            let address =
                lines(&log).iter().find_map(|line| line["address"].as_str()?.parse().ok());
            address.ok_or("it does not say where")
        });
        Self { child, address, log }
    }

    /// Status and body of a page.
    pub(crate) fn get(&self, page: &str) -> (u16, String) {
        fetch(self.address, page).unwrap()
    }

    pub(crate) fn until_ready(&self) {
        wait_for("the operator is ready", LIMIT, || {
            let (status, words) = self.get("/readyz");
            if status == 200 { Ok(()) } else { Err(words) }
        });
    }

    /// The value of a metric with these labels.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// Lines of the log about a job's namespace.
    pub(crate) fn told(&self, namespace: &str, message: &str) -> Vec<Value> {
        let mut lines = lines(&self.log);
        lines.retain(|line| line["namespace"] == namespace && line["message"] == message);
        lines
    }

    /// All that it said.
    pub(crate) fn log(&self) -> Vec<Value> {
        lines(&self.log)
    }

    /// Sends it a signal: `-TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }

    /// Tells it to end and waits until it has.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal("-TERM");
        self.until_it_ends()
    }

    /// Waits until it ends.
    pub(crate) fn until_it_ends(&mut self) -> ExitStatus {
        wait_for("the operator ends", LIMIT, || {
            self.child.try_wait().map_err(|error| error.to_string())?.ok_or("it runs".to_owned())
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a log that are whole.
fn lines(log: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn fetch(address: SocketAddr, page: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("GET {page} HTTP/1.1\r\nHost: operator\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| std::io::Error::other(answer))
}
