//! Lives of leases in virtual time: the whole operator against the double of the API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that is wrong stops at the line that is wrong"
)]

mod contract;
mod crashes;
mod leadership;
mod long;
mod weeks;
