//! BBR v1 against the rules of Linux `tcp_bbr.c`, with expectations computed from the path.

mod adaptive;
mod acd;
mod aggregation;
mod capped;
mod cws;
mod cycle;
#[path = "../common/path.rs"]
mod flow;
mod gamma;
mod da_bbr;
mod path;
mod policer;
mod probe_rtt;
mod properties;
mod reconstructions;
mod recovery;
mod script;
mod startup;
mod variants;
