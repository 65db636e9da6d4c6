//! Where the tour takes place: a playground that is taken down again, or a cluster of the user's.
//! And the same playground without the tour.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use leasehold_tests::{
    environment::Environment,
    operator::Operator,
    playground::{AGENT_IMAGE, Playground, Shape, project},
    program::answer,
};

use crate::{
    Act, Failure,
    options::{Options, THE_TOURS_CARDS, usual_directory},
};

const NAMESPACE: &str = "leasehold-demo";
const ON_A_NODE: &[Act] = &[
    Act {
        name: "quickstart",
        released_because: "Completed",
        prints: &["NVIDIA GeForce RTX 4090", "einops 0.8.0"],
    },
    Act { name: "endless", released_because: "MaxRuntimeReached", prints: &["told to stop"] },
];
/// Simulated nodes execute nothing, so that only the lease of a job that ends can be shown.
const ON_SIMULATED_NODES: &[Act] =
    &[Act { name: "quickstart", released_because: "Completed", prints: &[] }];

/// A cluster with the operator in it.
#[derive(Debug)]
pub(crate) struct Ground {
    playground: Playground,
    /// On a playground of the tour's own; ends with it.
    operator: Option<Operator>,
    keep: bool,
    acts: &'static [Act],
}

impl Ground {
    /// The cluster that the options name, with leasehold in it and nothing of an earlier tour.
    pub(crate) fn prepare(options: &Options) -> Result<Self, Failure> {
        let environment = Environment::read("demo")?;
        let ground = match options.context() {
            Some(context) => {
                println!("Using the cluster of context {context}: only namespace {NAMESPACE}.");
                let playground = Playground::existing(&environment, context);
                Self { playground, operator: None, keep: options.keep, acts: ON_A_NODE }
            }
            None => Self::local(&environment, options)?,
        };
        ground.playground.kubectl(&["create", "namespace", NAMESPACE])?;
        Ok(ground)
    }

    fn local(environment: &Environment, options: &Options) -> Result<Self, Failure> {
        let directory = options.directory(environment);
        if Playground::is_in(&directory) {
            let (place, end) = (directory.display(), take_down(environment, &directory));
            return Err(format!(
                "{place} holds a playground already, and the tour starts with a new one: end it with `{end}`"
            )
            .into());
        }
        let (mut playground, nodes) = up(environment, &directory, THE_TOURS_CARDS)?;
        let operator = Operator::start(&playground)?;
        if options.keep {
            playground.keep();
        }
        let acts = match nodes {
            Nodes::Real => ON_A_NODE,
            Nodes::Simulated => ON_SIMULATED_NODES,
        };
        Ok(Self { playground, operator: Some(operator), keep: options.keep, acts })
    }

    pub(crate) fn acts(&self) -> &'static [Act] {
        self.acts
    }

    pub(crate) fn apply(&self, act: &Act) -> Result<(), Failure> {
        let file = example(act);
        println!("\n$ kubectl apply -f examples/{}.yaml", act.name);
        print!("{}", self.kubectl(&["apply", "-f", &file.to_string_lossy()])?);
        Ok(())
    }

    /// Runs kubectl in the tour's namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, Failure> {
        Ok(self.playground.kubectl(&[&["-n", NAMESPACE], arguments].concat())?)
    }

    /// An object of the tour's namespace.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(
        &self,
        kind: &str,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        Ok(self.playground.get(NAMESPACE, kind, name)?)
    }

    /// Takes down what the tour started, or says how to go on.
    pub(crate) fn leave(self) -> Result<(), Failure> {
        let Self { playground, operator, keep, .. } = self;
        match (operator, keep) {
            (Some(operator), true) => {
                operator.leave_running();
                println!("\nEverything is left up, the operator too. To go on in this shell:");
                print!("{}", lines_for_a_shell(&playground));
                let end = take_down(playground.environment(), playground.directory());
                println!("To end it all:\n{end}");
            }
            (Some(operator), false) => {
                drop(operator);
                playground.down()?;
                println!("\nEverything is taken down, nothing is left.");
            }
            (None, true) => println!("\nNamespace {NAMESPACE} is left."),
            (None, false) => {
                playground.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
                println!("\nNamespace {NAMESPACE} is being deleted.");
            }
        }
        Ok(())
    }
}

/// Starts a playground, leaves it up and prints the lines with which a shell uses it.
pub(crate) fn playground(options: &Options, cards: &str) -> Result<(), Failure> {
    let environment = Environment::read("playground")?;
    let directory = options.directory(&environment);
    let (mut playground, _) = up(&environment, &directory, cards)?;
    playground.keep();
    eprintln!("It is up: run the lines below in your shell and, unless an operator runs already,");
    // Nobody has asked for its pages, and their usual port is often taken.
    eprintln!(
        "\"$LEASEHOLD_OPERATOR\" run --agent-image {AGENT_IMAGE} --settings \"$LEASEHOLD_SETTINGS\" --listen none &"
    );
    print!("{}", lines_for_a_shell(&playground));
    Ok(())
}

/// What executes the pods of a playground.
#[derive(Clone, Copy)]
enum Nodes {
    Real,
    Simulated,
}

/// A playground with one real node, or simulated ones where this machine allows none: not both,
/// since a pod does not choose between them.
fn up(
    environment: &Environment,
    directory: &Path,
    cards: &str,
) -> Result<(Playground, Nodes), Failure> {
    let script = project().join("tests/setup/real-node");
    let obstacle = answer(&mut Command::new(script), "", "look whether a node can be started")?;
    let (nodes, shape) = if obstacle.trim().is_empty() {
        if environment.agent_image.is_none() {
            return Err("the agent's image is missing: run `make agent`".into());
        }
        eprintln!("Starting a control plane and a node with a real kubelet, containerd and runc.");
        eprintln!("Its cards are simulated: device files and an nvidia-smi that answers.");
        eprintln!(
            "No image registry is asked: a small Debian with Python stands in for python:3.11-slim."
        );
        (Nodes::Real, Shape { real_nodes: 1, simulated_nodes: 0, cards })
    } else {
        eprintln!("Starting a control plane with SIMULATED NODES ONLY: {}.", obstacle.trim());
        eprintln!("Pods are scheduled and paid for there, but no program is executed.");
        (Nodes::Simulated, Shape { real_nodes: 0, simulated_nodes: 2, cards })
    };
    if let Some(parent) = directory.parent() {
        std::fs::create_dir_all(parent)?;
    }
    Ok((Playground::up(environment, directory, shape)?, nodes))
}

fn lines_for_a_shell(playground: &Playground) -> String {
    let environment = playground.environment();
    let kubeconfig = playground.kubeconfig().unwrap_or(Path::new(""));
    format!(
        "export KUBECONFIG={}\nexport LEASEHOLD_OPERATOR={}\nexport LEASEHOLD_SETTINGS={}\nkubectl() {{ {} kubectl \"$@\"; }}\n",
        quoted(kubeconfig),
        quoted(&environment.operator),
        quoted(&playground.settings()),
        quoted(&environment.playground)
    )
}

fn take_down(environment: &Environment, directory: &Path) -> String {
    let other = if directory == usual_directory(environment) {
        String::new()
    } else {
        format!(" PLAYGROUND_DIR={}", quoted(directory))
    };
    format!("make playground-down{other}")
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

fn example(act: &Act) -> PathBuf {
    project().join("examples").join(format!("{}.yaml", act.name))
}
