//! BBR v1 against the rules of Linux `tcp_bbr.c`, with expectations computed from the path.

mod aggregation;
mod cycle;
#[path = "../common/path.rs"]
mod flow;
mod path;
mod policer;
mod probe_rtt;
mod properties;
mod recovery;
mod script;
mod startup;
mod variants;
