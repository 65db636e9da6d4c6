//! A Python environment from requirements files: what is in the files, and what an installer's
//! words mean. Pure; the agent's `prepare` reads the files and calls uv.
//!
//! - [`lines`] splits a requirements file into logical lines with their numbers;
//! - [`check`] follows includes and finds what no installer can restore in a pod;
//! - [`failure`] explains what uv says when it fails;
//! - [`progress`] reads from uv's lines how far it is;
//! - [`servers`] knows whose a server is that packages come from;
//! - [`variables`] knows which variables of a job can keep uv from a server;
//! - [`mask`] takes secrets out of everything that is shown.
//!
//! uv judges the syntax of requirements: a second parser here would disagree with it sooner or
//! later. What is read here is only what has to be known before uv runs, or to name a line.

pub mod check;
pub mod failure;
pub mod lines;
pub mod mask;
pub mod progress;
pub mod servers;
pub mod variables;

pub use check::{Files, Requirements, Unreadable, gather};
pub use progress::Progress;
pub use servers::Servers;
pub use variables::Variables;
