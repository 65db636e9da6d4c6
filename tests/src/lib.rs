//! What tests and the demo share: a control plane to run against, the operator as a process, and
//! waiting for what shall come true.
//!
//! [`playground`] starts and stops control planes, [`operator`] starts and kills the operator,
//! [`waiting`] waits, [`disturbance`] hangs and kills, [`program`] runs programs, [`suite`] runs the
//! tests of one level, [`environment`] says where everything lies.
//!
//! In virtual time: [`world`] is a cluster in the test's process, [`double`] its API server, and
//! [`contract`] what that has in common with a real one.

#[expect(clippy::indexing_slicing, clippy::panic, reason = "this is how a test fails")]
pub mod contract;
pub mod disturbance;
#[expect(clippy::indexing_slicing, clippy::panic, reason = "this is how a test fails")]
pub mod double;
pub mod environment;
pub mod jobs;
pub mod operator;
pub mod playground;
pub mod program;
mod reader;
pub mod suite;
pub mod waiting;
#[expect(clippy::indexing_slicing, clippy::panic, reason = "this is how a test fails")]
pub mod world;
