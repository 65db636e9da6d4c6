//! A playground of which every process was killed is taken down without a trace.

use leasehold_tests::{
    jobs::{self, Job},
    operator::Operator,
    playground::Shape,
    suite::Stage,
};

use crate::LIMIT;

pub(crate) fn after_kill(stage: &Stage) {
    let shape = Shape { real_nodes: 1, simulated_nodes: 1, cards: "rtx4090:2" };
    let killed = stage.apart("killed", shape).unwrap();
    let operator = Operator::start(&killed.playground).unwrap();
    let namespace = jobs::namespace(&killed, "busy");
    Job::named("train").running("command: [sleep, infinity]").apply(&killed, &namespace);
    jobs::until_ready_is(&killed, &namespace, "train", "Running", LIMIT);
    operator.kill().unwrap();
    let processes = killed.playground.kill_all().unwrap();
    assert!(processes >= 6, "{processes} processes were killed");
    killed.playground.down().unwrap();
}
