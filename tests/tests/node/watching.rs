//! What a simulated card shows changes while a program runs.

use leasehold_tests::{
    jobs::{self, Job},
    suite::Stage,
};
use serde_json::json;

use crate::{LIMIT, programs::log_of};

/// The node that all pods run on.
const NODE: &str = "node-1";

/// Ends when the card was busy and hot and then was idle again.
const WATCH: &str = r#"script: |
    see() { nvidia-smi --query-gpu=utilization.gpu,temperature.gpu --format=csv,noheader,nounits; }
    for wanted in "95, 88" "0, 34"; do
      until [ "$(see)" = "$wanted" ]; do sleep 0.2; done
      echo "seen $wanted"
    done"#;

pub(crate) fn a_card_that_changes(stage: &Stage) {
    let namespace = jobs::namespace(stage, "watching");
    let job = Job::named("train").running(WATCH).within("maxRuntime: 2m");
    job.apply(stage, &namespace);
    jobs::until_ready_is(stage, &namespace, "train", "Running", LIMIT);
    // Again and again, so that nobody who looks late misses it.
    let then = |busy, idle| json!({"steps": [{"from": 0, "value": busy}, {"from": 3, "value": idle}], "every": 6});
    let scenario = json!({"allCards": {
        "utilization.gpu": then("95", "0"),
        "temperature.gpu": then("88", "34"),
    }});
    stage.playground.scenario(NODE, &scenario).unwrap();
    jobs::until_ready_is(stage, &namespace, "train", "Succeeded", LIMIT);
    assert_eq!(log_of(stage, &namespace, "train-r0-a1"), "seen 95, 88\nseen 0, 34\n");
    stage.playground.well(NODE).unwrap();
}
