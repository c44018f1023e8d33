//! Trace samples as rows: one number or string per series of each flow and link.

use narrows_cc::{Bytes, Nanos};
use narrows_packet::{Flags, Kind, Packet};
use narrows_routers::RouterLink;
use narrows_scenario::telemetry::{self, Shown};
use narrows_tcp::TcpInfo;

use crate::Link;
use crate::observer::{FlowState, Flows, Passage};

/// Flow or link that a series describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A flow, by its number.
    Flow(u32),
    /// A link, by its number.
    Link(u32),
}

/// Receives rows: subject, name of the series with its unit last, value.
pub type Sink<'a> = &'a mut dyn FnMut(Subject, &str, Shown);

/// Name of the series that both the transport and some schemes report.
const SSTHRESH: &str = "ssthresh_bytes";

/// Converts samples to rows. Values that `ss -ti` shows have the name used by `ss`, with the unit last; counters of
/// `ss` are totals. Other counters are increments since the previous sample. If a scheme reports a value that the
/// transport reports under the same name, the scheme's value is left out.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// Per flow: bytes in order, bytes received and retransmissions at the last sample.
    flows: Vec<[u64; 3]>,
    /// Per flow: TCP segments that left the sender, and TCP segments that reached it.
    segments: Vec<[u64; 2]>,
    /// Per link: bytes departed and drops at the last sample.
    links: Vec<[u64; 2]>,
    /// Per link: increments between the last sample and the reset of the link's counters at the end of the warm-up.
    carried: Vec<[u64; 2]>,
    last: Nanos,
}

impl Sampler {
    /// Saves the increments of the links' counters before their reset at the end of the warm-up.
    pub fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        self.links.resize(links.len(), [0; 2]);
        self.carried.resize(links.len(), [0; 2]);
        for (i, link) in links.iter_mut().enumerate() {
            link.settle(now);
            let counts = link_counts(link);
            let before = std::mem::take(&mut self.links[i]);
            for (carried, (count, before)) in self.carried[i].iter_mut().zip(counts.into_iter().zip(before)) {
                *carried += count - before;
            }
        }
    }

    /// Counts a packet that leaves or reaches a sender.
    pub fn passage(&mut self, passage: Passage, packet: &Packet) {
        let leaves = passage == Passage::Leaves;
        if !matches!(packet.kind(), Kind::Tcp | Kind::External) || packet.flags.has(Flags::REVERSE) == leaves {
            return;
        }
        let flow = packet.flow as usize;
        if flow >= self.segments.len() {
            self.segments.resize(flow + 1, [0; 2]);
        }
        self.segments[flow][usize::from(!leaves)] += 1;
    }

    /// Passes the rows of a sample to `sink`.
    pub fn sample(&mut self, now: Nanos, flows: Flows<'_>, links: &mut [Link], sink: Sink<'_>) {
        self.flows.resize(flows.iter().len(), [0; 3]);
        let elapsed = now - self.last;
        for (i, flow) in flows.iter().enumerate() {
            self.flow(elapsed, i, &flow, sink);
        }
        self.links.resize(links.len(), [0; 2]);
        self.carried.resize(links.len(), [0; 2]);
        for (i, link) in links.iter_mut().enumerate() {
            self.link(now, elapsed, i, link, sink);
        }
        self.last = now;
    }

    fn flow(&mut self, elapsed: Nanos, i: usize, flow: &FlowState<'_>, sink: Sink<'_>) {
        let (sender, received) = (flow.sender(), flow.receiver());
        let counts = [received.bytes_in_order, received.bytes_received, sender.stats.retransmits];
        let before = std::mem::replace(&mut self.flows[i], counts);
        let rate = |k: usize| Bytes::new(counts[k] - before[k]).per(elapsed).as_mbit_per_sec();
        let mut number = |series: &str, value: f64| sink(Subject::Flow(i as u32), series, Shown::Number(value));
        if let Some(cwnd) = sender.cwnd {
            number("cwnd_bytes", cwnd.as_f64());
        }
        number("inflight_bytes", sender.inflight.as_f64());
        if let Some(pacing) = sender.pacing_rate {
            number("pacing_rate_mbit_s", pacing.as_mbit_per_sec());
        }
        if let Some((rtt, srtt)) = flow.rtt(&sender) {
            number("rtt_sample_ms", rtt.as_millis_f64());
            number("rtt_ms", srtt.as_millis_f64());
        }
        number("goodput_mbit_s", rate(0));
        number("throughput_mbit_s", rate(1));
        number("retransmits", (counts[2] - before[2]) as f64);
        // Totals, retransmissions included.
        for (series, count) in [
            ("bytes_sent", sender.stats.bytes_sent),
            ("data_segs_out", sender.stats.data_packets_sent),
            ("bytes_retrans", sender.stats.bytes_retransmitted),
            ("retrans_total", sender.stats.retransmits),
        ] {
            number(series, count as f64);
        }
        let info = flow.info();
        if let Some(info) = &info {
            let [out, into] = self.segments.get(i).copied().unwrap_or_default();
            number("segs_out", out as f64);
            number("segs_in", into as f64);
            of_transport(info, &mut number);
        }
        flow.telemetry(&mut |name, value| {
            let (series, shown) = telemetry::of_scheme(name, value);
            if series != SSTHRESH || info.is_none() {
                sink(Subject::Flow(i as u32), &series, shown);
            }
        });
    }

    fn link(&mut self, now: Nanos, elapsed: Nanos, i: usize, link: &mut Link, sink: Sink<'_>) {
        let subject = Subject::Link(i as u32);
        let waiting = link.backlog_packets(now);
        let delay = link.queue_delay(now);
        let counts = link_counts(link);
        let before = std::mem::replace(&mut self.links[i], counts);
        let carried = std::mem::take(&mut self.carried[i]);
        let since = |k: usize| counts[k] - before[k] + carried[k];
        let throughput = Bytes::new(since(0)).per(elapsed).as_mbit_per_sec();
        let mut number = |series: &str, value: f64| sink(subject, series, Shown::Number(value));
        number("queue_pkt", waiting as f64);
        number("queue_delay_ms", delay.as_millis_f64());
        number("throughput_mbit_s", throughput);
        number("drops", since(1) as f64);
        for class in link.classes(now) {
            number(&format!("class_{}_queue_pkt", class.name), class.waiting_packets as f64);
        }
        if let Some(router) = link.router() {
            router.telemetry(&mut |name, reading| {
                let (name, shown) = telemetry::of_router(name, reading);
                sink(subject, &format!("router_{name}"), shown);
            });
        }
    }
}

/// Passes the series of `TCP_INFO` to `number`, named as in `ss -ti`. Values that do not exist yet are left out.
fn of_transport(info: &TcpInfo, number: &mut dyn FnMut(&str, f64)) {
    let times = [("rttvar_ms", info.rttvar), ("minrtt_ms", info.min_rtt), ("rto_ms", Some(info.rto))];
    for (series, time) in times {
        if let Some(time) = time {
            number(series, time.as_millis_f64());
        }
    }
    number("backoff", f64::from(info.backoff));
    number("mss_bytes", info.mss.as_f64());
    if let Some(ssthresh) = info.ssthresh {
        number(SSTHRESH, ssthresh.as_f64());
    }
    number("bytes_acked", info.bytes_acked.as_f64());
    for (series, packets) in [
        ("unacked", info.unacked),
        ("retrans", info.retrans),
        ("lost", info.lost),
        ("sacked", info.sacked),
        ("reordering", info.reordering),
    ] {
        number(series, f64::from(packets));
    }
}

/// Bytes departed and packets dropped since the last reset of the link's counters.
fn link_counts(link: &Link) -> [u64; 2] {
    let stats = link.stats();
    [stats.departed_bytes, stats.dropped_queue + stats.dropped_policer + stats.dropped_aqm]
}
