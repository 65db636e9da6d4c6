//! The operator is started again while many ended jobs, with their leases in the ledger, are there.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Failure,
    contender::Contender,
    counting::{requests, sum, until_quiet},
    ground::{Ground, until_ready},
    kinds::{GPU_JOB, GPU_LEASE, Kind, POD},
    load::{AT_ONCE, create},
    options::Options,
    processes::Processes,
    report::{Restart, Start},
    rounds::count,
    watching::Watching,
};

const NAMESPACE: &str = Contender::Leasehold.namespace();
/// The job of which the others are copies; its name is found again in all that is said of it.
const EXAMPLE: &str = "the-job-that-ended";
/// How long a start may take.
const LIMIT: Duration = Duration::from_mins(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts it without and with them.
pub(crate) async fn run(ground: &Ground, options: &Options) -> Result<Restart, Failure> {
    let (job, lease) = example(ground).await?;
    let without = start(ground, "first", 1).await?;
    println!("restart: making {} ended jobs and their leases", options.ended);
    fill(ground, &job, &lease, options.ended).await?;
    until_quiet(&ground.client).await?;
    let with = start(ground, "second", options.ended).await?;
    println!(
        "restart with {} ended jobs and as many leases: ready after {:.1} s, a new job has its pod after {:.1} s, all seen after {:.1} s, {:.0} MiB",
        options.ended, with.ready_seconds, with.pod_seconds, with.drained_seconds, with.memory_mib
    );
    Ok(Restart { jobs: options.ended, with, without })
}

/// A job that has really ended, with its sealed lease.
async fn example(ground: &Ground) -> Result<(DynamicObject, DynamicObject), Failure> {
    let operator = ground.ready_operator().await?;
    let jobs = GPU_JOB.within(&ground.client, NAMESPACE);
    let leases = GPU_LEASE.within(&ground.client, NAMESPACE);
    create(&jobs, &[job(EXAMPLE)?]).await?;
    let is_sealed = |lease: &DynamicObject| lease.labels().contains_key("leasehold.dev/state");
    Watching::until("sealed leases", leases.clone(), is_sealed).await.all(1, LIMIT).await?;
    until_quiet(&ground.client).await?;
    drop(operator);
    Ok((jobs.get(EXAMPLE).await?, leases.get(&format!("{EXAMPLE}-r0-a1")).await?))
}

fn job(name: &str) -> Result<DynamicObject, Failure> {
    GPU_JOB.object(Contender::Leasehold.object(name, "1s"))
}

/// Starts the operator, which finds a new job and so many others.
pub(crate) async fn start(ground: &Ground, name: &str, holders: usize) -> Result<Start, Failure> {
    let mut pods = Watching::existing("pods", POD.names_within(&ground.client, NAMESPACE)).await;
    let known = pods.count();
    create(&GPU_JOB.within(&ground.client, NAMESPACE), &[job(name)?]).await?;
    let begun = Instant::now();
    let started = ground.operator().await?;
    until_ready(&started.pages).await?;
    let ready = begun.elapsed();
    loop {
        let passes = sum(&started.pages, "leasehold_passes_total").await?;
        let waiting = sum(&started.pages, "leasehold_queue_depth").await?;
        if passes > count(holders) && waiting < 0.5 {
            break;
        }
        if begun.elapsed() > LIMIT {
            return Err(format!("after {passes} passes {waiting} holders wait").into());
        }
        sleep(PAUSE).await;
    }
    let drained = begun.elapsed();
    let pod = pods.all(known + 1, LIMIT).await?.duration_since(begun);
    let own = Processes::default().with("leasehold", Some(started.operator.process()));
    let cpu_millis: f64 = own.cpu()?.values().sum();
    Ok(Start {
        ready_seconds: ready.as_secs_f64(),
        pod_seconds: pod.as_secs_f64(),
        drained_seconds: drained.as_secs_f64(),
        passes: sum(&started.pages, "leasehold_passes_total").await?,
        cpu_seconds: cpu_millis / 1_000.0,
        memory_mib: own.memory()?.values().sum(),
        requests: requests(&started.pages).await?,
    })
}

/// Copies of a job and its lease, as if each had run.
async fn fill(
    ground: &Ground,
    job: &DynamicObject,
    lease: &DynamicObject,
    copies: usize,
) -> Result<(), Failure> {
    let jobs = GPU_JOB.within(&ground.client, NAMESPACE);
    let leases = GPU_LEASE.within(&ground.client, NAMESPACE);
    let example_uid = job.uid().unwrap_or_default();
    let (jobs, leases, example_uid) = (&jobs, &leases, &example_uid);
    stream::iter(0..copies)
        .map(|number| async move {
            let name = format!("ended-{number:05}");
            let names = [(EXAMPLE, name.as_str())];
            let stored = copy(GPU_JOB, jobs, job, &names).await?;
            let uid = stored.uid().unwrap_or_default();
            let names = [(EXAMPLE, name.as_str()), (example_uid.as_str(), uid.as_str())];
            copy(GPU_LEASE, leases, lease, &names).await.map(|_| ())
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

/// Stores an object like this one, in which some words are others; with its status.
async fn copy(
    kind: Kind,
    api: &Api<DynamicObject>,
    of: &DynamicObject,
    words: &[(&str, &str)],
) -> Result<DynamicObject, Failure> {
    let mut text = serde_json::to_string(&of.data)?;
    for (word, other) in words {
        text = text.replace(word, other);
    }
    let mut name = of.name_any();
    for (word, other) in words {
        name = name.replace(word, other);
    }
    let content: Value = serde_json::from_str(&text)?;
    let mut new = json!({"metadata": {"name": name, "labels": of.labels()}});
    if let (Some(new), Some(spec)) = (new.as_object_mut(), content.get("spec")) {
        new.insert("spec".into(), spec.clone());
    }
    let mut stored = api.create(&PostParams::default(), &kind.object(new)?).await?;
    if let (Some(data), Some(status)) = (stored.data.as_object_mut(), content.get("status")) {
        data.insert("status".into(), status.clone());
    }
    Ok(api.replace_status(&name, &PostParams::default(), &stored).await?)
}
