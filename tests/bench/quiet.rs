//! Many leases are held, and nothing happens: what that costs.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::{
    Failure,
    contender::Contender,
    counting::{between, requests, until_quiet, writes},
    ground::Ground,
    kinds::{GPU_JOB, GPU_LEASE},
    load,
    options::Options,
    processes::Processes,
    report::Quiet,
    restart::start,
    rounds::{count, divided},
    watching::Watching,
};

const NAMESPACE: &str = Contender::Leasehold.namespace();
/// How long it may take until all are held.
const LIMIT: Duration = Duration::from_mins(20);

/// Fills the cluster, then listens.
pub(crate) async fn run(ground: &Ground, options: &Options) -> Result<Quiet, Failure> {
    let client = &ground.client;
    let started = ground.ready_operator().await?;
    let own = Processes::default().with("leasehold", Some(started.operator.process()));
    let jobs = (0..options.held).map(|number| {
        GPU_JOB.object(Contender::Leasehold.object(&format!("held-{number:05}"), "6h"))
    });
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let api = GPU_LEASE.within(client, NAMESPACE);
    let is_held = |lease: &kube::api::DynamicObject| {
        lease.data.pointer("/status/state") == Some(&json!("Held"))
    };
    let mut held = Watching::until("held leases", api, is_held).await;
    let before = until_quiet(client).await?;
    let begun = load::create(&GPU_JOB.within(client, NAMESPACE), &jobs).await?;
    let filled = held.all(options.held, LIMIT).await?.duration_since(begun).as_secs_f64();
    drop(held);
    println!("quiet: {} leases are held after {filled:.0} s", options.held);
    let to_run = between(&before, &until_quiet(client).await?);
    let (cpu, asked, written) =
        (own.cpu()?, requests(&started.pages).await?, writes(client).await?);
    sleep(Duration::from_secs(options.quiet_seconds)).await;
    let written = between(&written, &writes(client).await?);
    let asked = between(&asked, &requests(&started.pages).await?);
    let cpu: f64 = own.cpu()?.values().sum::<f64>() - cpu.values().sum::<f64>();
    let memory_mib = own.memory()?.values().sum();
    drop(started);
    let seconds = f64::from(u32::try_from(options.quiet_seconds)?);
    let quiet = Quiet {
        leases: options.held,
        seconds,
        held_per_second: count(options.held) / filled,
        writes_to_run: divided(to_run, count(options.held)),
        requests: asked,
        writes: written,
        cpu_millis_per_second: cpu / seconds,
        memory_mib,
        start: start(ground, "after-the-quiet", options.held).await?,
    };
    println!(
        "quiet: {:.0} writes in {seconds:.0} s with {} held leases, {:.1} ms CPU per second, {:.0} MiB; started again: ready after {:.1} s, all seen after {:.1} s",
        quiet.writes.values().sum::<f64>(),
        quiet.leases,
        quiet.cpu_millis_per_second,
        quiet.memory_mib,
        quiet.start.ready_seconds,
        quiet.start.drained_seconds,
    );
    Ok(quiet)
}
