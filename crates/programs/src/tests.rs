//! Programs in this machine's kernel. Without root or BPF the tests print the reason and pass.

use libbpf_rs::ObjectBuilder;
use narrows_host::testing::{alone, skipped};

use crate::libbpf::loading;
use crate::{PROGRAMS, can_run};

/// A program that the verifier rejects is refused with the reason in plain words, and leaves nothing behind.
#[test]
fn rejected_program_is_refused_in_plain_words() {
    if !rustix::process::geteuid().is_root() || !can_run() {
        skipped("root and BPF");
        return;
    }
    let _alone = alone();
    let mut bytes = PROGRAMS[0].object.to_vec();
    let mut damaged = 0;
    // Changes loads through R1, the context, to loads through R0, which has no value yet. Instructions are aligned to 8
    // bytes.
    for instruction in bytes.chunks_exact_mut(8) {
        if instruction[0] == 0x79 && instruction[1] >> 4 == 1 && instruction[2..] == [0; 6] {
            instruction[1] &= 0xf;
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let refused = loading("a damaged program", || ObjectBuilder::default().open_memory(&bytes)?.load().map(drop));
    let refused = refused.expect_err("the verifier rejects it").to_string();
    eprintln!("{refused}");
    assert!(refused.contains(" refuses a damaged program: the verifier cannot prove that"), "{refused}");
    assert!(!PROGRAMS[0].is_registered());
}
