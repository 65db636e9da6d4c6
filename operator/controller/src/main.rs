//! `leasehold`: the operator's binary.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use leasehold::{
    clock::SystemClock,
    cluster::Cluster,
    context::{Context, Refusals},
    index::Index,
    run::{holder_of_job, holder_of_lease, holder_of_pod, holder_of_request, run},
    supply::Supply,
};
use leasehold_crds::Settings;
use tokio::signal::unix::{SignalKind, signal};

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
}

#[tokio::main]
async fn main() -> ExitCode {
    // kube's TLS needs one process-wide provider; ring is the only one in the tree.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let filter =
        tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let Command::Run(arguments) = Arguments::parse().command;
    match operate(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn operate(arguments: RunArguments) -> Result<(), Box<dyn std::error::Error>> {
    let settings = settings(arguments.settings.as_deref())?;
    let mut config = configuration(&arguments).await?;
    // Retries are the queue's: silent ones inside the client would hide outages from it.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {},
            _ = interrupt.recv() => {},
        }
        tracing::info!("told to end; finishing passes that are under way");
    };
    tokio::pin!(stop);
    tokio::select! {
        () = &mut stop => return Ok(()),
        () = api_server(&client) => {}
    }
    let context = Context {
        cluster: Cluster::new(client),
        clock: Arc::new(SystemClock),
        settings,
        agent_image: arguments.agent_image,
        jobs: Index::new(holder_of_job),
        leases: Index::new(holder_of_lease),
        requests: Index::new(holder_of_request),
        pods: Index::new(holder_of_pod),
        supply: Supply::default(),
        refusals: Refusals::default(),
    };
    run(Arc::new(context), stop).await?;
    Ok(())
}

/// Waits until the API server answers: it may be started after the operator.
async fn api_server(client: &Client) {
    loop {
        match client.apiserver_version().await {
            Ok(version) => {
                tracing::info!(server = version.git_version, "the API server answers");
                return;
            }
            Err(error) => tracing::warn!(%error, "the API server does not answer yet"),
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
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
