//! Metrics, computed while the run goes on: nothing is kept per packet.

use narrows_cc::{Bytes, Nanos};
use narrows_endpoint::{Receiver, ReceiverStats, Sender, SenderStats};
use narrows_net::config::Capacity;
use narrows_net::{Flags, Histogram, Link, Packet, prefetch};

use crate::clock::bin_length;
use crate::result::{Counters, FlowResult, LinkResult, RunResult};
use crate::spec::{FlowSpec, LinkSpec, Spec};

/// A share counts as fair from this value of Jain's index on.
const FAIR: f64 = 0.9;
/// Fairness is judged over windows of this length …
const FAIR_WINDOW: Nanos = Nanos::from_secs(1);
/// … and has to last this long, or to the end of the run.
const FAIR_FOR: Nanos = Nanos::from_secs(5);

/// What is measured of one flow besides what its endpoints count themselves.
#[derive(Debug)]
struct FlowMetrics {
    /// Bandwidth-delay product of its path.
    bdp: Bytes,
    /// When inflight first reached that; `MAX` until then.
    filled_at: Nanos,
    last_rtt: Nanos,
    rtt: Histogram,
    /// Packets the network lost.
    drops: u64,
    /// Counters at the end of the warm-up.
    sender: SenderStats,
    receiver: ReceiverStats,
    drops_warm: u64,
}

/// Measurements of a run in progress.
#[derive(Debug)]
pub struct Metrics {
    flows: Vec<FlowMetrics>,
    /// Bytes received so far, per flow, at the end of each bin: `bins × flows`.
    bins: Vec<u64>,
}

/// The least mean rate along a flow's way.
fn bottleneck_bdp(flow: &FlowSpec, links: &[LinkSpec]) -> Bytes {
    let rate = flow.forward.iter().map(|hop| capacity(&links[hop.link])).fold(f64::INFINITY, f64::min);
    Bytes::from_f64(rate * flow.base_rtt.as_secs_f64())
}

/// (Mean) capacity in bytes per second.
fn capacity(link: &LinkSpec) -> f64 {
    match &link.config.capacity {
        Capacity::Constant(rate) => rate.as_bytes_per_sec() as f64,
        Capacity::Trace(trace) => trace.mean_rate().as_bytes_per_sec() as f64,
    }
}

impl Metrics {
    /// Nothing measured yet.
    pub fn new(spec: &Spec) -> Self {
        let flows = spec
            .flows
            .iter()
            .map(|flow| FlowMetrics {
                bdp: bottleneck_bdp(flow, &spec.links),
                filled_at: Nanos::MAX,
                last_rtt: Nanos::ZERO,
                rtt: Histogram::new(),
                drops: 0,
                sender: SenderStats::default(),
                receiver: ReceiverStats::default(),
                drops_warm: 0,
            })
            .collect();
        Self { flows, bins: Vec::new() }
    }

    /// Asks for the memory that the next sample of a flow will touch.
    #[inline]
    pub fn prefetch(&self, flow: usize) {
        prefetch(&self.flows[flow], 3);
    }

    /// Asks for the memory behind that.
    #[inline]
    pub fn prefetch_counts(&self, flow: usize) {
        self.flows[flow].rtt.prefetch();
    }

    /// A round-trip time was sampled.
    #[inline]
    pub fn on_rtt(&mut self, flow: u32, rtt: Nanos) {
        let metrics = &mut self.flows[flow as usize];
        metrics.last_rtt = rtt;
        metrics.rtt.record(rtt.as_nanos());
    }

    /// A sender has sent what it could.
    #[inline]
    pub fn on_transmitted(&mut self, now: Nanos, flow: u32, sender: &Sender) {
        let metrics = &mut self.flows[flow as usize];
        if metrics.filled_at == Nanos::MAX && sender.inflight() >= metrics.bdp {
            metrics.filled_at = now;
        }
    }

    /// The network lost a packet.
    pub fn on_drop(&mut self, packet: &Packet) {
        if !packet.flags.has(Flags::REVERSE) && packet.payload > 0 {
            self.flows[packet.flow as usize].drops += 1;
        }
    }

    /// The newest round-trip time sample of a flow, zero if there is none.
    pub fn last_rtt(&self, flow: usize) -> Nanos {
        self.flows[flow].last_rtt
    }

    /// The warm-up ends: means start here.
    pub fn on_warm(&mut self, senders: &[Sender], receivers: &[Receiver]) {
        for ((flow, sender), receiver) in self.flows.iter_mut().zip(senders).zip(receivers) {
            flow.sender = *sender.stats();
            flow.receiver = *receiver.stats();
            flow.drops_warm = flow.drops;
            // A flow that is over is measured over its whole life.
            if sender.completed_at().is_none() && !sender.is_closed() {
                flow.rtt.clear();
            }
        }
    }

    /// A bin ends.
    pub fn on_bin(&mut self, receivers: &[Receiver]) {
        self.bins.extend(receivers.iter().map(|r| r.stats().bytes_received));
    }

    /// Throughput per bin of one flow, in Mbit/s.
    fn throughput_bins(&self, flow: usize, bin: Nanos) -> Vec<f64> {
        let series = self.bins.iter().skip(flow).step_by(self.flows.len());
        let mut last = 0;
        series
            .map(|&bytes| {
                let got = bytes - last;
                last = bytes;
                Bytes::new(got).per(bin).as_mbit_per_sec()
            })
            .collect()
    }

    /// Everything measured, at the end of the run. `tally`: events processed and their hash.
    pub fn finish(
        self,
        spec: &Spec,
        end: Nanos,
        tally: (u64, u64),
        links: &[Link],
        senders: &[Sender],
        receivers: &[Receiver],
    ) -> RunResult {
        let bin = bin_length(spec.duration);
        let flows: Vec<FlowResult> = (0..self.flows.len())
            .map(|i| self.flow_result(i, spec, end, bin, &senders[i], &receivers[i]))
            .collect();
        let goodputs: Vec<f64> = flows.iter().map(|f| f.goodput_mbit_s).collect();
        let elapsed = end - spec.warmup;
        RunResult {
            version: env!("CARGO_PKG_VERSION"),
            scenario: spec.name.clone(),
            seed: spec.seed,
            duration_s: spec.duration.as_secs_f64(),
            wall_s: 0.0,
            events: tally.0,
            data_packets: receivers.iter().map(|r| r.stats().data_packets).sum(),
            jain: jain(goodputs.iter().copied()),
            convergence_s: self.convergence(spec, bin).map(Nanos::as_secs_f64),
            flows,
            links: spec
                .links
                .iter()
                .zip(links)
                .filter(|(link, _)| link.reported)
                .map(|(link, state)| link_result(link, state, end, elapsed))
                .collect(),
            warmup_s: spec.warmup.as_secs_f64(),
            event_hash: format!("{:016x}", tally.1),
            counters: counters(senders, receivers),
            peak_flow_bytes: senders
                .iter()
                .zip(receivers)
                .map(|(s, r)| (s.memory() + r.memory()) as u64)
                .max()
                .unwrap_or(0),
        }
    }

    fn flow_result(
        &self,
        index: usize,
        spec: &Spec,
        end: Nanos,
        bin: Nanos,
        sender: &Sender,
        receiver: &Receiver,
    ) -> FlowResult {
        let (flow, metrics) = (&spec.flows[index], &self.flows[index]);
        let completed = sender.completed_at();
        let until = completed.or(flow.stop).unwrap_or(end).min(end);
        // A flow that ended within the warm-up is measured over its whole life.
        let whole = until <= spec.warmup;
        let (sent_before, got_before, drops_before) =
            if whole { Default::default() } else { (metrics.sender, metrics.receiver, metrics.drops_warm) };
        let from = if whole { flow.start } else { spec.warmup.max(flow.start) };
        let active = until - from;
        let (sent, got) = (sender.stats(), receiver.stats());
        let packets_sent = sent.data_packets_sent - sent_before.data_packets_sent;
        let rtt = |f: &dyn Fn(&Histogram) -> f64| (metrics.rtt.count() > 0).then(|| f(&metrics.rtt) / 1e6);
        let mbit_s =
            |bytes: u64| if active.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / active.as_secs_f64() };
        let first_bin = (from.as_nanos().div_ceil(bin.as_nanos())) as usize;
        let last_bin = (until.as_nanos() / bin.as_nanos()) as usize;
        let bins = self.throughput_bins(index, bin);
        FlowResult {
            flow: flow.label.clone(),
            scheme: flow.scheme.info.name,
            rtt_base_ms: flow.base_rtt.as_millis_f64(),
            goodput_mbit_s: mbit_s(got.bytes_in_order - got_before.bytes_in_order),
            throughput_mbit_s: mbit_s(got.bytes_received - got_before.bytes_received),
            retransmit_percent: percent(sent.retransmits - sent_before.retransmits, packets_sent),
            loss_percent: percent(metrics.drops - drops_before, packets_sent),
            rtt_min_ms: rtt(&|h| h.min().unwrap_or(0) as f64),
            rtt_mean_ms: rtt(&Histogram::mean),
            rtt_p50_ms: rtt(&|h| h.quantile(0.5)),
            rtt_p95_ms: rtt(&|h| h.quantile(0.95)),
            rtt_p99_ms: rtt(&|h| h.quantile(0.99)),
            fill_time_ms: sender
                .first_data_at()
                .filter(|_| metrics.filled_at != Nanos::MAX)
                .map(|first| (metrics.filled_at - first).as_millis_f64()),
            completion_s: completed.map(|at| (at - flow.start).as_secs_f64()),
            rtt_range_ms: rtt(&|h| h.max().zip(h.min()).map_or(0.0, |(max, min)| (max - min) as f64)),
            throughput_range_mbit_s: range(bins.get(first_bin..last_bin.min(bins.len())).unwrap_or(&[])),
            start_s: flow.start.as_secs_f64(),
            bytes_delivered: got.bytes_in_order,
            packets_sent,
            timeouts: sent.timeouts,
        }
    }

    /// Time from the last start until the shares are fair, and stay so: the first one-second window from which on every
    /// window that begins in the next five seconds has a Jain index of throughputs of at least 0.9. `None` for one flow, or never.
    fn convergence(&self, spec: &Spec, bin: Nanos) -> Option<Nanos> {
        let n = self.flows.len();
        let total = self.bins.len().checked_div(n)?;
        let last_start = spec.flows.iter().map(|f| f.start).max()?;
        let window = (FAIR_WINDOW.as_nanos().div_ceil(bin.as_nanos())) as usize;
        let lasting = (FAIR_FOR.as_nanos().div_ceil(bin.as_nanos())) as usize;
        let first = (last_start.as_nanos().div_ceil(bin.as_nanos())) as usize;
        if n < 2 || first + window > total {
            return None;
        }
        let at = |bin: usize, flow: usize| if bin == 0 { 0 } else { self.bins[(bin - 1) * n + flow] };
        let fair: Vec<bool> = (first..=total - window)
            .map(|b| jain((0..n).map(|f| (at(b + window, f) - at(b, f)) as f64)) >= FAIR)
            .collect();
        let found = fair.windows(lasting).position(|windows| windows.iter().all(|x| *x))?;
        Some(bin * (first + found) as u64 - last_start)
    }
}

/// Jain's fairness index: 1 when all are equal, 1/n when one has everything; 1 when nobody has anything.
pub fn jain(shares: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
}

fn range(values: &[f64]) -> Option<f64> {
    let least = values.iter().copied().reduce(f64::min)?;
    let greatest = values.iter().copied().reduce(f64::max)?;
    Some(greatest - least)
}

/// A share that is never more than all: what was sent before the warm-up ended may be lost after it.
fn percent(part: u64, whole: u64) -> f64 {
    if part == 0 { 0.0 } else { 100.0 * part as f64 / whole.max(part) as f64 }
}

fn link_result(link: &LinkSpec, state: &Link, end: Nanos, elapsed: Nanos) -> LinkResult {
    let stats = state.stats();
    let seconds = elapsed.as_secs_f64();
    let drops = stats.dropped_queue + stats.dropped_policer + stats.dropped_aqm;
    LinkResult {
        link: link.name.clone(),
        utilization: state.utilization(end),
        queue_delay_mean_ms: stats.queue_delay.mean() / 1e6,
        queue_delay_p95_ms: stats.queue_delay.quantile(0.95) / 1e6,
        queue_mean_pkt: stats.queue_delay_sum_ns as f64 / 1e9 / seconds,
        drops,
        drop_percent: percent(drops, stats.arrived_packets),
        random_losses: stats.dropped_loss,
        marks: stats.marked,
    }
}

fn counters(senders: &[Sender], receivers: &[Receiver]) -> Counters {
    let mut all = Counters::default();
    for (sender, receiver) in senders.iter().map(Sender::stats).zip(receivers.iter().map(Receiver::stats)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_matches_its_closed_forms() {
        assert_eq!(jain([5.0, 5.0, 5.0].into_iter()), 1.0);
        assert!((jain([1.0, 0.0, 0.0, 0.0].into_iter()) - 0.25).abs() < 1e-12);
        assert!((jain([4.0, 1.0].into_iter()) - 25.0 / 34.0).abs() < 1e-12);
    }
}
