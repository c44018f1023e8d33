//! A scheme that is not registered runs over the TCP endpoints, through the same driver as registered schemes.

use crate::common::{Fate, Pipe, build, delay, ms};
use crate::external::HALVING;
use narrows_cc::schemes::{Entry, find};
use narrows_cc::{AnyScheme, Bytes, Nanos, Random, Timeout, record};
use narrows_packet::Flags;
use narrows_tcp::{Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

const SIZE: u64 = 400;

fn sender(entry: &Entry, config: &TcpConfig) -> Sender {
    let file = AppConfig::File(Bytes::new(u64::from(config.segment) * SIZE));
    let app = App::new(file, Random::stream(1, "app", 0), Nanos::ZERO);
    Sender::new(0, config.clone(), build(entry, &[], config), app, Nanos::ZERO)
}

/// A path with random loss, delay and reordering, identical for every scheme.
fn rough(seed: u64) -> Fate {
    let mut random = Random::stream(seed, "path", 0);
    Box::new(move |packet, _| {
        let (lost, late) = (random.chance(0.03), random.chance(0.02));
        match (lost && !packet.flags.has(Flags::SYN), late) {
            (true, _) => vec![],
            (false, true) => vec![ms(55)],
            (false, false) => vec![ms(20)],
        }
    })
}

/// Runs one transfer and returns the sender's counters and all packets as a string.
fn transfer(entry: &Entry, config: &TcpConfig, seed: u64) -> String {
    let mut pipe = Pipe::new(sender(entry, config), config, rough(seed), delay(ms(20)));
    pipe.run_until(Nanos::from_secs(600));
    assert!(pipe.sender.is_closed(), "{} did not finish", entry.info.name);
    format!("{:?} {:?}", pipe.sender.stats(), pipe.log)
}

/// An unregistered copy of NewReno sends the same packets at the same times as the registered scheme.
#[test]
fn copy_of_newreno_sends_what_the_registered_one_sends() {
    let registered = find("newreno").unwrap();
    for seed in 0..6 {
        let sack = seed % 2 == 0;
        let config = TcpConfig { sack, rack: sack, tlp: sack, ..TcpConfig::default() };
        let same = transfer(&HALVING, &config, seed) == transfer(registered, &config, seed);
        assert!(same, "the copy sends other packets, with seed {seed}");
    }
}

/// An external scheme provides its description, and copies of it are independent.
#[test]
fn external_scheme_states_its_facts_and_copies() {
    let config = TcpConfig::default();
    let sender = sender(&HALVING, &config);
    assert!(matches!(sender.scheme(), AnyScheme::External(_)));
    assert_eq!((sender.scheme().info().name, sender.scheme().rate_protocol()), ("halving", None));
    assert_eq!(HALVING.page().count(), 0);
    let mut copy = sender.scheme().clone();
    copy.on_timeout(&record!(Timeout {
        now: ms(1),
        flight_size: Bytes::new(14_480),
        inflight: Bytes::ZERO,
        delivered: Bytes::ZERO,
        consecutive: 1,
    }));
    assert_eq!(copy.control().cwnd, Bytes::new(1448));
    assert_eq!(sender.scheme().control().cwnd, Bytes::new(14_480));
}
