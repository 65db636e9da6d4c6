//! The behaviours that leasehold relies on, on a real API server; the double is held to the same.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use leasehold_tests::{contract, jobs, suite::Stage};

use crate::cases::with_client;

pub(crate) fn the_server_keeps_the_contract(stage: &Stage) {
    let mut broken = Vec::new();
    with_client(stage, async |client| {
        for (number, (name, test)) in contract::ALL.iter().enumerate() {
            let namespace = jobs::namespace(stage, &format!("contract-{number}"));
            if AssertUnwindSafe(test(client.clone(), namespace)).catch_unwind().await.is_err() {
                broken.push(*name);
            }
        }
    });
    assert!(broken.is_empty(), "{broken:?}");
}
