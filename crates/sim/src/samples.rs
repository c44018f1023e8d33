//! Trace samples as rows: one number or text per series of each flow and link.

use narrows_cc::{Bytes, Nanos};
use narrows_routers::RouterLink;

use crate::Link;
use narrows_scenario::telemetry::{self, Shown};

use crate::observer::{FlowState, State};

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

/// Converts samples to rows. Values that `ss -ti` shows have its names, with the unit last, and its counters are
/// totals. Other counters are given as increments since the previous sample.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    /// Per flow: bytes in order, bytes received and retransmissions at the last sample.
    flows: Vec<[u64; 3]>,
    /// Per link: bytes departed and drops at the last sample.
    links: Vec<[u64; 2]>,
    /// Per link: increments between the last sample and the reset of the counters.
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

    /// Passes the rows of a sample to `sink`.
    pub fn sample(&mut self, mut state: State<'_>, sink: Sink<'_>) {
        self.flows.resize(state.flows().len(), [0; 3]);
        let (now, elapsed) = (state.now(), state.now() - self.last);
        for (i, flow) in state.flows().enumerate() {
            self.flow(elapsed, i, &flow, sink);
        }
        let links = state.links();
        self.links.resize(links.len(), [0; 2]);
        self.carried.resize(links.len(), [0; 2]);
        for (i, link) in links.iter_mut().enumerate() {
            self.link(now, elapsed, i, link, sink);
        }
        self.last = now;
    }

    fn flow(&mut self, elapsed: Nanos, i: usize, flow: &FlowState<'_>, sink: Sink<'_>) {
        let counts = [flow.bytes_in_order(), flow.bytes_received(), flow.retransmits()];
        let before = std::mem::replace(&mut self.flows[i], counts);
        let rate = |k: usize| Bytes::new(counts[k] - before[k]).per(elapsed).as_mbit_per_sec();
        let mut number =
            |series: &str, value: f64| sink(Subject::Flow(i as u32), series, Shown::Number(value));
        number("cwnd_bytes", flow.cwnd().as_f64());
        number("inflight_bytes", flow.inflight().as_f64());
        if let Some(pacing) = flow.pacing_rate() {
            number("pacing_rate_mbit_s", pacing.as_mbit_per_sec());
        }
        if let Some((rtt, srtt)) = flow.rtt() {
            number("rtt_sample_ms", rtt.as_millis_f64());
            number("rtt_ms", srtt.as_millis_f64());
        }
        number("goodput_mbit_s", rate(0));
        number("throughput_mbit_s", rate(1));
        number("retransmits", (counts[2] - before[2]) as f64);
        for (series, count) in flow.totals() {
            number(series, count as f64);
        }
        flow.telemetry(&mut |name, value| {
            let (series, shown) = telemetry::of_scheme(name, value);
            sink(Subject::Flow(i as u32), &series, shown);
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

/// Bytes departed and packets dropped since the last reset of the link's counters.
fn link_counts(link: &Link) -> [u64; 2] {
    let stats = link.stats();
    [stats.departed_bytes, stats.dropped_queue + stats.dropped_policer + stats.dropped_aqm]
}
