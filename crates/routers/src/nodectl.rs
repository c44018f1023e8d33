//! # Nodectl: nodes that negotiate rates
//!
//! Before a requester (the paper's server) sends data, it requests a rate along the path. Every port on the path lowers
//! the request to the rate that it can allocate; the responder (the paper's user) answers with the result. Afterwards
//! the ports notify requesters when their rate must fall because flows have joined, and when it may rise because flows
//! have left. Data packets carry no rate information.
//!
//! ## Control law
//! Bandwidths in bytes per second on the wire, headers included. Bz is the port's bandwidth, Bv its unallocated part,
//! Qz the number of transmissions served, Qctl and Bctl the number and bandwidth of those bottlenecked at this port, VQ
//! the arrival rate of new transmissions, Rtt the round-trip time in the request.
//!
//! ```text
//! T  = alpha Rtt         QT = max(1, VQ T)        transmissions until the data comes, including this one
//! Bs = Bv / QT           Ba = Bz / (Qz + QT)
//! |Bs - Ba| <= beta Ba   Bc = Bs
//! Ba - Bs   >  beta Ba   Bc = Ba                              those above Ba are notified to reduce
//! Bs - Ba   >  beta Ba   Bc = (Bv + Bctl) / (QT + Qctl)       those bottlenecked here are notified to come to Bc
//! ```
//!
//! * Request (Algorithm 4): if Bc < Min, a failure goes back and the request goes no further. If Bc < Max, Max = Bc.
//!   The port records Bc and notifies the other flows.
//! * Success on its way back: if Bc = Max, the port is the transmission's bottleneck; if Bc > Max, another node or an
//!   endpoint is. The bandwidth allocated beyond Max becomes free again.
//! * Failure on its way back: the changes of the negotiation are undone.
//! * Termination, or silence for `timeout`: the record is deleted.
//! * The last line of the law also distributes freed bandwidth; without a request, QT counts only the expected
//!   arrivals.
//! * Subflows (Algorithm 2): flows of the same content and destination count as one transmission above. They divide its
//!   bandwidth by weight, where a flow's weight is the Max of its first request.
//!
//! ## States
//! ```text
//! of a record     request -> negotiating -- success --> granted: bottlenecked here | elsewhere
//!                    ^            |                        |   ^
//!                    |         failure: as before          +---+ reduced, increase suggested
//!                    +-- request after an increase --------+
//!                 termination, silence: gone
//! ```
//!
//! ## Messages that get lost
//! Only requests are acknowledged. Once per control interval, the longest RTT of its flows, a port checks whether a
//! flow sends more than its reservation. If so, the flow missed a notification, and the port repeats it. An increase
//! without a request in response is repeated three times; then the flow counts as bottlenecked elsewhere. A port
//! suggests one increase to a flow at a time, none between request and answer, and none if the answer shows that this
//! port is not the flow's bottleneck. The timeout covers a lost termination. A lost success is covered by the
//! requester's next request, which a port handles like a first request.
//!
//! ## References
//! H. Liu, H. Ni, R. Han, 'A Transmission Rate Control Method for Active Congestion Reduction Based on Network Node
//! Bandwidth Allocation', Future Internet 15(12), 385, 2023. The paper prints its algorithms as images; this is our
//! reading of the paper's text.
//!
//! ## Differences
//! 1. Algorithm 1 has two corrections, which `nodectl/allocation.rs` explains: the third line also reduces, and a
//!    request for less than its share takes no more than the requested rate from the other transmissions. A port also
//!    deducts traffic that is not negotiated (12) and avoids small adjustments of many transmissions (11). `literal`
//!    reverts all of these.
//! 2. The paper does not state which node distributes the bandwidth freed by a termination or by a success with a lower
//!    rate. Here the port on which the bandwidth becomes free distributes it immediately.
//! 3. Between request and answer a flow counts as bottlenecked here if this port lowered its Max. If answers return by
//!    another path, the flow keeps that status.
//! 4. A requester that receives a reduction while its success is in transit would follow the success, which arrives
//!    later although the reduction is the newer decision. A port therefore lowers a success that exceeds the current
//!    reservation.
//! 5. A port that reduces a transmission becomes its bottleneck. A port that forwards another port's reduction does
//!    not.
//! 6. A request that answers an increase, or announces a reduction, requests no more than the rate in that message.
//!    The port that sent the message remains the bottleneck, although its Bc may meanwhile exceed the Max it receives.
//! 7. A new subflow gets the current share of its transmission (Algorithm 1 without the transmission's own part)
//!    instead of its former share; otherwise a share that another subflow cannot use would be lost.
//! 8. `beta` is a share of Ba. A port does not suggest an increase of less than a thousandth.
//! 9. The message has no sequence number. Answers repeat the Rtt of their request, and requesters vary the Rtt slightly
//!    each time. A port accepts only the answer to the last request it saw. One bit of Rtt records that a node handled
//!    the request: otherwise a requester with a limited rate would mistake the answer for a granted rate on a path
//!    without nodes.
//! 10. A full table answers new requests with a failure.
//! 11. From 128 transmissions on, a newcomer no longer causes a message to each other transmission; see
//!     `nodectl/allocation.rs`.
//! 12. Bz excludes traffic that is not negotiated: ACKs and messages of flows in the other direction, as measured in
//!     the last control interval plus a tenth, and handshakes and messages. The paper allocates the whole link.
//! 13. A requester that received a reduction requests its current rate once reductions have ceased, so that the other
//!     nodes on its path record it. A requester whose application has less data requests the rate that it uses. In the
//!     paper such records stay wrong.
//! 14. A flow without notification for 2.5 s receives a reduction to its current rate, which changes nothing. A
//!     requester without notification for 10 s sends a request, and so detects failed nodes.
//! 15. A requester that receives a reduction between request and answer cannot know whether the reduction or the answer
//!     is the later decision. It keeps the lower rate. Once reductions have ceased it requests the answer's rate again,
//!     and the nodes grant or lower it.
//!
//! ## Known weaknesses
//! * Traffic that does not negotiate is not in the reservation table: beside such traffic the port allocates more
//!   bandwidth than is available.
//! * A host that claims many contents gets many shares, until the table is full.
//! * When a flow with a short RTT joins flows with long RTTs, its data may arrive before their rates have decreased.
//! * Unused reservations are lost to other flows. A requester with little data reserves a twentieth more than its
//!   usage, and at least two packets per round trip. A flow without data keeps its whole reservation until its
//!   requester or the timeout returns it.
//! * Loss before the port does not change a reservation.
//! * The port allocates all of its bandwidth, so a queue, once formed, persists. On a link that follows a trace it
//!   allocates the mean, regardless of the current capacity.
//! * Requests cross the port but are not in its reservation table. With hundreds of transmissions, each one that ends
//!   causes a message to each of the others and a request from each: 400 transmissions on 100 Mbit/s, of which 20 per
//!   second end and are replaced, keep a queue of more than half a BDP.
//! * While other flows fill the table, newcomers are refused and do not send.
//! * The record of a flow whose RTT exceeds `timeout` expires before the flow's data arrives.

mod adjust;
mod allocation;
mod arrivals;
mod counts;
#[cfg(test)]
mod fuzz_tests;
pub mod message;
mod records;
#[cfg(test)]
mod tests;

use narrows_cc::{LITERAL, Nanos, Param, Provenance, Rate};

use self::allocation::Part;
use self::arrivals::{Arrivals, Predictor};
use self::counts::Counts;
use self::message::{ATTENDED, Adjustment, MOST, Message, Negotiation};
use self::records::ReservationTable;
use narrows_packet::ControlMessage;

use crate::{Outgoing, Port, Reading, Router, RouterFrame, RouterInfo, RouterSetup, TelemetrySink};

/// Bounds of the control interval.
const SHORTEST_INTERVAL: Nanos = Nanos::from_millis(10);
const LONGEST_INTERVAL: Nanos = Nanos::from_secs(1);

/// The router algorithm of Nodectl.
#[derive(Clone, Debug)]
pub struct Nodectl {
    /// The bandwidth of the port before other traffic is deducted.
    capacity: u64,
    alpha: f64,
    beta: f64,
    /// Whether to follow Algorithm 1 as printed.
    literal: bool,
    arrivals: Arrivals,
    table: ReservationTable,
    /// Start and end of the current control interval.
    interval_start: Nanos,
    interval_end: Nanos,
    /// The longest RTT of the flows.
    rtt: Nanos,
    /// Bytes of reverse-direction flows in this control interval, and their rate.
    reverse_bytes: u64,
    reverse_rate: f64,
    /// Bytes of this direction's messages and handshakes, and their rate.
    control_bytes: u64,
    control_rate: f64,
    /// Time at which the latest transmission joined.
    joined_at: Nanos,
    counts: Counts,
    /// Scratch lists, kept to reuse their memory.
    places: Vec<u32>,
    flows: Vec<u32>,
    parts: Vec<Part>,
}

fn rate(bytes_per_sec: u64) -> Rate {
    Rate::from_bytes_per_sec(bytes_per_sec)
}

/// Sends a message to the sender of a flow, about the path on which the flow passed this port.
fn notify(port: &mut Port<'_>, (flow, path): (u32, u8), message: &Message) {
    let message = ControlMessage::new(message.encode().as_bytes());
    port.send(Outgoing::ToSender { flow, path, message });
}

impl Router for Nodectl {
    const INFO: RouterInfo = RouterInfo {
        name: "nodectl",
        summary: "Nodectl: negotiates a rate with every sender and notifies it of changes",
        provenance: Provenance::Verified,
        params: &[
            Param::ratio("alpha", 1.0, (1.0, 10.0), "round trips ahead for which arrivals are predicted"),
            Param::ratio("beta", 0.0, (0.0, 0.9), "tolerated unfairness, as a share of the mean"),
            Param::ratio("share", 1.0, (0.1, 1.0), "share of the capacity that is allocated"),
            Param::choice(
                "predictor",
                &["present", "ewma", "holt"],
                "arrivals to come: the present rate, its exponential mean, level and trend (Holt)",
            ),
            Param::ratio("gain", 0.125, (0.01, 1.0), "weight of the present rate in predictors ewma and holt"),
            Param::ratio("trend", 0.1, (0.0, 1.0), "weight of the present change in predictor holt"),
            Param::number("slot", 1000.0, (10.0, 60_000.0), "ms", "interval over which arrivals are counted"),
            Param::number("timeout", 10.0, (10.0, 600.0), "s", "silence after which a record is deleted"),
            Param::count("flows", 100_000.0, (1.0, 1e6), "", "maximum number of records"),
            LITERAL,
        ],
    };
    const RETURNS: bool = true;

    fn new(setup: &RouterSetup) -> Self {
        let number = |name| setup.params.number(name);
        let capacity = setup.capacity.mul_f64(number("share")).min(MOST).as_bytes_per_sec().max(1);
        let (gain, trend) = (number("gain"), number("trend"));
        let predictor = match setup.params.word("predictor") {
            "ewma" => Predictor::Ewma { gain },
            "holt" => Predictor::Holt { gain, trend },
            _ => Predictor::Present,
        };
        let idle = Nanos::from_secs_f64(number("timeout"));
        Self {
            capacity,
            alpha: number("alpha"),
            beta: number("beta"),
            literal: setup.params.flag(LITERAL.name),
            arrivals: Arrivals::new(predictor, Nanos::from_secs_f64(number("slot") / 1e3)),
            table: ReservationTable::new(capacity, number("flows") as usize, idle),
            interval_start: Nanos::ZERO,
            interval_end: Nanos::MAX,
            rtt: Nanos::ZERO,
            reverse_bytes: 0,
            reverse_rate: 0.0,
            control_bytes: 0,
            control_rate: 0.0,
            joined_at: Nanos::ZERO,
            counts: Counts::default(),
            places: Vec::new(),
            flows: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn on_arrival<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        if packet.is_reverse() {
            self.reverse_bytes += packet.size().as_u64();
        } else if packet.is_message() {
            self.control_bytes += packet.size().as_u64();
            self.on_message(port, packet);
        } else if packet.opens() {
            self.control_bytes += packet.size().as_u64();
        } else if let Some(record) = self.table.records.get(port.now, packet.flow()) {
            record.arrived += packet.size().as_u64();
        }
    }

    fn on_departure<F: RouterFrame>(&mut self, _port: &mut Port<'_>, _packet: &mut F) {}

    fn on_return<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        if packet.is_message() {
            self.on_answer(port, packet);
        }
    }

    fn next_wake(&self) -> Nanos {
        self.interval_end
    }

    fn on_wake(&mut self, port: &mut Port<'_>) {
        while self.table.expire(port.now) {
            self.counts.expired += 1;
        }
        self.repeat_notices(port);
        self.deduct_other_traffic(port);
        self.distribute_free(port);
        self.interval_start = port.now;
        self.interval_end =
            if self.table.is_empty() { Nanos::MAX } else { port.now.saturating_add(self.control_interval()) };
    }

    fn telemetry(&self, sink: TelemetrySink<'_>) {
        sink("flows", Reading::count(self.table.records.len() as u64));
        sink("transmissions", Reading::count(self.table.served() as u64));
        sink("given", Reading::Rate(self.table.given() as f64));
        let free = self.table.total().saturating_sub(self.table.given());
        sink("free", Reading::Rate(free as f64));
        sink("returns", Reading::Rate(self.reverse_rate));
        self.counts.report(sink);
    }

    fn memory(&self) -> usize {
        self.table.memory()
    }
}

impl Nodectl {
    /// Handles a control message on its way to the responder.
    fn on_message<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        match Message::decode(packet.message().as_bytes()) {
            Ok(message @ Message::Negotiation { kind: Negotiation::Request, .. }) => {
                self.on_request(port, packet, message);
            }
            Ok(Message::Adjustment { kind: Adjustment::Terminate, id, .. }) => {
                match self.table.records.peek_mut(packet.flow()).map(|record| (record.id == id, record.path)) {
                    Some((true, path)) if path == packet.path() => {
                        self.table.close(packet.flow());
                        self.distribute_free(port);
                    }
                    Some((false, _)) => self.counts.foreign += 1,
                    // The termination is repeated, the record has timed out, or the flow uses another path over this
                    // port.
                    _ => {}
                }
            }
            // Stop all other messages: none is addressed to the responder.
            _ => {
                self.counts.refused += 1;
                port.consume();
            }
        }
    }

    /// Algorithm 4, lines 3 to 18.
    fn on_request<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F, message: Message) {
        let Message::Negotiation { max, min, id, rtt_us: field, .. } = message else { return };
        let rtt_us = field & !ATTENDED;
        let flow = packet.flow();
        let known = self.table.records.get(port.now, flow).map(|record| record.id);
        if known.is_some_and(|known| known != id) {
            self.counts.foreign += 1;
            port.consume();
            return;
        }
        if known.is_none() {
            let fresh = self.table.find(&id).is_none();
            let weight = max.as_bytes_per_sec().min(self.capacity);
            if self.table.open(port.now, flow, id, weight).is_none() {
                self.counts.full += 1;
                self.refuse(port, packet, &message, 0);
                return;
            }
            if fresh {
                self.arrivals.on_arrival(port.now);
                self.joined_at = port.now;
            }
        }
        let Some(own) = self.table.records.peek_mut(flow).map(|record| record.transmission) else { return };
        let requested = max.as_bytes_per_sec();
        let rtt = Nanos::from_micros(u64::from(rtt_us));
        let (total, mut allocated, adjust) = self.allocate(port.now, flow, own, requested, rtt);
        if allocated < min.as_bytes_per_sec().max(1) {
            self.refuse(port, packet, &message, allocated);
            self.undo(port, flow);
            return;
        }
        let Some(record) = self.table.records.peek_mut(flow) else { return };
        let announced = record.before.is_none() && record.is_bottleneck() && requested == record.rate();
        let repeated = record.before.is_some() && requested == record.echoed;
        let suggested = [record.suggested, record.withdrawn].contains(&requested);
        let echoes = suggested || announced || repeated;
        record.echoed = if echoes { requested } else { 0 };
        if echoes {
            // Difference 6: the request answers an increase or announces a reduction.
            allocated = allocated.min(requested);
        }
        record.withdrawn = 0;
        if requested >= record.suggested {
            record.suggested = 0;
        }
        if record.before.is_none() {
            record.before = Some((record.rate(), record.is_bottleneck()));
            record.path_before = record.path;
        }
        record.token = rtt_us;
        record.rtt = rtt;
        record.path = packet.path();
        record.notified_at = port.now;
        record.allocated = allocated;
        self.rtt = self.rtt.max(rtt);
        let granted = allocated.min(requested);
        self.table.set(flow, granted, allocated <= requested);
        let (kind, max) = (Negotiation::Request, rate(granted));
        let passed_on = Message::Negotiation { kind, max, min, id, rtt_us: rtt_us | ATTENDED };
        packet.set_message(passed_on.encode().as_bytes());
        self.divide(port, own, total, Some(flow));
        self.adjust(port, adjust, Some(own), (0, u64::MAX));
        if self.interval_end == Nanos::MAX {
            self.interval_start = port.now;
            self.reverse_bytes = 0;
            self.control_bytes = 0;
            self.interval_end = port.now.saturating_add(self.control_interval());
        }
    }

    /// Recounts the reservation table.
    #[cfg(test)]
    fn check(&mut self) {
        self.table.check();
    }

    /// Length of a control interval: the longest RTT, within bounds.
    fn control_interval(&self) -> Nanos {
        self.rtt.max(SHORTEST_INTERVAL).min(LONGEST_INTERVAL)
    }

    /// Answers a request with a failure and consumes it.
    fn refuse<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &F, request: &Message, available: u64) {
        let Message::Negotiation { min, id, rtt_us, .. } = *request else { return };
        self.counts.failures += 1;
        port.consume();
        let kind = Negotiation::Failure;
        let answer = Message::Negotiation { kind, max: rate(available), min, id, rtt_us };
        notify(port, (packet.flow(), packet.path()), &answer);
    }

    /// Undoes the failed negotiation of a flow: restores its earlier reservation.
    fn undo(&mut self, port: &mut Port<'_>, flow: u32) {
        let free = self.table.load(None).free;
        let Some(record) = self.table.records.peek_mut(flow) else { return };
        let has = record.rate();
        match record.before.take() {
            Some((before, here)) if before > 0 => {
                record.path = record.path_before;
                self.table.set(flow, before.min(has + free), here);
            }
            None if has > 0 => return,
            _ => self.table.close(flow),
        }
        self.distribute_free(port);
    }

    /// Handles a control message on its way to the requester: Algorithm 4, lines 20 to 25.
    fn on_answer<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        let Ok(message) = Message::decode(packet.message().as_bytes()) else {
            self.counts.refused += 1;
            return;
        };
        let flow = packet.flow();
        let Some(record) = self.table.records.peek_mut(flow) else { return };
        if record.id != message.id() {
            self.counts.foreign += 1;
            return;
        }
        match message {
            Message::Negotiation { kind: Negotiation::Request, .. }
            | Message::Adjustment { kind: Adjustment::Terminate, .. } => self.counts.refused += 1,
            Message::Adjustment { kind: Adjustment::Increase, .. } => {}
            Message::Negotiation { kind, max, min, id, rtt_us } => {
                if rtt_us & !ATTENDED != record.token || record.before.is_none() {
                    return;
                }
                let (has, allocated) = (record.rate(), record.allocated);
                if kind == Negotiation::Failure {
                    self.undo(port, flow);
                } else if rate(has) < min {
                    // The port has reduced the flow below Min since the request.
                    let kind = Negotiation::Failure;
                    packet.set_message(
                        Message::Negotiation { kind, max: rate(has), min, id, rtt_us }.encode().as_bytes(),
                    );
                    self.undo(port, flow);
                } else {
                    record.before = None;
                    if max > rate(has) {
                        // Difference 4: the port has reduced the flow since the request.
                        let lowered = Message::Negotiation { kind, max: rate(has), min, id, rtt_us };
                        packet.set_message(lowered.encode().as_bytes());
                    }
                    let max = max.as_bytes_per_sec();
                    let here = max >= allocated;
                    if !here {
                        // An increase suggested while this port counted as the bottleneck is void.
                        record.suggested = 0;
                    }
                    self.table.set(flow, max.min(has), here);
                    if max < has {
                        self.distribute_free(port);
                    }
                }
            }
            Message::Adjustment { kind: Adjustment::Reduce, speed, .. } => {
                let speed = speed.as_bytes_per_sec();
                if let Some((before, here)) = &mut record.before
                    && speed < *before
                {
                    (*before, *here) = (speed, false);
                }
                // A reduction counts only on the path of the last request, not on a path that the flow is leaving. If
                // the reduction crossed a request, the answer to that request decides.
                let settled = record.before.is_none();
                if settled && speed < record.rate() && packet.path() == record.path {
                    record.suggested = 0;
                    record.withdrawn = 0;
                    // Data in flight was sent before the requester received the reduction.
                    record.notified_at = port.now;
                    self.table.set(flow, speed, false);
                    self.distribute_free(port);
                }
            }
        }
    }
}
