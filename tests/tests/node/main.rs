//! Real kubelets and containers with simulated cards; needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod jobs_on_a_node;

use std::process::ExitCode;

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 1, simulated_nodes: 0, cards: "rtx4090:4" };
    let together: &[Test] =
        &[("the_quickstart_prints_its_line_and_pays_for_its_time", jobs_on_a_node::quickstart)];
    run("node", shape, WithOperator::Shared, together, &[])
}
