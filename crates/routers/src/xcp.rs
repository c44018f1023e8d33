//! # XCP: throughput changes, allotted per packet
//!
//! Every packet requests an increase of its sender's rate, and every router on the path may lower that request.
//! Efficiency and fairness are separate: once per interval the router computes the total change of all traffic, then
//! divides this change among the packets, so that all flows gain equal amounts and lose amounts in proportion to their
//! rates. It keeps no per-flow state.
//!
//! ## Control law
//! Rates in B/s, times in seconds. Per control interval T_e, with sums over the arriving packets:
//!
//! * y = bytes/T_e; d = Σ min(rtt, `max_interval`)·X / ΣX, or `initial_interval` without a valid request. X is the
//!   sender's packet spacing.
//! * phi = alpha · (C − y) − beta · Q/d; h = max(0, gamma · y − |phi|) is shuffled, so that unequal flows
//!   become equal.
//! * Pools: p = max(0, phi) + h to give, n = max(0, −phi) + h to take. Per packet: C_p·X with C_p = p/ΣX, and C_n·size
//!   with C_n = n/bytes.
//! * The next T_e = max(d, `min_interval`).
//!
//! A departing packet is allotted f = min(p, C_p·X) − min(n, C_n·size). A packet that requests less than f gets its
//! request; the difference counts as taken, as far as n allows. A packet without an RTT gets nothing. The pools shrink
//! by the amounts given and taken.
//!
//! Q is the persistent queue: the minimum backlog in bytes at any departure during the last T_q = max(2 ms, (d −
//! q/C)/2), where q is the backlog at the start of T_q.
//!
//! ## States
//! None.
//!
//! ## References
//! * Katabi, Handley, Rohrs, 'Congestion control for high bandwidth-delay product networks', SIGCOMM 2002.
//! * Falk, Katabi, draft-falk-xcp-spec (the form with rates).
//! * ns-2.35, `xcp/xcpq.cc`: constants, the order of the steps.
//!
//! ## Differences
//! 1. Header fields are 32-bit floats instead of the draft's fixed-point numbers, so that the whole range of rates
//!    fits.
//! 2. Invalid fields (X not above zero or longer than 10 s, values that are not numbers) count as no request:
//!    the packet counts as traffic and leaves with a change of zero. A packet that requests a larger decrease
//!    than n adds nothing to the pool for others.
//!
//! ## Known weaknesses
//! XCP needs to know its capacity. On a path with a link without XCP, nothing controls that link's queue. XCP may leave
//! a fifth of a link idle, 1 - alpha / (alpha + gamma), if flows are bottlenecked elsewhere; see the scheme `xcp`.

use narrows_cc::{Nanos, Param, Provenance};

use crate::router::next_multiple;
use crate::{Port, RateHeader, Reading, Router, RouterFrame, RouterInfo, RouterSetup, TelemetrySink};

/// Minimum of T_q.
const MIN_QUEUE_INTERVAL: Nanos = Nanos::from_millis(2);
/// Upper bound of accepted packet spacings, in seconds.
const MAX_SPACING: f64 = 10.0;

/// The router algorithm of XCP.
#[derive(Clone, Debug)]
pub struct Xcp {
    capacity: f64,
    alpha: f64,
    beta: f64,
    gamma: f64,
    initial: f64,
    shortest: f64,
    longest: f64,
    /// Sums over the control interval: bytes, X, and RTT times X.
    bytes: f64,
    spacing: f64,
    rtt_spacing: f64,
    /// The remainders of both pools, in bytes per second, and the per-packet constants C_p and C_n.
    give: f64,
    take: f64,
    per_spacing: f64,
    per_byte: f64,
    /// d, in seconds.
    rtt: f64,
    interval: f64,
    interval_end: Nanos,
    /// Q and the running minimum for the next Q, in bytes.
    persistent: f64,
    least: f64,
    queue_at: Nanos,
    /// Whether the state stays unchanged until a packet arrives.
    asleep: bool,
}

/// Fields of a valid request: RTT and X in seconds, the change in bytes per second.
fn request<F: RouterFrame>(packet: &F) -> Option<(f64, f64, f64)> {
    let RateHeader::XcpRequest { rtt_us: rtt @ 1.., spacing, delta } = packet.rate_header() else {
        return None;
    };
    let (spacing, delta) = (f64::from(spacing), f64::from(delta));
    (spacing > 0.0 && spacing <= MAX_SPACING && delta.is_finite()).then_some((f64::from(rtt) / 1e6, spacing, delta))
}

impl Xcp {
    /// Ends a control interval.
    fn control(&mut self, now: Nanos) {
        let load = self.bytes / self.interval;
        self.rtt = if self.spacing > 0.0 { self.rtt_spacing / self.spacing } else { self.initial };
        let phi = self.alpha * (self.capacity - load) - self.beta * self.persistent / self.rtt;
        let shuffled = (self.gamma * load - phi.abs()).max(0.0);
        self.give = phi.max(0.0) + shuffled;
        self.take = (-phi).max(0.0) + shuffled;
        self.per_spacing = if self.spacing > 0.0 { self.give / self.spacing } else { 0.0 };
        self.per_byte = if self.bytes > 0.0 { self.take / self.bytes } else { 0.0 };
        (self.bytes, self.spacing, self.rtt_spacing) = (0.0, 0.0, 0.0);
        self.interval = self.rtt.max(self.shortest);
        self.interval_end = now.saturating_add(Nanos::from_secs_f64(self.interval));
    }

    /// Samples the persistent queue.
    fn read_queue(&mut self, now: Nanos, backlog: f64) {
        self.persistent = self.least;
        self.least = backlog;
        self.queue_at = now.saturating_add(self.queue_interval(backlog));
    }

    fn queue_interval(&self, backlog: f64) -> Nanos {
        let half = (self.rtt - backlog / self.capacity) / 2.0;
        Nanos::from_secs_f64(half.max(0.0)).max(MIN_QUEUE_INTERVAL)
    }

    /// Whether the link is idle and all further intervals would be identical.
    fn is_idle(&self, port: &Port) -> bool {
        let empty = port.backlog.is_zero() && self.persistent == 0.0 && self.least == 0.0;
        empty && self.bytes == 0.0 && self.rtt == self.initial && self.interval == self.rest_interval()
    }

    /// T_e on an idle link.
    fn rest_interval(&self) -> f64 {
        self.initial.max(self.shortest)
    }

    fn wake_up(&mut self, now: Nanos) {
        self.asleep = false;
        let interval = Nanos::from_secs_f64(self.rest_interval());
        self.interval_end = next_multiple(self.interval_end, interval, now);
        self.queue_at = next_multiple(self.queue_at, self.queue_interval(0.0), now);
    }

    /// Change allotted to a packet of `size` bytes.
    fn allot(&mut self, size: f64, spacing: f64, desired: f64) -> f64 {
        let mut given = self.give.min(self.per_spacing * spacing);
        let mut taken = self.take.min(self.per_byte * size);
        let fair = given - taken;
        let change = if desired >= fair {
            fair
        } else {
            taken = self.take.min(taken + (fair - desired));
            given = (desired + taken).max(0.0);
            desired
        };
        self.give -= given;
        self.take -= taken;
        if self.give <= 0.0 {
            (self.give, self.per_spacing) = (0.0, 0.0);
        }
        if self.take <= 0.0 {
            (self.take, self.per_byte) = (0.0, 0.0);
        }
        change
    }
}

impl Router for Xcp {
    const INFO: RouterInfo = RouterInfo {
        name: "xcp",
        summary: "XCP: throughput changes allotted per packet",
        provenance: Provenance::Verified,
        params: &[
            Param::ratio("alpha", 0.4, (0.01, 1.0), "gain on spare capacity"),
            Param::ratio("beta", 0.226, (0.0, 1.0), "gain on the persistent queue"),
            Param::ratio("gamma", 0.1, (0.0, 0.5), "share of the traffic that is shuffled"),
            Param::number("initial_interval", 50.0, (1.0, 1000.0), "ms", "control interval without RTTs"),
            Param::number("min_interval", 1.0, (0.1, 100.0), "ms", "shortest control interval"),
            Param::number("max_interval", 1000.0, (100.0, 10_000.0), "ms", "longest RTT that counts"),
        ],
    };

    fn new(setup: &RouterSetup) -> Self {
        let seconds = |name| setup.params.number(name) / 1e3;
        let initial = seconds("initial_interval");
        let first = Nanos::from_secs_f64(initial);
        Self {
            capacity: setup.capacity.as_bytes_per_sec() as f64,
            alpha: setup.params.number("alpha"),
            beta: setup.params.number("beta"),
            gamma: setup.params.number("gamma"),
            initial,
            shortest: seconds("min_interval"),
            longest: seconds("max_interval"),
            bytes: 0.0,
            spacing: 0.0,
            rtt_spacing: 0.0,
            give: 0.0,
            take: 0.0,
            per_spacing: 0.0,
            per_byte: 0.0,
            rtt: initial,
            interval: initial,
            interval_end: first,
            persistent: 0.0,
            least: 0.0,
            queue_at: first,
            asleep: false,
        }
    }

    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        if self.asleep {
            self.wake_up(port.now);
        }
        self.bytes += packet.size().as_f64();
        if let Some((rtt, spacing, _)) = request(packet) {
            self.spacing += spacing;
            self.rtt_spacing += rtt.min(self.longest) * spacing;
        }
    }

    fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        self.least = self.least.min(port.backlog.as_f64());
        if let RateHeader::XcpRequest { rtt_us, spacing, .. } = packet.rate_header() {
            let delta = match request(packet) {
                Some((_, x, desired)) => self.allot(packet.size().as_f64(), x, desired),
                None => 0.0,
            };
            packet.set_rate_header(RateHeader::XcpRequest { rtt_us, spacing, delta: delta as f32 });
        }
    }

    fn next_wake(&self) -> Nanos {
        if self.asleep { Nanos::MAX } else { self.interval_end.min(self.queue_at) }
    }

    fn on_wake(&mut self, port: &mut Port<'_>) {
        if self.queue_at <= port.now {
            self.read_queue(port.now, port.backlog.as_f64());
        }
        if self.interval_end <= port.now {
            // An interval without packets sets the pools to their idle values.
            let idle = self.bytes == 0.0;
            self.control(port.now);
            self.asleep = idle && self.is_idle(port);
        }
    }

    fn telemetry(&self, sink: TelemetrySink<'_>) {
        sink("give", Reading::Rate(self.give));
        sink("take", Reading::Rate(self.take));
        sink("mean_rtt", Reading::Time(self.rtt));
        sink("persistent_queue", Reading::Bytes(self.persistent));
    }
}
