//! A control plane of our own, driven through the playground's program and its kubectl.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::environment::Environment;

/// The name under which the agent's image is loaded.
pub const AGENT_IMAGE: &str = "leasehold.local/agent:test";
/// Names of images in `examples/` for which the base image stands in where no registry is
/// reachable.
pub const STAND_INS: &[&str] = &["docker.io/library/python:3.11-slim"];

/// What a playground shall have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a> {
    /// Nodes with a real kubelet and containers; needs root.
    pub real_nodes: u32,
    /// Nodes that only exist in the API.
    pub simulated_nodes: u32,
    /// Cards of each node, for example `rtx4090:4`.
    pub cards: &'a str,
}

/// A running control plane; taken down when dropped.
#[derive(Debug)]
pub struct Playground {
    environment: Environment,
    directory: PathBuf,
    access: Access,
    keep: bool,
}

/// How kubectl finds the cluster.
#[derive(Clone, Debug)]
enum Access {
    Kubeconfig(PathBuf),
    Context(String),
}

/// A step of the playground that failed, with what the program said.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing}: {said}")]
pub struct Failure {
    doing: String,
    said: String,
}

impl Playground {
    /// Starts a control plane in this folder and installs definitions, rights and prices.
    ///
    /// # Errors
    /// A step that failed, with its output.
    pub fn up(
        environment: &Environment,
        directory: &Path,
        shape: Shape<'_>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(&environment.playground);
        command.arg("up").arg("--dir").arg(directory);
        command.args(["--nodes", &shape.real_nodes.to_string()]);
        command.args(["--simulated-nodes", &shape.simulated_nodes.to_string()]);
        command.args(["--cards", shape.cards]);
        command.arg("--catalog").arg(project().join("operator/core/data/cards.csv"));
        if shape.real_nodes > 0 {
            command
                .args(environment.packages.iter().flat_map(|root| [Path::new("--packages"), root]));
            let images = environment.base_image.iter().chain(&environment.agent_image);
            command.args(images.flat_map(|image| [Path::new("--image"), image]));
        }
        // What runs on beyond this call must not hold its output open.
        let log = directory.with_extension("up.log");
        run(command.stdin(Stdio::null()), "start the playground", &log)?;
        let mut playground = Self {
            environment: environment.clone(),
            directory: directory.to_owned(),
            access: Access::Kubeconfig(PathBuf::new()),
            keep: false,
        };
        let kubeconfig = playground.ask(&["kubeconfig"])?;
        playground.access = Access::Kubeconfig(PathBuf::from(kubeconfig.trim()));
        if shape.real_nodes > 0 {
            playground.stand_in()?;
        }
        playground.install()?;
        Ok(playground)
    }

    /// A playground that another process left; taken down when dropped.
    #[must_use]
    pub fn left(environment: &Environment, directory: &Path) -> Self {
        Self {
            environment: environment.clone(),
            directory: directory.to_owned(),
            access: Access::Kubeconfig(directory.join("kubeconfig")),
            keep: false,
        }
    }

    /// A cluster of the user's, by a context of the user's kubeconfig. Nothing is installed there
    /// and nothing is taken down.
    #[must_use]
    pub fn existing(environment: &Environment, context: &str) -> Self {
        Self {
            environment: environment.clone(),
            directory: PathBuf::new(),
            access: Access::Context(context.to_owned()),
            keep: true,
        }
    }

    /// The base image under the names that examples use.
    fn stand_in(&self) -> Result<(), Failure> {
        let Some(image) = self.environment.base_image.clone() else {
            return Ok(());
        };
        let image = image.to_string_lossy().into_owned();
        let names = STAND_INS.iter().flat_map(|name| ["--as", name]);
        let arguments: Vec<&str> = ["load-image", &image].into_iter().chain(names).collect();
        self.ask(&arguments).map(|_| ())
    }

    fn install(&self) -> Result<(), Failure> {
        let project = project();
        let definitions = project.join("crds/generated");
        self.kubectl(&["apply", "--server-side", "-f", &definitions.to_string_lossy()])?;
        self.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "gpujobs.leasehold.dev",
            "gpucards.leasehold.dev",
            "gpuleases.leasehold.dev",
        ])?;
        self.kubectl(&[
            "apply",
            "-f",
            &project.join("charts/leasehold/rbac.yaml").to_string_lossy(),
        ])?;
        self.kubectl(&["apply", "-f", &project.join("examples/cards.yaml").to_string_lossy()])?;
        Ok(())
    }

    /// The administrator's kubeconfig; `None` on a cluster of the user's.
    #[must_use]
    pub fn kubeconfig(&self) -> Option<&Path> {
        match &self.access {
            Access::Kubeconfig(file) => Some(file),
            Access::Context(_) => None,
        }
    }

    /// The option with which kubectl finds this cluster.
    #[must_use]
    pub fn access(&self) -> String {
        match &self.access {
            Access::Kubeconfig(file) => format!("--kubeconfig={}", file.display()),
            Access::Context(context) => format!("--context={context}"),
        }
    }

    /// Where its state lies.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The programs that it was started with.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Leaves it running when this value goes away.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Runs kubectl as the administrator and gives its output.
    ///
    /// # Errors
    /// An exit code other than 0, with what kubectl said.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.kubectl_with(arguments, "")
    }

    /// The same with standard input.
    ///
    /// # Errors
    /// An exit code other than 0, with what kubectl said.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String, Failure> {
        let mut command = Command::new(&self.environment.playground);
        command.arg("kubectl").arg(self.access()).args(arguments);
        answer(&mut command, input, &format!("run kubectl {}", arguments.join(" ")))
    }

    /// Applies YAML as users do.
    ///
    /// # Errors
    /// What the API server refused.
    pub fn apply(&self, namespace: &str, yaml: &str) -> Result<String, Failure> {
        self.kubectl_with(&["apply", "-n", namespace, "-f", "-"], yaml)
    }

    /// An object, or `None` when there is none.
    ///
    /// # Errors
    /// An answer other than the object or "not found".
    pub fn get<T: DeserializeOwned>(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let doing = format!("read {kind} {namespace}/{name}");
        let text = self.kubectl(&[
            "get",
            kind,
            name,
            "-n",
            namespace,
            "-o",
            "json",
            "--ignore-not-found",
        ])?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Failure { doing, said: error.to_string() })
    }

    /// All objects of a kind in a namespace.
    ///
    /// # Errors
    /// An answer that is not a list.
    pub fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Value>, Failure> {
        let text = self.kubectl(&["get", kind, "-n", namespace, "-o", "json"])?;
        let list: Value = serde_json::from_str(&text)
            .map_err(|error| Failure { doing: format!("list {kind}"), said: error.to_string() })?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Sets what the simulated cards of a node do; `reset` makes them well again.
    ///
    /// # Errors
    /// A scenario that the playground does not know.
    pub fn scenario(&self, node: &str, scenario: &Value) -> Result<(), Failure> {
        let mut command = self.command(&["scenario", "--node", node, "-"]);
        answer(&mut command, &scenario.to_string(), "set a scenario").map(|_| ())
    }

    /// Makes the cards of a node well again.
    ///
    /// # Errors
    /// What the playground said.
    pub fn well(&self, node: &str) -> Result<(), Failure> {
        self.ask(&["scenario", "--node", node, "reset"]).map(|_| ())
    }

    /// Kills every process of the playground without a chance to clean up, and tells how many.
    ///
    /// # Errors
    /// A status that cannot be read.
    pub fn kill_all(&self) -> Result<usize, Failure> {
        let status = self.ask(&["status", "-o", "json"])?;
        let status: Value = serde_json::from_str(&status).map_err(|error| Failure {
            doing: "read the status".to_owned(),
            said: error.to_string(),
        })?;
        let processes: Vec<String> = status
            .get("status")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|process| process.get("pid")?.as_u64().map(|pid| pid.to_string()))
            .collect();
        let mut kill = Command::new("kill");
        kill.arg("-9").args(&processes);
        // Killing one may end another before its turn.
        let _ = answer(&mut kill, "", "kill the playground's processes");
        Ok(processes.len())
    }

    /// Stops everything and makes sure that nothing is left.
    ///
    /// # Errors
    /// What is left.
    pub fn down(mut self) -> Result<(), Failure> {
        self.keep = true;
        self.ask(&["down"])?;
        self.ask(&["leftovers"]).map(|_| ())
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, Failure> {
        let doing = format!("run playground {}", arguments.join(" "));
        answer(&mut self.command(arguments), "", &doing)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.environment.playground);
        let (verb, rest) = arguments.split_at(arguments.len().min(1));
        command.args(verb).arg("--dir").arg(&self.directory).args(rest);
        command
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if !self.keep {
            // A failing test is told already; what is left is told by the next `up` or `down`.
            let _ = self.ask(&["down"]);
        }
    }
}

/// The project's folder.
#[must_use]
pub fn project() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

fn answer(command: &mut Command, input: &str, doing: &str) -> Result<String, Failure> {
    let fail = |said: String| Failure { doing: doing.to_owned(), said };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| fail(error.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|error| fail(error.to_string()))?;
    text_of(&output).map_err(fail)
}

fn text_of(output: &Output) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        Ok(text.into_owned())
    } else {
        Err(format!("{}{}", said.trim(), text.trim()))
    }
}

fn run(command: &mut Command, doing: &str, log: &Path) -> Result<(), Failure> {
    let fail = |said: String| Failure { doing: doing.to_owned(), said };
    let file = std::fs::File::create(log).map_err(|error| fail(error.to_string()))?;
    let errors = file.try_clone().map_err(|error| fail(error.to_string()))?;
    let status =
        command.stdout(file).stderr(errors).status().map_err(|error| fail(error.to_string()))?;
    if status.success() {
        Ok(())
    } else {
        Err(fail(std::fs::read_to_string(log).unwrap_or_default()))
    }
}
