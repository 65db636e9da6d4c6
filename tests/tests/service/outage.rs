//! The API server is away for longer than a node may be silent.

use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    suite::Stage,
    waiting::wait_for,
};
use serde_json::Value;

use crate::LIMIT;

/// Nodes count as lost after 50 seconds without a sign.
const OUTAGE_SECONDS: i64 = 60;
/// How long the program of the job runs: it ends in the outage.
const RUN_SECONDS: i64 = 20;

pub(crate) fn of_the_api_server(stage: &Stage) {
    let _operator = Operator::start(&stage.playground).unwrap();
    let namespace = jobs::namespace(stage, "outage");
    Job::named("train").simulated_for(&format!("{RUN_SECONDS}s")).apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    let hanging = stage.playground.hang_api_server().unwrap();
    let since = jobs::now();
    wait_for("the outage has lasted", LIMIT, || {
        let lasted = jobs::now().duration_since(since).as_secs();
        if lasted >= OUTAGE_SECONDS { Ok(()) } else { Err(lasted) }
    });
    drop(hanging);
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    let status = jobs::ended_as(stage, &namespace, "train", ("Completed", "User"), LIMIT);
    assert_eq!(jobs::ran_for(&status), RUN_SECONDS, "{status:?}");
    every_node_is_ready(stage);
    Job::named("next").apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "next", "Succeeded", LIMIT);
}

fn every_node_is_ready(stage: &Stage) {
    wait_for("every node is ready", LIMIT, || {
        let nodes = stage.playground.list("default", "nodes").map_err(|error| error.to_string())?;
        let lost = nodes.iter().filter(|node| !is_ready(node)).count();
        if lost == 0 { Ok(()) } else { Err(format!("{lost} nodes are not")) }
    });
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}
