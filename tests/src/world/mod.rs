//! A cluster in virtual time: the whole operator against the double of the API server, and
//! everything else of a cluster played by short scripts.
//!
//! [`cluster`] is what tests hold; [`scheduler`], [`kubelet`], [`nodes`] and [`garbage`] do what those
//! programs do, as far as the operator sees it; [`operator`] starts and kills the operator; [`clock`]
//! follows tokio's clock, which stands still while anybody has work; [`witness`] remembers what pods
//! did, to hold the ledger against.

pub mod clock;
pub mod cluster;
pub mod garbage;
pub mod kubelet;
pub mod nodes;
pub mod operator;
pub mod scheduler;
pub mod witness;
