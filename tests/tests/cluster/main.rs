//! The operator on a real control plane; nodes are simulated, so that no root is needed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod deletion;
mod life;
mod outage;
mod requests;
mod service;
mod telling;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(3);

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 0, simulated_nodes: 4, cards: "rtx4090:4,rtx3090:4" };
    let together: &[Test] = &[
        ("a_job_runs_and_gives_its_card_back", life::a_job_runs_and_gives_its_card_back),
        ("refusals_and_waits_say_why", life::refusals_and_waits_say_why),
        ("applying_again_starts_nothing", life::applying_again_starts_nothing),
        ("a_stopped_job_goes_on_later", life::a_stopped_job_goes_on_later),
        (
            "jobs_wait_for_cards_and_start_by_themselves",
            life::jobs_wait_for_cards_and_start_by_themselves,
        ),
        (
            "events_tell_each_change_of_the_word_once",
            telling::events_tell_each_change_of_the_word_once,
        ),
        (
            "cards_tell_how_many_there_are_and_what_is_wrong",
            telling::cards_tell_how_many_there_are_and_what_is_wrong,
        ),
        (
            "a_request_stops_a_job_that_git_wants_to_run",
            requests::a_request_stops_a_job_that_git_wants_to_run,
        ),
        ("deletion_of_a_running_job", deletion::of_a_running_job),
        ("deletion_of_a_job_that_has_just_been_made", deletion::of_a_job_that_has_just_been_made),
        ("deletion_of_a_waiting_job", deletion::of_a_waiting_job),
        ("deletion_of_an_ended_job", deletion::of_an_ended_job),
        ("deletion_of_its_pod", deletion::of_its_pod),
        ("deletion_of_the_namespace", deletion::of_the_namespace),
    ];
    let alone: &[Test] = &[
        ("an_outage_of_the_api_server_changes_no_bill", outage::of_the_api_server),
        (
            "it_says_what_is_missing_until_it_is_ready_and_ends_in_order",
            service::it_says_what_is_missing_until_it_is_ready_and_ends_in_order,
        ),
        ("it_names_a_right_that_was_revoked", service::it_names_a_right_that_was_revoked),
        ("it_counts_and_logs_what_happened_once", service::it_counts_and_logs_what_happened_once),
        (
            "a_restart_tells_no_event_again_and_repeated_ones_are_one",
            service::a_restart_tells_no_event_again_and_repeated_ones_are_one,
        ),
    ];
    run("cluster", shape, WithOperator::Shared(""), together, alone)
}
