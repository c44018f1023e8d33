//! A sender and a receiver with a pipe between them.

mod common;

use common::{Pipe, delay, dropping, ms, sender};
use narrows_cc::{Bytes, Nanos};
use narrows_endpoint::{AppConfig, TcpConfig};

const SEGMENT: u64 = 1448;

fn file(segments: u64) -> AppConfig {
    AppConfig::File(Bytes::new(segments * SEGMENT))
}

#[test]
fn a_file_arrives_whole_in_the_rounds_that_slow_start_needs() {
    // Delay 50 ms each way, initial window 10, appropriate byte counting, one acknowledgement per two packets: 10 packets
    // in the first round trip after the handshake, 20 in the second, 40 in the third, the last 30 in the fourth. The FIN
    // follows the last packet at once, so no acknowledgement is delayed.
    let config = TcpConfig::default();
    let mut pipe =
        Pipe::new(sender("newreno", &[], &config, file(100)), &config, delay(ms(50)), delay(ms(50)));
    pipe.run_until(Nanos::from_secs(10));
    assert_eq!(pipe.delivered, 100 * SEGMENT);
    assert_eq!(pipe.sender.established_at(), Some(ms(100)));
    assert_eq!(pipe.sender.completed_at(), Some(ms(500)));
    assert!(pipe.sender.is_closed());
    assert_eq!((pipe.sender.deadline(), pipe.receiver.deadline()), (Nanos::MAX, Nanos::MAX));
    let stats = pipe.sender.stats();
    assert_eq!((stats.data_packets_sent, stats.retransmits, stats.lost_packets), (100, 0, 0));
    assert_eq!((stats.timeouts, stats.recoveries, stats.tlp_probes), (0, 0, 0));
    assert_eq!(pipe.receiver.stats().acks_sent, 1 + 50 + 1);
    assert_eq!(pipe.sender.srtt(), ms(100));
}

#[test]
fn a_lost_packet_is_repaired_one_round_trip_later_in_every_mode() {
    // Packet 3 of the first ten is lost. Packets 4 and 5 or 4 to 6 tell of it at 200 ms, when the second window is due.
    for (sack, rack) in [(true, true), (true, false), (false, false)] {
        let config = TcpConfig { sack, rack, tlp: rack, ..TcpConfig::default() };
        let forward = dropping(ms(50), SEGMENT, &[3]);
        let mut pipe = Pipe::new(sender("newreno", &[], &config, file(200)), &config, forward, delay(ms(50)));
        pipe.run_until(Nanos::from_secs(10));
        assert_eq!(pipe.delivered, 200 * SEGMENT, "sack {sack}, rack {rack}");
        assert_eq!(pipe.sent_at(3, SEGMENT), [ms(100), ms(200)], "sack {sack}, rack {rack}");
        let stats = pipe.sender.stats();
        assert_eq!(
            (stats.retransmits, stats.lost_packets, stats.recoveries),
            (1, 1, 1),
            "sack {sack}, rack {rack}"
        );
        assert_eq!((stats.timeouts, stats.spurious_recoveries), (0, 0), "sack {sack}, rack {rack}");
        assert!(pipe.sender.is_closed());
    }
}

#[test]
fn a_pacing_rate_spaces_every_packet() {
    // 1448 B at 11.584 Mbit/s take exactly 1 ms.
    let config = TcpConfig::default();
    let params = [("window", 1000.0), ("rate", 11.584)];
    let mut pipe =
        Pipe::new(sender("fixed", &params, &config, file(300)), &config, delay(ms(50)), delay(ms(50)));
    pipe.run_until(Nanos::from_secs(10));
    assert_eq!(pipe.delivered, 300 * SEGMENT);
    for number in 1..=300 {
        assert_eq!(pipe.sent_at(number, SEGMENT), [ms(100 + number - 1)]);
    }
    assert_eq!(pipe.sender.stats().paced_waits, 299);
}

#[test]
fn a_tail_loss_is_probed_after_two_round_trips() {
    // The last packet of the second window, 30, is lost and the FIN with everything after it does not exist: an endless
    // stream stopped at 30 packets. srtt is 100 ms, so the probe leaves 200 ms after the last transmission.
    let config = TcpConfig::default();
    let forward = dropping(ms(50), SEGMENT, &[30]);
    let app = AppConfig::Cbr { rate: narrows_cc::Rate::ZERO, write: Bytes::new(30 * SEGMENT) };
    let mut pipe = Pipe::new(sender("newreno", &[], &config, app), &config, forward, delay(ms(50)));
    pipe.run_until(Nanos::from_secs(10));
    assert_eq!(pipe.delivered, 30 * SEGMENT);
    // Acknowledgements of packets 21..28 and, delayed by 40 ms, 29 come after; the last restarts the timer.
    assert_eq!(pipe.sent_at(30, SEGMENT).len(), 2);
    let stats = pipe.sender.stats();
    assert_eq!((stats.tlp_probes, stats.retransmits, stats.timeouts), (1, 1, 0));
}
