//! The leasehold operator: the only place that talks to the API server.
//!
//! ```text
//!   watches of jobs, leases, requests, pods, nodes, cards                  `watches`, [`run`]
//!        │ change                                  ▲
//!        ▼                                         │ wake
//!   [`queue`] ─▶ ① [`observe`] ─▶ ② desire ─▶ ③ decide ─▶ ④ [`record`] ─▶ ⑤ [`act`] ─▶ ⑥ [`wake`]
//!                 indexes, ledger   spec →      rules of     status,        writes,
//!                                   wanted      core         intent first   in order
//! ```
//!
//! [`reconcile`] is that line as code. Rules live in `leasehold_core`, names and wire types in
//! `leasehold_crds`; this crate reads, writes and waits.
//!
//! [`leadership`] says whether this operator may write: watches run before it leads, passes do not.
//!
//! What people and machines see of the operator itself: [`service`] serves [`health`] and
//! [`metrics`], [`journal`] writes the log of what happened.

pub mod act;
pub mod api_server;
pub mod backlog;
pub mod calls;
pub mod cards;
pub mod clock;
pub mod cluster;
pub mod context;
pub mod error;
pub mod gauges;
pub mod health;
pub mod index;
pub mod journal;
pub mod leadership;
pub mod logging;
pub mod metrics;
pub mod observe;
pub mod pod;
pub mod queue;
pub mod reconcile;
pub mod record;
pub mod rights;
pub mod run;
pub mod server_time;
pub mod service;
pub mod supply;
pub mod tasks;
pub mod wake;
mod watches;
