//! The switch in this machine's kernel. Without root or BPF the tests print the reason and pass.

mod hosts;
mod packets;
mod program;
mod races;
mod segment;

use narrows_host::testing::skipped;

/// Whether this process may create ports and attach programs to them.
fn may() -> bool {
    let may = rustix::process::geteuid().is_root() && narrows_host::namespace::available("the tests").is_ok();
    if !may {
        skipped("root, BPF and TUN devices");
    }
    may
}
