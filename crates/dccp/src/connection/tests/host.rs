//! Two real hosts: each serves its end only when it wakes up, late, and every packet costs it time.
//!
//! ```text
//!  client --- 5 to 20 us, nothing lost ---> server     woken by a packet: 5 to 40 us later, or as long as others have
//!         <--------------------------------            the processor; by a timer: at the next step of the clock
//! ```

use std::collections::VecDeque;

use narrows_cc::{Nanos, Random};

use super::net::*;
use crate::connection::*;

const fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// What one packet costs a host, sent or received.
const COST: Nanos = us(1);

/// Packets that wait in a socket at most: Linux's default of 208 KiB, with 2.3 KiB for each.
const SOCKET: usize = 92;

/// One host with its end.
struct Host {
    end: Connection,
    /// Its own time: it is busy until then.
    now: Nanos,
    /// What the connection was last told.
    told: Nanos,
    socket: VecDeque<(Nanos, Vec<u8>)>,
    /// The packet that wakes it, and when it will be awake.
    woken: (Nanos, Nanos),
    events: Vec<Event>,
}

/// How late hosts are.
#[derive(Clone, Copy, Debug)]
struct Lateness {
    /// Steps of the clock that timers go by.
    step: Nanos,
    /// The chance that somebody else has the processor when a packet wakes the host, and for how long at most.
    stall: (f64, Nanos),
}

struct Pair {
    hosts: [Host; 2],
    late: Lateness,
    random: Random,
    /// Packets for which a socket had no room.
    dropped: u64,
}

impl Pair {
    fn new(client: &Config, server: &Config, late: Lateness, seed: u64) -> Self {
        let host = |config: &Config, i| Host {
            end: Connection::new(config, Random::stream(seed, "end", i), Nanos::ZERO),
            now: Nanos::ZERO,
            told: Nanos::ZERO,
            socket: VecDeque::new(),
            woken: (Nanos::MAX, Nanos::MAX),
            events: vec![],
        };
        let hosts = [host(client, 0), host(server, 1)];
        Self { hosts, late, random: Random::stream(seed, "hosts", 0), dropped: 0 }
    }

    /// When a host wakes up next.
    fn wakes(&mut self, i: usize) -> Nanos {
        let Lateness { step, stall } = self.late;
        let host = &mut self.hosts[i];
        let packet = host.socket.front().map_or(Nanos::MAX, |packet| packet.0);
        if host.woken.0 != packet {
            let mut late = us(5 + self.random.below(35));
            if self.random.chance(stall.0) {
                late += Nanos::from_nanos(self.random.below(stall.1.as_nanos()));
            }
            // A host that is busy finds the packet when it is done.
            let at = if packet <= host.now { host.now } else { packet.saturating_add(late) };
            host.woken = (packet, at);
        }
        let timer = match host.end.deadline() {
            Nanos::MAX => Nanos::MAX,
            timer => Nanos::from_nanos(timer.as_nanos().div_ceil(step.as_nanos()) * step.as_nanos()),
        };
        timer.min(host.woken.1).max(host.now)
    }

    /// A host does what a driver does: packets first, then all that was due at the time it was due.
    fn serve(&mut self, i: usize, at: Nanos) {
        self.hosts[i].now = at;
        for _ in 0..64 {
            let host = &mut self.hosts[i];
            let Some((_, bytes)) = host.socket.pop_front_if(|packet| packet.0 <= host.now) else { break };
            host.now += COST;
            host.told = host.told.max(host.now);
            host.end.on_packet(host.told, &bytes, 0);
        }
        let now = self.hosts[i].now;
        loop {
            let host = &mut self.hosts[i];
            let due = host.end.deadline().min(now).max(host.told);
            host.told = due;
            if host.end.deadline() <= due {
                host.end.on_timer(due);
            }
            let left = self.transmit(i);
            let host = &self.hosts[i];
            if host.told >= now || !left && host.end.deadline() <= host.told {
                break;
            }
        }
        let host = &mut self.hosts[i];
        host.told = now.max(host.told);
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
            if host.end.poll_transmit(host.told, &mut bytes).is_none() {
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

/// Timers of 50 us and of 1 ms; packets always served soon, or one time in fifty only when another process is done.
fn hosts() -> [Lateness; 4] {
    [(us(50), 0.0), (us(50), 0.02), (ms(1), 0.0), (ms(1), 0.02)]
        .map(|(step, chance)| Lateness { step, stall: (chance, ms(1)) })
}

/// Payload received per second in 400 ms, in Mbit/s, and the timeouts of the sender.
fn measure(scheme: &str, late: Lateness) -> (u64, u64) {
    let mut pair = pair(scheme, late);
    pair.run(ms(400));
    let received = pair.hosts[SERVER].end.stats().bytes_received;
    (received * 8 / 400_000, pair.hosts[CLIENT].end.stats().timeouts)
}

#[test]
fn rate_control_is_not_stopped_by_hosts_that_are_slower_than_the_round_trip() {
    for late in hosts() {
        let (rate, timeouts) = measure("ccid3", late);
        let (window, _) = measure("ccid2", late);
        // With a no-feedback timer of four round trips there are 50 to 300 timeouts; without credit for unused send times one
        // packet per wake-up: about 160 Mbit/s where timers go by milliseconds.
        assert_eq!(timeouts, 0, "{late:?}");
        assert!(rate > window / 2, "{late:?}: {rate} Mbit/s, where a window reaches {window}");
    }
}

#[test]
fn a_window_counter_that_time_outruns_still_separates_round_trips() {
    // A quarter of the round trip is less than a wake-up: the counter jumps, by five at most, and by four after each report.
    let mut pair = pair("ccid3", hosts()[2]);
    pair.run(ms(100));
    let reports = pair.hosts[SERVER].end.stats().acks_sent;
    let srtt = pair.hosts[CLIENT].end.srtt();
    let round_trips = ms(100).as_nanos() / srtt.as_nanos();
    // One report per round trip, or per packet where round trips have less: never none for several of them.
    assert!(
        reports >= round_trips / 2 && reports <= 4 * round_trips,
        "{reports} reports in {round_trips} round trips"
    );
}
