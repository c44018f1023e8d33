//! Integration tests of this crate, one module per subject.

mod ack_vector;
mod corpus;
mod hostile;
mod loss;
mod loss_model;
mod rates;
mod udp;
mod wire;
