//! Runs the scripts of `crates/tcp/tests/packetdrill`. All must pass, except those listed in its `deviations.txt`. The
//! scripts of its folder `endpoint` use extensions of the language that no kernel has; the others also pass on Linux.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::PathBuf;

use narrows_packetdrill::{Report, Verdict, run};

/// The folder of scripts that only the endpoint runs.
const ENDPOINT: &str = "endpoint/";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/packetdrill")
}

/// All scripts by file name; names of scripts in `endpoint` begin with [`ENDPOINT`].
fn scripts() -> BTreeMap<String, String> {
    let in_folder = |under: &'static str| {
        let entries = fs::read_dir(folder().join(under)).expect("the folder of scripts");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let scripts = paths.filter(|path| path.extension().is_some_and(|ending| ending == "pkt"));
        scripts.map(move |path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            (format!("{under}{name}"), fs::read_to_string(&path).expect("UTF-8 text"))
        })
    };
    in_folder("").chain(in_folder(ENDPOINT)).collect()
}

/// Known deviations: file name → reason.
fn deviations() -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder().join("deviations.txt")).expect("the list of deviations");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (name, reason) = line.split_once(": ").unwrap_or_else(|| panic!("{line}: no reason"));
        (name.to_owned(), reason.to_owned())
    };
    lines.map(entry).collect()
}

fn played(text: &str) -> Report {
    run(text, &|_| None)
}

/// Describes the problem of a script, with name and line, if it has one. `known`: reason why the script must fail. A
/// panic of the endpoint counts as a failure of the script.
fn problem(name: &str, known: Option<&String>, play: impl Fn() -> Report + UnwindSafe) -> Option<String> {
    let Ok(report) = catch_unwind(play) else {
        return Some(format!("{name}: the endpoint panics (message above)"));
    };
    match (report.verdict, known) {
        (Verdict::Pass, None) | (Verdict::Fail, Some(_)) => None,
        (Verdict::Pass, Some(reason)) => Some(format!("{name} passes; no longer true: {reason}")),
        (verdict, _) => Some(format!("{name}:{}: {}: {}", report.line.unwrap_or(0), verdict.name(), report.reason)),
    }
}

/// Scripts pass, and scripts with known deviations still fail.
#[test]
fn own_scripts_pass_but_for_known_deviations() {
    let (scripts, known) = (scripts(), deviations());
    assert!(scripts.len() >= 90, "{} scripts", scripts.len());
    let judge = |(name, text): (&String, &String)| problem(name, known.get(name), || played(text));
    let mut wrong: Vec<String> = scripts.iter().filter_map(judge).collect();
    let absent = known.keys().filter(|name| !scripts.contains_key(*name));
    wrong.extend(absent.map(|name| format!("deviations.txt names {name}, which is not there")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every script begins with a comment that states the fact it checks, and leaves no result of a call unchecked.
#[test]
fn own_scripts_state_a_fact_and_check_all() {
    for (name, text) in scripts() {
        assert!(text.starts_with("// "), "{name} begins without a comment");
        assert_eq!(played(&text).unchecked, Vec::<String>::new(), "{name}");
    }
}

/// All scripts in `endpoint` use extensions of the language, and no other script does.
#[test]
fn own_scripts_use_extensions_in_their_folder_only() {
    for (name, text) in scripts() {
        let extended = text.contains("narrows.") || text.contains("narrows_");
        assert_eq!(extended, name.starts_with(ENDPOINT), "{name}");
    }
}

/// For each default taken from Linux: the sysctl that reverts the default, and the script that must then fail.
const DEFAULTS: &[(&str, &str)] = &[
    ("narrows.tcp.tso=false", "endpoint/linux-tso-deferral"),
    ("narrows.tcp.tso=false", "endpoint/linux-tso-bursts"),
    ("narrows.tcp.max_burst=1pkt", "endpoint/linux-tso-bursts"),
    ("narrows.tcp.quick_acks=0", "quick-acks"),
    ("narrows.tcp.quick_growth=false", "endpoint/linux-window-growth"),
    ("narrows.tcp.receive_autotuning=false", "endpoint/linux-autotuning"),
    ("narrows.tcp.sack_compression=false", "endpoint/linux-sack-compression"),
    ("narrows.tcp.gro=1ms", "quick-acks"),
    ("narrows.tcp.timers=rfc", "rto-backoff"),
    ("narrows.tcp.timers=rfc", "endpoint/linux-tail-probe-single"),
    ("narrows.tcp.timers=rfc", "endpoint/linux-tail-probe-several"),
    ("net.ipv4.tcp_early_retrans=0", "endpoint/linux-tail-probe-single"),
    ("narrows.tcp.prr=rfc6937", "endpoint/linux-prr-bound"),
    ("narrows.tcp.reduction_from=flight", "ssthresh-from-cwnd"),
    ("narrows.tcp.reduction_from=flight", "endpoint/linux-timeout"),
    ("narrows.tcp.idle_restart=rfc5681", "idle-restart"),
    ("net.ipv4.tcp_slow_start_after_idle=0", "idle-restart"),
    ("narrows.tcp.timestamp_rtt=false", "endpoint/linux-timestamp-rtt"),
    ("narrows.tcp.rack_rtt=newest", "endpoint/linux-rack-rtt"),
    ("narrows.tcp.dsack_delivered=false", "dsack-delivered"),
    ("narrows.tcp.grow_on_sack=false", "grow-on-sack"),
    ("narrows.scheme.hystart=rfc9406", "endpoint/linux-hystart"),
    ("narrows.scheme.hystart=off", "endpoint/linux-hystart"),
    ("narrows.scheme.growth=rfc9438", "endpoint/linux-hystart"),
];

/// Each default is checked by a script: the script fails if the default is reverted.
#[test]
fn own_scripts_notice_every_default_taken_back() {
    let scripts = scripts();
    for (setting, name) in DEFAULTS {
        let text = &scripts[&format!("{name}.pkt")];
        let first = text.find("0 socket(").expect("a script begins with a socket");
        let report = played(&format!("{}0 `sysctl -q {setting}`\n{}", &text[..first], &text[first..]));
        assert_eq!(report.verdict, Verdict::Fail, "{setting}: {name} does not notice");
        assert!(report.reason.starts_with("expected "), "{setting}: {name}: {}", report.reason);
    }
}

/// A script with a changed time fails: this test suite detects differences.
#[test]
fn own_script_with_a_wrong_time_fails() {
    let text = &scripts()["rto-backoff.pkt"];
    let changed = text.replacen("+.25 >", "+.20 >", 1);
    assert_ne!(&changed, text);
    let report = played(&changed);
    assert_eq!(report.verdict, Verdict::Fail);
    assert!(report.reason.contains("seen nothing until"), "{}", report.reason);
}

/// A failure names the script and the line; a panic names the script in which it happens.
#[test]
fn own_script_that_fails_or_panics_is_named() {
    let text = &scripts()["rto-backoff.pkt"];
    let changed = text.replacen("+.25 >", "+.20 >", 1);
    let line = 1 + changed.lines().position(|line| line.contains("+.20 >")).expect("the changed line");
    let found = problem("a.pkt", None, || played(&changed)).expect("a failure");
    assert!(found.starts_with(&format!("a.pkt:{line}: fail: ")), "{found}");
    let found = problem("b.pkt", None, || panic!("on purpose")).expect("a failure");
    assert!(found.starts_with("b.pkt: "), "{found}");
    assert_eq!(problem("c.pkt", None, || played(text)), None);
}
