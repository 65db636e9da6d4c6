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
mod requests;
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
    run("cluster", shape, WithOperator::Shared(""), together, &[])
}
