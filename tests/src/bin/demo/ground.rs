//! Where the tour takes place: a playground that is taken down again, or a cluster of the user's.

use std::path::PathBuf;

use leasehold_tests::{
    environment::{Environment, setting},
    operator::Operator,
    playground::{Playground, Shape, project},
};

use crate::{Act, Failure};

const NAMESPACE: &str = "leasehold-demo";
const ON_A_NODE: &[Act] = &[
    Act { name: "quickstart", released_because: "Completed", prints: "NVIDIA GeForce RTX 4090" },
    Act { name: "endless", released_because: "MaxRuntimeReached", prints: "told to stop" },
];
/// Simulated nodes execute nothing, so that only the lease of a job that ends can be shown.
const ON_SIMULATED_NODES: &[Act] =
    &[Act { name: "quickstart", released_because: "Completed", prints: "" }];

/// A cluster with the operator in it.
#[derive(Debug)]
pub(crate) struct Ground {
    playground: Playground,
    local: Option<Local>,
    acts: &'static [Act],
}

/// What this process started.
#[derive(Debug)]
struct Local {
    /// Ends the operator when the tour is over.
    operator: Operator,
    keep: bool,
}

impl Ground {
    pub(crate) fn prepare() -> Result<Self, Failure> {
        let environment = Environment::read("demo")?;
        let ground = match setting("CONTEXT") {
            Some(context) => Self::existing(&environment, &context)?,
            None => Self::local(&environment)?,
        };
        ground.playground.kubectl(&["create", "namespace", NAMESPACE])?;
        Ok(ground)
    }

    fn existing(environment: &Environment, context: &str) -> Result<Self, Failure> {
        let playground = Playground::existing(environment, context);
        playground.kubectl(&["get", "crd", "gpujobs.leasehold.dev"]).map_err(|error| {
            format!(
                "leasehold is not installed in the cluster of context {context}: apply crds/generated, \
                 charts/leasehold/rbac.yaml and a price list such as examples/cards.yaml, and start the operator there ({error})"
            )
        })?;
        println!("Using the cluster of context {context}; only namespace {NAMESPACE} is touched.");
        Ok(Self { playground, local: None, acts: ON_A_NODE })
    }

    fn local(environment: &Environment) -> Result<Self, Failure> {
        let real = is_root() && environment.packages.is_some() && environment.agent_image.is_some();
        let shape = if real {
            println!(
                "Starting a control plane and a node with a real kubelet, containerd and runc."
            );
            println!(
                "Its four RTX 4090 are simulated: device files and an nvidia-smi that answers."
            );
            println!(
                "No image registry is asked: a small Debian with Python stands in for python:3.11-slim."
            );
            Shape { real_nodes: 1, simulated_nodes: 0, cards: "rtx4090:4" }
        } else {
            println!("Starting a control plane with SIMULATED NODES ONLY: a real node needs root.");
            println!("Pods are scheduled and paid for there, but no program is executed.");
            Shape { real_nodes: 0, simulated_nodes: 1, cards: "rtx4090:4" }
        };
        let runs = environment.cache.join("run");
        std::fs::create_dir_all(&runs)?;
        let mut playground = Playground::up(environment, &runs.join("demo"), shape)?;
        let operator = Operator::start(&playground)?;
        let keep = setting("KEEP").is_some_and(|keep| keep == "1");
        if keep {
            playground.keep();
        }
        let acts = if real { ON_A_NODE } else { ON_SIMULATED_NODES };
        Ok(Self { playground, local: Some(Local { operator, keep }), acts })
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
        let Some(local) = self.local else {
            self.playground.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
            println!("\nNamespace {NAMESPACE} is being deleted.");
            return Ok(());
        };
        if local.keep {
            let program = self.playground.environment().playground.display().to_string();
            println!("\nEverything is left up. To go on:");
            println!(
                "  {program} kubectl {} -n {NAMESPACE} get gpujobs,gpuleases,pods",
                self.playground.access()
            );
            println!("To end it:");
            println!("  kill {}", local.operator.leave_running());
            println!("  {program} down --dir {}", self.playground.directory().display());
            return Ok(());
        }
        drop(local);
        self.playground.down()?;
        println!("\nEverything is taken down, nothing is left.");
        Ok(())
    }
}

fn example(act: &Act) -> PathBuf {
    project().join("examples").join(format!("{}.yaml", act.name))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
