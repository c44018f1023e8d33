//! Scripts on this machine's kernel. Without root the tests print the reason and pass.

use std::path::PathBuf;

use narrows_host::HostError;
use narrows_host::testing::{alone, skipped};
use narrows_packetdrill::{Report, Verdict};

use super::{Settings, run};

/// A script on the kernel; `None` without root.
fn on_kernel(text: &str) -> Option<Report> {
    let _alone = alone();
    // The tolerance is generous, because other tests run at the same time.
    let settings = Settings { lateness: std::time::Duration::from_millis(40) };
    match run(text, &|_| None, &settings, &|| false) {
        Ok(report) => Some(report),
        Err(HostError::Unavailable(lacks)) => {
            skipped(&format!("root and network namespaces: {lacks}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn own(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/packetdrill");
    std::fs::read_to_string(folder.join(name)).expect("a script")
}

/// Maximum number of runs per script.
const RUNS: usize = 4;

/// Every script of this project passes on Linux, or is skipped with the reason.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_own_scripts_pass_on_the_kernel() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/packetdrill");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".pkt"))
        .collect();
    names.sort();
    assert!(names.len() >= 36, "{names:?}");
    let mut skips = 0;
    for name in names {
        let Some(mut report) = on_kernel(&own(&name)) else { return };
        // A busy machine may inject a packet after a timer of the kernel has fired, so failures are retried: real
        // differences remain in every run.
        for _ in 1..RUNS {
            if report.verdict != Verdict::Fail {
                break;
            }
            eprintln!("again: {name}:{:?}: {}", report.line, report.reason);
            let Some(another) = on_kernel(&own(&name)) else { return };
            report = another;
        }
        skips += usize::from(report.verdict == Verdict::Skip);
        assert_ne!(report.verdict, Verdict::Fail, "{name}:{:?}: {}", report.line, report.reason);
    }
    // A kernel without fq runs all scripts but one.
    assert!(skips <= 1, "{skips} scripts skipped");
}

/// A script that ends during a blocking call ends the call, even if it has closed the socket.
#[test]
#[ignore = "real time: `make test`"]
fn calls_that_still_block_end_with_the_script() {
    let text = "\
+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0...5 accept(3, ..., ...) = 4
+.1 close(3) = 0
+.1 < . 1:1(0) ack 1 win 100
+0 > R 1:1(0)";
    let begun = std::time::Instant::now();
    if on_kernel(text).is_some() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }
}

/// A script that is cancelled ends at its next wait.
#[test]
fn cancelled_scripts_end_at_once() {
    let text = "+0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+60 close(3) = 0\n";
    let begun = std::time::Instant::now();
    let settings = Settings { lateness: std::time::Duration::from_millis(40) };
    match run(text, &|_| None, &settings, &|| true) {
        Ok(report) => {
            assert_eq!((report.verdict, report.reason.as_str()), (Verdict::Fail, "stopped"));
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        }
        Err(HostError::Unavailable(_)) => skipped("root and network namespaces"),
        Err(error) => panic!("{error}"),
    }
}

/// The kernel opens a connection to the script's peer, and blocking calls return when a packet arrives.
#[test]
fn kernel_connects_and_blocks() {
    let text = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0...0.1 connect(3, ..., ...) = 0
+0 > S 0:0(0) <mss 1460,sackOK,TS val 100 ecr 0,nop,wscale 7>
+.1 < S. 0:0(0) ack 1 win 5792 <mss 1460,sackOK,TS val 700 ecr 100,nop,wscale 7>
+0 > . 1:1(0) ack 1 <nop,nop,TS val 200 ecr 700>
+0...0.1 read(3, ..., 2000) = 1000
+.1 < P. 1:1001(1000) ack 1 win 100 <nop,nop,TS val 800 ecr 200>
+0 > . 1:1(0) ack 1001 <nop,nop,TS val 300 ecr 800>
+0 write(3, ..., 100) = 100
+0 > P. 1:101(100) ack 1001 <nop,nop,TS val 300 ecr 800>";
    let Some(report) = on_kernel(text) else { return };
    assert_eq!(report.verdict, Verdict::Pass, "{:?}: {}", report.line, report.reason);
}

/// A script fails at the line of a packet that differs, and a script with a command that needs a shell is skipped.
#[test]
fn kernel_scripts_fail_and_skip_with_reasons() {
    let text = own("fast-retransmit-sack.pkt");
    let begin = "+0 write(4, ..., ";
    let at = text.find(begin).expect("a write");
    let wrong = format!("{}+0 > . 7:8(1) ack 1\n", &text[..at]);
    let Some(report) = on_kernel(&wrong) else { return };
    assert_eq!(report.verdict, Verdict::Fail);
    assert!(report.reason.contains("seen nothing until"), "{}", report.reason);
    let Some(report) = on_kernel(&text.replacen("`sysctl", "`bash", 1)) else { return };
    assert_eq!(report.verdict, Verdict::Skip, "{}", report.reason);
}
