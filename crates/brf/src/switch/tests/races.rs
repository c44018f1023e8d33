//! Tests of concurrent commands, and of switches that are killed halfway.

use std::process::{Child, Command, Stdio};

use narrows_host::changing::Changing;

use super::super::agent::attach;
use super::super::state::{self, State};
use super::super::{clean, run, status};
use super::hosts::{Log, Running, on_bridge, settings};
use super::segment::is_clean;

/// Environment variable of the processes of these tests; its value is their task.
const CHILD: &str = "NARROWS_TEST_RACE";

/// The processes that the tests start.
#[test]
fn racing_process() {
    match std::env::var(CHILD).as_deref() {
        Ok("switch") => run(&settings(), &Log::default()).expect("it runs"),
        Ok("half") => {
            let changing = Changing::begin().expect("root");
            let ports = settings().resolve().expect("they exist");
            let mut state = State::begin(changing, ports).expect("nobody has them");
            // Exits after creating the hook and before attaching the filter, without dropping anything, like a killed
            // process.
            let _ = attach(&mut state, |_, _, _, _| std::process::exit(0));
        }
        _ => {}
    }
}

fn process(what: &str) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["switch::tests::races::racing_process", "--exact", "--nocapture"])
        .env(CHILD, what)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// A switch that is killed between a hook and its filter leaves a record of the hook, and the next command removes it.
#[test]
fn switch_killed_at_a_hook_leaves_nothing_for_long() {
    on_bridge(|_hosts| {
        assert!(process("half").wait().is_ok_and(|done| done.success()));
        assert_eq!(status()[0]["runs"], false);
        assert!(!is_clean(), "the hook is there");
        assert!(!clean().expect("root").is_empty());
        assert!(is_clean());
    });
}

/// A hook that another program created stays.
#[test]
fn foreign_hook_stays_behind_a_switch() {
    on_bridge(|_hosts| {
        let port = super::hosts::BOTTLENECK;
        let tc = |words: &[&str]| Command::new("tc").args(words).status().is_ok_and(|done| done.success());
        assert!(tc(&["qdisc", "add", "dev", port, "clsact"]), "tc of iproute2");
        Running::start(settings()).end().expect("it ran");
        assert!(!is_clean(), "it was there before");
        assert!(tc(&["qdisc", "del", "dev", port, "clsact"]) && is_clean());
    });
}

/// Two switches begin at the same time on the same ports, while another command cleans up repeatedly: one runs and the
/// other is refused. The running switch keeps everything until it is killed.
#[test]
fn switches_at_once_do_not_remove_each_other() {
    on_bridge(|_hosts| {
        for round in 0..4 {
            let mut both = [process("switch"), process("switch")];
            let ended = loop {
                let cleaned = clean().expect("root");
                assert!(round > 0 || cleaned.is_empty(), "what a living one has created: {cleaned:?}");
                let over = |child: &mut Child| child.try_wait().expect("ours").is_some();
                if let Some(ended) = both.iter_mut().position(over) {
                    break ended;
                }
            };
            let [first, second] = both;
            let (refused, mut running) = if ended == 0 { (first, second) } else { (second, first) };
            let said = refused.wait_with_output().expect("it has ended");
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.contains("belongs to the switch of process"), "round {round}: {said}");
            while status()[0]["report"].is_null() {
                assert!(running.try_wait().expect("ours").is_none(), "round {round}: it runs");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(clean().expect("root").is_empty() && !is_clean(), "round {round}: it keeps its ports");
            assert_eq!(state::reports().len(), 1);
            running.kill().expect("it lives");
            running.wait().expect("it is ours");
        }
        assert!(!clean().expect("root").is_empty() && is_clean());
    });
}
