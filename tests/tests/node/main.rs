//! Real kubelets and containers with simulated cards; needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod changes;
mod crowds;
mod deletion;
mod disks;
mod environments;
mod leftovers;
mod policies;
mod programs;
mod watching;

use std::{process::ExitCode, time::Duration};

use leasehold_tests::{
    playground::Shape,
    suite::{Test, WithOperator, run},
};

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_mins(4);

fn main() -> ExitCode {
    let shape = Shape { real_nodes: 1, simulated_nodes: 0, cards: "rtx4090:8" };
    let together: &[Test] = &[
        ("the_quickstart_prints_its_line_and_pays_for_its_time", programs::quickstart),
        ("a_program_that_fails_is_told_from_one_that_is_missing", programs::failures),
        ("a_program_is_stopped_at_max_runtime_with_its_grace", programs::max_runtime),
        ("a_stopped_job_ends_its_program_in_time", programs::stopped),
        ("money_ends_a_program", programs::money),
        ("a_long_dotted_name_runs", programs::long_name),
        ("the_agent_is_static_and_small", programs::agent_is_static),
        ("an_image_that_is_nowhere_is_named", programs::image_that_is_nowhere),
        ("packages_are_restored_from_a_config_map", environments::from_a_config_map),
        ("packages_that_cannot_be_restored_are_named", environments::that_cannot_be_restored),
        ("reports_that_are_cut_keep_their_reason", crowds::reports_that_are_cut),
        ("a_program_on_a_full_disk_fails_and_says_so", programs::full_disk),
        ("a_full_disk_before_the_program_costs_nothing", disks::full_before_the_program),
        ("an_image_that_is_changed_ends_the_run", changes::of_the_image),
        ("a_deleted_job_gives_its_card_back", deletion::of_a_running_job),
        ("a_job_deleted_while_it_prepares_gives_its_card_back", deletion::of_a_job_that_prepares),
        (
            "a_job_deleted_while_it_is_released_keeps_its_reason",
            deletion::of_a_job_that_is_released,
        ),
        ("a_deleted_job_that_holds_nothing_leaves_no_bill", deletion::of_a_job_that_holds_nothing),
        ("a_waiting_job_is_deleted_without_a_trace", deletion::of_a_job_that_waits),
        ("a_job_that_cannot_be_bound_is_deleted_for_nothing", deletion::of_a_job_that_is_unbound),
        ("a_run_that_is_over_is_not_started_again", deletion::of_a_job_that_has_ended),
        ("a_deleted_namespace_pays_and_gives_its_card_back", deletion::of_the_namespace),
        ("a_program_that_uses_too_much_memory_is_named", programs::too_much_memory),
        ("a_card_changes_while_a_program_watches_it", watching::a_card_that_changes),
    ];
    // Each has a playground of its own beside.
    let alone: &[Test] = &[
        ("an_index_that_is_away_costs_nothing", environments::from_an_index_that_is_away),
        ("all_cards_are_free_in_the_end", programs::all_cards_are_free),
        ("nothing_is_left_after_everything_was_killed", leftovers::after_kill),
    ];
    run("node", shape, WithOperator::Shared(""), together, alone)
}
