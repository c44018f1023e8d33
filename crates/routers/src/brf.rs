//! # BRF: the bottleneck switch divides its bandwidth
//!
//! The switch adds each flow of a port to a table at the flow's SYN. Each flow that offers to obey gets a share, which
//! the switch writes into its ACKs once per round trip. CUBIC and all other flows have a separate class, whose
//! bandwidth is in proportion to their number. UDP is policed. A new flow starts at the rate used by flows of its kind.
//! Then the switch measures rates and redistributes the bandwidth that applications leave unused.
//!
//! ## Control law
//! Rates in bytes per second on the wire. C: link capacity; N: number of flows; BW_i: the share of flow i.
//!
//! * (8) C_BRF : C_CUBIC = N_BRF : N_CUBIC, of C less the share of UDP (`udp_share`), deducted while there is
//!   UDP.
//! * (9, 10) A new flow: BW_i = min(`beta` · F(5-tuple), C_BRF / N_BRF). F is the average bandwidth observed for the
//!   tuple, else for the service, else between the two networks, else for all flows. If nothing is learned, or without
//!   `prediction`, BW_i is the cap C_BRF / N_BRF.
//! * (11–13) R = C_BRF − Σ used. If R ≥ BW_i, the others keep their shares; else these are multiplied by (C_BRF − BW_i)
//!   / Σ used.
//! * (15) Every Δt = max RTT of the BRF flows: (14) a flow that used less than `alpha` of its share is
//!   application-limited and gets `beta` times its usage; the others divide the rest equally.
//! * If the controller reports a long queue (16, 17): BW_i · (1 − q / (γ Σ BW)) with q bytes of the class queued, for γ
//!   = `gamma` · Δt; if it reports a loaded link (18): BW_i · `utilization` · C_BRF / Σ measured, for the same time. A
//!   share never falls below the floor: `floor`, or half of an equal share if that is less.
//! * (7) A share is written if the ACK carries no share or a higher share.
//!
//! The ACK carries the rate as a 16-bit decimal number: see `brf/code.rs`.
//!
//! ## States
//! ```text
//!                 new flow                       measured for Δt
//!   flow_table ------------> initial_allocation ----> measurement <----------> allocation
//!       ^                        ^   |    ^               |  |                     ^
//!       |  the last flow leaves  |   |    +-- new flow ---+  | congested           | after γ
//!       +------------------------+   |                       v                     |
//!                                    +------------> congestion_reduction ----------+
//! ```
//!
//! ## Life of a flow
//! The SYN adds an entry to the table, which is bounded. The SYN-ACK carries the initial share, so the sender's first
//! packet is already paced. The time from the SYN to the sender's first packet is the flow's RTT. One period later the
//! flow's rate has been measured. When the flow is silent, its share goes to others, and it joins as a new flow when it
//! sends again. A FIN frees the share immediately; the entry stays until the receiver's FIN, for retransmissions.
//!
//! If a flow sends but none of its ACKs passes, the ACKs take another path: the switch announces the share to the other
//! switches once per Δt, and the switch on the path of the ACKs writes it into the next ACK.
//!
//! ## Layers
//! On a hierarchical token bucket (the default queue of BRF) the BRF class has three leaves, in this order of priority:
//! mice (flows that have sent less than `mice` bytes), application-limited flows, elephants. Each leaf is assured the
//! shares of its members, revised every Δt.
//!
//! ## References
//! * The paper of BRF (bottleneck routing feedback), Sensors 24 (2024), 749, sections 3.1 to 3.3. Misprints are
//!   corrected at the equations in `brf/shares.rs` and `brf/code.rs`.
//!
//! ## Differences
//! 1. The paper compares the rate measured between two allocations with the share given at the first of them. But for
//!    at least a round trip, the arriving data was sent under the previous share: a flow whose share rose would count
//!    as application-limited and gain only 5 to 10 % per period. Here the rate is compared with the lowest share that
//!    may have governed the measured data, over at least ten packets, and a packet that a period may have missed counts
//!    as sent. A flow found limited is measured over `small_packets` packets from then on, where one packet more or
//!    less makes no difference. A new flow is measured from the next allocation on.
//! 2. A limited flow gets at most the equal share of the others (`Shares::begin`): the result is max-min fair within
//!    `beta`.
//! 3. In (11), an unlimited flow counts with its whole share and a limited flow with its measured rate: a share that
//!    has just been raised is not 'unused'. A flow not yet measured for a whole period counts with its share in all
//!    equations.
//! 4. `alpha · beta` is above 1 by default. With 0.95 and 1.05, both in the paper's ranges, a limited flow that gets
//!    `beta` times its rate would count as unlimited in the next period, and as limited again in the period after that.
//!    For the same reason F is multiplied by `beta`: a flow that begins with exactly the usage of its kind counts as
//!    unlimited.
//! 5. (16) uses the queue of the BRF flows, without that of the CUBIC flows. Where the port has classes, q is the
//!    backlog of the BRF class, not the controller's count.
//! 6. Where ACKs already carry another switch's share, this switch compares its share with every such share, and writes
//!    into other ACKs only after two round trips without such a share. If each switch wrote independently, a sender
//!    would receive all shares in turn, not the lowest.
//! 7. Against floods: only flows whose sender has answered count as flows of their class. A flow still gets its share
//!    at the SYN-ACK if at most `HALF_OPEN` flows, or half of the flows, are half-open. At most half of the table is
//!    for half-open flows. Every refusal is counted.
//! 8. A share that has fallen by a tenth is written into the next ACK, not a round trip after the last written share.
//!    Otherwise flows would react up to a round trip after the first packet of a new flow, and the queue would absorb
//!    the excess. `urgent = false` restores the paper's rule, once per round trip.
//! 9. ACKs of data in the other direction also cross the port: their measured rate, times `beta`, is deducted from C.
//! 10. Flows that are silent for a while have no share. In the paper they keep it until they end or are idle. N counts
//!     flows that send, in both classes.
//! 11. Beyond their shares, all flows get equal parts of the bandwidth that (14) leaves unclaimed (`Shares::begin`). A
//!     flow limited by another port looks application-limited here; with `beta` times its rate from each of two ports,
//!     measured in turn, it would stay at the floor after a momentary cut, even on idle links.
//! 12. A cut lasts long enough for two packets of every flow, so that each flow receives the reduced share. Where the
//!     floor exceeds half of an equal share, the cut goes down to that half; otherwise many flows would never let a
//!     queue drain.
//! 13. Untracked flows (the table was full, or they predate it) count together as one flow of the other class in (8)
//!     while their packets arrive within 2 s of each other, so a host that fills the table cannot starve them.
//! 14. `literal` reverts 1 to 3, 5, 9 to 11 and the factor `beta` on F, leaves UDP nothing in (8), and follows (6),
//!     (17) and (18) as printed. Only the floor stays, because a rate must be above 0.
//!
//! ## Known weaknesses
//! BRF needs to know its capacity. For a link that follows a trace it uses the mean, and a queue builds while the link
//! carries less. With `follow`, our extension, BRF measures departures while packets wait, and probes a quarter higher
//! per period while no packets wait. The shares add up to the whole capacity, so a queue, once formed, stays until the
//! controller detects it. With `drain`, also our extension, the next allocation cuts shares to drain it. A sender that
//! loses more than 1 − `alpha` of its packets before the switch looks application-limited, and its share keeps
//! shrinking. The learned average of a kind of flows reflects the load at the time of learning: on an idle link a flow
//! starts lower than without prediction. A flow's RTT is that of its handshake: if the path becomes longer, the control
//! interval stays the same. Packets of a flow that moves to a layer of higher priority may overtake its earlier
//! packets.

mod allocate;
mod code;
mod events;
mod flow;
mod learned;
mod members;
mod port_state;
#[cfg(test)]
mod random_tests;
mod returns;
mod shares;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use narrows_cc::{LITERAL, Nanos, Param, Provenance, Rate};

pub use code::RateCode;

use self::allocate::Departures;
use self::flow::{Class, Flow, Layer};
use self::learned::Learned;
use self::port_state::State;
use self::returns::RemoteReservation;
use self::shares::{Classes, Limit, Shares};
use narrows_net::config::{self, HtbClass};

use crate::{
    FiveTuple, FlowTable, Port, RateHeader, Reading, Router, RouterFrame, RouterInfo, RouterSetup, Signal,
    TelemetrySink,
};

/// Classes of the queue: the BRF class, the first of its leaves, and the two other classes.
const BRF: u8 = 0;
const FIRST_LAYER: u8 = 1;
const OTHERS: u8 = 4;
const UDP: u8 = 5;

/// Maximum number of half-open flows with a share, unless there are more established flows: then their number is the
/// maximum.
const HALF_OPEN: usize = 8;
/// Time for which a half-open flow keeps its share, and time for which it keeps its entry in the table.
const HANDSHAKE: Nanos = Nanos::from_secs(1);
const HANDSHAKE_ENTRY: Nanos = Nanos::from_secs(3);
/// Silence after which UDP gets no share.
const UDP_GONE: Nanos = Nanos::from_secs(2);
/// Silence after which untracked flows no longer count as a flow of the other class.
const UNTRACKED_GONE: Nanos = Nanos::from_secs(2);
/// Bounds of Δt, and its value while no RTT is known.
const PERIOD_MIN: Nanos = Nanos::from_millis(1);
const PERIOD_MAX: Nanos = Nanos::from_secs(1);
const PERIOD_UNKNOWN: Nanos = Nanos::from_millis(100);
/// A flow is silent after the longer of this time and 2 Δt without a packet; see `allocate.rs`.
const SILENT: Nanos = Nanos::from_millis(20);
/// Maximum number of averages per grain of the model.
const LEARNED_LIMIT: usize = 4096;

/// Event counters, for telemetry.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    refused: u64,
    expired: u64,
    allocations: u64,
    reductions: u64,
    announced: u64,
    written: u64,
}

/// The router algorithm of BRF.
#[derive(Clone, Debug)]
pub struct Brf {
    /// Link capacity: the configured value, and the current estimate.
    nominal: f64,
    capacity: f64,
    udp_share: f64,
    limit: Limit,
    gamma: f64,
    utilization: f64,
    packets: f64,
    mice: u64,
    idle: Nanos,
    prediction: bool,
    urgent: bool,
    drain: bool,
    follow: bool,
    /// Whether to follow the equations as printed.
    literal: bool,
    size: usize,

    state: State,
    shares: Shares,
    table: FlowTable<Flow>,
    /// Shares announced by other switches, by flow.
    reservations: FlowTable<RemoteReservation>,
    tuples: Arc<[FiveTuple]>,
    learned: Learned,
    /// Number of half-open flows by class, and of those with a share.
    half_open: [usize; 2],
    reserved: usize,
    /// Number of sending flows outside the BRF class.
    others: usize,
    udp_seen: Option<Nanos>,
    /// Arrival of the last packet of an untracked flow, and whether untracked flows count as a flow of the other class.
    untracked_seen: Option<Nanos>,
    untracked: bool,
    classes: Classes,
    /// The sum of the shares of each layer.
    layers: [f64; Layer::COUNT],
    /// The minimum of Δt, and of the silence after which a flow has no share.
    period_min: Nanos,
    silence_min: Nanos,
    /// Δt, whether an RTT is known, and the time of the next allocation.
    period: Nanos,
    period_known: bool,
    allocate_at: Nanos,
    swept_at: Nanos,
    /// Sum of the flows' measured rates.
    load: f64,
    departures: Departures,
    /// Bytes of reverse-direction ACKs since the last allocation, and the rate reserved for them.
    acks: u64,
    acks_since: Nanos,
    acks_rate: f64,
    demands: Vec<f64>,
    gone: Vec<u32>,
    counts: Counts,
}

impl Router for Brf {
    const INFO: RouterInfo = RouterInfo {
        name: "brf",
        summary: "BRF: a measured share per flow, divided anew every round trip, written into ACKs",
        provenance: Provenance::Verified,
        params: &[
            Param::ratio("alpha", 0.95, (0.5, 1.0), "share utilisation below which a flow is application-limited"),
            Param::ratio("beta", 1.10, (1.0, 2.0), "share of such a flow, as a multiple of its usage"),
            Param::number("gamma", 1.0, (0.5, 10.0), "rtt", "time to drain a queue, in longest RTTs"),
            Param::ratio("utilization", 0.98, (0.5, 1.0), "part of a loaded link that rates are cut to"),
            Param::ratio("udp_share", 0.05, (0.0, 0.5), "share of UDP while there is any"),
            Param::number(
                "floor",
                0.5,
                (0.001, 100.0),
                "mbit",
                "minimum share of a flow, unless half of an equal share is less",
            ),
            Param::number("mice", 100_000.0, (0.0, 1e9), "byte", "bytes sent up to which a flow is a mouse"),
            Param::number("small_packets", 50.0, (0.0, 1000.0), "pkt", "packets over which limited flows are measured"),
            Param::flag("classes", true, "add a token bucket if the scenario states no queue but droptail"),
            Param::flag("prediction", true, "start with the rate learned for flows of the kind"),
            Param::flag(
                "urgent",
                true,
                "write a share that has fallen by a tenth at once, not a round trip after the last",
            ),
            Param::flag("drain", false, "cut by (16) for the backlog at every allocation, without the controller"),
            Param::flag("follow", false, "measure the link's capacity, and drain as with `drain`: for variable links"),
            Param::count("flows", 10_000.0, (2.0, 1e6), "", "maximum number of flows in the table"),
            Param::number("idle", 30.0, (1.0, 3600.0), "s", "silence after which a flow is forgotten"),
            LITERAL,
        ],
    };
    const RETURNS: bool = true;
    const CONTROLLED: bool = true;

    fn new(setup: &RouterSetup) -> Self {
        let number = |name| setup.params.number(name);
        let capacity = (setup.capacity.as_bytes_per_sec() as f64).max(1.0);
        let size = number("flows") as usize;
        let known = setup.learned.as_deref().and_then(|text| Learned::from_text(text, LEARNED_LIMIT).ok());
        Self {
            nominal: capacity,
            capacity,
            udp_share: number("udp_share"),
            limit: Limit { alpha: number("alpha"), beta: number("beta") },
            gamma: number("gamma"),
            utilization: number("utilization"),
            packets: number("small_packets"),
            mice: number("mice") as u64,
            idle: Nanos::from_secs_f64(number("idle")),
            prediction: setup.params.flag("prediction"),
            urgent: setup.params.flag("urgent"),
            drain: setup.params.flag("drain"),
            follow: setup.params.flag("follow"),
            literal: setup.params.flag(LITERAL.name),
            size,
            state: State::default(),
            shares: Shares::new(number("floor") * 125_000.0, setup.params.flag(LITERAL.name)),
            // The table's size is checked before each insertion, so the table evicts no flow itself.
            table: FlowTable::new(size, Nanos::MAX),
            reservations: FlowTable::new(size, HANDSHAKE_ENTRY),
            tuples: Arc::clone(&setup.flows),
            learned: known.unwrap_or_else(|| Learned::new(LEARNED_LIMIT)),
            half_open: [0; 2],
            reserved: 0,
            others: 0,
            udp_seen: None,
            untracked_seen: None,
            untracked: false,
            classes: Classes::divide(capacity, 0, 0, false, 0.0),
            layers: [0.0; Layer::COUNT],
            period_min: PERIOD_MIN,
            silence_min: SILENT,
            period: PERIOD_UNKNOWN,
            period_known: false,
            allocate_at: Nanos::MAX,
            swept_at: Nanos::ZERO,
            load: 0.0,
            acks: 0,
            acks_since: Nanos::ZERO,
            acks_rate: 0.0,
            departures: Departures { since: Nanos::ZERO, bytes: 0, starved: true },
            demands: Vec::new(),
            gone: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn queue(setup: &RouterSetup) -> Option<config::Queue> {
        if !setup.params.flag("classes") {
            return None;
        }
        let all = setup.capacity;
        let udp = all.mul_f64(setup.params.number("udp_share")).max(Rate::from_bytes_per_sec(1));
        let class = |name, parent, rate, priority| HtbClass { parent, priority, ..HtbClass::new(name, rate) };
        let layer = |name, priority| class(name, Some(BRF), all / 3, priority);
        let classes = vec![
            class("brf", None, all, 0),
            layer("mice", 0),
            layer("limited", 1),
            layer("elephants", 2),
            class("others", None, all, 2),
            HtbClass { policed: true, ceil: Some(udp), ..class("udp", None, udp, 2) },
        ];
        // The tree is valid by construction.
        config::Htb::new(classes, OTHERS).ok().map(|htb| config::Queue::Htb(Arc::new(htb)))
    }

    fn on_open<F: RouterFrame>(&mut self, port: &mut Port<'_>, opening: &F) {
        if !self.is_udp(opening.flow()) && !opening.is_reverse() {
            self.open_flow(port, opening.flow(), opening.rate_header() == RateHeader::BrfOffer);
        }
    }

    fn on_close<F: RouterFrame>(&mut self, port: &mut Port<'_>, fin: &F) {
        if !fin.is_reverse() {
            self.end_flow(port, fin.flow());
        }
    }

    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        let (id, size) = (packet.flow(), packet.size().as_u64());
        let class = if packet.is_reverse() || packet.is_message() {
            // ACKs of flows in the other direction, and messages: these packets are small and urgent for other nodes.
            self.write_remote(port.now, packet);
            self.add_acks(size)
        } else if let Some(class) = self.add_bytes(port, id, size, packet.opens()) {
            class
        } else if self.is_udp(id) {
            self.add_udp(port)
        } else {
            self.add_untracked(port)
        };
        port.steer(class);
    }

    fn on_departure<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        self.departures.bytes += packet.size().as_u64();
        self.departures.starved |= port.backlog.is_zero();
    }

    fn on_return<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        if !packet.is_message() {
            self.write_own(port, packet);
            self.write_remote(port.now, packet);
        }
    }

    fn on_signal(&mut self, port: &mut Port<'_>, signal: &Signal) {
        match *signal {
            Signal::Insert { flow, code } => self.note_reservation(port.now, flow, code),
            Signal::Congested(congestion) => self.reduce(port, congestion),
        }
    }

    fn next_wake(&self) -> Nanos {
        self.allocate_at
    }

    fn on_wake(&mut self, port: &mut Port<'_>) {
        if self.allocate_at <= port.now {
            self.allocate(port);
        }
    }

    fn learned(&self) -> Option<String> {
        // Flows that are still open have not yet contributed to the averages.
        let mut learned = self.learned.clone();
        for (id, flow) in self.table.clone().iter_mut() {
            if let (Class::Brf, Some(tuple), Some(rate)) = (flow.class, self.tuples.get(id as usize), flow.mean_rate())
            {
                learned.teach(tuple, rate);
            }
        }
        Some(learned.to_text())
    }

    fn check_learned(text: &str) -> Result<(), String> {
        Learned::from_text(text, LEARNED_LIMIT).map(|_| ())
    }

    fn memory(&self) -> usize {
        self.table.memory()
    }

    fn telemetry(&self, sink: TelemetrySink<'_>) {
        sink("state", Reading::State(self.state.name()));
        sink("capacity", Reading::Rate(self.capacity));
        sink("c_brf", Reading::Rate(self.classes.brf));
        sink("allocated", Reading::Rate(self.shares.allocated()));
        sink("used", Reading::Rate(self.shares.used()));
        sink("brf_flows", Reading::count(self.shares.count() as u64));
        sink("other_flows", Reading::count(self.others as u64));
        sink("half_open", Reading::count(self.half_open.iter().sum::<usize>() as u64));
        sink("table", Reading::count(self.table.len() as u64));
        sink("table_memory", Reading::Bytes(self.table.memory() as f64));
        sink("period", Reading::Time(self.period.as_secs_f64()));
        sink("learned", Reading::count(self.learned.taught()));
        sink("refused", Reading::count(self.counts.refused));
        sink("expired", Reading::count(self.counts.expired));
        sink("allocations", Reading::count(self.counts.allocations));
        sink("reductions", Reading::count(self.counts.reductions));
        sink("announced", Reading::count(self.counts.announced));
        sink("written", Reading::count(self.counts.written));
    }
}
