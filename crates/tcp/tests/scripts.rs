//! Packet scripts: each file in `scripts/` drives one endpoint and states every packet it must send and when.
//!
//! A script is read line by line; `#` begins a comment. Settings come first:
//!
//!     sender newreno window=10     the end under test and its scheme; or: receiver
//!     config rack=false            fields of TcpConfig; segments have 1000 bytes; profile=rfc comes first
//!     app file 20                  bulk | file N | cbr N MS (N segments every MS milliseconds) | once N
//!     show echo window             also compare these fields of the packets sent
//!
//! Then events, each with its time in milliseconds:
//!
//!     100 < syn-ack                a packet arrives: syn-ack, ack N, data N, fin N, syn, probe
//!     100 > data 1-10              packets leave: data N again, fin N, syn, ack N, probe
//!     150 ? phase=recovery         the sender's state: phase, window, inflight (in segments), app_limited, or a counter
//!     200 stop                     the application stops writing
//!     900 end                      nothing else happens until here
//!
//! Packets are numbered from 1, as is what an acknowledgement covers: `ack 3` acknowledges packets 1 to 3,
//! `ack 0` none. Blocks follow: `ack 3 sack 7-9 5`, `dsack 2`. Further words: `ece cwr ce ect0 again
//! window=BYTES echo=MS`. An acknowledgement that advances echoes the time at which the first packet it newly
//! covers left last (RFC 7323 section 4.3), any other repeats the echo before it, unless `echo` says
//! otherwise.

use std::fmt::Write as _;
use std::panic::catch_unwind;
use std::path::Path;

use crate::script::{Flip, run, run_with};
use narrows_cc::{Bytes, IdleRule, Nanos};
use narrows_tcp::{PrrBound, ReductionFrom, TimerRules};

/// Name and text of every script.
fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "script"));
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// Names of the scripts that differ, with the differences. A script that panics, or whose endpoint does, is named too.
fn failures(scripts: &[(String, String)]) -> String {
    let mut report = String::new();
    for (name, text) in scripts {
        let differences =
            catch_unwind(|| run(text)).unwrap_or_else(|_| String::from("    it panics (message above)"));
        if !differences.is_empty() {
            let _ = writeln!(report, "\n{name}\n{differences}");
        }
    }
    report
}

/// The endpoints reproduce every script packet by packet.
#[test]
fn scripts_match_packet_by_packet() {
    let scripts = scripts();
    assert!(scripts.len() >= 20, "scripts are missing: {} found", scripts.len());
    let report = failures(&scripts);
    assert!(report.is_empty(), "{report}");
}

/// A failure names its script, also one that is not understood, and the others run all the same.
#[test]
fn scripts_that_fail_or_panic_are_named() {
    let script = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let late = HANDSHAKE.replace("100 > data 1-2", "101 > data 1-2");
    let report = failures(&[script("broken", "nonsense"), script("good", HANDSHAKE), script("late", &late)]);
    assert!(report.contains("\nbroken\n") && report.contains("\nlate\n"), "{report}");
    assert!(!report.contains("good"), "{report}");
}

/// Every default that follows Linux, taken back, with the script that must notice.
const DEFAULTS: &[(&str, Flip, &str)] = &[
    ("tso", Flip::Config(|c| c.tso = false), "tso-deferral"),
    ("tso when pacing", Flip::Config(|c| c.tso = false), "tso-bursts"),
    ("max_burst", Flip::Config(|c| c.max_burst = Bytes::new(1000)), "tso-bursts"),
    ("quick_acks", Flip::Config(|c| c.quick_acks = 0), "quick-acks"),
    ("quick_growth", Flip::Config(|c| c.quick_growth = false), "window-growth"),
    ("receive_autotuning", Flip::Config(|c| c.receive_autotuning = false), "autotuning"),
    ("sack_compression", Flip::Config(|c| c.sack_compression = false), "sack-compression"),
    ("gro", Flip::Config(|c| c.gro = Nanos::from_millis(1)), "quick-acks"),
    ("timers of RTO", Flip::Config(|c| c.timers = TimerRules::Rfc), "rto"),
    ("timers of a probe", Flip::Config(|c| c.timers = TimerRules::Rfc), "tail-probe-single"),
    ("timers of probes", Flip::Config(|c| c.timers = TimerRules::Rfc), "tail-probe-several"),
    ("tlp", Flip::Config(|c| c.tlp = false), "tail-probe-single"),
    ("prr", Flip::Config(|c| c.prr = PrrBound::Rfc6937), "prr-bound"),
    ("reduction_from", Flip::Config(|c| c.reduction_from = ReductionFrom::Flight), "ssthresh-from-cwnd"),
    ("reduction_from on timeout", Flip::Config(|c| c.reduction_from = ReductionFrom::Flight), "timeout"),
    ("idle", Flip::Config(|c| c.idle = IdleRule::Rfc5681), "idle-halving"),
    ("idle off", Flip::Config(|c| c.idle = IdleRule::Off), "idle-halving"),
    ("timestamp_rtt", Flip::Config(|c| c.timestamp_rtt = false), "timestamp-rtt"),
    ("rack_rtt_last", Flip::Config(|c| c.rack_rtt_last = false), "rack-rtt"),
    ("dsack_delivered", Flip::Config(|c| c.dsack_delivered = false), "dsack-delivered"),
    ("grow_on_sack", Flip::Config(|c| c.grow_on_sack = false), "grow-on-sack"),
    ("hystart=rfc9406", Flip::Param("hystart", 1.0), "hystart"),
    ("hystart=off", Flip::Param("hystart", 2.0), "hystart"),
    ("growth=rfc9438", Flip::Param("growth", 1.0), "hystart"),
];

/// No default is unguarded: each one, taken back, breaks its script.
#[test]
fn scripts_of_linux_notice_every_default_taken_back() {
    let scripts = scripts();
    for &(option, flip, name) in DEFAULTS {
        let (_, text) = scripts.iter().find(|(file, _)| file.strip_prefix("linux-") == Some(name)).unwrap();
        assert!(!run_with(text, flip).is_empty(), "{option}: linux-{name} does not notice");
    }
}

const HANDSHAKE: &str = "app file 2\nsender fixed\n0 > syn\n100 < syn-ack\n100 > data 1-2\n100 > fin 3\n";

/// A packet that the script does not expect is reported.
#[test]
fn script_with_extra_packet_reports_it() {
    assert_eq!(run(HANDSHAKE), "");
    let report = run(&HANDSHAKE.replace("100 > fin 3\n", ""));
    assert!(report.contains("!!  -                                          100 > fin 3"), "{report}");
}

/// A packet at the wrong time is reported.
#[test]
fn script_with_wrong_time_reports_the_packet() {
    let report = run(&HANDSHAKE.replace("100 > data 1-2", "100.001 > data 1-2"));
    assert!(report.contains("!!    100.001 > data 1"), "{report}");
}

/// A missing packet and a wrong state are reported.
#[test]
fn script_reports_missing_packet_and_wrong_state() {
    let report = run(&format!("{HANDSHAKE}100 > data 3\n100 ? inflight=3"));
    assert!(report.contains("100 > data 3"), "{report}");
    assert!(report.contains("line 8, at 100: inflight is 2, not 3"), "{report}");
}
