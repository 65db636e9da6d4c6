//! Contenders take turns on the same control plane, each alone and with objects of its own.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    Failure,
    contender::Contender,
    counting::{Counts, between, until_quiet},
    ground::Ground,
    kinds::{GPU_LEASE, Kind, POD, WORKLOAD},
    load,
    options::Options,
    report::{Course, Rounds, Turn},
    watching::Watching,
};

/// How long a turn may take.
const LIMIT: Duration = Duration::from_mins(5);
/// Between two looks whether everything is gone.
const PAUSE: Duration = Duration::from_millis(500);

/// All turns. Whoever is first changes from round to round.
pub(crate) async fn run(ground: &Ground, options: &Options) -> Result<Rounds, Failure> {
    let mut rounds = Rounds { objects: options.objects, nodes: options.nodes, turns: Vec::new() };
    let mut contenders = ground.contenders();
    // The first objects of a kind find nothing warm.
    for contender in &contenders {
        turn(ground, *contender, Course::Ends, "warm", options.objects / 4).await?;
    }
    for round in 0..options.rounds {
        for contender in &contenders {
            for course in [Course::Pods, Course::Ends] {
                let name = format!("r{round}");
                let mut turn = turn(ground, *contender, course, &name, options.objects).await?;
                turn.round = round;
                tell(&turn);
                rounds.turns.push(turn);
            }
        }
        tell_ratios(&rounds, round);
        contenders.rotate_left(1);
    }
    Ok(rounds)
}

async fn turn(
    ground: &Ground,
    contender: Contender,
    course: Course,
    name: &str,
    objects: usize,
) -> Result<Turn, Failure> {
    let client = &ground.client;
    let running = ground.begin(contender).await?;
    let processes = ground.processes.with(contender.name(), running.process());
    let (hanging, run_for) = match course {
        Course::Pods => (Some(ground.without_scheduler()?), "6h"),
        Course::Ends => (None, "1s"),
    };
    let made = (0..objects).map(|number| {
        contender.created().object(contender.object(&format!("{name}-{number:05}"), run_for))
    });
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let namespace = contender.namespace();
    let mut done = match course {
        Course::Pods => Watching::existing("pods", POD.names_within(client, namespace)).await,
        Course::Ends => {
            let api = contender.ended().within(client, namespace);
            Watching::until("ends", api, move |object| contender.has_ended(object)).await
        }
    };
    let writes = until_quiet(client).await?;
    let asked = running.requests().await?;
    let cpu = processes.cpu()?;
    let begun = load::create(&contender.created().within(client, namespace), &made).await?;
    let last = done.all(objects, LIMIT).await?;
    let writes = between(&writes, &until_quiet(client).await?);
    let asked = between(&asked, &running.requests().await?);
    let cpu_after = processes.cpu()?;
    let own =
        if running.process().is_some() { contender.name() } else { "kube-controller-manager" };
    let memory_mib = processes.memory()?.get(own).copied().unwrap_or_default();
    drop(done);
    let seconds = last.duration_since(begun).as_secs_f64();
    let each = count(objects);
    let turn = Turn {
        contender,
        course,
        round: 0,
        rate: each / seconds,
        writes: divided(writes, each),
        requests: divided(asked, each),
        cpu_millis: per_object(&cpu, &cpu_after, each),
        memory_mib,
    };
    clear(ground, contender).await?;
    drop((hanging, running));
    Ok(turn)
}

/// Counts per object.
pub(crate) fn divided(counts: Counts, objects: f64) -> Counts {
    counts.into_iter().map(|(what, count)| (what, count / objects)).collect()
}

fn per_object(
    before: &BTreeMap<String, f64>,
    after: &BTreeMap<String, f64>,
    objects: f64,
) -> BTreeMap<String, f64> {
    let differences = after.iter().filter_map(|(process, now)| {
        Some((process.clone(), (now - before.get(process)?) / objects))
    });
    differences.collect()
}

/// Deletes what a turn has left, while whoever had it still runs.
async fn clear(ground: &Ground, contender: Contender) -> Result<(), Failure> {
    let (client, namespace) = (&ground.client, contender.namespace());
    contender.created().delete_all(client, namespace).await?;
    until_gone(ground, contender.created(), namespace).await?;
    until_gone(ground, POD, namespace).await?;
    match contender {
        Contender::Leasehold => {
            GPU_LEASE.delete_all(client, namespace).await?;
            until_gone(ground, GPU_LEASE, namespace).await
        }
        Contender::Kueue => until_gone(ground, WORKLOAD, namespace).await,
        Contender::Job => Ok(()),
    }
}

async fn until_gone(ground: &Ground, kind: Kind, namespace: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let left = kind.count(&ground.client, namespace).await?;
        if left == 0 {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            return Err(format!("{left} {kind:?} of {namespace} do not go away").into());
        }
        sleep(PAUSE).await;
    }
}

fn tell(turn: &Turn) {
    let writes: f64 = turn.writes.values().sum();
    let cpu: f64 = turn.cpu_millis.values().sum();
    println!(
        "round {}, {}: {} {:.1}/s, {writes:.1} writes and {cpu:.1} ms CPU per object",
        turn.round + 1,
        course_name(turn.course),
        turn.contender.name(),
        turn.rate
    );
}

fn tell_ratios(rounds: &Rounds, round: usize) {
    for course in [Course::Pods, Course::Ends] {
        let rate = |contender| {
            rounds.turns(contender, course).find(|turn| turn.round == round).map(|turn| turn.rate)
        };
        for other in [Contender::Job, Contender::Kueue] {
            if let Some((own, other_rate)) = rate(Contender::Leasehold).zip(rate(other)) {
                println!(
                    "round {}, {}: ratio to {}: {:.2}",
                    round + 1,
                    course_name(course),
                    other.name(),
                    own / other_rate
                );
            }
        }
    }
}

/// In a sentence.
pub(crate) const fn course_name(course: Course) -> &'static str {
    match course {
        Course::Pods => "jobs to pods",
        Course::Ends => "jobs to free cards",
    }
}

/// A number of objects to divide by.
#[expect(clippy::cast_precision_loss, reason = "nobody makes more than 2^52 objects")]
pub(crate) fn count(objects: usize) -> f64 {
    objects as f64
}
