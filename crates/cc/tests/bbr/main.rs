//! BBR v1 against the rules of Linux `tcp_bbr.c`, with expectations computed from the path.

mod cycle;
mod path;
mod script;
mod startup;
