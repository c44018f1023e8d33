//! Cost per packet of a link and a delay line. One measurement covers a million packets, so milliseconds per
//! measurement are nanoseconds per packet.
//!
//!     cargo bench -p narrows-net --bench elements

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use narrows_net::config::{
    Capacity, CoDel, FqCoDel, Htb, HtbClass, Jitter, Limit, LinkConfig, Loss, Pie, Policer, Queue, Red,
};
use narrows_net::trace::CapacityTrace;
use narrows_net::{DelayLine, Link, Offer};
use narrows_packet::Packet;
use narrows_units::{Bytes, Nanos, Random, Rate};

const PACKETS: u64 = 1_000_000;
const DELAY: Nanos = Nanos::from_millis(20);

/// Offers full packets at 1 Gbit/s, one per 12 µs, in bursts of 16. Each packet that leaves the link passes a delay
/// line of 20 ms. Returns the number of arrivals.
fn pass((mut link, mut line): (Link<Packet>, DelayLine<Packet>)) -> u64 {
    let mut packet = Packet::new(1);
    packet.payload = 1448;
    let mut arrived = 0;
    for n in 0..PACKETS {
        *packet.tcp_mut().seq = n;
        // Spread the packets over sixteen flows, for disciplines that separate flows.
        packet.flow = n as u32 % 16;
        let now = Nanos::from_micros(n / 16 * 16 * 12);
        while link.next_service() <= now {
            let at = link.next_service();
            if let Some(packet) = link.serve(now) {
                line.push(at, &packet);
            }
        }
        while link.take_dropped().is_some() {}
        while line.next() <= now {
            arrived += u64::from(line.pop().is_some());
        }
        if let Offer::Departs { at, lost: false } = link.offer(now, black_box(&packet)) {
            line.push(at, &packet);
        }
    }
    arrived
}

fn elements(criterion: &mut Criterion) {
    let rate = Rate::from_mbit_per_sec(1_000.0);
    let plain = LinkConfig::drop_tail(rate, Limit::Bytes(Bytes::new(500_000)));
    let queue = |queue| LinkConfig { queue, ..plain.clone() };
    // A trace with the same mean rate of 1 Gbit/s: 83 or 84 opportunities per millisecond.
    let times = (0..83_333u64).map(|n| 1 + n * 12 / 1_000);
    let trace = Arc::new(CapacityTrace { opportunities_ms: times.collect() });
    let red = Queue::Red(Red { min: 50.0, max: 150.0, ..Red::default() });
    let policer = Policer { rate, burst: Bytes::new(100_000) };
    let jitter = Jitter { max: Nanos::from_micros(100), reorder: true };
    // The leaves have equal rates. Each of their three parents has a third of the link's rate.
    let htb = |leaves: u8| {
        let class = |parent, part| HtbClass { parent, ..HtbClass::new("class", rate / part) };
        let parents = (0..3).map(|_| class(None, 3));
        let below = (0..leaves).map(|leaf| class(Some(leaf % 3), u64::from(leaves) + 3));
        let flows = (0..16).map(|flow| 3 + flow % leaves).collect();
        let tree = Htb::new(parents.chain(below).collect(), 3).expect("a tree");
        Queue::Htb(Arc::new(tree.with_flows(flows)))
    };
    let cases = [
        ("drop-tail", plain.clone(), None),
        ("drop-tail, 1 % loss", LinkConfig { loss: Loss::Bernoulli(0.01), ..plain.clone() }, None),
        ("drop-tail, policer", LinkConfig { policer: Some(policer), ..plain.clone() }, None),
        ("drop-tail, jitter", plain.clone(), Some(jitter)),
        ("CoDel", queue(Queue::CoDel(CoDel::default())), None),
        ("FQ-CoDel", queue(Queue::FqCoDel(FqCoDel::default())), None),
        ("PIE", queue(Queue::Pie(Pie::default())), None),
        ("RED", queue(red), None),
        ("HTB, 3 leaves", queue(htb(3)), None),
        ("HTB, 60 leaves", queue(htb(60)), None),
        ("capacity trace", LinkConfig { capacity: Capacity::Trace(trace), ..plain.clone() }, None),
    ];
    let mut group = criterion.benchmark_group("million packets");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, config, jitter) in cases {
        let random = |name| Random::stream(1, name, 0);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (Link::new(&config, random("link")), DelayLine::new(DELAY, jitter, None, random("wire"))),
                pass,
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, elements);
criterion_main!(benches);
