//! Integration tests of this crate, one module per subject.

mod bbr_v1;
mod bbr_v2_v3;
mod bbr_v3_draft_cases;
mod contract;
mod coupled;
mod flow;
mod model;
mod script;
