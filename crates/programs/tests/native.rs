//! Programs for the kernel, run outside of it: C files of `bpf/native` are compiled and run on events.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use narrows_programs::Program;

/// A compiled file of `bpf/native`.
#[derive(Debug)]
pub struct Native(PathBuf);

impl Native {
    /// Compiles a file, with the program that it includes as `PROGRAM`; `None` without a C compiler.
    pub fn compile(name: &str, program: Option<&Program>) -> Option<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bpf/native/{name}.c"));
        let thread = std::thread::current().name().unwrap_or("main").replace("::", "-");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{thread}"));
        let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        command.args(["-O2", "-Wall", "-Werror", "-Wno-unused-function", "-o"]).arg(&file);
        command.args(program.map(|program| format!("-DPROGRAM=\"../{}.bpf.c\"", program.name)));
        match command.arg(source).arg("-lm").output() {
            Ok(done) if done.status.success() => Some(Self(file)),
            Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
            Err(_) => {
                eprintln!("skipped: needs a C compiler");
                None
            }
        }
    }

    /// Runs the compiled file on `input` and returns its output.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let events = self.0.with_extension("events");
        File::create(&events).and_then(|mut file| file.write_all(input)).expect("room for a tape");
        let stdin = Stdio::from(File::open(&events).expect("it was written"));
        let mut command = Command::new(&self.0);
        let done = command.args(arguments).stdin(stdin).stderr(Stdio::inherit()).output();
        let Output { status, stdout, .. } = done.expect("it runs");
        assert!(status.success(), "{status:?}");
        stdout
    }
}

/// The word of 32 bits at this offset.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The word of 64 bits at this offset.
pub fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
