//! What has to be right after a week, whatever happened in it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use leasehold_core::{lease::LeaseState, money::Money};
use leasehold_crds::{GpuJob, GpuLease, GpuLeaseStatus, ledger, names};
use leasehold_tests::world::{
    cluster::Cluster,
    witness::{Seen, Witness},
};

use super::story::{Event, Happening, Spec, Story};

/// Kubernetes cuts times to seconds, at both ends of a period.
const CUTS: SignedDuration = SignedDuration::from_secs(2);

/// The first thing that is wrong.
pub(super) fn of(story: &Story, cluster: &Cluster, witness: &Witness) -> Result<(), String> {
    let leases = cluster.leases();
    nothing_is_left(cluster, &leases)?;
    for lease in &leases {
        let status = lease.status.clone().unwrap_or_default();
        let wrong = |why: &str| format!("{why}: {}", told(lease));
        let pods: Vec<(&str, &Seen)> =
            witness.pods().filter(|(uid, _)| status.pod_uid.as_deref() == Some(uid)).collect();
        match ledger::state(lease) {
            Ok(LeaseState::Void) if was_never_bound(witness, lease) => {}
            Ok(LeaseState::Closed) => {
                let [(_, pod)] = pods.as_slice() else {
                    return Err(wrong("a lease that is not of one pod"));
                };
                no_longer_than_it_may(pod).map_err(wrong)?;
                as_the_pod_was(&status, pod).map_err(|why| wrong(&format!("{why}, {pod:?}")))?;
                bill(lease, &status).map_err(wrong)?;
            }
            _ => return Err(wrong("a lease that is not as it should be in the end")),
        }
    }
    every_pod_is_on_one_lease(witness, &leases)?;
    no_two_at_once(witness, &leases)?;
    nobody_is_cut_short(story, &leases)?;
    no_run_costs_more_than_its_limit(story, &leases)?;
    no_run_that_has_ended_runs_again(&leases)?;
    for object in cluster.all("GpuJob") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(job) = cluster.read_job(name) {
            status(&job, &leases).map_err(|why| format!("{why}: {:?}", job.status))?;
        }
    }
    Ok(())
}

/// No pod of a lease's name was on a node; the status of a void lease names none.
fn was_never_bound(witness: &Witness, lease: &GpuLease) -> bool {
    let mut mine =
        witness.pods().filter(|(_, pod)| lease.metadata.name.as_ref() == Some(&pod.name));
    mine.all(|(_, pod)| pod.node.is_none())
}

fn nothing_is_left(cluster: &Cluster, leases: &[GpuLease]) -> Result<(), String> {
    if let Some(pod) = cluster.all("Pod").first() {
        return Err(format!("a pod is left: {pod}"));
    }
    for lease in leases {
        let labels = lease.metadata.labels.as_ref();
        let state = labels.and_then(|labels| labels.get(names::LABEL_STATE));
        if state.is_none() || lease.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty())
        {
            return Err(format!("a lease is not sealed: {}", told(lease)));
        }
    }
    Ok(())
}

/// Whatever fails, the kubelet ends a pod at its ceiling, or after its deletion.
fn no_longer_than_it_may(pod: &Seen) -> Result<(), &'static str> {
    let longest = SignedDuration::from_secs(pod.ceiling + pod.grace) + CUTS;
    match pod.bound_at.zip(pod.ended_at) {
        Some((from, to)) if to.duration_since(from) > longest => {
            Err("its pod held cards beyond its ceiling")
        }
        _ => Ok(()),
    }
}

/// The times of a lease are those of its pod, where somebody knew them.
fn as_the_pod_was(status: &GpuLeaseStatus, pod: &Seen) -> Result<(), &'static str> {
    let held = time(status.held_at.as_ref());
    if held != pod.bound_at {
        return Err("it was not held from the binding on");
    }
    match status.end_known.as_deref() {
        Some("Kubelet") if time(status.running_at.as_ref()) != pod.started_at => {
            Err("its program did not start then")
        }
        Some("Kubelet") if time(status.ended_at.as_ref()) == pod.ended_at => Ok(()),
        Some("Kubelet") => Err("it did not end with its last container"),
        Some("NodeLost" | "Lost") if !pod.node_was_silent => Err("its node was never silent"),
        _ if time(status.ended_at.as_ref()) < held => Err("it ended before it began"),
        _ => Ok(()),
    }
}

/// What was charged is the price of the time that was held, at most what was reserved; the rest was
/// absorbed.
fn bill(lease: &GpuLease, status: &GpuLeaseStatus) -> Result<(), &'static str> {
    let terms = ledger::terms(lease).map_err(|_| "its terms cannot be read")?;
    let (Some(held), Some(ended)) = (time(status.held_at.as_ref()), time(status.ended_at.as_ref()))
    else {
        return Err("it has no times");
    };
    let charged = money(status.charged.as_ref());
    let cost = terms.rate().cost(ended.duration_since(held));
    if charged > terms.reserved {
        return Err("more was charged than was reserved");
    }
    if charged.plus(money(status.absorbed.as_ref())) != cost {
        return Err("what was charged and absorbed is not the cost");
    }
    let is_paid = status.paid_by.as_deref() == Some("User");
    let reason = status.released_because.as_deref();
    if !is_paid && matches!(reason, Some("Completed" | "CommandFailed" | "MaxRuntimeReached")) {
        return Err("a program that ran is paid by nobody");
    }
    if reason == Some("Completed") && charged != cost.min(terms.reserved) {
        return Err("a program that completed is not charged for its time");
    }
    if !is_paid && charged != Money::ZERO {
        return Err("the infrastructure failed, and somebody was charged");
    }
    Ok(())
}

/// No card was held beside the ledger.
fn every_pod_is_on_one_lease(witness: &Witness, leases: &[GpuLease]) -> Result<(), String> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for status in leases.iter().filter_map(|lease| lease.status.as_ref()) {
        if let (Some(uid), "Closed") = (status.pod_uid.as_deref(), status.state.as_str()) {
            *known.entry(uid).or_default() += 1;
        }
    }
    for (uid, pod) in witness.pods().filter(|(_, pod)| pod.node.is_some()) {
        if known.get(uid) != Some(&1) {
            return Err(format!(
                "a pod that held cards is on {:?} leases: {pod:?}",
                known.get(uid)
            ));
        }
    }
    Ok(())
}

/// A job never has two pods at once, but for one on a node that nobody hears.
fn no_two_at_once(witness: &Witness, leases: &[GpuLease]) -> Result<(), String> {
    let holder = |pod: &Seen| {
        let lease = leases.iter().find(|lease| lease.metadata.name.as_ref() == Some(&pod.name));
        lease.map(|lease| lease.spec.holder.name.clone())
    };
    let mut periods: BTreeMap<String, Vec<(Timestamp, Timestamp, &Seen)>> = BTreeMap::new();
    for (_, pod) in witness.pods().filter(|(_, pod)| !pod.node_was_silent) {
        if let (Some(name), Some(from), Some(to)) = (holder(pod), pod.bound_at, pod.ended_at) {
            periods.entry(name).or_default().push((from, to, pod));
        }
    }
    for periods in periods.values_mut() {
        periods.sort_by_key(|(from, _, _)| *from);
        for two in periods.windows(2) {
            if let [(_, end, first), (begin, _, second)] = two
                && begin < end
            {
                return Err(format!("two pods at once: {first:?} and {second:?}"));
            }
        }
    }
    Ok(())
}

/// Who is stopped at a limit had what the tightest limit of its job gives.
fn nobody_is_cut_short(story: &Story, leases: &[GpuLease]) -> Result<(), String> {
    for lease in leases {
        let status = lease.status.clone().unwrap_or_default();
        let specs = || specs_of(story, &lease.spec.holder.name);
        let mine: Vec<&GpuLease> =
            leases.iter().filter(|other| is_same_run(other, lease)).collect();
        let is_short = match status.released_because.as_deref() {
            Some("MaxRuntimeReached") => {
                let ran: SignedDuration = mine.iter().map(|lease| ran(lease)).sum();
                let least = specs().map(Spec::max_runtime).min().unwrap_or(0);
                ran + CUTS < SignedDuration::from_secs(least)
            }
            Some("BudgetExhausted") => {
                let spent: i64 = mine.iter().map(|lease| charged(lease).micros()).sum();
                let least = specs().filter_map(Spec::limit).min().unwrap_or(0);
                // A second before the end of the money, and the grace period after it, are not spent.
                let reserve = ledger::terms(lease)
                    .map_or(Money::ZERO, |terms| terms.rate().cost(SignedDuration::from_secs(60)));
                spent + reserve.micros() < least
            }
            Some("NodeCouldNotStart" | "PodUnbound") => true,
            _ => false,
        };
        if is_short {
            return Err(format!("it was cut short: {}", told(lease)));
        }
    }
    Ok(())
}

/// All attempts of a run together are charged no more than the highest limit that its job ever had.
fn no_run_costs_more_than_its_limit(story: &Story, leases: &[GpuLease]) -> Result<(), String> {
    for lease in leases {
        let limits: Option<Vec<i64>> =
            specs_of(story, &lease.spec.holder.name).map(Spec::limit).collect();
        let Some(highest) = limits.and_then(|limits| limits.into_iter().max()) else { continue };
        let mine = leases.iter().filter(|other| is_same_run(other, lease));
        let spent: i64 = mine.map(|lease| charged(lease).micros()).sum();
        if spent > highest {
            return Err(format!("its run has cost {spent} of {highest}: {}", told(lease)));
        }
    }
    Ok(())
}

/// Only a run that was stopped goes on, whatever object asks for it.
fn no_run_that_has_ended_runs_again(leases: &[GpuLease]) -> Result<(), String> {
    let run = |lease: &GpuLease| {
        let holder = lease.spec.holder.clone();
        (holder.name, holder.rerun, holder.spec_hash)
    };
    let mut last: BTreeMap<_, &GpuLease> = BTreeMap::new();
    let mut held: Vec<&GpuLease> =
        leases.iter().filter(|lease| ledger::state(lease) == Ok(LeaseState::Closed)).collect();
    held.sort_by_key(|lease| lease.spec.holder.attempt);
    for lease in held {
        let Some(before) = last.insert(run(lease), lease) else { continue };
        let reason = before.status.as_ref().and_then(|status| status.released_because.as_deref());
        if reason != Some("Stopped") {
            return Err(format!("{} runs again in {}", told(before), told(lease)));
        }
    }
    Ok(())
}

/// The status of a job tells what the ledger knows of its run, and that it is over.
fn status(job: &GpuJob, leases: &[GpuLease]) -> Result<(), &'static str> {
    let status = job.status.as_ref().ok_or("a job without a status")?;
    if status.lease.is_some() {
        return Err("its lease is still open");
    }
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
    let word = ready.map(|one| one.reason.as_str()).unwrap_or_default();
    let is_still = status.outcome.is_some()
        || matches!(word, "Stopped" | "BudgetExhausted" | "BudgetTooSmall" | "AlreadyRan");
    if !is_still {
        return Err("it neither runs nor has ended");
    }
    let mine = leases.iter().filter(|lease| {
        Some(&lease.spec.holder.uid) == job.metadata.uid.as_ref()
            && lease.spec.holder.rerun == status.rerun
            && lease.spec.holder.spec_hash == status.spec_hash
    });
    let spent = mine.map(charged).fold(Money::ZERO, Money::plus);
    let told = status.cost.as_ref().map(|cost| money(Some(&cost.charged)));
    if spent != Money::ZERO && told != Some(spent) {
        return Err("its cost is not that of its leases");
    }
    Ok(())
}

fn specs_of<'a>(story: &'a Story, name: &'a str) -> impl Iterator<Item = &'a Spec> {
    story.0.iter().filter_map(move |Event { what, .. }| match what {
        Happening::Applied { job, spec } if format!("job-{job}") == name => Some(spec),
        _ => None,
    })
}

fn is_same_run(one: &GpuLease, other: &GpuLease) -> bool {
    let run = |lease: &GpuLease| {
        let holder = lease.spec.holder.clone();
        (holder.uid, holder.rerun, holder.spec_hash)
    };
    run(one) == run(other)
}

fn ran(lease: &GpuLease) -> SignedDuration {
    let status = lease.status.clone().unwrap_or_default();
    let period = time(status.running_at.as_ref()).zip(time(status.ended_at.as_ref()));
    period.map_or(SignedDuration::ZERO, |(from, to)| to.duration_since(from))
}

fn charged(lease: &GpuLease) -> Money {
    money(lease.status.as_ref().and_then(|status| status.charged.as_ref()))
}

fn time(text: Option<&String>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn money(text: Option<&String>) -> Money {
    text.and_then(|text| Money::parse(text).ok()).unwrap_or(Money::ZERO)
}

fn told(lease: &GpuLease) -> String {
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    format!("{name} {:?}", lease.status)
}
