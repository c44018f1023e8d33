//! Tests of formulas and rules of BBRv3 (draft-ietf-ccwg-bbr-06) and v2 (Linux v2alpha) at their limits, with expected
//! values computed from the path.

mod cycle;
mod ecn;
mod loss;
mod probe_rtt;
mod rules;
mod script;
mod startup;
mod v2;
