//! Two real hosts: each host serves its endpoint only when it wakes up, with a delay, and every packet costs CPU time.
//!
//! ```text
//!  client --- 5 to 20 us, no loss ---> server     woken by a packet: after 5 to 40 us, or a stall;
//!         <---------------------------            woken by a timer: at the next clock step
//! ```

use std::collections::VecDeque;

use narrows_cc::{Nanos, Random};

use super::net::*;
use crate::connection::*;

const fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// CPU time per packet sent or received.
const COST: Nanos = us(1);

/// Socket buffer in packets: Linux's default of 208 KiB at 2.3 KiB per packet.
const SOCKET: usize = 92;

/// One host with its endpoint.
struct Host {
    end: Connection,
    /// Time until which the host is busy.
    now: Nanos,
    /// Latest time passed to the connection.
    clock: Nanos,
    socket: VecDeque<(Nanos, Vec<u8>)>,
    /// Arrival time of the packet that wakes the host, and the wake-up time.
    woken: (Nanos, Nanos),
    events: Vec<Event>,
}

/// Scheduling delays of hosts.
#[derive(Clone, Copy, Debug)]
struct Lateness {
    /// Clock step of timers.
    step: Nanos,
    /// Probability and maximum duration of a busy CPU when a packet wakes the host.
    stall: (f64, Nanos),
}

struct Pair {
    hosts: [Host; 2],
    late: Lateness,
    random: Random,
    /// Packets dropped by full sockets.
    dropped: u64,
}

impl Pair {
    fn new(client: &Config, server: &Config, late: Lateness, seed: u64) -> Self {
        let host = |config: &Config, i| Host {
            end: Connection::new(config, Random::stream(seed, "end", i), Nanos::ZERO),
            now: Nanos::ZERO,
            clock: Nanos::ZERO,
            socket: VecDeque::new(),
            woken: (Nanos::MAX, Nanos::MAX),
            events: vec![],
        };
        let hosts = [host(client, 0), host(server, 1)];
        Self { hosts, late, random: Random::stream(seed, "hosts", 0), dropped: 0 }
    }

    /// Next wake-up of a host.
    fn wakes(&mut self, i: usize) -> Nanos {
        let Lateness { step, stall } = self.late;
        let host = &mut self.hosts[i];
        let packet = host.socket.front().map_or(Nanos::MAX, |packet| packet.0);
        if host.woken.0 != packet {
            let mut late = us(5 + self.random.below(35));
            if self.random.chance(stall.0) {
                late += Nanos::from_nanos(self.random.below(stall.1.as_nanos()));
            }
            // A busy host receives the packet when it is no longer busy.
            let at = if packet <= host.now { host.now } else { packet.saturating_add(late) };
            host.woken = (packet, at);
        }
        let timer = match host.end.deadline() {
            Nanos::MAX => Nanos::MAX,
            timer => Nanos::from_nanos(timer.as_nanos().div_ceil(step.as_nanos()) * step.as_nanos()),
        };
        timer.min(host.woken.1).max(host.now)
    }

    /// Serves a host like an event loop: packets first, then every deadline at its time.
    fn serve(&mut self, i: usize, at: Nanos) {
        self.hosts[i].now = at;
        for _ in 0..64 {
            let host = &mut self.hosts[i];
            let Some((_, bytes)) = host.socket.pop_front_if(|packet| packet.0 <= host.now) else { break };
            host.now += COST;
            host.clock = host.clock.max(host.now);
            host.end.on_packet(host.clock, &bytes, 0);
        }
        let now = self.hosts[i].now;
        loop {
            let host = &mut self.hosts[i];
            let due = host.end.deadline().min(now).max(host.clock);
            host.clock = due;
            if host.end.deadline() <= due {
                host.end.on_timer(due);
            }
            let left = self.transmit(i);
            let host = &self.hosts[i];
            if host.clock >= now || !left && host.end.deadline() <= host.clock {
                break;
            }
        }
        let host = &mut self.hosts[i];
        host.clock = now.max(host.clock);
        self.transmit(i);
        let host = &mut self.hosts[i];
        while let Some(event) = host.end.poll_event() {
            host.events.push(event);
        }
    }

    fn transmit(&mut self, i: usize) -> bool {
        let mut left = false;
        loop {
            let host = &mut self.hosts[i];
            let mut bytes = vec![];
            if host.end.poll_transmit(host.clock, &mut bytes).is_none() {
                return left;
            }
            left = true;
            host.now += COST;
            let arrives = host.now + us(5 + self.random.below(15));
            let peer = &mut self.hosts[1 - i];
            let last = peer.socket.back().map_or(Nanos::ZERO, |packet| packet.0);
            if peer.socket.len() < SOCKET {
                peer.socket.push_back((arrives.max(last), bytes));
            } else {
                self.dropped += 1;
            }
        }
    }

    fn run(&mut self, end: Nanos) {
        self.serve(0, self.hosts[0].now);
        self.serve(1, self.hosts[1].now);
        loop {
            let (a, b) = (self.wakes(0), self.wakes(1));
            if a.min(b) > end {
                break;
            }
            let i = usize::from(b < a);
            self.serve(i, a.min(b));
        }
    }
}

fn pair(scheme: &str, late: Lateness) -> Pair {
    let mut server = config(Role::Server, scheme);
    server.deliver = false;
    let mut pair = Pair::new(&config(Role::Client, scheme), &server, late, 1);
    pair.hosts[CLIENT].end.set_backlogged(1_400);
    pair
}

/// Timer steps of 50 us and of 1 ms, each without stalls and with a stall at one wake-up in fifty.
fn hosts() -> [Lateness; 4] {
    [(us(50), 0.0), (us(50), 0.02), (ms(1), 0.0), (ms(1), 0.02)]
        .map(|(step, chance)| Lateness { step, stall: (chance, ms(1)) })
}

/// Receive rate over 400 ms in Mbit/s, and the sender's timeouts.
fn measure(scheme: &str, late: Lateness) -> (u64, u64) {
    let mut pair = pair(scheme, late);
    pair.run(ms(400));
    let received = pair.hosts[SERVER].end.stats().bytes_received;
    (received * 8 / 400_000, pair.hosts[CLIENT].end.stats().timeouts)
}

/// CCID 3 neither times out nor stalls on hosts whose scheduling delays exceed the round-trip time.
#[test]
fn ccid3_on_slow_hosts_keeps_up_with_ccid2() {
    for late in hosts() {
        let (rate, timeouts) = measure("ccid3", late);
        let (window, _) = measure("ccid2", late);
        // A no-feedback timer of four round trips would expire 50 to 300 times. Without credit for unused send times,
        // the sender would send one packet per wake-up: about 160 Mbit/s with millisecond timers.
        assert_eq!(timeouts, 0, "{late:?}");
        assert!(rate > window / 2, "{late:?}: {rate} Mbit/s, where a window reaches {window}");
    }
}

/// Feedback stays at about one packet per round trip if a quarter of the round trip is shorter than the time between
/// wake-ups.
#[test]
fn ccid3_counter_outrun_by_time_still_paces_feedback() {
    // A quarter of the round trip is shorter than the time between wake-ups: the counter jumps by at most five, and by
    // four after each report.
    let mut pair = pair("ccid3", hosts()[2]);
    pair.run(ms(100));
    let reports = pair.hosts[SERVER].end.stats().acks_sent;
    let srtt = pair.hosts[CLIENT].end.srtt().unwrap();
    let round_trips = ms(100).as_nanos() / srtt.as_nanos();
    // One report per round trip, or per packet if round trips are shorter.
    assert!(reports >= round_trips / 2 && reports <= 4 * round_trips, "{reports} reports in {round_trips} round trips");
}
