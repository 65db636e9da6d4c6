//! `leasehold`: the operator's binary.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{ArgAction, Args, Parser, Subcommand};
use hyper::header::{HeaderValue, USER_AGENT};
use kube::{
    Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use leasehold::{
    calls::Counting,
    clock::{Clock, SystemClock},
    context::Context,
    leadership::{
        Leadership,
        election::{Election, NAMESPACE},
        fence::Fence,
    },
    logging::{self, LogFormat},
    metrics::Metrics,
    run::{Ended, run},
    server_time::ServerTime,
    service::{Listen, Service},
    tasks::Tasks,
};
use leasehold_crds::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Leases GPUs on Kubernetes and always gives them back.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator until SIGTERM or SIGINT.
    Run(RunArguments),
}

#[derive(Args)]
struct RunArguments {
    /// The kubeconfig to use; by default $KUBECONFIG, then ~/.kube/config, then the pod's account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The image that brings the agent into pods.
    #[arg(long, value_name = "IMAGE", default_value = concat!("leasehold.dev/agent:", env!("CARGO_PKG_VERSION")))]
    agent_image: String,
    /// What the installation decides for all jobs, in YAML; without it everything has its default.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Whether operators of one cluster agree on one of them that acts; the others wait. Say false
    /// only where no other operator can run.
    #[arg(
        long,
        value_name = "true|false",
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    leader_election: bool,
    /// The namespace of the Lease `leasehold` by which they agree; by default the pod's own, and
    /// outside of pods leasehold-system.
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// Where to serve /livez, /readyz and /metrics: an IP address with a port, where port 0 means
    /// any free one, or none.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: Listen,
    /// The shape of log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Which log lines are written: error, warn, info, debug or trace, also by module
    /// (info,leasehold=debug).
    #[arg(long, value_name = "LEVELS", env = "RUST_LOG", default_value = logging::DEFAULT_LEVEL)]
    log_level: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    // kube's TLS needs one process-wide provider; ring is the only one in the tree.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Command::Run(arguments) = Arguments::parse().command;
    if let Err(error) = logging::begin(arguments.log_format, &arguments.log_level) {
        eprintln!("leasehold: {error}");
        return ExitCode::FAILURE;
    }
    match operate(arguments).await {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error}");
            if error.downcast_ref::<Ended>().is_some() {
                // The runtime would wait for what blocks, for example for the name of a server that
                // does not answer; whoever starts the operator again must not.
                std::process::exit(1);
            }
            ExitCode::FAILURE
        }
    }
}

async fn operate(arguments: RunArguments) -> Result<(), Box<dyn std::error::Error>> {
    let signals = Signals::listen()?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "leasehold begins");
    let settings = settings(arguments.settings.as_deref())?;
    let mut config = configuration(&arguments).await?;
    // Retries are the queue's: silent ones inside the client would hide outages from it.
    config.default_retry = false;
    let identity = identity();
    // Which of several operators made a request stands in the server's audit log.
    let agent = format!("leasehold/{} ({identity})", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::try_from(agent)?));
    let metrics = Metrics::default();
    let counting = Counting(metrics.clone());
    let machine: Arc<dyn Clock> = Arc::new(SystemClock);
    let clock = ServerTime::new(machine.clone());
    let leadership = if arguments.leader_election {
        Leadership::elected(machine)
    } else {
        Leadership::alone(machine)
    };
    // Connections of its own, so that a renewal never waits behind other requests.
    let free =
        ClientBuilder::try_from(config.clone())?.with_layer(&counting).with_layer(&clock).build();
    let fenced = ClientBuilder::try_from(config)?
        .with_layer(&Fence(leadership.clone()))
        .with_layer(&counting)
        .with_layer(&clock)
        .build();
    let election = arguments.leader_election.then(|| Election {
        client: free.clone(),
        namespace: arguments.leader_election_namespace.unwrap_or_else(own_namespace),
        identity,
    });
    let (agent, clock) = (arguments.agent_image, Arc::new(clock));
    let context = Context::new(fenced, clock, leadership, settings, agent, metrics);
    let context = Arc::new(context);
    let mut tasks = Tasks::default();
    if let Listen::At(address) = arguments.listen {
        let service = Service::listen(address, context.clone()).await?;
        tasks.spawn("the HTTP server", service.run());
    }
    let stop = CancellationToken::new();
    tokio::spawn(signals.obey(context.clone(), stop.clone()));
    Ok(run(context, free, election, tasks, stop).await?)
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {},
            _ = self.interrupt.recv() => {},
        }
    }

    /// The first one ends the operator in order, the second one at once.
    async fn obey(mut self, context: Arc<Context>, stop: CancellationToken) {
        self.next().await;
        tracing::info!("told to end; finishing passes that are under way");
        context.health.ending();
        stop.cancel();
        self.next().await;
        tracing::warn!("told to end again; passes under way are cut off");
        std::process::exit(1);
    }
}

/// A name for this process alone: one that is started again is another one.
fn identity() -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    // Of the name only what a header can carry.
    let host = host.unwrap_or_default().replace(|one: char| !one.is_ascii_graphic(), "-");
    format!("{host}_{:016x}", rand::random::<u64>())
}

/// The namespace of the pod that this is, or where the chart places one.
fn own_namespace() -> String {
    let own = std::fs::read_to_string("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
    let own = own.unwrap_or_default().trim().to_owned();
    if own.is_empty() { NAMESPACE.to_owned() } else { own }
}

fn settings(file: Option<&Path>) -> Result<Settings, String> {
    let Some(file) = file else {
        return Ok(Settings::default());
    };
    let blame = |error: &dyn std::fmt::Display| format!("settings {}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| blame(&error))?;
    Settings::read(&text).map_err(|error| blame(&error))
}

async fn configuration(arguments: &RunArguments) -> Result<Config, Box<dyn std::error::Error>> {
    let options =
        KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    Ok(match &arguments.kubeconfig {
        Some(file) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
        }
        None if arguments.context.is_some() => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    })
}
