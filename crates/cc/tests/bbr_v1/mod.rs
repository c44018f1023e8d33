//! Tests of BBRv1 against the rules of Linux `tcp_bbr.c`, with expected values computed from the path.

mod acd;
mod adaptive;
mod aggregation;
mod capped;
mod cws;
mod cycle;
mod da_bbr;
mod dccp;
mod family;
mod gamma;
mod path;
mod policer;
mod probe_rtt;
mod properties;
mod reconstructions;
mod recovery;
mod script;
mod startup;
mod variants;
