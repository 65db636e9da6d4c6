//! `leasehold`: the operator's binary.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Parser, Subcommand};
use kube::{
    Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use leasehold::{
    calls::Counting,
    clock::SystemClock,
    context::Context,
    logging::{self, LogFormat},
    metrics::Metrics,
    run::run,
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
    let metrics = Metrics::default();
    let counting = Counting(metrics.clone());
    let clock = ServerTime::new(Arc::new(SystemClock));
    let client = ClientBuilder::try_from(config)?.with_layer(&counting).with_layer(&clock).build();
    let context =
        Context::new(client.clone(), Arc::new(clock), settings, arguments.agent_image, metrics);
    let context = Arc::new(context);
    let mut tasks = Tasks::default();
    if let Listen::At(address) = arguments.listen {
        let service = Service::listen(address, context.clone()).await?;
        tasks.spawn("the HTTP server", service.run());
    }
    let stop = CancellationToken::new();
    tokio::spawn(signals.obey(context.clone(), stop.clone()));
    Ok(run(context, client, tasks, stop).await?)
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
