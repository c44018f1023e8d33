//! Metrics, computed during the run without state per packet.
//!
//! Goodput and throughput are means over the flow's active time after the warm-up. A flow that ended within the warm-up
//! is measured over its whole life. A stopped flow is active until its stop; data that drains afterwards does not
//! count.

use std::collections::BTreeMap;

use narrows_cc::{Bytes, Nanos, ParamKind};
use narrows_net::ClassStats;
use narrows_packet::{Flags, Packet};
use narrows_routers::RouterLink;
use narrows_scenario::result::{
    ClassResult, Counters, DatagramResult, FlowResult, LinkResult, RouterResult, RunResult,
};
use narrows_scenario::telemetry;
use narrows_scenario::{FlowPlan, LinkPlan, Plan};
use narrows_tcp::{ReceiverStats, SenderStats};
use narrows_units::{Histogram, prefetch};

use crate::Link;
use crate::clock::bin_length;
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::fairness::{Fairness, jain};

/// Round-trip times of one flow.
// One cache line, which every acknowledgement accesses.
#[derive(Debug)]
#[repr(align(64))]
struct FlowMetrics {
    rtt: Histogram,
    last_rtt: Nanos,
}

/// State of the flow's path.
#[derive(Debug)]
struct PathMetrics {
    /// Bandwidth-delay product of the path; `MAX` once the data in flight has reached it.
    unfilled: Bytes,
    /// Data packets dropped by the network.
    drops: u64,
}

/// Measurement interval of a flow, and state that is accessed only at the start and the end of the interval and at the
/// end of a bin.
#[derive(Debug)]
struct Span {
    /// Time at which the data in flight first reached the bandwidth-delay product; `MAX` until then.
    filled_at: Nanos,
    /// Start of the interval: the end of the warm-up, or the flow's start if the flow starts after the warm-up or ended
    /// within it.
    from: Nanos,
    /// Time at which the application stops.
    stop: Nanos,
    /// Bytes in order and bytes received when the application stopped; later arrivals do not count.
    received_at_stop: Option<(u64, u64)>,
    /// Bytes received by the end of the last bin.
    received: u64,
    /// Minimum and maximum number of bytes received in a bin of the interval.
    per_bin: Option<(u64, u64)>,
    /// Counters at the end of the warm-up.
    sender: SenderStats,
    receiver: ReceiverStats,
    drops: u64,
}

impl Span {
    /// Known end of the flow: completion, or the planned stop.
    fn end(&self, sender: &SenderEndpoint) -> Nanos {
        sender.completed_at().unwrap_or(self.stop)
    }
}

/// Measurements of a run in progress.
#[derive(Debug)]
pub struct Metrics {
    flows: Vec<FlowMetrics>,
    paths: Vec<PathMetrics>,
    spans: Vec<Span>,
    fairness: Fairness,
    bin: Nanos,
}

/// Bandwidth-delay product of a flow's path, from the lowest mean rate of the links on the forward path.
fn bottleneck_bdp(flow: &FlowPlan, links: &[LinkPlan]) -> Bytes {
    let capacity = |link: usize| links[link].config.capacity.mean_rate().as_bytes_per_sec() as f64;
    let rate = flow.path.forward.iter().map(|hop| capacity(hop.link)).fold(f64::INFINITY, f64::min);
    Bytes::from_f64(rate * flow.base_rtt.as_secs_f64())
}

impl Metrics {
    /// Starts the measurement.
    pub fn new(plan: &Plan) -> Self {
        let flow = |_| FlowMetrics { rtt: Histogram::new(), last_rtt: Nanos::ZERO };
        let path = |flow: &FlowPlan| PathMetrics { unfilled: bottleneck_bdp(flow, &plan.links), drops: 0 };
        let span = |flow: &FlowPlan| Span {
            filled_at: Nanos::MAX,
            from: flow.start,
            stop: flow.stop.unwrap_or(Nanos::MAX),
            received_at_stop: None,
            received: 0,
            per_bin: None,
            sender: SenderStats::default(),
            receiver: ReceiverStats::default(),
            drops: 0,
        };
        let bin = bin_length(plan.duration);
        Self {
            flows: plan.flows.iter().map(flow).collect(),
            paths: plan.flows.iter().map(path).collect(),
            spans: plan.flows.iter().map(span).collect(),
            fairness: Fairness::new(plan.flows.iter().map(|flow| flow.start).zip(parties(plan)), bin),
            bin,
        }
    }

    /// Prefetches the memory that the next sample of a flow accesses.
    #[inline]
    pub fn prefetch(&self, flow: usize) {
        prefetch(&self.flows[flow], 1);
        prefetch(&self.paths[flow], 1);
    }

    /// Prefetches the histogram count that the next RTT sample of a flow increments if it resembles the last sample.
    #[inline]
    pub fn prefetch_counts(&self, flow: usize) {
        let metrics = &self.flows[flow];
        metrics.rtt.prefetch(metrics.last_rtt.as_nanos());
    }

    /// Records a round-trip time sample.
    #[inline]
    pub fn on_rtt(&mut self, flow: u32, rtt: Nanos) {
        let metrics = &mut self.flows[flow as usize];
        metrics.last_rtt = rtt;
        metrics.rtt.record(rtt.as_nanos());
    }

    /// Updates the fill time after a sender has sent all packets that it may send now.
    #[inline]
    pub fn on_transmitted(&mut self, now: Nanos, flow: u32, sender: &SenderEndpoint) {
        let path = &mut self.paths[flow as usize];
        if sender.inflight() >= path.unfilled {
            path.unfilled = Bytes::MAX;
            self.spans[flow as usize].filled_at = now;
        }
    }

    /// Data packets of a flow dropped by the network.
    pub fn drops(&self, flow: usize) -> u64 {
        self.paths[flow].drops
    }

    /// Records a packet dropped by the network.
    pub fn on_drop(&mut self, packet: &Packet) {
        if !packet.flags.has(Flags::REVERSE) && packet.payload > 0 {
            self.paths[packet.flow as usize].drops += 1;
        }
    }

    /// Latest round-trip time sample of a flow; zero if there is none.
    pub fn last_rtt(&self, flow: usize) -> Nanos {
        self.flows[flow].last_rtt
    }

    /// Ends the warm-up: restarts the means of flows that have not ended. Ended flows are measured from their start.
    pub fn on_warm(&mut self, now: Nanos, senders: &[SenderEndpoint], receivers: &mut [ReceiverEndpoint]) {
        let ends = senders.iter().zip(receivers);
        let flows = self.flows.iter_mut().zip(&self.paths).zip(&mut self.spans);
        for (((flow, path), span), (sender, receiver)) in flows.zip(ends) {
            if span.end(sender) <= now {
                continue;
            }
            span.from = span.from.max(now);
            span.per_bin = None;
            let view = sender.view();
            span.sender = view.stats;
            span.receiver = *receiver.stats();
            span.drops = path.drops;
            // Ended flows keep the samples of their whole life.
            if view.completed_at.is_none() && !view.closed {
                flow.rtt.clear();
                receiver.clear_delays();
            }
        }
    }

    /// Records the receiver's counters of a flow whose application stops.
    pub fn on_stop(&mut self, flow: u32, sender: &SenderEndpoint, receiver: &ReceiverEndpoint) {
        if sender.completed_at().is_none() {
            let got = receiver.stats();
            self.spans[flow as usize].received_at_stop = Some((got.bytes_in_order, got.bytes_received));
        }
    }

    /// Ends a bin.
    pub fn on_bin(&mut self, now: Nanos, senders: &[SenderEndpoint], receivers: &[ReceiverEndpoint]) {
        let begin = now - self.bin;
        let mut over = false;
        for ((span, sender), receiver) in self.spans.iter_mut().zip(senders).zip(receivers) {
            let received = receiver.stats().bytes_received;
            let got = received - span.received;
            span.received = received;
            let ended = span.end(sender) < now;
            over |= ended;
            if begin >= span.from && !ended {
                let (least, greatest) = span.per_bin.unwrap_or((got, got));
                span.per_bin = Some((least.min(got), greatest.max(got)));
            }
        }
        self.fairness.on_bin(self.spans.iter().map(|span| span.received), over);
    }

    /// Returns the results at the end of the run. `tally`: number of events and their hash.
    pub fn finish(
        self,
        plan: &Plan,
        end: Nanos,
        tally: (u64, u64),
        links: &[Link],
        senders: &[SenderEndpoint],
        receivers: &[ReceiverEndpoint],
    ) -> RunResult {
        let flows: Vec<FlowResult> =
            (0..self.flows.len()).map(|i| self.flow_result(i, plan, end, &senders[i], &receivers[i])).collect();
        let real = senders.iter().any(SenderEndpoint::is_external);
        let goodputs: Vec<f64> = flows.iter().map(|f| f.goodput_mbit_s).collect();
        RunResult {
            version: env!("CARGO_PKG_VERSION"),
            scenario: plan.name.clone(),
            seed: plan.seed,
            duration_s: plan.duration.as_secs_f64(),
            wall_s: 0.0,
            events: tally.0,
            data_packets: receivers.iter().map(|r| r.stats().data_packets).sum(),
            jain: jain(goodputs.iter().copied()),
            convergence_s: self.fairness.convergence().map(Nanos::as_secs_f64),
            flows,
            links: plan
                .links
                .iter()
                .zip(links)
                .filter(|(link, _)| link.reported)
                .map(|(link, state)| link_result(link, state, plan.warmup, end))
                .collect(),
            warmup_s: plan.warmup.as_secs_f64(),
            event_hash: (!real).then(|| format!("{:016x}", tally.1)),
            counters: (!real).then(|| counters(senders, receivers)),
            peak_flow_bytes: (!real).then(|| {
                let memory = senders.iter().zip(receivers).map(|(s, r)| (s.memory() + r.memory()) as u64);
                memory.max().unwrap_or(0)
            }),
            host: None,
            connections: Vec::new(),
        }
    }

    fn flow_result(
        &self,
        index: usize,
        plan: &Plan,
        end: Nanos,
        sender: &SenderEndpoint,
        receiver: &ReceiverEndpoint,
    ) -> FlowResult {
        let (flow, metrics, span) = (&plan.flows[index], &self.flows[index], &self.spans[index]);
        let (sent_before, got_before) = (span.sender, span.receiver);
        let active = span.end(sender).min(end) - span.from;
        let (view, got) = (sender.view(), receiver.stats());
        let sent = view.stats;
        let (in_order, received) = span.received_at_stop.unwrap_or((got.bytes_in_order, got.bytes_received));
        let packets_sent = sent.data_packets_sent - sent_before.data_packets_sent;
        let rtt = |f: &dyn Fn(&Histogram) -> f64| (metrics.rtt.count() > 0).then(|| f(&metrics.rtt) / 1e6);
        let mbit_s = |bytes: u64| if active.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / active.as_secs_f64() };
        let per_bin = |bytes: u64| Bytes::new(bytes).per(self.bin).as_mbit_per_sec();
        let params = flow.params.changed().map(|(param, value)| match (param.kind, value) {
            (ParamKind::Flag, 0.0) => format!("{}=off", param.name),
            (ParamKind::Flag, _) => format!("{}=on", param.name),
            (ParamKind::Choice(words), place) => format!("{}={}", param.name, words[place as usize]),
            (ParamKind::Number | ParamKind::Count, value) => format!("{}={value}", param.name),
        });
        FlowResult {
            flow: flow.label.clone(),
            scheme: flow.scheme.info.name,
            rtt_base_ms: flow.base_rtt.as_millis_f64(),
            goodput_mbit_s: mbit_s(in_order - got_before.bytes_in_order),
            throughput_mbit_s: mbit_s(received - got_before.bytes_received),
            retransmit_percent: percent(sent.retransmits - sent_before.retransmits, packets_sent),
            loss_percent: percent(self.drops(index) - span.drops, packets_sent),
            rtt_min_ms: rtt(&|h| h.min().unwrap_or(0) as f64),
            rtt_mean_ms: rtt(&Histogram::mean),
            rtt_p50_ms: rtt(&|h| h.quantile(0.5)),
            rtt_p95_ms: rtt(&|h| h.quantile(0.95)),
            rtt_p99_ms: rtt(&|h| h.quantile(0.99)),
            fill_time_ms: view
                .first_data_at
                .filter(|_| span.filled_at != Nanos::MAX)
                .map(|first| (span.filled_at - first).as_millis_f64()),
            completion_s: view.completed_at.map(|at| (at - flow.start).as_secs_f64()),
            rtt_range_ms: rtt(&|h| h.max().zip(h.min()).map_or(0.0, |(max, min)| (max - min) as f64)),
            throughput_range_mbit_s: span.per_bin.map(|(least, greatest)| per_bin(greatest) - per_bin(least)),
            start_s: flow.start.as_secs_f64(),
            bytes_delivered: got.bytes_in_order,
            packets_sent,
            timeouts: view.timeouts,
            params: params.collect::<Vec<_>>().join(","),
            datagrams: receiver.datagrams().map(|arrivals| {
                let delay = &arrivals.delay;
                let of = |f: &dyn Fn(&Histogram) -> f64| (delay.count() > 0).then(|| f(delay) / 1e6);
                DatagramResult {
                    delivered: arrivals.datagrams,
                    unsent: view.unsent,
                    delay_min_ms: of(&|h| h.min().unwrap_or(0) as f64),
                    delay_mean_ms: of(&Histogram::mean),
                    delay_p50_ms: of(&|h| h.quantile(0.5)),
                    delay_p95_ms: of(&|h| h.quantile(0.95)),
                    delay_p99_ms: of(&|h| h.quantile(0.99)),
                }
            }),
        }
    }
}

/// Party of each flow for fairness; all subflows of a connection form one party.
fn parties(plan: &Plan) -> impl Iterator<Item = usize> {
    let mut further = vec![false; plan.flows.len()];
    for own in &plan.connections {
        further[own.first + 1..own.first + own.subflows].fill(true);
    }
    further.into_iter().enumerate().scan(0, |opened, (flow, further)| {
        *opened += usize::from(flow > 0 && !further);
        Some(*opened)
    })
}

/// Percentage, at most 100: packets sent before the end of the warm-up may be lost after it.
fn percent(part: u64, whole: u64) -> f64 {
    if part == 0 { 0.0 } else { 100.0 * part as f64 / whole.max(part) as f64 }
}

fn class_result(class: ClassStats, span: Nanos) -> ClassResult {
    ClassResult {
        class: class.name,
        sent_mbit_s: class.sent_bytes as f64 * 8e-6 / span.as_secs_f64(),
        drops: class.dropped,
        queue_mean_pkt: class.queue_mean,
        queue_delay_mean_ms: match class.sent_packets {
            0 => 0.0,
            packets => class.queue_delay_sum_ns as f64 / packets as f64 * 1e-6,
        },
    }
}

fn link_result(link: &LinkPlan, state: &Link, warmup: Nanos, end: Nanos) -> LinkResult {
    let span = end - warmup;
    let stats = state.stats();
    let drops = stats.dropped_queue + stats.dropped_policer + stats.dropped_aqm;
    LinkResult {
        link: link.name.clone(),
        utilization: state.utilization(end),
        queue_delay_mean_ms: stats.queue_delay.mean() / 1e6,
        queue_delay_p95_ms: stats.queue_delay.quantile(0.95) / 1e6,
        queue_mean_pkt: state.mean_queue(end),
        drops,
        drop_percent: percent(drops, stats.arrived_packets),
        random_losses: stats.dropped_loss,
        marks: stats.marked,
        classes: state.classes(end).into_iter().map(|class| class_result(class, span)).collect(),
        router: state.router().map(|router| {
            let mut readings = BTreeMap::new();
            router.telemetry(&mut |name, value| {
                let (name, shown) = telemetry::of_router(name, value);
                readings.insert(name, shown);
            });
            RouterResult { kind: router.info().name, readings, learned: router.learned() }
        }),
    }
}

fn counters(senders: &[SenderEndpoint], receivers: &[ReceiverEndpoint]) -> Counters {
    let mut all = Counters::default();
    for (sender, receiver) in senders.iter().zip(receivers) {
        let (sender, receiver) = (sender.view().stats, receiver.stats());
        all.sack_blocks += sender.sack_blocks;
        all.recoveries += sender.recoveries;
        all.timeouts += sender.timeouts;
        all.spurious_recoveries += sender.spurious_recoveries;
        all.tlp_probes += sender.tlp_probes;
        all.paced_waits += sender.paced_waits;
        all.rate_samples += sender.rate_samples;
        all.rtt_samples += sender.rtt_samples;
        all.retransmits += sender.retransmits;
        all.ecn_reductions += sender.ecn_reductions;
        all.delayed_acks += receiver.delayed_acks;
        all.data_packets_sent += sender.data_packets_sent;
    }
    all
}
