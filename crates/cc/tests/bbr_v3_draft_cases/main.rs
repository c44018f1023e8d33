//! BBR v3 through the example test cases of draft-ietf-ccwg-bbr-06, appendix A, under their numbers.
//!
//! The cases see the scheme through its contract alone: events go in, control and telemetry come out. Where a case
//! asks for a quantity of the draft's pseudocode that telemetry does not tell, the test computes it from the events
//! as the draft defines it.

mod aggregation;
mod cycle;
mod drain;
mod extremes;
#[path = "../common/flow.rs"]
mod flow;
mod probe_rtt;
mod probe_up;
mod record;
mod spurious;
mod startup;
