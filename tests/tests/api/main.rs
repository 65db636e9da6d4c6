//! The kinds on a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod cases;
mod contract;
mod examples;
#[path = "../../../crds/tests/table/mod.rs"]
mod table;

use std::process::ExitCode;

use leasehold_tests::{
    playground::Shape,
    suite::{Stage, Test, WithOperator, run},
};

fn main() -> ExitCode {
    let tests: &[Test] = &[
        ("definitions_are_accepted_and_established", definitions_are_established),
        ("every_case_is_judged_as_the_table_says", cases::every_case_is_judged_as_the_table_says),
        ("a_typo_is_refused_by_strict_validation", cases::a_typo_is_refused_by_strict_validation),
        ("an_object_that_nobody_has_seen_says_so", cases::an_object_that_nobody_has_seen_says_so),
        (
            "what_a_run_runs_changes_only_with_its_number",
            cases::what_a_run_runs_changes_only_with_its_number,
        ),
        ("the_terms_of_a_lease_never_change", cases::the_terms_of_a_lease_never_change),
        ("a_final_lease_never_changes", cases::a_final_lease_never_changes),
        ("leases_are_found_by_their_holder", cases::leases_are_found_by_their_holder),
        ("the_server_keeps_the_contract", contract::the_server_keeps_the_contract),
        ("examples_are_accepted", examples::examples_are_accepted),
        ("examples_survive_gos_yaml_parser", examples::examples_survive_gos_yaml_parser),
        ("definitions_survive_gos_yaml_parser", examples::definitions_survive_gos_yaml_parser),
    ];
    run("api", Shape::default(), WithOperator::Absent, tests, &[])
}

fn definitions_are_established(stage: &Stage) {
    for kind in ["gpujobs", "gpucards", "gpuleases", "gpurequests"] {
        let name = format!("{kind}.leasehold.dev");
        let condition = [
            "get",
            "crd",
            &name,
            "-o",
            "jsonpath={.status.conditions[?(@.type==\"Established\")].status}",
        ];
        assert_eq!(stage.playground.kubectl(&condition).unwrap(), "True", "{kind}");
    }
}
