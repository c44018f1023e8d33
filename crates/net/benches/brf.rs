//! What the BRF allocator costs per packet and per full allocation, with few flows and many; and the memory of its table.
//!
//!     cargo bench -p narrows-net --bench brf

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use narrows_cc::{Nanos, Params, Rate};
use narrows_net::allocator::{AnyAllocator, Desk, Setup, Tuple, find};
use narrows_net::{Extension, Flags, Packet};

const PACKETS: u64 = 100_000;
const RTT: Nanos = Nanos::from_millis(40);

/// A port of 100 Gbit/s with so many established flows.
fn port(flows: u32) -> (AnyAllocator, Desk, Nanos) {
    let entry = find("brf").expect("it is registered");
    let mut params = Params::defaults(entry.info.params);
    params.set("flows", 200_000.0).expect("within the range");
    let tuple = |flow| Tuple {
        source: flow,
        destination: 1,
        source_port: 1,
        destination_port: 80,
        protocol: Tuple::TCP,
    };
    let mut brf = entry.build(&Setup {
        capacity: Rate::from_mbit_per_sec(100_000.0),
        params,
        flows: (0..flows).map(tuple).collect::<Vec<_>>().into(),
        learned: None,
    });
    let mut desk = Desk::default();
    for flow in 0..flows {
        let mut packet = Packet::new(flow);
        packet.flags = Flags::SYN;
        packet.set_extension(Extension::BrfOffer);
        brf.on_open(&mut desk.port(Nanos::ZERO, 0), &packet);
    }
    for flow in 0..flows {
        data(&mut brf, &mut desk, RTT, flow);
    }
    (brf, desk, RTT)
}

fn data(brf: &mut AnyAllocator, desk: &mut Desk, now: Nanos, flow: u32) {
    let mut packet = Packet::new(flow);
    packet.flags = Flags::ACK;
    packet.payload = 1448;
    brf.on_arrival(&mut desk.port(now, 0), black_box(&mut packet));
}

fn ack(brf: &mut AnyAllocator, desk: &mut Desk, now: Nanos, flow: u32) {
    let mut packet = Packet::new(flow);
    packet.flags = Flags::ACK.with(Flags::REVERSE);
    brf.on_return(&mut desk.port(now, 0), black_box(&mut packet));
}

fn costs(criterion: &mut Criterion) {
    for flows in [1u32, 1_000, 100_000] {
        let (brf, mut desk, now) = port(flows);
        brf.telemetry(&mut |name, value| match name {
            "brf_flows" => assert!(value == f64::from(flows), "all hold a share"),
            "table_bytes" => println!("{flows} flows: {:.0} bytes per place of the table", value / 200_000.0),
            _ => {}
        });
        let mut group = criterion.benchmark_group("brf");
        group.throughput(Throughput::Elements(PACKETS));
        // Packets and acknowledgements of all flows in turn, within less than a period.
        group.bench_function(BenchmarkId::new("packet and acknowledgement", flows), |bencher| {
            bencher.iter_batched_ref(
                || brf.clone(),
                |brf| {
                    for n in 0..PACKETS {
                        let at = now + Nanos::from_nanos(n * 100);
                        data(brf, &mut desk, at, n as u32 % flows);
                        ack(brf, &mut desk, at, n as u32 % flows);
                    }
                },
                BatchSize::LargeInput,
            );
        });
        group.throughput(Throughput::Elements(u64::from(flows)));
        group.bench_function(BenchmarkId::new("allocation", flows), |bencher| {
            bencher.iter_batched_ref(
                || brf.clone(),
                |brf| {
                    let at = brf.next_wake();
                    brf.on_wake(&mut desk.port(at, 0));
                },
                BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, costs);
criterion_main!(benches);
