//! The kinds of `leasehold.dev` as they are on the wire, and their conversion to the core's
//! values.
//!
//! The wire types ([`job`], [`card`], [`lease`]) are what YAML looks like; their field comments are
//! the API reference. Conversions parse once: [`desire()`] makes a specification usable or says what
//! is wrong, [`status`] and [`ledger`] carry results in both directions, [`market`] reads prices.
//! The rules that an API server checks are in [`schema`]; they share their words with [`desire()`],
//! and one table of cases proves that both agree. [`definitions`] puts everything into the
//! definitions that a cluster installs, [`mod@reference`] makes a document of them.
//!
//! Nothing here does I/O or reads a clock. Read [`job`] first.

pub mod card;
pub mod definitions;
pub mod desire;
pub mod identity;
pub mod job;
pub mod job_status;
pub mod lease;
pub mod ledger;
pub mod market;
pub mod names;
pub mod quantity;
pub mod reference;
pub mod request;
pub mod scalar;
pub mod schema;
pub mod settings;
pub mod status;

pub use card::{GpuCard, GpuCardSpec, GpuCardStatus};
pub use desire::desire;
pub use job::{GpuJob, GpuJobSpec};
pub use job_status::GpuJobStatus;
pub use lease::{GpuLease, GpuLeaseSpec, GpuLeaseStatus};
pub use request::{GpuRequest, GpuRequestSpec, GpuRequestStatus};
pub use settings::Settings;
pub use status::{Reading, status_from_wire, status_to_wire};
