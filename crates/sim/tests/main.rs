//! Integration tests of this crate, one module per subject.

mod convergence;
mod drawn;
mod examples;
#[path = "../../tcp/tests/external/mod.rs"]
mod external;
mod external_scheme;
mod flood;
mod fuzz_runs;
mod golden;
mod law;
mod laws;
mod laws_allocation;
mod laws_bbr;
mod laws_bbr3;
mod laws_brf;
mod laws_convergence;
mod laws_coupled;
mod laws_dccp;
mod laws_explicit;
mod laws_flood;
mod laws_htb;
mod laws_l4s;
mod laws_multipath;
mod laws_nodectl;
mod laws_older;
mod laws_paths;
mod laws_tables;
mod metrics;
mod multipath;
mod oracle;
mod pacing;
mod pure;
mod radio;
mod structure;
