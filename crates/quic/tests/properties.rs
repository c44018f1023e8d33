//! No sequence of reports, even from a peer that lies, makes a scheme panic or prevents it from sending.

#![allow(clippy::disallowed_methods)] // noq takes times as `Instant`

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use narrows_cc::schemes;
use narrows_quic::noq::Controller;
use narrows_quic::{Scheme, Stack, refusal};
use noq_proto::RttEstimator;
use proptest::prelude::*;

/// One report of the stack. Packet numbers are relative to the newest packet.
#[derive(Clone, Debug)]
enum Report {
    Send(u16),
    Limited,
    /// Acknowledges together the packets up to this many before the newest. Every `hole`-th packet is left out;
    /// `in_flight` is the stack's claim.
    Ack {
        first: u64,
        count: u64,
        hole: u64,
        in_flight: u64,
        idle: bool,
    },
    Lost {
        back: u64,
        count: u64,
        persistent: bool,
    },
    Marked,
    Spurious,
    Mtu(u16),
    NewPort,
    Wait(u64),
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        8 => (100_u16..1500).prop_map(Report::Send),
        1 => Just(Report::Limited),
        6 => (0_u64..40, 0_u64..40, 1_u64..8, 0_u64..100_000, any::<bool>())
            .prop_map(|(first, count, hole, in_flight, idle)| Report::Ack { first, count, hole, in_flight, idle }),
        2 => (0_u64..60, 1_u64..20, any::<bool>())
            .prop_map(|(back, count, persistent)| Report::Lost { back, count, persistent }),
        1 => Just(Report::Marked),
        1 => Just(Report::Spurious),
        1 => (1200_u16..9000).prop_map(Report::Mtu),
        1 => Just(Report::NewPort),
        4 => prop_oneof![1_u64..50, Just(10_000_000)].prop_map(Report::Wait),
    ]
}

struct Run {
    controller: Box<dyn noq_proto::congestion::Controller>,
    rtt: RttEstimator,
    now: Instant,
    sent: Vec<Instant>,
}

impl Run {
    fn send(&mut self, bytes: u16) {
        self.controller.on_packet_sent(self.now, bytes, self.sent.len() as u64);
        self.sent.push(self.now);
    }

    /// The number of the packet that is this far before the newest; the packet may never have been sent.
    fn number(&self, back: u64) -> u64 {
        (self.sent.len() as u64 + 5).saturating_sub(back)
    }

    fn apply(&mut self, report: &Report) {
        let now = self.now;
        match *report {
            Report::Send(bytes) => self.send(bytes),
            Report::Limited => self.controller.on_cwnd_limited(),
            Report::Ack { first, count, hole, in_flight, idle } => {
                for back in (first..first + count).rev().filter(|back| back % hole != 1) {
                    let number = self.number(back);
                    let sent = self.sent.get(number as usize).copied().unwrap_or(now);
                    self.controller.on_ack(now, sent, 1200, number, idle, &self.rtt);
                }
                self.controller.on_end_acks(now, in_flight, idle, Some(self.number(first)));
            }
            Report::Lost { back, count, persistent } => {
                for number in self.number(back)..self.number(back) + count {
                    self.controller.on_packet_lost(1200, number, now);
                }
                let newest = self.number(back) + count;
                let sent = self.sent.get(newest as usize).copied().unwrap_or(now);
                self.controller.on_congestion_event(now, sent, persistent, false, 1200 * count, newest);
            }
            Report::Marked => self.controller.on_congestion_event(now, now, false, true, 0, self.number(0)),
            Report::Spurious => self.controller.on_spurious_congestion_event(),
            Report::Mtu(mtu) => self.controller.on_mtu_update(mtu),
            Report::NewPort => self.controller = self.controller.clone_box(),
            Report::Wait(us) => self.now += Duration::from_micros(us),
        }
    }
}

static RTT: LazyLock<RttEstimator> = LazyLock::new(crate::support::estimator);

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// After any sequence of reports, no scheme has panicked or closed its window, and an honest peer then gets
    /// normal service.
    #[test]
    fn any_reports_leave_room_to_send(list in prop::collection::vec(reports(), 1..250), seed in any::<u64>()) {
        for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()) {
            let scheme = Scheme::of(entry, Stack::Noq).expect("accepted").seed(seed, 0);
            let now = Instant::now();
            let controller = Box::new(Controller::new(&scheme, now, 1200));
            let mut run = Run { controller, rtt: *RTT, now, sent: Vec::new() };
            let mut mtu = 1200;
            for report in &list {
                run.apply(report);
                if let Report::Mtu(new) = report {
                    mtu = u64::from(*new);
                }
                let metrics = run.controller.metrics();
                prop_assert!(run.controller.window() >= 2 * mtu, "{}", entry.info.name);
                prop_assert!(metrics.pacing_rate != Some(0), "{}", entry.info.name);
                prop_assert!(metrics.send_quantum.is_none_or(|quantum| quantum >= mtu), "{}", entry.info.name);
            }
            for _ in 0..60 {
                let from = run.sent.len();
                for _ in 0..(run.controller.window() / 1200).clamp(2, 20) {
                    run.send(1200);
                }
                let sent = run.now;
                run.now += Duration::from_millis(20);
                for number in from..run.sent.len() {
                    run.controller.on_ack(run.now, sent, 1200, number as u64, false, &run.rtt);
                }
                run.controller.on_end_acks(run.now, 0, false, Some(run.sent.len() as u64 - 1));
            }
            // With a pacing rate below 1 kB/s, sending a window would take minutes.
            let rate = run.controller.metrics().pacing_rate;
            prop_assert!(rate.is_none_or(|rate| rate > 1000), "{}: {rate:?}", entry.info.name);
        }
    }
}
