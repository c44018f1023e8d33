//! Our own endpoints as hosts, in virtual time: the network and the taps must report the same figures as the simulator
//! with these endpoints.

use narrows_cc::{Bytes, Nanos, Random, Setup};
use narrows_packet::real::Segment;
use narrows_packet::{Flags, Packet};
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_sim::Engine;
use narrows_tcp::{Receiver, Sender};
use narrows_traffic::App;

use super::plan;
use crate::tap::{Latest, ReceiverTap, SenderTap};

/// The segment as a host sends it, from the IP header on, with a payload of zeros.
fn bytes(packet: &Packet) -> Vec<u8> {
    let tcp = packet.tcp();
    let mut options = vec![1, 1, 8, 10];
    options.extend(tcp.ts_val.to_be_bytes());
    options.extend(tcp.ts_ecr.to_be_bytes());
    let blocks: Vec<_> = packet.sack_blocks().collect();
    if !blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            options.extend((start as u32).to_be_bytes());
            options.extend((end as u32).to_be_bytes());
        }
    }
    let bits = [(Flags::FIN, 1), (Flags::SYN, 2), (Flags::ACK, 16)];
    let bits: u8 = bits.iter().filter(|(flag, _)| packet.flags.has(*flag)).map(|(_, bit)| bit).sum();
    let ports = if packet.flags.has(Flags::REVERSE) { (1, 2) } else { (2, 1) };
    let length = (40 + options.len()) as u16 + packet.payload;
    let mut out = vec![0x45, packet.ecn() as u8];
    out.extend(length.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
    out.extend(u16::to_be_bytes(ports.0));
    out.extend(u16::to_be_bytes(ports.1));
    out.extend((tcp.seq as u32).to_be_bytes());
    out.extend((tcp.ack as u32).to_be_bytes());
    out.extend([((20 + options.len()) as u8 / 4) << 4, bits, 0, 0, 0, 0, 0, 0]);
    out.extend(options);
    out.resize(usize::from(length), 0);
    out
}

/// Runs a plan with our endpoints outside the engine, as hosts.
fn run_outside(plan: &Plan) -> RunResult {
    let mut engine = Engine::new(plan.clone());
    let mut ends: Vec<(Sender, Receiver)> = Vec::new();
    for (number, flow) in (0..).zip(&plan.flows) {
        let random = |name| Random::stream(plan.seed, name, u64::from(number));
        let mss = Bytes::new(flow.tcp.segment.into());
        let scheme = flow.scheme.build(
            &Setup::new(mss, flow.params.clone(), random("scheme"))
                .with_window(flow.tcp.initial_window)
                .with_sack(flow.tcp.sack),
        );
        let app = App::new(flow.app, random("app"), flow.start);
        let sender = Sender::new(number, flow.tcp.clone(), scheme, app, flow.start);
        ends.push((sender, Receiver::new(number, &flow.tcp)));
        let tap = SenderTap::new(Latest::default(), None);
        engine.attach(number, Box::new(tap), Box::new(ReceiverTap::default()));
    }
    let mut sent: Vec<Packet> = Vec::new();
    loop {
        let timers = ends.iter().map(|(sender, receiver)| sender.deadline().min(receiver.deadline()));
        let now = timers.min().unwrap_or(Nanos::MAX).min(engine.next_event());
        if now > plan.duration {
            return engine.finish();
        }
        engine.run_until(now);
        let mut arrived = Vec::new();
        // The last eight bytes contain the packet's number, which a receiver never reads.
        engine.take_delivered(|_, packet, bytes| {
            let number = bytes.last_chunk::<8>().map(|number| u64::from_le_bytes(*number)).expect("numbered");
            arrived.push((packet.ecn(), sent[number as usize]));
        });
        for (ecn, mut packet) in arrived {
            packet.set_ecn(ecn);
            let (sender, receiver) = &mut ends[packet.flow as usize];
            if packet.flags.has(Flags::REVERSE) {
                sender.on_packet(now, &packet);
                send(&mut engine, &mut sent, || sender.poll_transmit(now));
            } else {
                receiver.on_packet(now, &packet);
                send(&mut engine, &mut sent, || receiver.poll_transmit(now));
            }
        }
        for (sender, receiver) in &mut ends {
            if sender.deadline() <= now {
                sender.on_timer(now);
                send(&mut engine, &mut sent, || sender.poll_transmit(now));
            }
            if receiver.deadline() <= now {
                receiver.on_timer(now);
                send(&mut engine, &mut sent, || receiver.poll_transmit(now));
            }
        }
    }
}

/// Sends all packets of one endpoint, as the simulator does after an event of that endpoint.
fn send(engine: &mut Engine, sent: &mut Vec<Packet>, mut poll: impl FnMut() -> Option<Packet>) {
    while let Some(packet) = poll() {
        let mut wire = bytes(&packet);
        let segment = Segment::read(&wire).expect("a segment");
        let near = (packet.tcp().seq, packet.tcp().ack);
        let reverse = packet.flags.has(Flags::REVERSE);
        let mut outside = segment.packet(packet.flow, reverse, (0, 0), near);
        assert_eq!((outside.size(), outside.payload), (packet.size(), packet.payload), "{packet:?}");
        assert_eq!((outside.external().seq, outside.external().ack), near);
        outside.flags = packet.flags;
        wire.extend((sent.len() as u64).to_le_bytes());
        sent.push(packet);
        engine.inject(outside, &wire);
    }
}

/// With and without random losses, every figure visible in packets equals the figure of the simulator's own endpoints.
#[test]
fn taps_report_what_endpoints_count() {
    for (scheme, loss) in [("cubic", "0%"), ("bbr", "0.5%"), ("newreno", "1%")] {
        let plan = plan(&format!(
            "duration = '8s'\n[network]\nrate = '20mbit'\nbuffer = '0.5bdp'\nloss = '{loss}'\n\
             [[flows]]\nscheme = '{scheme}'\nrtt = '30ms'\nstart = '0.5s'\n"
        ));
        let (own, outside) = (narrows_sim::run(plan.clone()), run_outside(&plan));
        assert_eq!((outside.event_hash, outside.peak_flow_bytes), (None, None), "not measured");
        assert_eq!(outside.data_packets, own.data_packets, "{scheme}");
        assert_eq!(outside.links[0].drops, own.links[0].drops, "{scheme}");
        assert_eq!(outside.links[0].queue_delay_mean_ms, own.links[0].queue_delay_mean_ms, "{scheme}");
        for (out, own) in outside.flows.iter().zip(&own.flows) {
            assert_eq!(out.goodput_mbit_s, own.goodput_mbit_s, "{scheme}");
            assert_eq!(out.throughput_mbit_s, own.throughput_mbit_s, "{scheme}");
            assert_eq!(out.packets_sent, own.packets_sent, "{scheme}");
            assert_eq!(out.retransmit_percent, own.retransmit_percent, "{scheme}");
            assert_eq!(out.loss_percent, own.loss_percent, "{scheme}");
            assert_eq!(out.fill_time_ms, own.fill_time_ms, "{scheme}");
            // Our endpoints also take RTT samples of retransmitted data, by its timestamp.
            for (out, own, tolerance) in
                [(out.rtt_mean_ms, own.rtt_mean_ms, 0.005), (out.rtt_min_ms, own.rtt_min_ms, 0.03)]
            {
                let (a, b) = (out.expect("measured"), own.expect("measured"));
                assert!((a / b - 1.0).abs() < tolerance, "{scheme}: {a} ms, {b} ms");
            }
            assert_eq!(out.timeouts, None, "packets do not tell");
        }
    }
}
