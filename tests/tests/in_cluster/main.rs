//! leasehold as it is installed: in its cluster, by its manifests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod operator;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(4);

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 2, simulated_nodes: 0, cards: "rtx4090:1" };
    let tests: &[Test] = &[(
        "the_operator_runs_in_its_cluster_with_no_more_rights_than_it_uses",
        operator::runs_in_its_cluster,
    )];
    run("in-cluster", shape, WithOperator::Absent, &[], tests)
}
