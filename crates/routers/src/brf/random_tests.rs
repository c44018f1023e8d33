//! Random packets and signals in any order: counts stay correct, time advances, and every written rate is
//! valid.

use std::sync::Arc;

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::{Flags, Kind, Packet};
use proptest::prelude::*;

use super::{Brf, RateCode};
use crate::{Congestion, FiveTuple, RateHeader, Router, RouterFrame, RouterSetup, Signal, TestPort};

const CAPACITY: u64 = 10_000_000;
/// Marks a control message instead of a segment.
const MESSAGE: Flags = Flags::RETRANSMISSION;

#[derive(Clone, Copy, Debug)]
enum Op {
    Forth {
        flow: u32,
        flags: Flags,
        extension: RateHeader,
        payload: u16,
    },
    Back {
        flow: u32,
        flags: Flags,
        extension: RateHeader,
    },
    Signal(Signal),
    /// Lets this many microseconds pass.
    Pass(u64),
    /// A flow sends this many full packets within this many microseconds; each packet is acknowledged.
    Run(u32, u64, u64),
}

fn extensions() -> impl Strategy<Value = RateHeader> {
    prop_oneof![
        4 => Just(RateHeader::None),
        2 => Just(RateHeader::BrfOffer),
        2 => any::<u16>().prop_map(|code| RateHeader::BrfRate { code }),
        1 => Just(RateHeader::RcpReply { rate: 1e6 }),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    prop::sample::select(vec![
        Flags::SYN,
        Flags::SYN,
        Flags::ACK,
        Flags::ACK,
        Flags::FIN.with(Flags::ACK),
        Flags::SYN.with(Flags::ACK),
        Flags::SYN.with(Flags::FIN),
        MESSAGE,
        Flags::REVERSE.with(Flags::ACK),
    ])
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let flow = || 0u32..14;
    let signals = prop_oneof![
        (flow(), any::<u16>()).prop_map(|(flow, code)| Signal::Insert { flow, code }),
        (0u64..10_000).prop_map(|packets| Signal::Congested(Congestion::Queue { packets })),
        Just(Signal::Congested(Congestion::Load)),
    ];
    let op = prop_oneof![
        3 => flow().prop_map(|flow| Op::Forth { flow, flags: Flags::SYN, extension: RateHeader::BrfOffer, payload: 0 }),
        3 => flow().prop_map(|flow| Op::Back { flow, flags: Flags::SYN, extension: RateHeader::None }),
        4 => (flow(), flags(), extensions(), 0u16..1449)
            .prop_map(|(flow, flags, extension, payload)| Op::Forth { flow, flags, extension, payload }),
        3 => (flow(), flags(), extensions()).prop_map(|(flow, flags, extension)| Op::Back { flow, flags, extension }),
        2 => signals.prop_map(Op::Signal),
        4 => prop_oneof![0u64..50_000, 0u64..5_000_000].prop_map(Op::Pass),
        4 => (flow(), 1u64..60, 1u64..200_000).prop_map(|(flow, packets, us)| Op::Run(flow, packets, us)),
    ];
    prop::collection::vec(op, 1..120)
}

/// Parameters at their defaults, or each at one end of its range.
fn params() -> impl Strategy<Value = Params> {
    prop::collection::vec(0u8..6, Brf::INFO.params.len()).prop_map(|choices| {
        let mut params = Params::defaults(Brf::INFO.params);
        for (param, choice) in Brf::INFO.params.iter().zip(choices) {
            let value = match choice {
                0 => param.min,
                // A table of a million flows takes long to create.
                1 => param.max.min(if param.name == "flows" { 50.0 } else { f64::INFINITY }),
                _ => param.default.min(if param.name == "flows" { 12.0 } else { f64::INFINITY }),
            };
            params.set(param.name, value).expect("within its range");
        }
        params
    })
}

fn tuple(flow: u32) -> FiveTuple {
    let protocol = if flow == 3 { FiveTuple::UDP } else { FiveTuple::TCP };
    FiveTuple { source: flow << 7, destination: 1, source_port: 1, destination_port: 80, protocol }
}

/// A segment with this header, or a control message.
fn made(flow: u32, flags: Flags, extension: RateHeader) -> Packet {
    if flags.has(MESSAGE) {
        return Packet::control(flow, flags, &[]);
    }
    let mut packet = Packet::new(flow);
    packet.flags = flags;
    packet.set_rate_header(extension);
    packet
}

struct Run {
    brf: Brf,
    port: TestPort,
    now: Nanos,
}

impl Run {
    fn pass(&mut self, us: u64) {
        let until = self.now + Nanos::from_micros(us);
        while self.brf.next_wake() <= until {
            let at = self.brf.next_wake();
            self.brf.on_wake(&mut self.port.at(at, 50_000));
            assert!(self.brf.next_wake() > at, "time advances");
        }
        self.now = until;
        self.port.outbox.clear();
    }

    fn forth(&mut self, flow: u32, flags: Flags, extension: RateHeader, payload: u16) {
        let mut packet = made(flow, flags, extension);
        packet.payload = payload;
        let mut port = self.port.at(self.now, 0);
        // Makes the same calls as the port agent.
        if packet.kind() != Kind::Message {
            if flags.has(Flags::SYN) && !flags.has(Flags::ACK) {
                self.brf.on_open(&mut port, &packet);
            }
            if flags.has(Flags::FIN) {
                self.brf.on_close(&mut port, &packet);
            }
        }
        self.brf.on_arrival(&mut port, &mut packet);
        assert!(!port.consumed(), "it consumes no packet");
    }

    fn back(&mut self, flow: u32, flags: Flags, extension: RateHeader) {
        let mut packet = made(flow, flags.with(Flags::REVERSE), extension);
        let extension = packet.rate_header();
        self.brf.on_return(&mut self.port.at(self.now, 0), &mut packet);
        let read = |extension| match extension {
            RateHeader::BrfRate { code } => Some(RateCode(code).decode()),
            _ => None,
        };
        match (read(extension), read(packet.rate_header())) {
            (Some(before), Some(after)) => assert!(after <= before, "raised"),
            (None, Some(rate)) => assert!(!rate.is_zero(), "a share of zero"),
            (before, None) => assert!(before.is_none() && packet.rate_header() == extension, "lost"),
        }
    }

    fn check(&mut self) {
        self.brf.check();
        self.brf.telemetry(&mut |name, value| {
            let sound = value.number().is_none_or(|x| x.is_finite() && x >= 0.0);
            assert!(sound, "{name}: {value:?}");
        });
    }
}

proptest! {
    /// For any input all counts are correct and the classes fit the capacity.
    #[test]
    fn any_input_keeps_counts_right_and_shares_in_capacity(
        params in params(),
        ops in ops(),
        classes in any::<bool>(),
    ) {
        let setup = RouterSetup {
            capacity: Rate::from_bytes_per_sec(CAPACITY),
            params,
            flows: (0..13).map(tuple).collect::<Vec<_>>().into(),
            learned: Some(Arc::from("")),
        };
        let queue = Brf::queue(&setup).filter(|_| classes);
        let port = queue.map_or_else(TestPort::default, |queue| TestPort::new(&queue));
        let mut run = Run { brf: Brf::new(&setup), port, now: Nanos::ZERO };
        for op in ops {
            match op {
                Op::Forth { flow, flags, extension, payload } => run.forth(flow, flags, extension, payload),
                Op::Back { flow, flags, extension } => run.back(flow, flags, extension),
                Op::Signal(signal) => run.brf.on_signal(&mut run.port.at(run.now, 100_000), &signal),
                Op::Pass(us) => run.pass(us),
                Op::Run(flow, packets, us) => {
                    for _ in 0..packets {
                        run.forth(flow, Flags::ACK, RateHeader::None, 1448);
                        run.back(flow, Flags::ACK, RateHeader::None);
                        run.pass(us / packets);
                    }
                }
            }
            run.check();
        }
    }
}
