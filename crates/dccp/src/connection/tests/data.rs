//! Data transfer in both directions, over good and bad links.

use narrows_cc::{Bytes, Nanos, Rate};

use super::net::*;
use crate::connection::*;
use crate::{Ccid, Kind};

/// Payload bytes that an endpoint received.
pub(super) fn received(net: &Net, end: usize) -> u64 {
    net.ends[end].stats().bytes_received
}

/// ```text
///  client ---- 10 Mbit/s, 60 ms of buffer, 20 ms ----> server
///         <------------------ 20 ms ------------------
/// ```
pub(super) fn bottleneck(scheme: &str) -> Net {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let link = Link { bottleneck: Some((rate, 75_000)), ..Link::default() };
    let (mut client, mut server) = (config(Role::Client, scheme), config(Role::Server, scheme));
    server.deliver = false;
    client.ecn = false;
    let mut net = Net::new(&client, &server, link, 1);
    net.ends[CLIENT].set_backlogged(1_400);
    net
}

/// Window-based, rate-based and CCID schemes fill the bottleneck.
#[test]
fn schemes_fill_a_bottleneck() {
    for scheme in ["newreno", "cubic", "bbr", "bbr3", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.run(Nanos::from_secs(5));
        let early = received(&net, SERVER);
        net.run(Nanos::from_secs(25));
        // Each packet of 1416 or 1424 bytes has 1400 bytes of payload, so the maximum is 1.23 MB/s. CCID 3 is smooth
        // and uses less of the link with 60 ms of buffer.
        let share = (received(&net, SERVER) - early) as f64 / (20.0 * 1_250_000.0 * 1400.0 / 1424.0);
        let least = if scheme == "ccid3" { 0.6 } else { 0.85 };
        let stats = net.ends[CLIENT].stats();
        assert!((least..=1.02).contains(&share), "{scheme} reaches {share} of the bottleneck: {stats:?}");
        assert!(net.ends[CLIENT].memory() < 4 << 20, "{scheme}");
    }
}

/// Delivered, lost and unanswered packets add up to the packets sent, and match the receiver's count.
#[test]
fn counters_of_lossy_transfer_add_up_to_sent() {
    for scheme in ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.link.loss = 0.02;
        net.run(Nanos::from_secs(10));
        net.ends[CLIENT].set_backlogged(0);
        net.run(Nanos::from_secs(30));
        let stats = *net.ends[CLIENT].stats();
        assert!(stats.lost_packets > 10, "{scheme}");
        assert_eq!(net.ends[CLIENT].inflight(), Bytes::ZERO, "{scheme}");
        let lost = (stats.lost_packets - stats.late_packets + stats.unanswered_packets) * 1_400;
        assert_eq!(stats.bytes_delivered + lost, stats.bytes_sent, "{scheme}");
        // The last acknowledgements may be lost. Under CCID 3 data is acknowledged only when further data arrives, a
        // round trip later.
        let arrived = received(&net, SERVER);
        let unacknowledged = if scheme == "ccid3" { 40 } else { 3 };
        assert!(arrived >= stats.bytes_delivered, "{scheme}: {arrived} of {stats:?}");
        assert!(arrived - stats.bytes_delivered <= unacknowledged * 1_400, "{scheme}: {arrived} of {stats:?}");
    }
}

/// CCID 2's window counts packets of any size (RFC 4341 section 5).
#[test]
fn ccid2_window_counts_packets_of_any_size() {
    // The sender sends while pipe < cwnd, both in packets. cwnd starts at 3 packets (4380 bytes in datagrams of 1400
    // bytes) and grows by one packet per two acknowledged packets.
    for size in [1, 100, 1_400] {
        let mut net = Net::with("ccid2");
        net.run(ms(100));
        for i in 0..100 {
            net.push(CLIENT, &vec![i; size]);
        }
        let mut sent = vec![];
        for round in 0..4 {
            net.run(ms(120 + 40 * round));
            sent.push(net.ends[CLIENT].stats().data_packets_sent);
        }
        // The windows have 3, 4, 6 and 9 packets; two packets of the first window are acknowledged immediately.
        assert_eq!(sent, [3, 3 + 3, 6 + 6, 12 + 9], "{size} bytes");
        net.run(ms(5_000));
        assert_eq!(net.datagrams(SERVER).len(), 100);
    }
}

/// CCID 2 takes one round-trip sample per window (RFC 4341 section 5).
#[test]
fn ccid2_rtt_is_sampled_once_per_window() {
    // A window has about 67 packets, which queue for at most a sixteenth of a second.
    let mut net = bottleneck("ccid2");
    net.run(Nanos::from_secs(2));
    let client = &net.ends[CLIENT];
    let (until, (known, end)) = (client.next_rtt_sample(), client.sent_packets());
    assert!(until + 100 > known && until <= end && until > 0, "{until} of {known}");
    let mut samples = 0;
    let mut last = until;
    let windows = net.ends[CLIENT].round();
    for _ in 0..2_000 {
        net.run_for(ms(1));
        let now = net.ends[CLIENT].next_rtt_sample();
        samples += u64::from(now != last);
        last = now;
    }
    let windows = net.ends[CLIENT].round() - windows;
    assert!(samples.abs_diff(windows) <= 2, "{samples} samples in {windows} windows");
}

/// Datagrams arrive whole and at most once over a link with loss, duplication and reordering.
#[test]
fn datagrams_over_bad_link_arrive_whole_and_once() {
    for (scheme, seed) in [("newreno", 1), ("bbr", 2), ("ccid2", 3), ("ccid3", 4), ("dccp-bbr", 5)] {
        let reorder = (0.1, ms(30));
        let link = Link { loss: 0.1, duplicate: 0.1, reorder, ..Link::default() };
        let mut net = Net::new(&config(Role::Client, scheme), &config(Role::Server, scheme), link, seed);
        let mut sent = 0u32;
        for _ in 0..3_000 {
            net.run_for(ms(10));
            if net.ends[SERVER].state() != State::Open {
                continue;
            }
            for end in [CLIENT, SERVER] {
                if net.ends[end].can_push() {
                    let mut data = [0; 600];
                    data[..4].copy_from_slice(&sent.to_be_bytes());
                    net.push(end, &data);
                    sent += 1;
                }
            }
        }
        net.run_for(Nanos::from_secs(5));
        for end in [CLIENT, SERVER] {
            let mut numbers: Vec<&[u8]> = net.datagrams(end).iter().map(|data| &data[..4]).collect();
            let n = numbers.len();
            assert!(net.datagrams(end).iter().all(|data| data.len() == 600));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), n, "{scheme}: none twice");
            let stats = net.ends[1 - end].stats();
            // A tenth of the packets is lost; the margin of 5 % covers four standard deviations for 600 packets.
            assert!(n as f64 >= 0.85 * stats.data_packets_sent as f64 && n > 100, "{scheme}: {n} of {stats:?}");
            assert!(net.ends[end].memory() < 8 << 20);
        }
    }
}

/// A reordered packet declared lost is counted as late, and its recovery as spurious.
#[test]
fn loss_of_late_packet_is_undone() {
    // One packet in twenty is delayed by up to 15 ms, at one packet per 2 ms: more than three packets overtake some of
    // the delayed packets.
    let link = Link { reorder: (0.05, ms(15)), ..Link::default() };
    let mut client = config(Role::Client, "newreno");
    client.initial_window = 40;
    let mut net = Net::new(&client, &config(Role::Server, "newreno"), link, 3);
    for _ in 0..3_000 {
        net.run_for(ms(2));
        let _ = net.ends[CLIENT].push(net.now, &[0; 500]);
        net.run_for(ms(0));
    }
    net.run_for(ms(1_000));
    let stats = net.ends[CLIENT].stats();
    assert!(stats.lost_packets > 5 && stats.lost_packets - stats.late_packets <= 1, "{stats:?}");
    assert!(stats.spurious_recoveries > 0, "{stats:?}");
    assert_eq!(net.ends[SERVER].stats().data_packets_received, stats.data_packets_sent);
}

/// A receiver acknowledges every second packet, and a single packet after the acknowledgement delay. The round-trip
/// time does not include the delay.
#[test]
fn ack_follows_every_second_packet_or_ack_delay() {
    let mut net = Net::with("newreno");
    net.run(ms(100));
    for i in 0..40 {
        net.run(ms(100 + 10 * i));
        net.push(CLIENT, &[1; 100]);
    }
    net.run(ms(900));
    // 20 Acks for 40 packets; the last packet arrives at 510 ms.
    assert_eq!(net.times(SERVER, Kind::Ack).len(), 20);
    net.push(CLIENT, &[1; 100]);
    net.run(ms(2_000));
    // A single packet arrives at 920 ms and is acknowledged 0.2 s later.
    assert_eq!(net.times(SERVER, Kind::Ack)[20..], [ms(1_120)]);
    // The round-trip time sample does not include the acknowledgement delay.
    assert_eq!(net.ends[CLIENT].last_rtt(), Some(ms(40)));
    assert_eq!(net.ends[CLIENT].stats().timeouts, 0);
}

/// The receiver acknowledges at the agreed Ack Ratio.
#[test]
fn ack_ratio_agreed_is_kept() {
    for ratio in [1u16, 4, 10] {
        let mut client = config(Role::Client, "newreno");
        (client.ack_ratio, client.initial_window) = (ratio, 40);
        let mut net = Net::new(&client, &config(Role::Server, "newreno"), Link::default(), 1);
        net.run(ms(100));
        for i in 0..80 {
            net.run(ms(100 + 5 * i));
            net.push(CLIENT, &[1; 100]);
        }
        net.run(ms(495));
        // 76 packets were sent at least 20 ms ago and have arrived.
        assert_eq!(net.sent(SERVER).iter().filter(|&&kind| kind == Kind::Ack).count(), 76 / usize::from(ratio));
    }
}

/// A configured Ack Ratio above half the window does not stall the sender.
#[test]
fn ack_ratio_above_half_the_window_does_not_stall() {
    for scheme in ["bbr", "cubic", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        let mut client = config(Role::Client, scheme);
        client.ack_ratio = 100;
        net.ends[CLIENT] = Connection::new(&client, narrows_cc::Random::stream(1, "end", 0), Nanos::ZERO);
        net.ends[CLIENT].set_backlogged(1_400);
        net.run(Nanos::from_secs(20));
        let share = received(&net, SERVER) as f64 / (20.0 * 1_250_000.0);
        assert!(share > 0.7, "{scheme}: {share}");
    }
}

/// The handshake measures a round-trip time above the initial timeout, because each Request has its own
/// number.
#[test]
fn handshake_measures_rtt_above_initial_timeout() {
    // The Request is retransmitted after a second, before the Response arrives. CCID 3 is left out: without a sample it
    // sends one packet in the first second (RFC 5348 section 4.2).
    for scheme in ["newreno", "ccid2", "dccp-bbr"] {
        let (mut net, delay) = (bottleneck(scheme), ms(700));
        net.link.delay = delay;
        net.run(ms(1_410));
        let rtt = net.ends[CLIENT].last_rtt().expect("a sample");
        assert!((delay * 2..delay * 2 + ms(1)).contains(&rtt), "{scheme}: {rtt:?}");
        assert_eq!(net.times(CLIENT, Kind::Request), [ms(0), ms(1_000)]);
        net.run(Nanos::from_secs(10));
        assert_eq!(net.ends[CLIENT].stats().timeouts, 0, "{scheme}");
    }
}

/// Acknowledgements of acknowledgements bound the memory of Ack Vectors.
#[test]
fn ack_vector_memory_is_freed_by_acks_of_acks() {
    let mut net = bottleneck("newreno");
    net.run(Nanos::from_secs(20));
    let dataacks = net.times(CLIENT, Kind::DataAck).len();
    // The client acknowledges about once per round trip of 40 to 100 ms, over 20 s.
    assert!((150..=520).contains(&dataacks), "{dataacks}");
    let longest = net.ends[SERVER].memory();
    // The memory holds a 16-byte record for each vector of the last one or two round trips; the records of 20 s would
    // take 150 kB.
    assert!(longest < 4_096, "{longest} bytes of a vector");
}

/// An Ack Vector that outgrew its packet is short again after one acknowledgement of it.
#[test]
fn ack_vector_longer_than_header_recovers_after_one_ack() {
    // A quarter of the packets is lost. For 25 s, every acknowledgement of an acknowledgement is lost too.
    let mut net = bottleneck("fixed");
    net.link.loss = 0.25;
    net.lose = Box::new(|end, header| end == CLIENT && header.kind == Kind::DataAck);
    net.run(Nanos::from_secs(25));
    net.lose = Box::new(|_, _| false);
    net.run(Nanos::from_secs(30));
    let longest = |net: &Net, from: u64, to: u64| {
        let acks = net.log.iter().zip(&net.sizes).filter(|((at, end, header), _)| {
            *end == SERVER && header.kind == Kind::Ack && (Nanos::from_secs(from)..Nanos::from_secs(to)).contains(at)
        });
        acks.map(|(_, size)| size.0).max().unwrap_or(0)
    };
    let (before, after) = (longest(&net, 0, 25), longest(&net, 26, 30));
    assert!(before > 1_000, "{before}: as much as a header can have");
    assert!(after < 400, "{after} of {before} bytes");
}

/// Every packet after a non-data packet carries the NDP count (RFC 4340 section 7.7).
#[test]
fn ndp_count_follows_every_non_data_packet() {
    // Requests and Responses count as data packets; Syncs, Closes and Resets do not.
    let mut net = Net::with("ccid3");
    net.run(ms(500));
    net.push_every(ms(100), &[CLIENT], 20, 100);
    // A packet far ahead triggers a Sync.
    let mut stray = vec![];
    let (_, _, last) = *net.log.iter().rev().find(|packet| packet.1 == SERVER).expect("a packet");
    let mut header = last;
    header.seq += 1 << 40;
    header.encode(&[], &[], &mut stray);
    net.inject(net.now, CLIENT, stray, 0);
    net.run_for(ms(500));
    net.close(CLIENT);
    net.run_for(ms(500));
    let mut seen = vec![];
    let mut without = 0;
    for ((_, end, header), (_, ndp)) in net.log.iter().zip(&net.sizes) {
        if *end == CLIENT {
            // The handshake negotiates the option.
            let agreed = !matches!(header.kind, Kind::Request | Kind::Response);
            assert_eq!(ndp.unwrap_or(0), if agreed { without } else { 0 }, "{:?}", header.kind);
            without = if header.kind.is_data() { 0 } else { without + 1 };
            seen.push(header.kind);
        }
    }
    assert!(seen.contains(&Kind::Sync) && seen.contains(&Kind::Close), "{seen:?}");
}

/// A duplicate or reordered feedback packet is valid but does not reach the scheme.
#[test]
fn ccid3_duplicate_or_old_feedback_is_ignored() {
    let mut net = bottleneck("ccid3");
    net.run(ms(9_800));
    let early = net.last_ack[SERVER].clone();
    net.run(Nanos::from_secs(10));
    let feedback_state = |net: &Net| (net.ends[CLIENT].loss_event_rate(), net.ends[CLIENT].control());
    let before = feedback_state(&net);
    assert!(before.0 > 0.0, "there were losses by now");
    let received = net.ends[CLIENT].stats().packets_received;
    for copy in [early, net.last_ack[SERVER].clone()] {
        net.ends[CLIENT].on_packet(net.now, &copy, 0);
        assert_eq!(feedback_state(&net), before);
    }
    assert_eq!(net.ends[CLIENT].stats().packets_received, received + 2, "both are valid");
}

fn link_that_marks() -> Link {
    let rate = Rate::from_bits_per_sec(10_000_000);
    Link { bottleneck: Some((rate, 1_000_000)), mark: Some(ms(20)), ..Link::default() }
}

/// ECN marks keep the queue short without loss under every CCID. An endpoint that cannot read marks receives
/// no ECN-capable packets.
#[test]
fn ecn_marks_slow_senders_without_loss() {
    // CCIDs 2, 3, 248 and 249.
    for (scheme, ccid) in
        [("ccid2", 2), ("ccid3", 3), ("dccp-bbr", 248), ("newreno", 249), ("cubic", 249), ("bbr", 249)]
    {
        let (client, server) = (config(Role::Client, scheme), config(Role::Server, scheme));
        let mut net = Net::new(&client, &server, link_that_marks(), 1);
        net.ends[CLIENT].set_backlogged(1_400);
        net.run(Nanos::from_secs(20));
        assert_eq!(net.ends[CLIENT].ccids().0.number(), ccid, "{scheme}");
        let stats = net.ends[CLIENT].stats();
        assert!(stats.marked_packets > 5, "{scheme}: {stats:?}");
        // The CCID 3 receiver reports marks as loss events. BBR ignores marks.
        match scheme {
            "ccid3" => assert!(net.ends[CLIENT].loss_event_rate() > 0.0),
            _ => assert!(stats.ecn_reductions > 3, "{scheme}: {stats:?}"),
        }
        assert_eq!((stats.lost_packets, stats.timeouts), (0, 0), "{scheme}");
        let share = received(&net, SERVER) as f64 / (20.0 * 1_250_000.0);
        assert!(share > if ccid == 3 { 0.6 } else { 0.85 }, "{scheme}: {share}");
        // The queue holds 20 ms of data when the first packet is marked, plus the packets that arrive until the
        // reduction takes effect. Without marks the queue would hold 800 ms.
        let srtt = net.ends[CLIENT].srtt().unwrap();
        assert!(srtt < ms(150), "{scheme}: {srtt:?}");
        // An endpoint that cannot read marks receives no ECN-capable packets and reports no marks.
        let mut no_ecn = config(Role::Server, scheme);
        no_ecn.ecn = false;
        let mut net = Net::new(&config(Role::Client, scheme), &no_ecn, link_that_marks(), 1);
        net.ends[CLIENT].set_backlogged(1_400);
        net.run(Nanos::from_secs(2));
        let stats = net.ends[CLIENT].stats();
        assert_eq!(stats.marked_packets, 0, "{scheme}");
        assert!(stats.bytes_delivered > 100_000, "{scheme}: {stats:?}");
    }
}

/// A full send queue drops the newest or the oldest datagram, as configured.
#[test]
fn send_queue_overflow_follows_policy() {
    for (overflow, kept) in [(Overflow::DropNewest, [0, 1, 2]), (Overflow::DropOldest, [7, 8, 9])] {
        let mut client = config(Role::Client, "newreno");
        (client.queue, client.overflow) = (3, overflow);
        let mut net = Net::new(&client, &config(Role::Server, "newreno"), Link::default(), 1);
        for i in 0..10u8 {
            let taken = net.ends[CLIENT].push(ms(0), &[i]);
            assert_eq!(taken.is_ok(), i < 3 || overflow == Overflow::DropOldest);
        }
        assert_eq!(net.ends[CLIENT].push(ms(0), &[]), Err(PushError::Length(1_400)));
        assert_eq!(net.ends[CLIENT].stats().send_drops, 7);
        net.run(ms(1_000));
        assert_eq!(net.datagrams(SERVER), kept.each_ref().map(std::slice::from_ref));
    }
}

/// Each direction of data has its own CCID.
#[test]
fn half_connections_have_their_own_ccids() {
    let mut net = Net::new(&config(Role::Client, "ccid3"), &config(Role::Server, "bbr"), Link::default(), 1);
    net.ends[CLIENT].set_backlogged(500);
    net.ends[SERVER].set_backlogged(700);
    net.run(ms(300));
    assert_eq!(net.ends[CLIENT].ccids(), (Ccid::Tfrc, Ccid::Other));
    assert_eq!(net.ends[SERVER].ccids(), (Ccid::Other, Ccid::Tfrc));
    assert!(received(&net, CLIENT) > 10 * 700 && received(&net, SERVER) > 5 * 500);
}

/// The window counter of CCID 3 advances by one per quarter of a round trip, at most five at a time.
#[test]
fn ccid3_window_counter_steps_per_quarter_rtt() {
    let mut net = bottleneck("ccid3");
    net.run(Nanos::from_secs(10));
    let data = |packet: &&(Nanos, usize, crate::Header)| packet.1 == CLIENT && packet.2.kind == Kind::Data;
    let sent: Vec<(Nanos, u8)> = net.log.iter().filter(data).map(|packet| (packet.0, packet.2.ccval)).collect();
    let steps: Vec<u8> = sent.windows(2).map(|pair| pair[1].1.wrapping_sub(pair[0].1) % 16).collect();
    assert!(steps.iter().all(|&step| step <= 5));
    // Over the last five seconds: one step per quarter of a round trip.
    let late = sent.iter().position(|packet| packet.0 > Nanos::from_secs(5)).unwrap();
    let counted = steps[late..].iter().map(|&step| u64::from(step)).sum::<u64>() as f64;
    let expected = 4.0 * 5.0 / net.ends[CLIENT].srtt().unwrap().as_secs_f64();
    // Tolerance: the smoothed round-trip time differs from the current round-trip time, and a quarter begins only when
    // a packet is sent.
    assert!((0.7..=1.3).contains(&(counted / expected)), "{counted} steps for {expected}");
}

/// BBR's bandwidth estimate in Mbit/s.
fn estimate(end: &Connection) -> f64 {
    let mut found = 0.0;
    end.telemetry(&mut |name, value| {
        if let ("bw_estimate", narrows_cc::Value::Rate(rate)) = (name, value) {
            found = rate.as_mbit_per_sec();
        }
    });
    found
}

/// After 5 s of bulk data an application writes at a tenth of the rate for eight seconds. The samples of this time are
/// application-limited, so BBR keeps its estimate.
#[test]
fn bbr_estimate_survives_paced_application_at_a_tenth() {
    for scheme in ["bbr", "dccp-bbr", "bbr3"] {
        let mut net = bottleneck(scheme);
        net.run(Nanos::from_secs(5));
        net.ends[CLIENT].set_backlogged(0);
        net.run(Nanos::from_secs(6));
        let before = estimate(&net.ends[CLIENT]);
        assert!(before > 9.0, "{scheme}: {before} Mbit/s");
        net.push_every(ms(10), &[CLIENT], 800, 1_250);
        let after = estimate(&net.ends[CLIENT]);
        assert!((after / before - 1.0).abs() < 0.05, "{scheme}: {after} Mbit/s after {before}");
    }
}
