//! On this machine's kernel. Without root the tests say so and pass.

use std::path::PathBuf;
use std::sync::Mutex;

use narrows_packetdrill::{Report, Verdict};

use super::{Settings, run};
use crate::kernel::KernelError;

/// Scripts in real time disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A script on the kernel; `None` without root.
fn on_kernel(text: &str) -> Option<Report> {
    let _alone = ALONE.lock();
    // Tests run beside others.
    let settings = Settings { lateness: std::time::Duration::from_millis(40) };
    match run(text, &|_| None, &settings) {
        Ok(report) => Some(report),
        Err(KernelError::NotRoot) => {
            eprintln!("skipped: needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn own(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/packetdrill");
    std::fs::read_to_string(folder.join(name)).expect("a script")
}

/// Every script of a folder, for a look: `cargo test -p narrows-live all_scripts -- --ignored --nocapture`, with the
/// folder in `SCRIPTS`.
#[test]
#[ignore = "prints results"]
fn all_scripts_of_a_folder() {
    let folder = std::env::var("SCRIPTS").expect("SCRIPTS");
    let mut paths = vec![PathBuf::from(folder)];
    let mut files = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(
                std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()),
            );
        } else if path.extension().is_some_and(|ending| ending == "pkt") {
            files.push(path);
        }
    }
    files.sort();
    for path in files {
        let text = String::from_utf8_lossy(&std::fs::read(&path).expect("a script")).into_owned();
        let folder = path.parent().expect("a folder").to_owned();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let sim = narrows_packetdrill::run(&text, &read);
        let kernel = run(&text, &read, &Settings::default()).expect("root");
        println!(
            "{} {} {}:{} {}",
            sim.verdict.name(),
            kernel.verdict.name(),
            path.display(),
            kernel.line.unwrap_or(0),
            kernel.reason
        );
    }
}
