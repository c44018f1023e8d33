//! A small transport drives a scheme through [`Driver`]: numbered packets of unlimited data, over one bottleneck.
//!
//! ```text
//!   sender ──(pacer)──► buffer │ 20 Mbit/s ──► ─ ─ 40 ms ─ ─ ► acknowledgement of each packet
//! ```
//! A packet is lost when a packet sent at least three later is acknowledged (RFC 9002 section 6.1.1), or when the timer
//! expires.
//!
//!     cargo run -p narrows-cc --example transport [SCHEME …]

use std::collections::VecDeque;

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{
    AckEnd, Bytes, CongestionCause, Driver, Episode, Flight, LostPacket, Nanos, Pacer, Params, Phase, Prr, PrrBound,
    Random, Rate, SendPosition, Sent, SentState, Setup, record,
};

const PACKET: Bytes = Bytes::new(1_448);
const RATE: Rate = Rate::from_bits_per_sec(20_000_000);
const RTT: Nanos = Nanos::from_millis(40);
/// One BDP: 20 Mbit/s for 40 ms.
const BUFFER: Bytes = Bytes::new(100_000);
const TIMEOUT: Nanos = Nanos::from_secs(1);
const DURATION: Nanos = Nanos::from_secs(10);

/// A packet in flight.
struct Packet {
    number: u64,
    sent: SentState,
    /// Arrival time of its acknowledgement; `None` if the buffer was full.
    acked_at: Option<Nanos>,
}

struct Transport {
    driver: Driver,
    pacer: Pacer,
    flight: VecDeque<Packet>,
    /// The bottleneck is busy until this time.
    busy_until: Nanos,
    /// Number of the next packet, and of the first packet sent after recovery began.
    next: u64,
    recovery_point: u64,
    episode: Episode,
    /// Timers that expired since the last acknowledgement.
    timeouts: u32,
    last_event: Nanos,
    srtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    lost: u64,
}

impl Transport {
    fn new(entry: &Entry) -> Self {
        let params = Params::defaults(entry.info.params);
        let setup = Setup::new(PACKET, params, Random::stream(1, "scheme", 0));
        Self {
            driver: Driver::new(entry.build(&setup)),
            pacer: Pacer::default(),
            flight: VecDeque::new(),
            busy_until: Nanos::ZERO,
            next: 0,
            recovery_point: 0,
            episode: Episode::default(),
            timeouts: 0,
            last_event: Nanos::ZERO,
            srtt: None,
            min_rtt: None,
            lost: 0,
        }
    }

    fn inflight(&self) -> Bytes {
        PACKET * self.flight.len() as u64
    }

    /// The time of the next departure; `None` while cwnd is full.
    fn next_departure(&self, now: Nanos) -> Option<Nanos> {
        let control = self.driver.control();
        let cwnd = self.episode.window().unwrap_or(control.cwnd);
        let room = self.flight.is_empty() || self.inflight() + PACKET <= cwnd;
        room.then(|| if control.pacing_rate.is_some() { self.pacer.next().max(now) } else { now })
    }

    fn send(&mut self, now: Nanos) {
        let sent = self.driver.stamp(now, PACKET, self.inflight());
        let start = self.busy_until.max(now);
        let fits = start - now <= RATE.time_for(BUFFER);
        if fits {
            self.busy_until = start + RATE.time_for(PACKET);
        }
        let acked_at = fits.then(|| self.busy_until + RTT);
        self.flight.push_back(Packet { number: self.next, sent, acked_at });
        self.next += 1;
        if let Some(rate) = self.driver.control().pacing_rate {
            self.pacer.on_sent(now, PACKET, rate, self.driver.control().burst.min(PACKET * 2));
        }
        self.episode.on_sent(PACKET);
        self.driver.sent(&record!(Sent { now, bytes: PACKET, inflight: self.inflight() }));
        let acknowledged = self.flight.front().map_or(self.next, |first| first.number);
        let limited = self.next_departure(now).is_none();
        self.driver.note_usage(limited, self.inflight(), SendPosition { acknowledged, next: self.next });
    }

    /// The acknowledgement of one packet arrives.
    fn acknowledge(&mut self, now: Nanos) {
        let mut ack = self.driver.begin_ack(self.inflight());
        let at = self.flight.iter().position(|packet| packet.acked_at == Some(now));
        let packet = at.and_then(|at| self.flight.remove(at)).expect("an acknowledgement is of a packet in flight");
        self.driver.delivered_packet(now, &mut ack, PACKET, &packet.sent);
        let rtt = now - packet.sent.sent_at;
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        self.timeouts = 0;
        let lost = self.lose(now, |other| other.number + 3 <= packet.number);
        if lost > Bytes::ZERO && self.episode.phase() == Phase::Open {
            self.enter(now);
        } else if self.episode.phase() != Phase::Open && packet.number >= self.recovery_point {
            let inflight = self.inflight();
            self.episode.leave(&mut self.driver, now, inflight);
        }
        self.episode.on_ack(PACKET, self.inflight(), lost.is_zero(), PACKET);
        let end = record!(AckEnd {
            now,
            lost,
            rtt: Some(rtt),
            inflight: self.inflight(),
            phase: self.episode.phase(),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
        });
        self.driver.finish_ack(&ack, &end);
    }

    /// Declares the oldest packets lost while `is_lost` holds, and returns their bytes.
    fn lose(&mut self, now: Nanos, is_lost: impl Fn(&Packet) -> bool) -> Bytes {
        let mut lost = Bytes::ZERO;
        while self.flight.front().is_some_and(&is_lost) {
            let Some(packet) = self.flight.pop_front() else { break };
            lost += PACKET;
            self.lost += 1;
            let report = LostPacket { bytes: PACKET, packet: packet.number, sent: &packet.sent };
            self.driver.lost(now, &report, self.inflight());
        }
        lost
    }

    fn enter(&mut self, now: Nanos) {
        self.recovery_point = self.next;
        let flight = Flight::of_cwnd(&self.driver, PACKET, self.inflight());
        if self.episode.enter(&mut self.driver, now, CongestionCause::Loss, flight, PACKET) {
            let prr = Prr::begin(self.driver.control().cwnd, flight.size, PrrBound::Rfc9937);
            self.episode.reduce_by(prr, flight.inflight + PACKET);
        }
    }

    fn time_out(&mut self, now: Nanos) {
        let flight = Flight::of_cwnd(&self.driver, PACKET, Bytes::ZERO);
        self.lose(now, |_| true);
        self.recovery_point = self.next;
        self.timeouts += 1;
        self.episode.time_out(&mut self.driver, now, flight, self.timeouts);
    }

    /// Runs for [`DURATION`].
    fn run(&mut self) {
        let mut now = Nanos::ZERO;
        while now < DURATION {
            let arrival = self.flight.iter().find_map(|packet| packet.acked_at).unwrap_or(Nanos::MAX);
            let departure = self.next_departure(now).unwrap_or(Nanos::MAX);
            let timer = self.last_event + TIMEOUT;
            now = arrival.min(departure).min(timer);
            if now == arrival {
                self.acknowledge(now);
            } else if now == departure {
                self.send(now);
            } else {
                self.time_out(now);
            }
            self.last_event = now;
        }
    }
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let names = if named.is_empty() { ["cubic", "bbr", "newreno", "vegas"].map(String::from).to_vec() } else { named };
    println!("{:<12} {:>14} {:>8} {:>8}", "scheme", "goodput Mbit/s", "srtt ms", "lost");
    for name in names {
        let Some(entry) = schemes::find(&name) else {
            eprintln!(
                "no scheme '{name}'; accepted: {}",
                schemes::ALL.iter().map(|entry| entry.info.name).collect::<Vec<_>>().join(", ")
            );
            std::process::exit(2);
        };
        let mut transport = Transport::new(entry);
        transport.run();
        let goodput = transport.driver.delivered().per(DURATION).as_mbit_per_sec();
        let srtt = transport.srtt.unwrap_or_default().as_millis_f64();
        println!("{name:<12} {goodput:>14.2} {srtt:>8.1} {:>8}", transport.lost);
    }
}
