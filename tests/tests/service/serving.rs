//! What the operator serves about itself, how it ends, and what a restart does not tell again.

use leasehold_tests::{
    jobs::{self, Job},
    playground::Playground,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::{Value, json};

use crate::{LIMIT, served::Served};

/// The role that gives the operator its rights.
const ROLE: &str = "leasehold-operator";

pub(crate) fn it_says_what_is_missing_until_it_is_ready_and_ends_in_order(stage: &Stage) {
    let playground = &stage.playground;
    let operator = Served::start(playground, "service");
    operator.until_ready();
    let hanging = playground.hang_api_server().unwrap();
    let missing = wait_for("the silent API server is named", LIMIT, || {
        let (status, words) = operator.get("/readyz");
        if status == 503 { Ok(words) } else { Err(words) }
    });
    assert!(missing.contains("[-] API server: does not answer since"), "{missing}");
    assert_eq!(operator.get("/livez").0, 200, "an outage is no reason to start it again");
    drop(hanging);
    operator.until_ready();
    let (_, all) = operator.get("/readyz?verbose");
    assert!(all.contains("[+] watch of GpuJob: ok") && all.contains("[+] rights: ok"), "{all}");
    assert!(operator.terminate().success());
}

pub(crate) fn it_names_a_right_that_was_revoked(stage: &Stage) {
    let playground = &stage.playground;
    let role: Value = playground.get("", "clusterrole", ROLE).unwrap().unwrap();
    let rules = role["rules"].as_array().unwrap().clone();
    let mut fewer = rules.clone();
    fewer.retain(|rule| rule["resources"] != json!(["nodes"]));
    assert_eq!(fewer.len() + 1, rules.len());
    grant(playground, &fewer);
    let operator = Served::start(playground, "revoked");
    wait_for("kind and right are named", LIMIT, || {
        let (status, words) = operator.get("/readyz");
        let named = ["[-] watch of Node: ", "cannot list resource", "[-] right to list nodes: "];
        let is_named = status == 503 && named.iter().all(|name| words.contains(name));
        if is_named { Ok(()) } else { Err(words) }
    });
    assert_eq!(operator.get("/livez").0, 200);
    grant(playground, &rules);
    operator.until_ready();
    let restarts = operator.metric("leasehold_watch_restarts_total{watch=\"nodes\",kind=\"Node\"}");
    assert!(restarts > Some(0.0), "{restarts:?}");
}

fn grant(playground: &Playground, rules: &[Value]) {
    let patch = json!([{"op": "replace", "path": "/rules", "value": rules}]).to_string();
    playground.kubectl(&["patch", "clusterrole", ROLE, "--type=json", "-p", &patch]).unwrap();
}

pub(crate) fn it_counts_and_logs_what_happened_once(stage: &Stage) {
    let operator = Served::start(&stage.playground, "counted");
    operator.until_ready();
    let namespace = jobs::namespace(stage, "counted");
    let job = Job::named("train").simulated_for("2s");
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    let lease = jobs::closed_lease(stage, &namespace, "train-r0-a1", LIMIT);
    let told = wait_for("the close is told", LIMIT, || {
        let told = operator.told(&namespace, "lease closed");
        if told.is_empty() { Err("not yet") } else { Ok(told) }
    });
    assert_eq!(told.len(), 1, "{told:?}");
    let status = lease.status.unwrap();
    for (field, value) in [
        ("lease", json!("train-r0-a1")),
        ("name", json!("train")),
        ("reason", json!("Completed")),
        ("payer", json!("User")),
        ("charged", json!(status.charged)),
        ("absorbed", json!(status.absorbed)),
        ("currency", json!("USD")),
    ] {
        assert_eq!(told[0][field], value, "{field}: {told:?}");
    }
    // Jobs and leases are watched apart: the last change may be told a moment later.
    let changes = wait_for("the end is told", LIMIT, || {
        let changes = operator.told(&namespace, "job changed");
        let last = changes.last().map(|line| line["reason"].clone()).unwrap_or_default();
        if last == "Succeeded" { Ok(changes) } else { Err(format!("{changes:?}")) }
    });
    let reasons: Vec<&str> = changes.iter().filter_map(|line| line["reason"].as_str()).collect();
    let mut once = reasons.clone();
    once.dedup();
    assert_eq!(reasons, once, "each change has one line");
    let ended =
        "leasehold_leases_ended_total{state=\"Closed\",reason=\"Completed\",payer=\"User\"}";
    let created = "leasehold_api_requests_total{verb=\"create\",resource=\"pods\",code=\"201\"}";
    for (series, least) in [
        (ended, 1.0),
        ("leasehold_pods_created_total", 1.0),
        (created, 1.0),
        ("leasehold_passes_total{result=\"Done\"}", 3.0),
        ("leasehold_charged_money_total{currency=\"USD\"}", 0.000_001),
        ("leasehold_held_card_seconds_total{card=\"rtx4090\",payer=\"User\"}", 1.0),
        ("leasehold_cards{card=\"rtx4090\"}", 8.0),
        ("leasehold_ready", 1.0),
    ] {
        let value = operator.metric(series);
        assert!(value >= Some(least), "{series}: {value:?}\n{}", operator.get("/metrics").1);
    }
}

pub(crate) fn a_restart_tells_no_event_again_and_repeated_ones_are_one(stage: &Stage) {
    let playground = &stage.playground;
    let operator = Served::start(playground, "events-before");
    let namespace = jobs::namespace(stage, "events-once");
    let job = Job::named("train").simulated_for("600s");
    let stopped = job.clone().within("maxRuntime: 20m\ngracePeriod: 0s\nstate: Stopped");
    for _ in 0..2 {
        job.apply(stage, &namespace);
        jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
        stopped.apply(stage, &namespace);
        jobs::until_ready_is(stage, &namespace, "train", "Stopped", LIMIT);
    }
    for _ in 0..2 {
        for (cards, reason) in [("a100", "WaitingForCard"), ("rtx4900", "UnknownCard")] {
            let gpu = format!("gpu: {{cards: [{cards}]}}");
            Job::named("waits").on(&gpu).apply(stage, &namespace);
            jobs::until_ready_is(stage, &namespace, "waits", reason, LIMIT);
        }
    }
    // Events follow the status. Those of one word are one that counts, for each attempt.
    let before = wait_for("the second round is told", LIMIT, || {
        let events = events(stage, &namespace);
        let told = |wanted: &str| events.iter().filter(|event| *event == wanted).count();
        let attempts = ["train Running 1", "train Stopped 1"].map(told);
        let repeated = ["waits WaitingForCard 2", "waits UnknownCard 2"].map(told);
        if (attempts, repeated) == ([2, 2], [1, 1]) {
            Ok(events)
        } else {
            Err(format!("{events:?}"))
        }
    });
    let of_waits = before.iter().filter(|event| event.starts_with("waits ")).count();
    assert_eq!(of_waits, 2, "{before:?}");
    assert!(operator.terminate().success());
    let operator = Served::start(playground, "events-after");
    operator.until_ready();
    wait_for("every job was looked at", LIMIT, || {
        let passes = operator.metric("leasehold_passes_total{result=\"Done\"}").unwrap_or(0.0);
        let waiting = operator.metric("leasehold_queue_depth").unwrap_or(1.0);
        if passes >= 2.0 && waiting < 1.0 { Ok(()) } else { Err(format!("{passes} {waiting}")) }
    });
    // A change that must be told comes last: whatever was told again came before it.
    Job::named("typo").on("gpu: {cards: [rtx4900]}").apply(stage, &namespace);
    let after = wait_for("the new word is told", LIMIT, || {
        let mut events = events(stage, &namespace);
        let all = events.len();
        events.retain(|event| !event.starts_with("typo "));
        if events.len() < all { Ok(events) } else { Err("not yet") }
    });
    assert_eq!(before, after);
    assert!(operator.terminate().success());
}

/// The operator's events about jobs of a namespace, sorted: name, reason, and how often.
fn events(stage: &Stage, namespace: &str) -> Vec<String> {
    let events = stage.playground.list(namespace, "events").unwrap();
    let mut told: Vec<String> = events
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == "GpuJob")
        .map(|event| {
            let text = |path| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let count = event["series"]["count"].as_i64().unwrap_or(1);
            format!("{} {} {count}", text("/involvedObject/name"), text("/reason"))
        })
        .collect();
    told.sort();
    told
}
