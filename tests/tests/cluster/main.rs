//! The operator on a real control plane; nodes are simulated, so that no root is needed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod life;

use std::process::ExitCode;

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 0, simulated_nodes: 2, cards: "rtx4090:4" };
    let together: &[Test] = &[
        (
            "a_job_runs_on_a_simulated_node_and_gives_its_card_back",
            life::a_job_runs_and_gives_its_card_back,
        ),
        ("refusals_and_waits_say_why", life::refusals_and_waits_say_why),
        ("deleting_a_job_closes_its_lease", life::deleting_a_job_closes_its_lease),
    ];
    run("cluster", shape, WithOperator::Shared, together, &[])
}
