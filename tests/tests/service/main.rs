//! The operator as a service: what it serves and tells about itself, two of them, and the API
//! server away.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod leadership;
mod outage;
mod served;
mod serving;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(3);

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 0, simulated_nodes: 4, cards: "rtx4090:4,rtx3090:4" };
    let alone: &[Test] = &[
        ("an_outage_of_the_api_server_changes_no_bill", outage::of_the_api_server),
        (
            "it_says_what_is_missing_until_it_is_ready_and_ends_in_order",
            serving::it_says_what_is_missing_until_it_is_ready_and_ends_in_order,
        ),
        ("it_names_a_right_that_was_revoked", serving::it_names_a_right_that_was_revoked),
        ("it_counts_and_logs_what_happened_once", serving::it_counts_and_logs_what_happened_once),
        (
            "a_restart_tells_no_event_again_and_repeated_ones_are_one",
            serving::a_restart_tells_no_event_again_and_repeated_ones_are_one,
        ),
        (
            "a_leader_that_stood_still_is_followed_and_ends_without_a_write",
            leadership::of_a_leader_that_stood_still,
        ),
        (
            "a_leader_whose_lease_names_another_one_ends",
            leadership::of_a_leader_whose_lease_names_another_one,
        ),
    ];
    run("service", shape, WithOperator::Absent, &[], alone)
}
