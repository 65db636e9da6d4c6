//! An API server in this process, for tests in virtual time: what the operator relies on of a real
//! one, and nothing else. The contract suite holds both to the same words.
//!
//! ```text
//!   kube's client ─▶ [`server`] ─▶ [`request`] ─▶ [`write`], [`delete`]   rules of one object
//!                        │                └─────▶ [`select`]              labels and fields
//!                        └─▶ [`store`]   objects, versions, history ─▶ [`watch`]
//! ```
//!
//! Left out: schemas and CEL, server-side apply, every kind that leasehold does not use.

pub mod delete;
pub mod kinds;
pub mod refusal;
pub mod request;
pub mod select;
pub mod server;
pub mod store;
pub mod versions;
pub mod watch;
pub mod write;
