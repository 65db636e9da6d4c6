//! A control plane of our own, driven through the playground's program and its kubectl.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    environment::Environment,
    program::{Failure, answer, run},
    reader::Reader,
};

/// The operator's account, whose requests are in the audit log.
pub const OPERATOR: &str = "system:serviceaccount:leasehold-system:leasehold";
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
    reader: OnceLock<Reader>,
    keep: bool,
}

/// How kubectl finds the cluster.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Kubeconfig(PathBuf),
    Context(String),
}

impl Playground {
    /// Starts a control plane in this folder, unless it is up already, and installs definitions,
    /// rights, prices and, on real nodes, images.
    ///
    /// # Errors
    /// A step that failed, with its output.
    pub fn up(
        environment: &Environment,
        directory: &Path,
        shape: Shape<'_>,
    ) -> Result<Self, Failure> {
        Self::up_with(environment, directory, shape, &["--audit", OPERATOR])
    }

    /// The same without an audit log, which takes the API server's time.
    ///
    /// # Errors
    /// As [`Self::up`].
    pub fn up_unaudited(
        environment: &Environment,
        directory: &Path,
        shape: Shape<'_>,
    ) -> Result<Self, Failure> {
        Self::up_with(environment, directory, shape, &[])
    }

    fn up_with(
        environment: &Environment,
        directory: &Path,
        shape: Shape<'_>,
        more: &[&str],
    ) -> Result<Self, Failure> {
        let mut command = Command::new(&environment.playground);
        command.arg("up").arg("--dir").arg(directory);
        command.args(["--nodes", &shape.real_nodes.to_string()]);
        command.args(["--simulated-nodes", &shape.simulated_nodes.to_string()]);
        command.args(["--cards", shape.cards]);
        command.args(more);
        command.arg("--catalog").arg(project().join("operator/core/data/cards.csv"));
        if shape.real_nodes > 0 {
            command
                .args(environment.packages.iter().flat_map(|root| [Path::new("--packages"), root]));
            let images = environment.base_image.iter().chain(&environment.agent_image);
            command.args(images.flat_map(|image| [Path::new("--image"), image]));
        }
        // What was up before this call is not taken down when this value goes away.
        let keep = Self::is_in(directory);
        let log = log_of_up(directory);
        run(command.stdin(Stdio::null()), "start the playground", &log)?;
        let mut playground = Self {
            environment: environment.clone(),
            directory: directory.to_owned(),
            access: Access::Kubeconfig(PathBuf::new()),
            reader: OnceLock::new(),
            keep,
        };
        let kubeconfig = playground.ask(&["kubeconfig"])?;
        playground.access = Access::Kubeconfig(PathBuf::from(kubeconfig.trim()));
        if shape.real_nodes > 0 {
            playground.stand_in()?;
        }
        playground.install()?;
        Ok(playground)
    }

    /// Whether a folder holds a playground, be it whole or not.
    #[must_use]
    pub fn is_in(directory: &Path) -> bool {
        directory.join("playground.json").exists()
    }

    /// A playground that another process left; taken down when dropped.
    #[must_use]
    pub fn left(environment: &Environment, directory: &Path) -> Self {
        Self {
            environment: environment.clone(),
            directory: directory.to_owned(),
            access: Access::Kubeconfig(directory.join("kubeconfig")),
            reader: OnceLock::new(),
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
            reader: OnceLock::new(),
            keep: true,
        }
    }

    /// The base image under the names that examples use.
    fn stand_in(&self) -> Result<(), Failure> {
        match &self.environment.base_image {
            Some(image) => self.load(image, STAND_INS),
            None => Ok(()),
        }
    }

    /// Loads an image into all real nodes, under these names too.
    ///
    /// # Errors
    /// An archive that is no image.
    pub fn load(&self, image: &Path, names: &[&str]) -> Result<(), Failure> {
        let image = image.to_string_lossy();
        let names = names.iter().flat_map(|name| ["--as", name]);
        let arguments: Vec<&str> = ["load-image", &image].into_iter().chain(names).collect();
        self.ask(&arguments).map(|_| ())
    }

    fn install(&self) -> Result<(), Failure> {
        let project = project();
        let definitions = project.join("crds/generated");
        self.kubectl(&["apply", "--server-side", "-f", &definitions.to_string_lossy()])?;
        let established = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
        self.kubectl(&established)?;
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

    /// Settings for the operator, by which pods reach what this machine reaches.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.directory.join("settings.yaml")
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
        let Some(object) = self.reader()?.get(namespace, kind, name)? else { return Ok(None) };
        serde_json::from_value(object).map(Some).map_err(|error| Failure {
            doing: format!("read {kind} {namespace}/{name}"),
            said: error.to_string(),
        })
    }

    /// All objects of a kind in a namespace.
    ///
    /// # Errors
    /// An answer that is not a list.
    pub fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Value>, Failure> {
        self.reader()?.list(namespace, kind)
    }

    fn reader(&self) -> Result<&Reader, Failure> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = Reader::new(&self.access)?;
        Ok(self.reader.get_or_init(|| reader))
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

    /// The mark in the environment of a process that is to end with this playground.
    ///
    /// # Errors
    /// A status that cannot be read.
    pub fn mark(&self) -> Result<(&'static str, String), Failure> {
        let id = self.status()?.pointer("/id").and_then(Value::as_str).map(str::to_owned);
        Ok(("LEASEHOLD_PLAYGROUND", id.unwrap_or_default()))
    }

    /// What its processes are and whether they run.
    pub(crate) fn status(&self) -> Result<Value, Failure> {
        let status = self.ask(&["status", "-o", "json"])?;
        serde_json::from_str(&status).map_err(|error| Failure {
            doing: "read the status".to_owned(),
            said: error.to_string(),
        })
    }

    /// Its processes that are not of a real node, by name.
    ///
    /// # Errors
    /// A status that cannot be read.
    pub fn processes(&self) -> Result<BTreeMap<String, u32>, Failure> {
        let status = self.status()?;
        let all = status.get("processes").and_then(Value::as_array).into_iter().flatten();
        let named = all.filter_map(|process| {
            let number = process.get("pid")?.as_u64()?;
            Some((process.get("name")?.as_str()?.to_owned(), u32::try_from(number).ok()?))
        });
        Ok(named.collect())
    }

    /// Stops everything and makes sure that nothing is left.
    ///
    /// # Errors
    /// What is left.
    pub fn down(mut self) -> Result<(), Failure> {
        self.keep = true;
        self.ask(&["down"])?;
        self.ask(&["leftovers"])?;
        // Its words were for a playground that does not come up.
        let _ = std::fs::remove_file(log_of_up(&self.directory));
        Ok(())
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

/// What starting said; beside the folder, which must be new.
fn log_of_up(directory: &Path) -> PathBuf {
    directory.with_extension("up.log")
}

/// The project's folder.
#[must_use]
pub fn project() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}
