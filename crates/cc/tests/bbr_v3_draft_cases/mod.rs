//! BBRv3 in the example test cases of draft-ietf-ccwg-bbr-06, appendix A, with their numbers.
//!
//! The cases use only the scheme's contract: events are the input; control and telemetry are the output. Some
//! quantities of the draft's pseudocode are not in the telemetry; the tests compute these from the events, as the draft
//! defines them.

mod aggregation;
mod cycle;
mod drain;
mod extremes;
mod probe_rtt;
mod probe_up;
mod record;
mod spurious;
mod startup;
