//! No sequence of quinn's reports, even from a peer that lies, makes a scheme panic or prevents it from sending.

#![allow(clippy::disallowed_methods)] // quinn takes times as `Instant`

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use narrows_cc::schemes;
use narrows_quic::quinn::Controller;
use narrows_quic::{Scheme, Stack, refusal};
use proptest::prelude::*;
use quinn_proto::RttEstimator;

/// One report of the stack. Transmissions are numbered backwards from the newest.
#[derive(Clone, Debug)]
enum Report {
    Send(u16),
    /// Acknowledges the transmissions up to this many before the newest, possibly some that were never sent.
    /// `in_flight` is the stack's claim.
    Ack {
        first: usize,
        count: usize,
        in_flight: u64,
        idle: bool,
    },
    /// Reports losses of this size; a size of zero reports marks, whether or not a packet was marked.
    Congestion {
        back: usize,
        lost: u64,
        persistent: bool,
    },
    Mtu(u16),
    NewPort,
    Wait(u64),
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![
        8 => (100_u16..1500).prop_map(Report::Send),
        6 => (0_usize..40, 0_usize..40, 0_u64..100_000, any::<bool>())
            .prop_map(|(first, count, in_flight, idle)| Report::Ack { first, count, in_flight, idle }),
        3 => (0_usize..60, prop_oneof![Just(0), 1_u64..40_000], any::<bool>())
            .prop_map(|(back, lost, persistent)| Report::Congestion { back, lost, persistent }),
        1 => (1200_u16..9000).prop_map(Report::Mtu),
        1 => Just(Report::NewPort),
        4 => prop_oneof![1_u64..50, Just(10_000_000)].prop_map(Report::Wait),
    ]
}

struct Run {
    controller: Box<dyn quinn_proto::congestion::Controller>,
    rtt: RttEstimator,
    now: Instant,
    sent: Vec<Instant>,
}

impl Run {
    fn send(&mut self, bytes: u16) {
        self.controller.on_sent(self.now, bytes.into(), self.sent.len() as u64);
        self.sent.push(self.now);
    }

    /// The time of the transmission that is this far before the newest; the current time if there were fewer
    /// transmissions.
    fn time(&self, back: usize) -> Instant {
        let place = (self.sent.len() + 5).checked_sub(back);
        place.and_then(|place| self.sent.get(place)).copied().unwrap_or(self.now)
    }

    fn apply(&mut self, report: &Report) {
        let now = self.now;
        match *report {
            Report::Send(bytes) => self.send(bytes),
            Report::Ack { first, count, in_flight, idle } => {
                for back in (first..first + count).rev() {
                    self.controller.on_ack(now, self.time(back), 1200, idle, &self.rtt);
                }
                self.controller.on_end_acks(now, in_flight, idle, Some(self.sent.len() as u64));
            }
            Report::Congestion { back, lost, persistent } => {
                self.controller.on_congestion_event(now, self.time(back), persistent, lost);
            }
            Report::Mtu(mtu) => self.controller.on_mtu_update(mtu),
            Report::NewPort => self.controller = self.controller.clone_box(),
            Report::Wait(us) => self.now += Duration::from_micros(us),
        }
    }
}

static RTT: LazyLock<RttEstimator> = LazyLock::new(crate::quinn_support::estimator);

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// After any sequence of reports, no scheme has panicked or closed its window. With an honest peer
    /// afterwards, the windows of loss-based schemes grow; a delay-based scheme may have received impossible
    /// delays, so its window need not grow.
    #[test]
    fn any_reports_of_quinn_leave_room(list in prop::collection::vec(reports(), 1..250), seed in any::<u64>()) {
        for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Quinn).is_none()) {
            let scheme = Scheme::of(entry, Stack::Quinn).expect("accepted").seed(seed, 0);
            let now = Instant::now();
            let controller = Box::new(Controller::new(&scheme, now, 1200));
            let mut run = Run { controller, rtt: *RTT, now, sent: Vec::new() };
            let mut mtu = 1200;
            for report in &list {
                run.apply(report);
                if let Report::Mtu(new) = report {
                    mtu = u64::from(*new);
                }
                prop_assert!(run.controller.window() >= 2 * mtu, "{}", entry.info.name);
            }
            run.now += Duration::from_secs(1);
            let begin = run.controller.window();
            for _ in 0..400 {
                let sent = run.now;
                let count = (run.controller.window() / 1200).clamp(2, 100);
                for _ in 0..count {
                    run.send(1200);
                }
                run.now += Duration::from_millis(20);
                for _ in 0..count {
                    run.controller.on_ack(run.now, sent, 1200, false, &run.rtt);
                }
                run.controller.on_end_acks(run.now, 0, false, Some(run.sent.len() as u64 - 1));
            }
            let end = run.controller.window();
            prop_assert!(end >= 2 * mtu, "{}", entry.info.name);
            let grows = !["newreno", "cubic", "bic"].contains(&entry.info.name) || end > begin || end >= 100 * 1200;
            prop_assert!(grows, "{}: {begin} to {end}", entry.info.name);
        }
    }
}
