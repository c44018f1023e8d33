//! A sender on a host whose queue drops all packets at times.

use crate::common::{Pipe, delay, ms, scheme, sender};
use narrows_cc::{Bytes, Nanos, Random};
use narrows_packet::{Flags, Packet};
use narrows_tcp::{Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};
use proptest::prelude::*;

const SEGMENT: u64 = 1448;

fn config(linux: bool, sack: bool, rack: bool) -> TcpConfig {
    let base = if linux { TcpConfig::default() } else { TcpConfig::rfc() };
    TcpConfig { sack, rack, tlp: rack, ..base }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// While the queue drops, nothing leaves; all data arrives afterwards.
    #[test]
    fn local_drops_delay_the_file_and_lose_nothing(
        name in prop::sample::select(vec!["newreno", "cubic", "bbr", "bbr3", "vegas"]),
        (linux, sack, rack) in (any::<bool>(), any::<bool>(), any::<bool>()),
        segments in 1_u64..200,
        outages in prop::collection::vec((1_u64..400, 1_u64..1500), 1..8),
        (loss, seed) in (0.0..0.2, any::<u64>()),
    ) {
        let config = config(linux, sack, rack);
        let file = AppConfig::File(Bytes::new(segments * SEGMENT));
        let mut random = Random::stream(seed, "loss", 0);
        let lossy = Box::new(move |_: &Packet, _| if random.chance(loss) { vec![] } else { vec![ms(15)] });
        let mut pipe = Pipe::new(sender(name, &[], &config, file), &config, lossy, delay(ms(15)));
        let mut at = Nanos::ZERO;
        for (pause, length) in outages {
            at += ms(pause);
            pipe.run_until(at);
            pipe.sender.set_local_congestion(true);
            let left = pipe.log.len();
            at += ms(length);
            pipe.run_until(at);
            pipe.sender.check();
            prop_assert_eq!(pipe.log.len(), left, "packets left through a queue that drops");
            pipe.sender.set_local_congestion(false);
        }
        pipe.run_until(Nanos::from_secs(10_000));
        prop_assert_eq!(pipe.delivered, segments * SEGMENT);
        prop_assert!(pipe.sender.is_closed());
    }
}

/// A failed transmission causes one window reduction. It does not count as a transmission or as a mark.
#[test]
fn local_drop_counts_as_no_transmission() {
    let config = TcpConfig::default();
    let app = App::new(AppConfig::Written, Random::stream(1, "app", 0), Nanos::ZERO);
    let mut sender = Sender::new(0, config.clone(), scheme("cubic", &[], &config), app, Nanos::ZERO);
    sender.on_timer(Nanos::ZERO);
    let syn = sender.poll_transmit(Nanos::ZERO).unwrap();
    let mut reply = Packet::new(0);
    reply.flags = Flags::SYN.with(Flags::ACK).with(Flags::REVERSE);
    (*reply.tcp_mut().ack, *reply.tcp_mut().window) = (1, 1 << 20);
    *reply.tcp_mut().ts_ecr = syn.tcp().ts_val;
    sender.on_packet(ms(50), &reply);
    while sender.poll_transmit(ms(50)).is_some() {}

    sender.set_local_congestion(true);
    sender.assign(3 * SEGMENT);
    let before = *sender.stats();
    for _ in 0..3 {
        assert!(sender.poll_transmit(ms(50)).is_none());
    }
    assert_eq!(*sender.stats(), before);
    let info = sender.info();
    assert_eq!((info.unacked, info.unsent.as_u64(), info.probes), (0, 3 * SEGMENT, 0));
    // CUBIC sets ssthresh to 0.7 x 10 segments.
    assert_eq!(info.ssthresh.map(|bytes| bytes.as_u64() / SEGMENT), Some(7));
    assert_eq!((sender.deadline(), sender.probes()), (ms(50) + info.rto, Some(0)));

    sender.set_local_congestion(false);
    let mut sent = 0;
    while let Some(packet) = sender.poll_transmit(ms(60)) {
        sent += u64::from(packet.payload);
    }
    assert_eq!((sent, sender.probes()), (3 * SEGMENT, None));
}
