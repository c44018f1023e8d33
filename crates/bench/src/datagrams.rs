//! Cost of datagrams in wall time: DCCP in memory, DCCP between two sockets of this machine, and plain UDP
//! for comparison.
//!
//! The caller pins the threads to one core.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as Plain};
use std::thread;
use std::time::{Duration, Instant};

use narrows_cc::Params;
use narrows_cc::schemes::Entry;
use narrows_dccp::Config;
use narrows_dccp_udp::{Caller, LiveError, Report, Settings, Stop, receive_on, send};
use narrows_host::socket::Socket;
use narrows_traffic::AppConfig;
use serde_json::{Value, json};

use crate::pair::{DATAGRAM, Pair};

/// Number of datagrams between clock readings.
const CHUNK: u64 = 10_000;
/// Number of datagrams in the warm-up, during which windows and buffers grow.
const WARM_UP: u64 = 100_000;
/// Bytes of a DCCP Data packet with long sequence numbers and no options.
const PACKET: usize = DATAGRAM as usize + 16;
/// Packets per burst of the one-packet-per-call loop.
const BURST: usize = 16;
/// Timeout of a stalled connection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Datagrams of [`DATAGRAM`] bytes received.
    pub datagrams: u64,
    /// Wall time in seconds.
    pub wall_s: f64,
}

impl Measured {
    /// A row of `narrows bench --dccp`.
    pub fn row(&self) -> Value {
        json!({"datagrams": self.datagrams, "wall_s": self.wall_s, "datagram_bytes": DATAGRAM})
    }
}

/// Measures two endpoints in memory on one thread that send, receive and acknowledge. `None` if they stall.
pub fn memory(scheme: &'static Entry, duration: Duration) -> Option<Measured> {
    let mut pair = Pair::new(scheme);
    if !pair.run(WARM_UP) {
        return None;
    }
    let (begin, mut datagrams) = (Instant::now(), 0);
    while begin.elapsed() < duration {
        if !pair.run(CHUNK) {
            return None;
        }
        datagrams += CHUNK;
    }
    Some(Measured { datagrams, wall_s: begin.elapsed().as_secs_f64() })
}

struct Quiet;

impl Caller for Quiet {
    fn stop(&self) -> Stop {
        Stop::No
    }
    fn listening(&self, _: SocketAddr) {}
    fn progress(&self, _: &Report) {}
    fn ended(&self, _: &Report) {}
}

/// Measures two endpoints on sockets with a thread each, as in `narrows dccp`, from the handshake to the last datagram.
///
/// # Errors
/// If the connection fails.
pub fn loopback(scheme: &'static Entry, duration: Duration) -> Result<Measured, LiveError> {
    let plain = Plain::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = plain.local_addr()?;
    let params = Params::defaults(scheme.info.params);
    let settings = Settings {
        config: Config { scheme, params, datagram: DATAGRAM, ..Config::default() },
        address,
        app: AppConfig::Bulk,
        queue: None,
        duration: None,
        timeout: TIMEOUT,
        once: true,
        connections: 1,
        capture: None,
    };
    let sending = Settings { duration: Some(duration), ..settings.clone() };
    let report = thread::scope(|scope| {
        let receiver = scope
            .spawn(|| receive_on(plain, &Settings { duration: Some(duration + TIMEOUT), ..settings.clone() }, &Quiet));
        let sent = send(&sending, &Quiet);
        let received = receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(received)
    })?;
    let report = report.ok_or(LiveError::NoAnswer(address, TIMEOUT))?;
    Ok(Measured { datagrams: report.datagrams, wall_s: report.bytes as f64 * 8e-6 / report.throughput_mbit_s })
}

/// Measures plain UDP with packets of the same size, sent and received by one thread: in batches through the same
/// system calls as DCCP, or one packet per call.
///
/// # Errors
/// If a socket fails.
pub fn udp(batched: bool, duration: Duration) -> Result<Measured, LiveError> {
    if !batched {
        return Ok(one_by_one(duration)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(in_batches(duration))
}

/// Whether the call was interrupted or would block.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

async fn in_batches(duration: Duration) -> Result<Measured, LiveError> {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut receiver = Socket::open(local, None)?;
    let to = receiver.local();
    let sender = Socket::open(local, Some(to))?;
    let packets = sender.segments(PACKET);
    let batch = vec![0x5a; PACKET * packets];
    let (begin, mut datagrams) = (Instant::now(), 0);
    while begin.elapsed() < duration {
        if let Err(error) = sender.send(to, None, 0, &batch, PACKET) {
            if !is_transient(&error) {
                return Err(error.into());
            }
            sender.writable().await?;
            continue;
        }
        let mut missing = packets;
        while missing > 0 {
            if tokio::time::timeout(TIMEOUT, receiver.readable()).await.is_err() {
                return Err(LiveError::PeerGone(to, TIMEOUT, Box::default()));
            }
            match receiver.receive(|_| missing -= 1) {
                Err(error) if !is_transient(&error) => return Err(error.into()),
                _ => {}
            }
        }
        datagrams += packets as u64;
    }
    Ok(Measured { datagrams, wall_s: begin.elapsed().as_secs_f64() })
}

fn one_by_one(duration: Duration) -> io::Result<Measured> {
    let receiver = Plain::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(TIMEOUT))?;
    let sender = Plain::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    let (packet, mut buffer) = ([0x5a; PACKET], [0; 2 * PACKET]);
    let (begin, mut datagrams) = (Instant::now(), 0);
    while begin.elapsed() < duration {
        for _ in 0..BURST {
            sender.send(&packet)?;
        }
        for _ in 0..BURST {
            receiver.recv_from(&mut buffer)?;
        }
        datagrams += BURST as u64;
    }
    Ok(Measured { datagrams, wall_s: begin.elapsed().as_secs_f64() })
}
