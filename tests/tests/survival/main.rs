//! The operator dies while jobs run on a real node; needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod cases;
mod gates;
mod moments;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(4);

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 1, simulated_nodes: 0, cards: "rtx4090:16" };
    let alone: &[Test] = &[
        ("a_deadline_holds_without_the_operator", cases::killed_after_the_pod_was_created),
        ("a_deadline_holds_when_the_operator_dies_before_it", cases::killed_before_the_deadline),
        (
            "an_operator_killed_at_every_moment_starts_nothing_twice",
            moments::killed_at_every_moment,
        ),
        ("examples_applied_again_and_again_run_once", cases::examples_run_once),
    ];
    run("survival", shape, WithOperator::Absent, &[], alone)
}
