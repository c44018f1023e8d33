//! Data both ways, over good and bad links.

use narrows_cc::{Bytes, Nanos, Rate};

use super::net::*;
use crate::connection::*;
use crate::{Ccid, Kind};

/// Payload that an end received.
fn received(net: &Net, end: usize) -> u64 {
    net.ends[end].stats().bytes_received
}

/// ```text
///  client ---- 10 Mbit/s, 60 ms of buffer, 20 ms ----> server
///         <------------------ 20 ms ------------------
/// ```
fn bottleneck(scheme: &str) -> Net {
    let rate = Rate::from_bits_per_sec(10_000_000);
    let link = Link { line: Some((rate, 75_000)), ..Link::default() };
    let (mut client, mut server) = (config(Role::Client, scheme), config(Role::Server, scheme));
    server.deliver = false;
    client.ecn = false;
    let mut net = Net::new(&client, &server, link, 1);
    net.ends[CLIENT].set_greedy(1_400);
    net
}

#[test]
fn every_kind_of_scheme_uses_a_bottleneck() {
    for scheme in ["newreno", "cubic", "bbr", "bbr3", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.run(Nanos::from_secs(5));
        let early = received(&net, SERVER);
        net.run(Nanos::from_secs(25));
        // The line carries 1400 of 1416 or 1424 bytes: 1.23 MB/s. CCID 3 is smooth, not greedy, at 40 ms of buffer.
        let share = (received(&net, SERVER) - early) as f64 / (20.0 * 1_250_000.0 * 1400.0 / 1424.0);
        let least = if scheme == "ccid3" { 0.6 } else { 0.85 };
        let stats = net.ends[CLIENT].stats();
        assert!((least..=1.02).contains(&share), "{scheme} reaches {share} of the line: {stats:?}");
        assert!(net.ends[CLIENT].memory() < 4 << 20, "{scheme}");
    }
}

#[test]
fn what_was_lost_and_delivered_adds_up_to_what_was_sent() {
    for scheme in ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.link.loss = 0.02;
        net.run(Nanos::from_secs(10));
        net.ends[CLIENT].set_greedy(0);
        net.run(Nanos::from_secs(30));
        let stats = *net.ends[CLIENT].stats();
        assert!(stats.lost_packets > 10, "{scheme}");
        assert_eq!(net.ends[CLIENT].inflight(), Bytes::ZERO, "{scheme}");
        let lost = (stats.lost_packets - stats.late_packets + stats.unanswered_packets) * 1_400;
        assert_eq!(stats.bytes_delivered + lost, stats.bytes_sent, "{scheme}");
        // Packets whose last acknowledgements were lost arrived without our knowing; CCID 3 acknowledges only what is followed by
        // more, a round trip later.
        let arrived = received(&net, SERVER);
        let unheard = if scheme == "ccid3" { 40 } else { 3 };
        assert!(arrived >= stats.bytes_delivered, "{scheme}: {arrived} of {stats:?}");
        assert!(arrived - stats.bytes_delivered <= unheard * 1_400, "{scheme}: {arrived} of {stats:?}");
    }
}

#[test]
fn ccid_2_counts_packets_whatever_their_size() {
    // RFC 4341 section 5: pipe < cwnd, in packets; cwnd is 3 at first, 4380 bytes in datagrams of 1400, and grows by one for two that
    // are acknowledged.
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
        // Windows of 3, 4, 6 and 9; of the first, two packets are acknowledged at once.
        assert_eq!(sent, [3, 3 + 3, 6 + 6, 12 + 9], "{size} bytes");
        net.run(ms(5_000));
        assert_eq!(net.datagrams(SERVER).len(), 100);
    }
}

#[test]
fn the_round_trip_of_ccid_2_is_sampled_once_per_window() {
    // RFC 4341 section 5. A window of about 67 packets; each sample is a sixteenth of a second in the line's queue at most.
    let mut net = bottleneck("ccid2");
    net.run(Nanos::from_secs(2));
    let end = &net.ends[CLIENT].half;
    let (until, known) = (end.sampled_until, end.records.known());
    assert!(until + 100 > known && until <= end.records.end() && until > 0, "{until} of {known}");
    let mut samples = 0;
    let mut last = until;
    let windows = net.ends[CLIENT].half.driver.round();
    for _ in 0..2_000 {
        net.run_for(ms(1));
        let now = net.ends[CLIENT].half.sampled_until;
        samples += u64::from(now != last);
        last = now;
    }
    let windows = net.ends[CLIENT].half.driver.round() - windows;
    assert!(samples.abs_diff(windows) <= 2, "{samples} samples in {windows} windows");
}

#[test]
fn bad_links_deliver_datagrams_whole_and_once() {
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
            // A tenth of them is lost; 5 % covers four standard deviations of 600 packets and more.
            assert!(
                n as f64 >= 0.85 * stats.data_packets_sent as f64 && n > 100,
                "{scheme}: {n} of {stats:?}"
            );
            assert!(net.ends[end].memory() < 8 << 20);
        }
    }
}

#[test]
fn a_late_packet_is_no_loss_in_the_end() {
    // One packet in twenty is late by up to 15 ms, with one every 2 ms: more than three overtake some of them.
    let link = Link { reorder: (0.05, ms(15)), ..Link::default() };
    let mut client = config(Role::Client, "newreno");
    client.initial_window = 40;
    let mut net = Net::new(&client, &config(Role::Server, "newreno"), link, 3);
    for _ in 0..3_000 {
        net.run_for(ms(2));
        let now = net.now;
        let _ = net.ends[CLIENT].push(now, &[0; 500]);
        net.run_for(ms(0));
    }
    net.run_for(ms(1_000));
    let stats = net.ends[CLIENT].stats();
    assert!(stats.lost_packets > 5 && stats.lost_packets - stats.late_packets <= 1, "{stats:?}");
    assert!(stats.spurious_recoveries > 0, "{stats:?}");
    assert_eq!(net.ends[SERVER].stats().data_packets_received, stats.data_packets_sent);
}

#[test]
fn an_acknowledgement_comes_for_every_second_packet_or_after_the_delay() {
    let mut net = Net::with("newreno");
    net.run(ms(100));
    for i in 0..40 {
        net.run(ms(100 + 10 * i));
        net.push(CLIENT, &[1; 100]);
    }
    net.run(ms(900));
    // 20 for 40 packets; the last of them arrives at 510 ms.
    assert_eq!(net.times(SERVER, Kind::Ack).len(), 20);
    net.push(CLIENT, &[1; 100]);
    net.run(ms(2_000));
    // Alone: it arrives at 920 ms and is acknowledged 0.2 s later.
    assert_eq!(net.times(SERVER, Kind::Ack)[20..], [ms(1_120)]);
    // The time it waited is no part of the round trip.
    assert_eq!(net.ends[CLIENT].last_rtt(), Some(ms(40)));
    assert_eq!(net.ends[CLIENT].stats().timeouts, 0);
}

#[test]
fn the_ack_ratio_that_was_agreed_is_kept() {
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
        // 76 packets have been sent 20 ms ago and before.
        assert_eq!(
            net.sent(SERVER).iter().filter(|&&kind| kind == Kind::Ack).count(),
            76 / usize::from(ratio)
        );
    }
}

#[test]
fn a_ratio_beyond_half_the_window_does_not_stop_a_sender() {
    for scheme in ["bbr", "cubic", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        let mut client = config(Role::Client, scheme);
        client.ack_ratio = 100;
        net.ends[CLIENT] = Connection::new(&client, narrows_cc::Random::stream(1, "end", 0), Nanos::ZERO);
        net.ends[CLIENT].set_greedy(1_400);
        net.run(Nanos::from_secs(20));
        let share = received(&net, SERVER) as f64 / (20.0 * 1_250_000.0);
        assert!(share > 0.7, "{scheme}: {share}");
    }
}

#[test]
fn a_round_trip_longer_than_the_first_timeout_is_measured_in_the_handshake() {
    // The Request is repeated after a second; the answer names the one that it is for. CCID 3 sends a packet in the first
    // second without a measure (RFC 5348 section 4.2).
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

#[test]
fn the_memory_of_a_vector_is_given_back_by_acknowledgements_of_acknowledgements() {
    let mut net = bottleneck("newreno");
    net.run(Nanos::from_secs(20));
    let dataacks = net.times(CLIENT, Kind::DataAck).len();
    // Once per round trip of 40 to 100 ms, more or less, over 20 s.
    assert!((150..=520).contains(&dataacks), "{dataacks}");
    let longest = net.ends[SERVER].memory();
    // A record of 16 bytes for each vector of a round trip or two; of 20 s they would be 150 kB.
    assert!(longest < 4_096, "{longest} bytes of a vector");
}

#[test]
fn a_vector_that_outgrew_its_packet_is_short_again_after_one_acknowledgement_of_it() {
    // A quarter of the packets is lost, and for 25 s every acknowledgement of an acknowledgement.
    let mut net = bottleneck("fixed");
    net.link.loss = 0.25;
    net.lose = Box::new(|end, header| end == CLIENT && header.kind == Kind::DataAck);
    net.run(Nanos::from_secs(25));
    net.lose = Box::new(|_, _| false);
    net.run(Nanos::from_secs(30));
    let longest = |net: &Net, from: u64, to: u64| {
        let acks = net.log.iter().zip(&net.sizes).filter(|((at, end, header), _)| {
            *end == SERVER
                && header.kind == Kind::Ack
                && (Nanos::from_secs(from)..Nanos::from_secs(to)).contains(at)
        });
        acks.map(|(_, size)| size.0).max().unwrap_or(0)
    };
    let (before, after) = (longest(&net, 0, 25), longest(&net, 26, 30));
    assert!(before > 1_000, "{before}: as much as a header can have");
    assert!(after < 400, "{after} of {before} bytes");
}

#[test]
fn the_ndp_count_is_on_every_packet_after_one_without_data() {
    // RFC 4340 section 7.7: Request and Response count as packets with data, Sync, Close and Reset as packets without.
    let mut net = Net::with("ccid3");
    net.run(ms(500));
    for _ in 0..20 {
        net.push(CLIENT, &[1; 100]);
        net.run_for(ms(100));
    }
    // A number far ahead is answered with a Sync.
    let mut stray = vec![];
    let (_, _, last) = *net.log.iter().rev().find(|packet| packet.1 == SERVER).expect("a packet");
    let mut header = last;
    header.seq += 1 << 40;
    header.encode(&[], &[], &mut stray);
    let now = net.now;
    net.inject(now, CLIENT, stray, 0);
    net.run_for(ms(500));
    net.close(CLIENT);
    net.run_for(ms(500));
    let mut seen = vec![];
    let mut without = 0;
    for ((_, end, header), (_, ndp)) in net.log.iter().zip(&net.sizes) {
        if *end == CLIENT {
            // The option is agreed on in the handshake.
            let agreed = !matches!(header.kind, Kind::Request | Kind::Response);
            assert_eq!(ndp.unwrap_or(0), if agreed { without } else { 0 }, "{:?}", header.kind);
            without = if header.kind.is_data() { 0 } else { without + 1 };
            seen.push(header.kind);
        }
    }
    assert!(seen.contains(&Kind::Sync) && seen.contains(&Kind::Close), "{seen:?}");
}

#[test]
fn a_report_that_comes_again_or_late_is_no_news() {
    let mut net = bottleneck("ccid3");
    net.run(ms(9_800));
    let early = net.last_ack[SERVER].clone();
    net.run(Nanos::from_secs(10));
    let heard = |net: &Net| (net.ends[CLIENT].half.loss_event_rate, *net.ends[CLIENT].half.driver.control());
    let before = heard(&net);
    assert!(before.0 > 0.0, "there were losses by now");
    let received = net.ends[CLIENT].stats().packets_received;
    for copy in [early, net.last_ack[SERVER].clone()] {
        let now = net.now;
        net.ends[CLIENT].on_packet(now, &copy, 0);
        assert_eq!(heard(&net), before);
    }
    assert_eq!(net.ends[CLIENT].stats().packets_received, received + 2, "both are valid");
}

fn link_that_marks() -> Link {
    let rate = Rate::from_bits_per_sec(10_000_000);
    Link { line: Some((rate, 1_000_000)), mark: Some(ms(20)), ..Link::default() }
}

#[test]
fn marks_slow_a_sender_without_loss() {
    // CCID 2, CCID 3, 248 and 249.
    for (scheme, ccid) in
        [("ccid2", 2), ("ccid3", 3), ("dccp-bbr", 248), ("newreno", 249), ("cubic", 249), ("bbr", 249)]
    {
        let (client, server) = (config(Role::Client, scheme), config(Role::Server, scheme));
        let mut net = Net::new(&client, &server, link_that_marks(), 1);
        net.ends[CLIENT].set_greedy(1_400);
        net.run(Nanos::from_secs(20));
        assert_eq!(net.ends[CLIENT].ccids().0.number(), ccid, "{scheme}");
        let stats = net.ends[CLIENT].stats();
        assert!(stats.marked_packets > 5, "{scheme}: {stats:?}");
        // CCID 3 hears of marks as loss events from its receiver; BBR takes a mark for no reason to slow down.
        match scheme {
            "ccid3" => assert!(net.ends[CLIENT].half.loss_event_rate > 0.0),
            _ => assert!(stats.ecn_reductions > 3, "{scheme}: {stats:?}"),
        }
        assert_eq!((stats.lost_packets, stats.timeouts), (0, 0), "{scheme}");
        let share = received(&net, SERVER) as f64 / (20.0 * 1_250_000.0);
        assert!(share > if ccid == 3 { 0.6 } else { 0.85 }, "{scheme}: {share}");
        // What waits: 20 ms before a mark, and what comes until its answer acts; without marks it would be 800 ms.
        let srtt = net.ends[CLIENT].srtt();
        assert!(srtt < ms(150), "{scheme}: {srtt:?}");
        // An end that cannot read marks gets no packet that can be marked, and reports none.
        let mut blind = config(Role::Server, scheme);
        blind.ecn = false;
        let mut net = Net::new(&config(Role::Client, scheme), &blind, link_that_marks(), 1);
        net.ends[CLIENT].set_greedy(1_400);
        net.run(Nanos::from_secs(2));
        let stats = net.ends[CLIENT].stats();
        assert_eq!(stats.marked_packets, 0, "{scheme}");
        assert!(stats.bytes_delivered > 100_000, "{scheme}: {stats:?}");
    }
}

#[test]
fn a_peer_that_disappears_is_noticed_after_four_lives_of_a_packet() {
    for scheme in ["newreno", "bbr", "ccid3"] {
        for greedy in [false, true] {
            let mut net = Net::with(scheme);
            net.run(ms(1_000));
            net.push(CLIENT, &[1; 100]);
            net.run(ms(2_000));
            net.lose = Box::new(|_, _| true);
            if greedy {
                net.ends[CLIENT].set_greedy(1_000);
            }
            net.push(CLIENT, &[1; 100]);
            net.run(Nanos::from_secs(1_000));
            assert_eq!(net.times(CLIENT, Kind::Reset), [ms(482_000)], "{scheme}");
            assert!(net.events[CLIENT].contains(&Event::PeerGone));
            assert_eq!(net.states(), (State::Closed, State::Open), "who sends nothing notices nothing");
            assert_eq!(net.ends[SERVER].deadline(), Nanos::MAX);
            // In the last two minutes the timeouts are as long as they get.
            let late = |packet: &&(Nanos, usize, crate::Header)| packet.0 > ms(360_000) && packet.1 == CLIENT;
            let packets = net.log.iter().filter(late).count();
            assert!(packets < 20, "{scheme}: {packets} packets to nobody");
        }
    }
}

#[test]
fn a_peer_that_answers_a_part_and_disappears_is_noticed_too() {
    for scheme in ["newreno", "ccid3"] {
        let mut net = Net::with(scheme);
        net.run(ms(1_000));
        net.push(CLIENT, &[1; 100]);
        net.push(CLIENT, &[2; 100]);
        net.run(ms(2_000));
        // The first of these is answered, what comes after it is not.
        net.push(CLIENT, &[3; 100]);
        net.run(ms(2_010));
        net.lose = Box::new(|end, _| end == CLIENT);
        net.push(CLIENT, &[4; 100]);
        net.run(ms(2_300));
        net.lose = Box::new(|_, _| true);
        net.run(Nanos::from_secs(1_000));
        let answered = net.times(SERVER, Kind::Ack).last().copied().expect("an answer") + ms(20);
        let gone = net.times(CLIENT, Kind::Reset);
        assert!(net.events[CLIENT].contains(&Event::PeerGone), "{scheme}");
        assert_eq!(gone.len(), 1, "{scheme}");
        // From the last sign of life, or from the data that waits, which is a little older.
        let waited = gone[0] - answered;
        assert!(waited <= Nanos::from_secs(480) && waited > Nanos::from_secs(479), "{scheme}: {waited:?}");
    }
}

#[test]
fn a_pause_of_the_network_is_survived() {
    for scheme in ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"] {
        let mut net = bottleneck(scheme);
        net.run(Nanos::from_secs(5));
        net.lose = Box::new(|_, _| true);
        net.run(Nanos::from_secs(65));
        net.lose = Box::new(|_, _| false);
        // The timeout has backed off to at most 64 s by then. CCID 3 is down to a packet in 64 s, and doubles its rate with
        // each report (RFC 5348 sections 4.3 and 4.4).
        let back = Nanos::from_secs(if scheme == "ccid3" { 400 } else { 135 });
        net.run(back);
        let before = received(&net, SERVER);
        net.run_for(Nanos::from_secs(10));
        let share = (received(&net, SERVER) - before) as f64 / (10.0 * 1_250_000.0);
        assert!(share > 0.4, "{scheme}: {share} of the line after a pause; {:?}", net.ends[CLIENT].stats());
    }
}

#[test]
fn a_queue_that_is_full_drops_what_it_was_told_to() {
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

#[test]
fn data_of_both_sides_has_its_own_control() {
    let mut net = Net::new(&config(Role::Client, "ccid3"), &config(Role::Server, "bbr"), Link::default(), 1);
    net.ends[CLIENT].set_greedy(500);
    net.ends[SERVER].set_greedy(700);
    net.run(ms(300));
    assert_eq!(net.ends[CLIENT].ccids(), (Ccid::Tfrc, Ccid::Other));
    assert_eq!(net.ends[SERVER].ccids(), (Ccid::Other, Ccid::Tfrc));
    assert!(received(&net, CLIENT) > 10 * 700 && received(&net, SERVER) > 5 * 500);
}

#[test]
fn the_window_counter_of_ccid_3_counts_quarters_of_round_trips() {
    let mut net = bottleneck("ccid3");
    net.run(Nanos::from_secs(10));
    let data = |packet: &&(Nanos, usize, crate::Header)| packet.1 == CLIENT && packet.2.kind == Kind::Data;
    let sent: Vec<(Nanos, u8)> =
        net.log.iter().filter(data).map(|packet| (packet.0, packet.2.ccval)).collect();
    let steps: Vec<u8> = sent.windows(2).map(|pair| pair[1].1.wrapping_sub(pair[0].1) % 16).collect();
    assert!(steps.iter().all(|&step| step <= 5));
    // Over the last five seconds: one step for each quarter of the time that a round trip takes.
    let late = sent.iter().position(|packet| packet.0 > Nanos::from_secs(5)).unwrap();
    let counted = steps[late..].iter().map(|&step| u64::from(step)).sum::<u64>() as f64;
    let expected = 4.0 * 5.0 / net.ends[CLIENT].srtt().as_secs_f64();
    // The smoothed time differs from the time of each moment, and quarters begin with packets.
    assert!((0.7..=1.3).contains(&(counted / expected)), "{counted} steps for {expected}");
}
