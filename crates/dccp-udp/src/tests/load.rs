//! Servers under load on real sockets of the loopback interface, bounded in time.
//!
//! `NARROWS_REDTEAM=N` makes each test N times as long; `-- --nocapture` shows the table. Absolute speeds depend on the
//! machine, so speeds are compared within one run. The long form runs alone, so its bounds assume an otherwise idle
//! machine; the short form runs beside other tests.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use narrows_host::testing::{alone, length, print_row, seed};

use super::*;
use crate::client::send;
use crate::server::receive_on;

/// Pairs of measurements, without and with a possible disturbance. The tests use the median of the pairs, because other
/// programs and tests take processor time from either half of a pair.
const PAIRS: u64 = 5;

/// Whether the tests run in the long form.
fn is_long() -> bool {
    length() > 1
}

/// A caller that stops on request and counts ended connections.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    ended: AtomicU64,
    /// Processor time of the thread that polls for a stop request, in nanoseconds.
    cpu: AtomicU64,
}

impl Caller for Watch {
    fn stop(&self) -> Stop {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        self.cpu.store(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) { Stop::Abort } else { Stop::No }
    }
    fn listening(&self, _: SocketAddr) {}
    fn progress(&self, _: &Report) {}
    fn ended(&self, _: &Report) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stops the server, even if the work beside it panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages: u64 = text.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number");
    pages * 4_096
}

/// Runs `work` beside a server with these settings, and stops the server afterwards.
fn beside_server<T>(settings: &Settings, work: impl FnOnce(SocketAddr, &Watch) -> T) -> T {
    let bound = StdSocket::bind("127.0.0.1:0").expect("a free port");
    let to = bound.local_addr().expect("a bound socket");
    let watch = Watch::default();
    thread::scope(|scope| {
        let server = scope.spawn(|| receive_on(bound, settings, &watch));
        let ending = Ending(&watch.over);
        let done = work(to, &watch);
        drop(ending);
        server.join().expect("no panic").expect("the server runs until it is stopped");
        done
    })
}

/// Sends as fast as possible for `duration`. Returns the report, and the time until the connection was open.
fn transfer(to: SocketAddr, duration: Duration) -> Result<(Report, Duration), LiveError> {
    let settings = Settings { address: to, duration: Some(duration), ..settings() };
    let begin = Instant::now();
    let report = send(&settings, &Watch::default())?;
    let opened = begin.elapsed().saturating_sub(Duration::from_secs_f64(report.duration_s));
    Ok((report, opened))
}

/// Sockets of a flood, each with a different address and UDP port.
const SOURCES: usize = 256;

/// Sends Requests that it never completes, `rate` per second, each from another address, UDP port and DCCP port than
/// the Request before; every sixteenth from an address that was not used before. Returns the number of Requests sent.
fn flood(to: SocketAddr, rate: u64, over: &AtomicBool, seed: u64) -> u64 {
    let mut random = Random::stream(seed, "flood", 0);
    let mut socket = || {
        let [_, a, b, c] = (random.bits() as u32).to_be_bytes();
        StdSocket::bind(SocketAddr::new([127, a, b, c.max(2)].into(), 0)).expect("a loopback address")
    };
    let mut sockets: Vec<StdSocket> = (0..SOURCES).map(|_| socket()).collect();
    let mut numbers = Random::stream(seed, "flood", 1);
    let (begin, mut sent) = (Instant::now(), 0);
    while !over.load(Ordering::Relaxed) {
        while sent < begin.elapsed().as_millis() as u64 * rate / 1_000 {
            let place = sent as usize % SOURCES;
            if place.is_multiple_of(16) {
                sockets[place] = socket();
            }
            let set = |header: &mut Header| {
                (header.source, header.seq) = (numbers.bits() as u16, numbers.bits() >> 16);
            };
            let _ = sockets[place].send_to(&packet(Kind::Request, set, &[], &[]), to);
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// The median of an odd number of values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Under 10 000 unfinished Requests per second a client connects within a second (each time in the long form, in the
/// median otherwise) and keeps half of the throughput that it has alone for the same time, in the median of interleaved
/// pairs; memory stays flat from before the flood.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "real time: `make test-long`"]
fn long_server_under_flood_serves_genuine_client() {
    let _alone = alone(); // each measures speed
    let settings = settings();
    let seed = seed();
    let (shares, waits, grown, sent) = beside_server(&settings, |to, _| {
        let time = Duration::from_millis(700) * length();
        let (mut shares, mut waits, mut sent, mut grown) = (Vec::new(), Vec::new(), 0, 0);
        for pair in 0..PAIRS {
            let (alone, _) = transfer(to, time).expect("a connection alone");
            let over = AtomicBool::new(false);
            let before = resident();
            thread::scope(|scope| {
                let attack = scope.spawn(|| flood(to, 10_000, &over, seed + pair));
                thread::sleep(Duration::from_millis(500));
                let outcome = transfer(to, time);
                grown = grown.max(resident().saturating_sub(before));
                over.store(true, Ordering::Relaxed);
                sent += attack.join().expect("no panic");
                let (attacked, opened) = outcome.expect("a connection under attack");
                shares.push(attacked.throughput_mbit_s / alone.throughput_mbit_s);
                waits.push(opened.as_secs_f64());
            });
        }
        (shares, waits, grown, sent)
    });
    let slowest = waits.iter().copied().fold(0.0, f64::max);
    let opened = if is_long() { slowest } else { median(waits.clone()) };
    assert!(opened < 1.0, "connected after {waits:?} s");
    assert!(grown < 8 << 20, "{grown} bytes more memory");
    let share = median(shares.clone());
    assert!(share >= 0.5, "shares of the throughput alone: {shares:?}");
    let result = format!(
        "connected after {:.0} ms at most, {share:.2} of the throughput alone, {:.1} MiB more memory",
        slowest * 1e3,
        grown as f64 / f64::from(1 << 20)
    );
    print_row("unfinished Requests, 10 000/s", sent, &result);
}

/// Connections from each address; even two addresses that share an allowance stay below the allowance's burst of 40
/// answers.
const PER_ADDRESS: u32 = 16;

/// Opens idle connections.
fn open_idle(to: SocketAddr, count: u32) -> Vec<StdSocket> {
    let mut sockets = Vec::new();
    for n in 0..count {
        if n % PER_ADDRESS == 0 {
            let address = n / PER_ADDRESS;
            let from = SocketAddr::new([127, 9, (address / 200) as u8, (address % 200 + 2) as u8].into(), 0);
            let socket = StdSocket::bind(from).expect("a loopback address");
            socket.connect(to).expect("a route");
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a read timeout");
            sockets.push(socket);
        }
        let socket = sockets.last().expect("a socket");
        let config = Config { local_port: 10_000 + n as u16, ..Config::default() };
        let mut client = Connection::new(&config, Random::stream(1, "idle", u64::from(n)), Nanos::ZERO);
        let mut buffer = [0; 2_048];
        for _ in 0..2 {
            let mut packet = Vec::new();
            while client.poll_transmit(SECOND, &mut packet).is_some() {
                socket.send(&std::mem::take(&mut packet)).expect("room");
            }
            if client.state().is_open() {
                break;
            }
            while !client.state().is_open() {
                let length = socket.recv(&mut buffer).expect("an answer");
                client.on_packet(SECOND, &buffer[..length], 0);
            }
        }
    }
    sockets
}

/// Rates at which the server receives from ten senders together: bytes per second of its processor time, which other
/// programs and tests change little, and bytes per second.
fn ten_senders(to: SocketAddr, time: Duration, watch: &Watch) -> [f64; 2] {
    let spent = || {
        thread::sleep(crate::TICK * 2); // the server polls for a stop request
        watch.cpu.load(Ordering::Relaxed) as f64 * 1e-9
    };
    let (before, begin) = (spent(), Instant::now());
    let bytes = thread::scope(|scope| {
        let senders: Vec<_> = (0..10).map(|_| scope.spawn(|| transfer(to, time))).collect();
        let sum = |sum: f64, sender: thread::ScopedJoinHandle<'_, Result<(Report, Duration), LiveError>>| {
            sum + sender.join().expect("no panic").expect("a connection").0.bytes_acknowledged as f64
        };
        senders.into_iter().fold(0.0, sum)
    });
    let seconds = begin.elapsed().as_secs_f64();
    [bytes / (spent() - before), bytes / seconds]
}

/// Beside 1 000 idle connections, the server receives from ten busy connections at least four fifths of the bytes per
/// processor time that it receives without idle connections, in the median of pairs. Per second it receives at least
/// four fifths in the long form, half in the short form.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "real time: `make test-long`"]
fn long_server_idle_connections_keep_throughput() {
    const IDLE: u32 = 1_000;
    let _alone = alone(); // each measures speed
    let (mut shares, mut speeds, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let settings = Settings { connections: 2_000, timeout: Duration::from_secs(120), ..settings() };
        let ([share, speed], each) = beside_server(&settings, |to, watch| {
            let time = Duration::from_millis(600) * length();
            ten_senders(to, Duration::from_millis(200), watch); // buffers grow
            let alone = ten_senders(to, time, watch);
            let before = resident();
            let idle = open_idle(to, IDLE);
            let each = resident().saturating_sub(before) as f64 / f64::from(IDLE);
            let beside = ten_senders(to, time, watch);
            drop(idle);
            ([beside[0] / alone[0], beside[1] / alone[1]], each)
        });
        shares.push(share);
        speeds.push(speed);
        sizes.push(each);
    }
    let (share, speed, each) = (median(shares.clone()), median(speeds.clone()), sizes[0]);
    assert!(share >= 0.8, "shares of the bytes per processor time without idle connections: {shares:?}");
    let least = if is_long() { 0.8 } else { 0.5 };
    assert!(speed >= least, "shares of the throughput without idle connections: {speeds:?}");
    // Only the memory of the first server is measured, because later servers reuse memory that earlier servers freed.
    assert!(each < 10_000.0, "{each} bytes for each idle connection");
    let result = format!(
        "{speed:.2} of the throughput without them, {share:.2} of the bytes per processor time, {each:.0} bytes each"
    );
    print_row("idle connections beside 10 busy ones", IDLE, &result);
}

/// Hostile datagrams over a real socket end neither the server nor a connection, and leave no memory allocated.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "real time: `make test`"]
fn server_survives_hostile_datagrams() {
    let _alone = alone(); // each measures speed
    let seed = seed();
    let settings = settings();
    let count = 20_000 * u64::from(length());
    let grown = beside_server(&settings, |to, watch| {
        let mut random = Random::stream(seed, "hostile", 0);
        let socket = StdSocket::bind("127.0.0.1:0").expect("a free port");
        let mut before = 0;
        for n in 0..count {
            if n == count / 4 {
                before = resident();
            }
            // Random bytes, or a header with random fields, options and data, perhaps truncated.
            let mut packet = Vec::new();
            let size = random.below(80) as usize;
            let noise: Vec<u8> = (0..size).map(|_| random.bits() as u8).collect();
            if random.chance(0.2) {
                packet = noise;
            } else {
                let kind = Kind::from_wire(random.below(10) as u8).expect("a type");
                let mut header = Header::new(kind);
                header.source = random.below(64) as u16;
                header.destination = Config::default().local_port;
                (header.seq, header.ack) = (random.bits() >> 16, header.ack.map(|_| random.bits() >> 16));
                header.service = if random.chance(0.9) { 0 } else { random.bits() as u32 };
                header.encode(&noise[..size / 2], &noise[size / 2..], &mut packet);
                if random.chance(0.1) {
                    packet.truncate(random.below(packet.len() as u64) as usize);
                }
            }
            let _ = socket.send_to(&packet, to);
            if n % 256 == 0 {
                thread::sleep(Duration::from_millis(2)); // pause after as many datagrams as fit the server's socket
            }
        }
        let grown = resident().saturating_sub(before);
        let (report, _) = transfer(to, Duration::from_millis(200)).expect("a connection afterwards");
        assert!(report.end == "closed" && report.datagrams > 0, "{report:?}");
        assert!(!watch.over.load(Ordering::Relaxed));
        grown
    });
    assert!(grown < 8 << 20, "{grown} bytes more memory");
    print_row("hostile datagrams over a socket", count, "served on, no growth");
}
