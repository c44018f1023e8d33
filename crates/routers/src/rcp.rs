//! # RCP: one rate for all flows of a link
//!
//! The router keeps a single number: the rate at which every flow through the port may send. It writes this
//! rate into the headers of packets that request a higher one. Once per time slot it corrects the rate by the
//! spare capacity and by the queue. It keeps no per-flow state.
//!
//! ## Control law
//! Once per slot of T = min(d, `slot`):
//!
//! `R = R · (1 + (T/d) · (alpha · (gamma·C − y) − beta · Q/d) / (gamma·C))`,
//!
//! limited to at least `min_packets` packets of 1000 B per d and at most gamma·C. C is the capacity and y the arrivals
//! of the slot per second, both in B/s; Q is the queue in bytes; d is the mean RTT in seconds. Initially R =
//! `initial_share` · C and d = `initial_rtt`.
//!
//! * y: a packet takes size/C to arrive; the part that arrives after the slot's end counts in the next slot.
//! * d: the mean m of the RTTs in the headers of the slot, weighted by packet size, is blended in: d += g ·
//!   (m − d) with g = T/d if m ≥ d, else g = (R/C) · (m/d) · (T/d).
//! * A departing packet carries R in its rate field if that field is unset or larger.
//!
//! ## States
//! None.
//!
//! ## References
//! * Dukkipati, Kobayashi, Zhang-Shen, McKeown, 'Processor sharing flows in the Internet', IWQoS 2005.
//! * The authors' queue for ns-2 (`rcp.cc`), as kept in `victorkp/rcp-ns2-result-reproduction`: constants, d,
//!   the slot boundary.
//!
//! ## Differences
//! 1. A slot is at least 10 µs, so that a header with an absurdly short RTT does not stop the simulation.
//!    RTTs count as 10 s at most.
//! 2. The paper's runs use other pairs of `alpha` and `beta` (0.1 and 1, 0.4 and 0.226). The defaults are those of the
//!    authors' ns-2 code.
//!
//! ## Known weaknesses
//! A new flow gets R immediately. Until the next corrections have reached all flows, the queue absorbs the excess: a
//! whole bandwidth-delay product when a second flow joins the first.

use narrows_cc::{Nanos, Param, Provenance};

use crate::router::next_multiple;
use crate::{Port, RateHeader, Reading, Router, RouterFrame, RouterInfo, RouterSetup, TelemetrySink};

/// Minimum length of a slot.
const MIN_SLOT: Nanos = Nanos::from_micros(10);
/// Upper bound of accepted RTTs.
const MAX_RTT_US: u32 = 10_000_000;
/// Packet size for the minimum rate, in bytes.
const FLOOR_PACKET: f64 = 1000.0;

/// The router algorithm of RCP.
#[derive(Clone, Debug)]
pub struct Rcp {
    capacity: f64,
    alpha: f64,
    beta: f64,
    gamma: f64,
    min_packets: f64,
    max_slot: Nanos,
    /// R, in bytes per second.
    rate: f64,
    /// d, in seconds.
    rtt: f64,
    /// T.
    slot: Nanos,
    slot_end: Nanos,
    /// Whether the state stays unchanged until a packet arrives.
    asleep: bool,
    /// Bytes counted in this slot, and bytes of arrived packets that count in the next slot.
    arrived: f64,
    spill: f64,
    /// Sum of the sizes of packets with an RTT, and of the RTTs weighted by size, in byte seconds.
    rtt_bytes: f64,
    rtt_sum: f64,
}

impl Router for Rcp {
    const INFO: RouterInfo = RouterInfo {
        name: "rcp",
        summary: "RCP: one rate per link, written into headers",
        provenance: Provenance::Verified,
        params: &[
            Param::ratio("alpha", 0.4, (0.01, 2.0), "gain on spare capacity"),
            Param::ratio("beta", 0.4, (0.0, 2.0), "gain on the queue"),
            Param::ratio("gamma", 1.0, (0.5, 1.0), "share of the capacity that is allocated"),
            Param::number("slot", 10.0, (0.1, 1000.0), "ms", "longest interval between corrections"),
            Param::ratio("initial_share", 0.05, (0.001, 1.0), "initial rate, as a share of the capacity"),
            Param::number("initial_rtt", 200.0, (1.0, 1000.0), "ms", "initial mean RTT"),
            Param::number("min_packets", 0.01, (0.001, 1.0), "pkt", "minimum rate, in packets of 1000 B per RTT"),
        ],
    };

    fn new(setup: &RouterSetup) -> Self {
        let number = |name| setup.params.number(name);
        let capacity = setup.capacity.as_bytes_per_sec() as f64;
        let max_slot = Nanos::from_secs_f64(number("slot") / 1e3);
        let rtt = number("initial_rtt") / 1e3;
        let slot = max_slot.min(Nanos::from_secs_f64(rtt));
        Self {
            capacity,
            alpha: number("alpha"),
            beta: number("beta"),
            gamma: number("gamma"),
            min_packets: number("min_packets"),
            max_slot,
            rate: capacity * number("initial_share"),
            rtt,
            slot,
            slot_end: slot,
            asleep: false,
            arrived: 0.0,
            spill: 0.0,
            rtt_bytes: 0.0,
            rtt_sum: 0.0,
        }
    }

    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        if self.asleep {
            self.asleep = false;
            self.slot_end = next_multiple(self.slot_end, self.slot, port.now);
        }
        let size = packet.size().as_f64();
        let takes = size / self.capacity;
        let left = (self.slot_end - port.now).as_secs_f64();
        let beyond = if takes > left { size * (takes - left) / takes } else { 0.0 };
        self.arrived += size - beyond;
        self.spill += beyond;
        if let RateHeader::RcpRequest { rtt_us: rtt @ 1.., .. } = packet.rate_header() {
            self.rtt_bytes += size;
            self.rtt_sum += size * f64::from(rtt.min(MAX_RTT_US)) / 1e6;
        }
    }

    fn on_departure<F: RouterFrame>(&mut self, _port: &mut Port<'_>, packet: &mut F) {
        if let RateHeader::RcpRequest { rate, rtt_us } = packet.rate_header() {
            // Comparisons with NaN are false, so the router also replaces a rate of NaN.
            let lower = rate >= 0.0 && f64::from(rate) <= self.rate;
            if !lower {
                packet.set_rate_header(RateHeader::RcpRequest { rate: self.rate as f32, rtt_us });
            }
        }
    }

    fn next_wake(&self) -> Nanos {
        if self.asleep { Nanos::MAX } else { self.slot_end }
    }

    fn on_wake(&mut self, port: &mut Port<'_>) {
        let slot = self.slot.as_secs_f64();
        if self.rtt_bytes > 0.0 {
            let mean = self.rtt_sum / self.rtt_bytes;
            let share = slot / self.rtt;
            let falling = self.rate / self.capacity * (mean / self.rtt) * share;
            let gain = if mean >= self.rtt { share } else { falling };
            self.rtt += gain.min(1.0) * (mean - self.rtt);
        }
        let load = self.arrived / slot;
        let target = self.gamma * self.capacity;
        let error = self.alpha * (target - load) - self.beta * port.backlog.as_f64() / self.rtt;
        let rate = self.rate * (1.0 + slot / self.rtt * error / target);
        let least = self.min_packets * FLOOR_PACKET / self.rtt;
        self.rate = rate.max(least).min(target);
        // On an idle link the rate rises to its bound and stays there, so idle slots need no wakes.
        let idle = self.arrived + self.spill == 0.0 && port.backlog.is_zero();
        self.asleep = idle && self.rate == target;
        self.arrived = self.spill;
        self.spill = 0.0;
        self.rtt_bytes = 0.0;
        self.rtt_sum = 0.0;
        self.slot = self.max_slot.min(Nanos::from_secs_f64(self.rtt)).max(MIN_SLOT);
        self.slot_end = port.now.saturating_add(self.slot);
    }

    fn telemetry(&self, sink: TelemetrySink<'_>) {
        sink("rate", Reading::Rate(self.rate));
        sink("mean_rtt", Reading::Time(self.rtt));
    }
}
