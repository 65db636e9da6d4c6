//! The kinds as a whole: golden definitions, the lint of their schemas, the shared table of cases,
//! and the examples.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod agreement;
mod examples;
mod generated;
mod lint;
#[path = "../table/mod.rs"]
mod table;
