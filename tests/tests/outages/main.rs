//! Nodes and what runs on them fail while jobs run; needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod cases;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(5);
/// A silent node counts as lost soon, so that the tests need not wait for minutes.
const SETTINGS: &str = "nodeLostAfter: 1m\n";

fn main() -> ExitCode {
    let shape =
        Shape { real_nodes: 3, simulated_nodes: 0, cards: "rtx4090:2,rtx3090:2,a100-pcie-40:2" };
    let together: &[Test] = &[
        ("a_minute_without_kubelet_ends_nothing", cases::a_minute_without_kubelet),
        ("a_kubelet_that_never_comes_back_costs_nothing", cases::a_kubelet_that_never_comes_back),
        ("a_killed_containerd_ends_nothing", cases::containerd_is_killed),
    ];
    let alone: &[Test] = &[
        ("a_deleted_pod_is_paid_by_who_deleted_it", cases::pods_that_are_deleted),
        ("a_minute_without_api_server_ends_nothing", cases::a_minute_without_api_server),
        ("a_deleted_node_costs_nothing", cases::a_node_is_deleted),
    ];
    run("outages", shape, WithOperator::Shared(SETTINGS), together, alone)
}
