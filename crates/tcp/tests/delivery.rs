//! Random networks: all bytes arrive once and in order, counters are consistent, and time advances.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Fate, Pipe, sender};
use narrows_cc::{Bytes, Nanos, Random};
use narrows_packet::Ecn;
use narrows_tcp::TcpConfig;
use narrows_traffic::AppConfig;
use proptest::prelude::*;

/// Impairments of one direction.
#[derive(Clone, Copy, Debug)]
struct Weather {
    loss: f64,
    duplication: f64,
    reordering: f64,
    marks: f64,
}

fn weather() -> impl Strategy<Value = Weather> {
    (0.0..0.3, 0.0..0.2, 0.0..0.3, 0.0..0.2).prop_map(|(loss, duplication, reordering, marks)| Weather {
        loss,
        duplication,
        reordering,
        marks,
    })
}

/// Random delays, losses and duplicates, drawn from one random stream.
fn storm(weather: Weather, random: Rc<RefCell<Random>>) -> Fate {
    Box::new(move |_, _| {
        let mut random = random.borrow_mut();
        let mut copies = Vec::new();
        let n = if random.chance(weather.duplication) { 2 } else { 1 };
        for _ in 0..n {
            if !random.chance(weather.loss) {
                let extra = if random.chance(weather.reordering) { random.below(60_000_000) } else { 0 };
                copies.push(Nanos::from_nanos(10_000_000 + extra));
            }
        }
        copies
    })
}

fn configs() -> impl Strategy<Value = TcpConfig> {
    (0..4u8, any::<bool>(), 1u32..4, prop_oneof![Just(3000u64), Just(20_000), Just(1 << 26)]).prop_map(
        |(mode, ecn, ack_every, receive_window)| TcpConfig {
            sack: mode > 0,
            rack: mode > 1,
            tlp: mode > 2,
            ecn,
            ack_every,
            receive_window: Bytes::new(receive_window),
            ..TcpConfig::default()
        },
    )
}

fn schemes() -> impl Strategy<Value = (&'static str, Vec<(&'static str, f64)>)> {
    prop_oneof![
        Just(("newreno", vec![])),
        Just(("fixed", vec![("window", 1.0)])),
        Just(("fixed", vec![("window", 40.0)])),
        Just(("fixed", vec![("window", 100.0), ("rate", 5.0)])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// A file over a random path with loss, delay and marks arrives once and in order.
    #[test]
    fn file_over_random_path_arrives_once_in_order(
        config in configs(),
        (name, params) in schemes(),
        forward in weather(),
        reverse in weather(),
        size in 1u64..300_000,
        seed in any::<u64>(),
    ) {
        let random = Rc::new(RefCell::new(Random::stream(seed, "weather", 0)));
        let app = AppConfig::File(Bytes::new(size));
        let mut pipe = Pipe::new(
            sender(name, &params, &config, app),
            &config,
            storm(forward, random.clone()),
            storm(reverse, random.clone()),
        );
        pipe.mangle = Some(Box::new(move |packet| {
            if packet.ecn() == Ecn::Ect0 && random.borrow_mut().chance(forward.marks) {
                packet.set_ecn(Ecn::Ce);
            }
        }));
        while !pipe.sender.is_closed() {
            prop_assert!(pipe.step(), "nothing left to wait for at {:?}", pipe.now);
            pipe.sender.check();
            prop_assert!(pipe.delivered <= size);
            prop_assert!(pipe.steps < 500_000, "no end in sight at {:?}", pipe.now);
        }
        prop_assert_eq!(pipe.delivered, size);
        prop_assert_eq!(pipe.receiver.stats().bytes_in_order, size);
        let stats = pipe.sender.stats();
        prop_assert_eq!(stats.bytes_sent - stats.bytes_retransmitted, size);
        // Only probes, the retransmission after a timeout and, without SACK, the retransmission of the next hole may
        // exceed the window.
        let forced = stats.tlp_probes + stats.timeouts + if config.sack { 0 } else { stats.retransmits };
        prop_assert!(pipe.beyond_window <= forced, "{} beyond the window, {forced} allowed", pipe.beyond_window);
        prop_assert!(pipe.sender.completed_at().is_some());
        prop_assert_eq!(pipe.sender.deadline(), Nanos::MAX);
    }
}
