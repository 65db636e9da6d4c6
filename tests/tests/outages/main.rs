//! Nodes, their cards and what runs on them fail while jobs run; needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod cards;
mod evictions;
mod nodes;

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
    let cards = "rtx4090:8,rtx3090:2,a100-pcie-40:2,a100-sxm4-40:2,a100-pcie-80:2";
    let shape = Shape { real_nodes: 5, simulated_nodes: 0, cards };
    let together: &[Test] = &[
        ("each_fault_of_a_card_has_its_reason_and_costs_nothing", cards::each_fault),
        ("a_minute_without_kubelet_ends_nothing", nodes::a_minute_without_kubelet),
        ("a_kubelet_that_never_comes_back_costs_nothing", nodes::a_kubelet_that_never_comes_back),
        ("a_killed_containerd_ends_nothing", nodes::containerd_is_killed),
        ("a_deleted_pod_is_paid_by_who_deleted_it", nodes::pods_that_are_deleted),
        ("a_bare_eviction_is_paid_by_who_asked_for_it", evictions::from_a_node_that_stays),
        (
            "an_eviction_is_judged_when_it_is_seen",
            evictions::from_a_node_that_is_open_again_by_the_end,
        ),
        ("a_deleted_node_costs_nothing", nodes::a_node_is_deleted),
        ("a_sick_card_is_not_leased", nodes::a_sick_card),
    ];
    let alone: &[Test] =
        &[("a_minute_without_api_server_ends_nothing", nodes::a_minute_without_api_server)];
    run("outages", shape, WithOperator::Shared(SETTINGS), together, alone)
}
