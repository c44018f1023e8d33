//! Benchmarks of `narrows bench`. [`cases`]: whole scenarios. [`schemes`]: cost of an acknowledgement
//! ([`acks`]) in a scheme. [`ports`]: additional cost of a router algorithm on a link. [`datagrams`]: cost of a
//! datagram, in memory ([`pair`]) and on sockets.
//!
//! Rows are JSON for the command line.

// Benchmarks must read the wall clock.
#![allow(clippy::disallowed_methods)]

pub mod acks;
pub mod cases;
pub mod datagrams;
pub mod pair;
pub mod ports;
pub mod schemes;

/// The error message for an unknown name; lists the known names.
fn unknown(kind: &str, name: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.into_iter().collect();
    format!("there is no {kind} `{name}`; accepted: {}", known.join(", "))
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
