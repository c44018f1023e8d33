//! Two ends, joined by a network of virtual time.

mod close;
mod data;
mod drops;
mod features;
mod fuzz;
mod handshake;
mod host;
mod late;
mod net;
mod numbers;
mod states;
