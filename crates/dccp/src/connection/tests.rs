//! Two endpoints joined by a network in virtual time.

mod close;
mod cookies;
mod data;
mod drops;
mod fates;
mod features;
mod fuzz;
mod handshake;
mod host;
mod late;
mod liveness;
mod net;
mod numbers;
mod states;
