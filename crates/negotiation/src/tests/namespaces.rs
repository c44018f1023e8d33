//! Server, node and client in separate network namespaces, and the program in the kernel. Without root, BPF or `ip` the
//! tests say so and pass.
//!
//! ```text
//! server 10.1.0.2 ── veth ── 10.1.0.1 router, node 10.2.0.1 ── veth ── client 10.2.0.2
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use narrows_cc::Rate;
use narrows_host::testing::skipped;
use narrows_programs::can_run;
use narrows_routers::negotiation::MOST;

use super::super::{ClientSettings, NodeSettings, PORT, ServerSettings, request, run_node, serve};
use super::{Desk, Ending, mbit};

/// Runs `ip` with these arguments in the namespace of this thread.
fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().expect("ip");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Moves this thread into a new network namespace with a loopback interface. Returns the thread's number, which
/// `ip` accepts as a process ID.
fn unshare() -> i32 {
    narrows_host::namespace::unshare().expect("root");
    ip("link set lo up");
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn is_possible() -> bool {
    if !rustix::process::geteuid().is_root() || Command::new("ip").arg("-V").output().is_err() {
        skipped("root and `ip`");
        return false;
    }
    if !can_run() {
        skipped("BPF");
        return false;
    }
    true
}

/// Sets up a host: gives its interface `name` this address once the interface appears.
fn join(name: &str, address: &str, router: &str) {
    let mut left = 200;
    while !Command::new("ip").args(["link", "show", name]).output().expect("ip").status.success() {
        assert!(left > 0, "{name} does not come");
        left -= 1;
        thread::sleep(Duration::from_millis(20));
    }
    ip(&format!("address add {address}/24 dev {name}"));
    ip(&format!("link set {name} up"));
    ip(&format!("route add default via {router}"));
}

/// Across a router with a node, the program sends at the negotiated rate within 5 %, and its counters show that
/// it paced.
#[test]
#[ignore = "real time: `make test`"]
fn program_sends_at_the_rate_across_a_router() {
    if !is_possible() {
        return;
    }
    let (passing, sending, receiving) = (Desk::default(), Desk::default(), Desk::default());
    let at = |a: u8, b: u8| SocketAddrV4::new(Ipv4Addr::new(10, a, 0, b), PORT);
    let (tell, hear) = mpsc::channel();
    let (report, served) = thread::scope(|scope| {
        let _ending = Ending(&[&passing, &sending]);
        let (passing, sending, receiving) = (&passing, &sending, &receiving);
        let own = tell.clone();
        let serving = scope.spawn(move || {
            own.send(("server", unshare())).unwrap();
            join("s", "10.1.0.2", "10.1.0.1");
            let settings =
                ServerSettings { listen: at(1, 2), via: Some(at(1, 1)), max: MOST, connections: 4, program: true };
            serve(&settings, sending)
        });
        let client = scope.spawn(move || {
            tell.send(("client", unshare())).unwrap();
            join("c", "10.2.0.2", "10.2.0.1");
            sending.address();
            passing.address();
            let settings = ClientSettings {
                server: at(1, 2),
                local: None,
                content: 7,
                subflows: 2,
                max: MOST,
                min: Rate::ZERO,
                limit: MOST,
                size: 0,
                duration: Some(Duration::from_secs(3)),
                responder: PORT,
                timeout: Duration::from_secs(10),
            };
            request(&settings, receiving)
        });
        scope.spawn(move || {
            unshare();
            for _ in 0..2 {
                let (who, thread) = hear.recv().unwrap();
                let (end, here, address) =
                    if who == "server" { ("s", "rs", "10.1.0.1") } else { ("c", "rc", "10.2.0.1") };
                ip(&format!("link add {here} type veth peer name {end}"));
                ip(&format!("link set {end} netns {thread}"));
                ip(&format!("address add {address}/24 dev {here}"));
                ip(&format!("link set {here} up"));
            }
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding");
            run_node(&NodeSettings::new(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT), mbit(20.0)), passing)
        });
        let report = client.join().unwrap().expect("it is served");
        thread::sleep(Duration::from_millis(300));
        sending.stop();
        (report, serving.join().unwrap().expect("it ran"))
    });
    eprintln!("{report:?} {served:?}");
    // Of each 1500 bytes on the wire, 1448 are payload. The last reservation may be one packet per round trip
    // too small.
    let wire = report.goodput_mbit_s * 1500.0 / 1448.0;
    assert!((19.0..=21.0).contains(&wire), "{wire} {report:?}");
    assert!(served.acks_granted.is_some_and(|acks| acks > 500), "{served:?}");
    assert!(report.subflow_bytes.iter().all(|bytes| *bytes > 1_000_000), "{report:?}");
}
