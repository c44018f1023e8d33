//! Integration tests of this crate, one module per subject.

mod datagrams;
mod diagnostics;
mod expand;
mod explain;
mod fuzz;
mod graph;
mod htb;
mod identity;
mod multipath;
mod profiles;
mod radio;
mod routers;
mod sound;
mod texts;
