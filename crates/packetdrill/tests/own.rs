//! Runs the scripts of `crates/tcp/tests/packetdrill`. All must pass but those in its `deviations.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::PathBuf;

use narrows_packetdrill::{Report, Verdict, run};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/packetdrill")
}

/// All scripts by file name.
fn scripts() -> BTreeMap<String, String> {
    let entries =
        fs::read_dir(folder()).expect("the folder of scripts").map(|entry| entry.expect("an entry").path());
    let scripts = entries.filter(|path| path.extension().is_some_and(|ending| ending == "pkt"));
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    scripts.map(|path| (name(&path), fs::read_to_string(&path).expect("UTF-8 text"))).collect()
}

/// File name → reason.
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

/// What is wrong with a script, by its name and line; `known`: why it must fail. A panic of the endpoint counts as a
/// failure of the script in which it happens.
fn problem(name: &str, known: Option<&String>, play: impl Fn() -> Report + UnwindSafe) -> Option<String> {
    let Ok(report) = catch_unwind(play) else {
        return Some(format!("{name}: the endpoint panics (message above)"));
    };
    match (report.verdict, known) {
        (Verdict::Pass, None) | (Verdict::Fail, Some(_)) => None,
        (Verdict::Pass, Some(reason)) => Some(format!("{name} passes; no longer true: {reason}")),
        (verdict, _) => {
            Some(format!("{name}:{}: {}: {}", report.line.unwrap_or(0), verdict.name(), report.reason))
        }
    }
}

/// Scripts pass, and deviations still deviate.
#[test]
fn own_scripts_pass_but_for_known_deviations() {
    let (scripts, known) = (scripts(), deviations());
    assert!(scripts.len() >= 14, "{} scripts", scripts.len());
    let judge = |(name, text): (&String, &String)| problem(name, known.get(name), || played(text));
    let mut wrong: Vec<String> = scripts.iter().filter_map(judge).collect();
    let absent = known.keys().filter(|name| !scripts.contains_key(*name));
    wrong.extend(absent.map(|name| format!("deviations.txt names {name}, which is not there")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every script begins with the fact that it shows, and leaves no result of a call unchecked.
#[test]
fn own_scripts_state_a_fact_and_check_all() {
    for (name, text) in scripts() {
        assert!(text.starts_with("// "), "{name} begins without a comment");
        assert_eq!(played(&text).unchecked, Vec::<String>::new(), "{name}");
    }
}

/// A script that states another time fails: the gate can see a difference.
#[test]
fn own_script_with_a_wrong_time_fails() {
    let text = &scripts()["rto-backoff.pkt"];
    let changed = text.replacen("+.25 >", "+.20 >", 1);
    assert_ne!(&changed, text);
    let report = played(&changed);
    assert_eq!(report.verdict, Verdict::Fail);
    assert!(report.reason.contains("seen nothing until"), "{}", report.reason);
}

/// A failure names script and line, and a panic the script in which it happens.
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
