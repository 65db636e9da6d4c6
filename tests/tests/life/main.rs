//! Lives of leases in virtual time: the whole operator against the double of the API server.

mod contract;
mod crashes;
mod long;
