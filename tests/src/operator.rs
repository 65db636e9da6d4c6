//! The operator as a process with its own account's rights, to be started, killed and started
//! again.

use std::{
    fs::File,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;

use crate::playground::{AGENT_IMAGE, Playground};

/// A running operator without leader election, so that one that follows a killed one acts at once;
/// killed when dropped, and at the latest with its playground.
#[derive(Debug)]
pub struct Operator {
    child: Child,
    log: PathBuf,
    /// What earlier ones left in the log.
    said_before: usize,
    ends_with_us: bool,
}

/// What tests read in its log.
const ALL_OF_OURS: &str = "info,leasehold=debug";

impl Operator {
    /// Starts it with a kubeconfig of the account that `charts/leasehold/rbac.yaml` gives it.
    ///
    /// # Errors
    /// An account that is not there, or a program that does not start.
    pub fn start(playground: &Playground) -> Result<Self, Box<dyn std::error::Error>> {
        Self::start_with(playground, "")
    }

    /// Starts it with these lines beside the settings of the playground.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        playground: &Playground,
        more: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        // A cluster that is not our playground has none.
        let given = std::fs::read_to_string(playground.settings());
        Self::start_as_set(playground, &(given.unwrap_or_default() + more))
    }

    /// Starts it with the log that it has where it is deployed, which costs it less.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_as_deployed(playground: &Playground) -> Result<Self, Box<dyn std::error::Error>> {
        let given = std::fs::read_to_string(playground.settings())?;
        Self::start_process(playground, &given, "info")
    }

    /// Starts it with these settings and no others.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_as_set(
        playground: &Playground,
        text: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Self::start_process(playground, text, ALL_OF_OURS)
    }

    fn start_process(
        playground: &Playground,
        text: &str,
        log_level: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let settings = playground.directory().join("operator-settings.yaml");
        std::fs::write(&settings, text)?;
        let kubeconfig = own_kubeconfig(playground)?;
        let log = playground.directory().join("operator.log");
        let mut command = Command::new(&playground.environment().operator);
        let (variable, mark) = playground.mark()?;
        command.env(variable, mark).env("RUST_LOG", log_level);
        let said_before = std::fs::read_to_string(&log).map_or(0, |text| text.len());
        let child = spawn(command, &kubeconfig, &settings, &log)?;
        Ok(Self { child, log, said_before, ends_with_us: true })
    }

    /// The number of its process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Where it serves its pages, once it has said so.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let said = self.said();
        let (_, address) = said.get(self.said_before..)?.split_once("address=")?;
        address.split_whitespace().next()?.parse().ok()
    }

    /// Ends it without a chance to clean up.
    ///
    /// # Errors
    /// A process that cannot be signalled.
    pub fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Lets it run on beyond this process, until its playground is taken down.
    pub fn leave_running(mut self) {
        self.ends_with_us = false;
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it said so far.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if !self.ends_with_us {
            return;
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(
    mut command: Command,
    kubeconfig: &Path,
    settings: &Path,
    log: &Path,
) -> std::io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    command
        // Several run side by side on one machine: each takes a free port and says which.
        .args(["run", "--listen", "127.0.0.1:0", "--leader-election=false"])
        .args(["--agent-image", AGENT_IMAGE, "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--settings")
        .arg(settings)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Writes the administrator's kubeconfig with a token of the operator's account in place of its own
/// identity.
///
/// # Errors
/// An account that is not there, or a file that cannot be written.
pub fn own_kubeconfig(playground: &Playground) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let token = playground.kubectl(&[
        "create",
        "token",
        "leasehold",
        "-n",
        "leasehold-system",
        "--duration=24h",
    ])?;
    let admin: serde_json::Value =
        serde_json::from_str(&playground.kubectl(&["config", "view", "--raw", "-o", "json"])?)?;
    let cluster =
        admin.pointer("/clusters/0/cluster").cloned().ok_or("the kubeconfig has no cluster")?;
    let own = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "clusters": [{"name": "playground", "cluster": cluster}],
        "users": [{"name": "operator", "user": {"token": token.trim()}}],
        "contexts": [{"name": "operator", "context": {"cluster": "playground", "user": "operator"}}],
    });
    let file = playground.directory().join("operator.kubeconfig");
    std::fs::write(&file, own.to_string())?;
    Ok(file)
}
