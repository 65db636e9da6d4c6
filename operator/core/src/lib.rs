//! The pure rules of leasehold: time, money, leases, cards, checks and diagnosis.
//!
//! Nothing here does I/O, reads a clock or can panic; every function maps facts to a verdict.
//! Read [`lease`] for the life of a lease, [`decide`] for what happens in which situation.
#![warn(clippy::float_arithmetic, clippy::wildcard_enum_match_arm)]

pub mod catalog;
pub mod condition;
pub mod decide;
pub mod desired;
pub mod diagnosis;
pub mod duration;
pub mod lease;
pub mod money;
pub mod observed;
pub mod placement;
pub mod plan;
pub mod pod;
pub mod preflight;
pub mod reason;
pub mod report;
pub mod request;
pub mod restore;
pub mod smi;
pub mod start_failure;
pub mod status;
pub mod taint;
