//! BRF's header on this machine's kernel. Without root or BPF the tests print the reason and pass.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::Rate;
use narrows_host::testing::{alone, skipped};
use narrows_programs::{Program, can_run};
use rustix::net::sockopt;
use rustix::net::{self, AddressFamily, SocketType};

use super::host::{self, Options};

/// The attachments of a test; dropping this removes them.
struct Attached;

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = host::detach(None);
    }
}

/// Keeps other runs out; `None` if the tests may not attach anything here.
fn may_attach() -> Option<MutexGuard<'static, ()>> {
    let alone = alone();
    if !rustix::process::geteuid().is_root() || !can_run() {
        skipped("root and BPF");
        return None;
    }
    if Program::advised().is_registered() {
        skipped("a kernel in which nobody uses the scheme");
        return None;
    }
    Some(alone)
}

/// Bytes per second that a receiver gets over the loopback from a sender with the scheme.
fn received(time: Duration) -> f64 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            sockopt::set_tcp_congestion(&socket, Program::advised().name).expect("it is registered");
            net::connect(&socket, &address).expect("it listens");
            let mut sender = TcpStream::from(socket);
            while !over.load(Ordering::Relaxed) {
                if sender.write_all(&[0; 1 << 14]).is_err() {
                    break;
                }
            }
        });
        let (mut receiver, _) = listener.accept().expect("a sender");
        let mut buffer = vec![0; 1 << 16];
        let begin = Instant::now();
        let mut sum = 0;
        while begin.elapsed() < time {
            sum += receiver.read(&mut buffer).expect("data");
        }
        over.store(true, Ordering::Relaxed);
        sum as f64 / begin.elapsed().as_secs_f64()
    })
}

/// The receiver's limit travels in the option, and the sender paces at this limit; detaching leaves nothing.
#[test]
#[ignore = "real time: `make test`"]
fn host_option_paces_sender_at_limit() {
    let Some(_alone) = may_attach() else { return };
    let limit = Rate::from_mbit_per_sec(40.0);
    let attached = host::attach(&Options { limit: Some(limit), ..Options::default() }).expect("root");
    let guard = Attached;
    assert!(attached.loads && attached.link.exists(), "{attached:?}");
    let rate = received(Duration::from_secs(1));
    let status = host::status().expect("root");
    eprintln!("{rate} B/s: {status:?}");
    // The limit is 5 MB/s, of which headers of 64 KiB segments take less than a thousandth. The machine may be busy.
    assert!(rate > 2.5e6 && rate < 5.5e6, "{rate}");
    assert!(status.offered >= 1 && status.accepted >= 1 && status.read > 10, "{status:?}");
    assert_eq!((status.fallbacks, status.errors, status.invalid), (0, 0, 0), "{status:?}");
    drop(guard);
    let after = host::status().expect("root");
    assert!(!after.loaded && after.attachments.is_empty(), "{after:?}");
    assert!(!attached.link.exists());
}

/// The next command removes the remains of a command that was killed between loading the scheme and attaching.
#[test]
fn host_half_attached_is_cleaned_up() {
    let Some(_alone) = may_attach() else { return };
    // Reproduces the state that a killed `attach` leaves after these steps.
    let marker = std::path::Path::new("/sys/fs/bpf/narrows/brf/mark");
    host::attach(&Options::default()).expect("root");
    let _guard = Attached;
    let link = host::status().expect("root").attachments[0].id;
    std::fs::remove_file(format!("/sys/fs/bpf/narrows/brf-host/{link}/link")).expect("it is pinned");
    assert!(marker.exists() && Program::advised().is_registered());
    let after = host::status().expect("root");
    assert!(!after.loaded && after.attachments.is_empty() && !marker.exists(), "{after:?}");
    assert!(!Program::advised().is_registered());
}

/// The scheme is not unloaded while programs use its maps, and the programs continue.
#[test]
fn host_scheme_in_use_is_not_unloaded() {
    let Some(_alone) = may_attach() else { return };
    let attached = host::attach(&Options::default()).expect("root");
    let _guard = Attached;
    let refused = Program::advised().unload().expect_err("it is in use").to_string();
    let expected = format!("programs of `brf` are attached to {};", attached.cgroup.display());
    assert!(refused.starts_with(&expected) && refused.contains("`narrows brf detach`"), "{refused}");
    received(Duration::from_millis(200));
    let status = host::status().expect("root");
    assert!(status.loaded && status.opened > 0 && status.offered > 0, "{status:?}");
    let lines = host::detach(None).expect("root");
    assert_eq!(lines.len(), 2, "the scheme goes too: {lines:?}");
    assert!(!Program::advised().is_registered());
}

/// A scheme that was loaded by hand stays when the programs that use it are detached.
#[test]
fn host_detach_keeps_scheme_loaded_by_hand() {
    let Some(_alone) = may_attach() else { return };
    let program = Program::advised();
    program.load(&[]).expect("root");
    let _guard = Attached;
    let attached = host::attach(&Options::default());
    let lines = host::detach(None);
    let stays = program.is_registered();
    program.unload().expect("it is loaded");
    assert!(!attached.expect("root").loads && stays, "{lines:?}");
    assert_eq!(lines.expect("root").len(), 1);
}

/// If the scheme's file is removed, status still shows the attached programs, and the scheme is not loaded again until
/// they are detached.
#[test]
fn host_programs_without_scheme_are_shown() {
    let Some(_alone) = may_attach() else { return };
    let program = Program::advised();
    host::attach(&Options::default()).expect("root");
    let _guard = Attached;
    std::fs::remove_file("/sys/fs/bpf/narrows/brf/link").expect("it is pinned");
    let status = host::status().expect("root");
    assert!(!status.loaded && status.attachments.len() == 1, "{status:?}");
    let end = Instant::now() + Duration::from_secs(60);
    while program.is_registered() {
        assert!(Instant::now() < end, "the kernel unregisters it");
        thread::sleep(Duration::from_millis(5));
    }
    let refused = program.load(&[]).expect_err("the programs have other maps").to_string();
    assert!(refused.contains("`narrows brf detach`"), "{refused}");
    assert_eq!(host::detach(None).expect("root").len(), 1);
    program.load(&[]).expect("root");
    program.unload().expect("it is loaded");
}

/// A second attachment and wrong values are refused with errors that name them, and a dry run changes nothing.
#[test]
fn host_refusals_leave_nothing() {
    let Some(_alone) = may_attach() else { return };
    let dry = Options { dry: true, ..Options::default() };
    assert!(host::attach(&dry).expect("root").loads);
    assert!(!host::status().expect("root").loaded);
    let wrong = |options: &Options| host::attach(options).expect_err("refused").to_string();
    let values = vec![("speed".to_owned(), "1".to_owned())];
    assert!(wrong(&Options { values, ..Options::default() }).contains("speed"));
    let elsewhere = wrong(&Options { cgroup: Some("/tmp".into()), ..Options::default() });
    assert!(elsewhere.contains("not a cgroup of version 2"), "{elsewhere}");
    assert!(!host::status().expect("root").loaded);
    host::attach(&Options::default()).expect("root");
    let _guard = Attached;
    let second = wrong(&Options::default());
    assert!(second.contains("has an attachment"), "{second}");
    assert_eq!(host::status().expect("root").attachments.len(), 1);
}

/// If no switch lowers the rate, the sender falls back to CUBIC instead of stalling.
#[test]
#[ignore = "real time: `make test`"]
fn host_without_switch_falls_back() {
    let Some(_alone) = may_attach() else { return };
    let values = vec![("timeout".to_owned(), "0.1".to_owned())];
    host::attach(&Options { values, ..Options::default() }).expect("root");
    let _guard = Attached;
    let rate = received(Duration::from_secs(1));
    let status = host::status().expect("root");
    eprintln!("{rate} B/s: {status:?}");
    assert!(rate > 2e7, "{rate}");
    assert!(status.read == 0 && status.unlimited > 10 && status.fallbacks >= 1, "{status:?}");
}

/// Environment variable of the processes of the next test: the cgroup to attach to, or the program to load.
const CHILD: &str = "NARROWS_TEST_ATTACH";

/// The processes that the next test starts.
#[test]
fn attaching_process() {
    let Ok(what) = std::env::var(CHILD) else { return };
    for turn in 0..4 {
        if let Ok(program) = Program::find(&what) {
            program.load(&[]).unwrap_or_else(|error| panic!("load {turn}: {error}"));
            program.unload().unwrap_or_else(|error| panic!("unload {turn}: {error}"));
        } else {
            let cgroup = std::path::PathBuf::from(&what);
            let options = Options { cgroup: Some(cgroup.clone()), ..Options::default() };
            host::attach(&options).unwrap_or_else(|error| panic!("attach {turn}: {error}"));
            // Time for other commands to inspect the attachment.
            thread::sleep(Duration::from_millis(50));
            host::detach(Some(&cgroup)).unwrap_or_else(|error| panic!("detach {turn}: {error}"));
        }
    }
}

/// Concurrent commands that attach, detach, load, unload and inspect do not mistake each other's work for remains of
/// killed commands.
#[test]
fn host_commands_at_once_do_not_disturb_each_other() {
    let Some(_alone) = may_attach() else { return };
    if Program::find("bbr_plain").expect("it is listed").is_registered() {
        return;
    }
    let root = narrows_programs::attached::root().expect("cgroups");
    let cgroups = [0, 1, 2].map(|n| root.join(format!("narrows-test-{}-{n}", std::process::id())));
    cgroups.iter().for_each(|path| std::fs::create_dir(path).expect("root"));
    let own = std::env::current_exe().expect("this test");
    let start = |what: &std::ffi::OsStr| {
        std::process::Command::new(&own)
            .args(["tests::attaching_process", "--exact", "--nocapture"])
            .env(CHILD, what)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let mut children: Vec<_> = cgroups.iter().map(|path| start(path.as_os_str())).collect();
    children.push(start("bbr_plain".as_ref()));
    let mut seen = 0;
    while children.iter_mut().any(|child| child.try_wait().expect("ours").is_none()) {
        seen += host::status().expect("root").attachments.len();
    }
    let said: Vec<String> = children
        .into_iter()
        .map(|child| child.wait_with_output().expect("it has ended"))
        .filter(|done| !done.status.success())
        .map(|done| String::from_utf8_lossy(&done.stderr).into_owned())
        .collect();
    cgroups.iter().for_each(|path| drop(std::fs::remove_dir(path)));
    assert!(said.is_empty(), "{said:#?}");
    assert!(seen > 0, "an attachment was there in between");
    let after = host::status().expect("root");
    assert!(!after.loaded && after.attachments.is_empty(), "{after:?}");
}
