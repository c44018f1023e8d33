//! Integration tests of this crate, one module per subject.

mod app_limited;
mod common;
mod delivery;
mod external;
mod external_scheme;
mod local_congestion;
mod multipath;
mod two_endpoints;
