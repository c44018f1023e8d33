//! Laws of DCCP flows: goodput compared with equations, delays between applications, accounting of every packet.

use std::fmt::Write as _;

use crate::law::{assert_within, goodputs, lossy, run, spec};
use narrows_cc::{Bytes, Nanos, Value, tfrc};
use narrows_net::timeline::LossTrace;
use narrows_scenario::result::{DatagramResult, RunResult};
use narrows_sim::Engine;

/// IP and DCCP headers of a Data packet with sequence numbers of 48 and of 24 bits (RFC 4340 section 5.1).
const HEADER: f64 = 20.0 + 16.0;
const SHORT_HEADER: f64 = 20.0 + 12.0;

/// A dumbbell with one bottleneck.
#[derive(Clone, Copy)]
struct Bell<'a> {
    rate: &'a str,
    /// Further keys of the network and further tables.
    more: &'a str,
    seconds: f64,
    warmup: f64,
}

impl Default for Bell<'_> {
    fn default() -> Self {
        Self { rate: "10mbit", more: "buffer = \"1bdp\"", seconds: 30.0, warmup: 5.0 }
    }
}

impl Bell<'_> {
    /// Scenario text of flows with 40 ms RTT; each is given by its scheme and further keys.
    fn text(&self, flows: &[(&str, &str)]) -> String {
        let mut text = format!(
            "duration = \"{}s\"\nwarmup = \"{}s\"\n[network]\nrate = \"{}\"\n{}\n",
            self.seconds, self.warmup, self.rate, self.more
        );
        for (scheme, more) in flows {
            let _ = writeln!(text, "[[flows]]\nscheme = \"{scheme}\"\nprotocol = \"dccp\"\nrtt = \"40ms\"\n{more}");
        }
        text
    }

    fn run(&self, flows: &[(&str, &str)]) -> RunResult {
        run(&self.text(flows))
    }
}

fn datagrams(result: &RunResult) -> &DatagramResult {
    result.flows[0].datagrams.as_ref().expect("a DCCP flow")
}

/// A named internal of the first flow's scheme.
fn internal(engine: &Engine, name: &str) -> Option<f64> {
    let mut found = None;
    engine.flow(0).telemetry(&mut |internal, value| {
        if internal == name {
            found = match value {
                Value::Number(x) => Some(x),
                Value::Time(time) => Some(time.as_secs_f64()),
                Value::Rate(rate) => Some(rate.as_bytes_per_sec() as f64),
                _ => None,
            };
        }
    });
    found
}

/// Mathis et al. 1997 with one packet of growth per window: W = sqrt(3/2) / sqrt(p) = 1.22 / sqrt(p) for
/// periodic losses, 1.31 / sqrt(p) for independent losses (Ott, Kemperman and Mathis 1996). In the round trip of a
/// loss event the window does not grow, which reduces W. Tolerance: 15 % in both directions, as for NewReno.
#[test]
fn law_ccid2_window_follows_root_of_loss_rate() {
    for p in [0.001, 0.005, 0.01] {
        let expected = 1.22 / f64::sqrt(p);
        let seconds = 660.0 / p / expected * 0.1;
        let (result, window) = lossy("ccid2", "100ms", &format!("\"{}%\"", p * 100.0), seconds / 11.0, seconds);
        let events = result.counters().recoveries + result.counters().timeouts;
        assert!(events >= 300, "only {events} loss events");
        assert_within(&format!("window at p = {p}"), window, expected, 0.15);
        assert_within(
            &format!("goodput at p = {p}"),
            result.flows[0].goodput_mbit_s,
            expected * 1448.0 * 8e-6 / 0.1,
            0.15,
        );
    }
}

/// RFC 5348: the send rate is the equation's rate at the loss event rate that the receiver reports. A loss interval
/// begins with a loss. It contains one round trip, in which further losses do not count, and then 1/p packets on
/// average. The round trip has 1 / f(p) packets.
#[test]
fn law_ccid3_rate_matches_tfrc_equation() {
    for p in [0.002, 0.01, 0.03] {
        let text = Bell { rate: "1gbit", more: &format!("loss = \"{}%\"", p * 100.0), seconds: 600.0, warmup: 60.0 };
        let mut engine = Engine::new(spec(&text.text(&[("ccid3", "")])));
        let (mut rates, mut equations, mut intervals, mut samples) = (0.0, 0.0, 0.0, 0.0);
        for second in 600..6_000 {
            engine.run_until(Nanos::from_millis(second * 100));
            let reported = internal(&engine, "loss_event_rate").expect("an internal of the scheme");
            let rtt = Nanos::from_secs_f64(internal(&engine, "rtt_estimate").expect("an internal of the scheme"));
            rates += engine.flow(0).sender().pacing_rate.expect("it paces").as_bytes_per_sec() as f64;
            equations += tfrc::throughput(Bytes::new(1448), rtt, reported).as_bytes_per_sec() as f64;
            intervals += 1.0 / reported;
            samples += 1.0;
        }
        let goodput = engine.finish().flows[0].goodput_mbit_s;
        let mut expected = p;
        for _ in 0..50 {
            expected = 1.0 / (1.0 / p + 1.0 / tfrc::round_trips_per_segment(expected));
        }
        // The rate is below the equation's only if twice the receive rate is lower, in the round trip after p fell.
        assert_within(&format!("rate at {p}"), rates / samples, equations / samples, 0.02);
        assert_within(&format!("goodput at {p}"), goodput, rates / samples * 8e-6 * (1.0 - p), 0.03);
        // The reported interval is the mean of eight weighted intervals; 540 s contain 3 000 to 10 000 intervals.
        assert_within(&format!("loss interval at {p}"), intervals / samples, 1.0 / expected, 0.1);
    }
}

/// RFC 5348 section 1: the rate of CCID 3 is within a factor of two of TCP's rate. RED drops packets of both schemes
/// with the same probability. A full drop-tail buffer favours CCID 3, because it drops more packets of CCID 2's bursts
/// than of CCID 3's paced packets.
#[test]
fn law_ccid3_and_ccid2_share_within_factor_two() {
    let share = |more: &str| {
        let bell = Bell { more, seconds: 300.0, warmup: 60.0, ..Bell::default() };
        let result = bell.run(&[("ccid2", "count = 3"), ("ccid3", "count = 3")]);
        let sum = |of: &[f64]| of.iter().sum::<f64>();
        let (goodputs, losses): (Vec<_>, Vec<_>) =
            result.flows.iter().map(|flow| (flow.goodput_mbit_s, flow.loss_percent)).unzip();
        println!("{more}: {goodputs:.3?}, {losses:.3?}");
        (sum(&goodputs[3..]) / sum(&goodputs[..3]), sum(&losses[3..]) / sum(&losses[..3]))
    };
    let (ratio, losses) = share("buffer = \"100pkt\"\nqueue = { kind = \"red\", min = \"10pkt\", max = \"50pkt\" }");
    assert!((0.5..=2.0).contains(&ratio), "{ratio}");
    assert_within("losses by RED", losses, 1.0, 0.1);
    let (ratio, losses) = share("buffer = \"1bdp\"");
    assert!(losses < 0.9 && ratio > 1.0, "{ratio} at {losses} of the losses");
}

/// The throughput of CCID 3 varies less than that of CCID 2, whose window halves. This is the purpose of CCID 3.
#[test]
fn law_ccid3_throughput_is_smoother_than_ccid2() {
    for p in ["0.3%", "1%", "3%"] {
        let bell = Bell { rate: "1gbit", more: &format!("loss = \"{p}\""), seconds: 120.0, warmup: 20.0 };
        let range = |scheme| {
            let result = bell.run(&[(scheme, "")]);
            let flow = &result.flows[0];
            flow.throughput_range_mbit_s.expect("sent packets") / flow.goodput_mbit_s
        };
        let (smooth, saw) = (range("ccid3"), range("ccid2"));
        assert!(smooth < 0.8 * saw, "{p}: ranges of {smooth} and {saw} of the means");
    }
}

/// Mean and standard error, over all seeds, of the goodput of a single flow at `p` percent loss.
fn over_seeds(scheme: &str, p: u32) -> [f64; 2] {
    let bell =
        Bell { rate: "20mbit", more: &format!("buffer = \"2bdp\"\nloss = \"{p}%\""), seconds: 60.0, warmup: 20.0 };
    let all: Vec<_> = (1..=SEEDS)
        .map(|seed| run(&format!("seed = {seed}\n{}", bell.text(&[(scheme, "")]))).flows[0].goodput_mbit_s)
        .collect();
    let n = f64::from(SEEDS);
    let mean = all.iter().sum::<f64>() / n;
    let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    [mean, f64::sqrt(variance / n)]
}

const SEEDS: u32 = 8;

/// Up to 20 % loss DCCP-BBR uses BBR's gains: constant gains (`loss_low` at its maximum) give the same events.
/// Above 20 % a probe of BBR delivers less than the estimate, because 1.25 (1 - p) < 1. The probe of DCCP-BBR
/// compensates up to 30 % loss, and beyond that its rate falls more slowly (at 35 % loss, the factor is 1.5 x 0.65 =
/// 0.975 against 0.81). Policer detection and packet conservation, which suppress the probe, are off.
#[test]
fn law_dccp_bbr_high_loss_keeps_rate_that_bbr_loses() {
    let model = "dccp-bbr:lt_bw=off";
    let fixed = format!("{model},loss_low=0.45,loss_high=0.45");
    let [bbr, adaptive] = [&*fixed, model].map(|scheme| [5, 15, 25, 35].map(|p| over_seeds(scheme, p)));
    println!("gains of BBR {bbr:.3?}, of DCCP-BBR {adaptive:.3?}");
    let most = |p: f64| 20.0 * 1448.0 / (1448.0 + HEADER) * (1.0 - p);
    for (n, p) in [0.05, 0.15, 0.25, 0.35].into_iter().enumerate() {
        let ([base, base_error], [mean, error]) = (bbr[n], adaptive[n]);
        if n == 0 {
            assert!((mean - base).abs() < 1e-9 && mean > 0.95 * most(p) && mean < most(p) * 1.01, "{mean} and {base}");
        } else {
            // With eight seeds, a difference of four standard errors is significant.
            let deviation = (mean - base) / f64::hypot(base_error, error);
            assert!(if n == 1 { deviation.abs() < 4.0 } else { deviation > 4.0 }, "{mean} and {base} at {p}");
        }
    }
    assert!([bbr, adaptive].iter().all(|means| means.is_sorted_by(|a, b| a[0] > b[0])));
}

/// A recovery lasts a round trip, because no data is retransmitted. During recovery, Linux's BBR conserves packets:
/// the window equals the delivered data. At 15 % loss, one recovery follows the other, so no probe delivers
/// more than the estimate, with both schemes over DCCP.
#[test]
fn law_bbr_packet_conservation_suppresses_probes() {
    let [bbr, whole, free] =
        ["bbr:lt_bw=off", "dccp-bbr:lt_bw=off,conserve=on", "dccp-bbr:lt_bw=off"].map(|scheme| over_seeds(scheme, 15));
    println!("bbr {bbr:.3?}, dccp-bbr {whole:.3?}, without conservation {free:.3?}");
    assert!((whole[0] - bbr[0]).abs() < 4.0 * f64::hypot(whole[1], bbr[1]));
    assert!(free[0] > 2.0 * whole[0]);
}

/// In 10 s the source sends 1 250 datagrams: the reported loss rate has standard deviation sqrt(p (1 - p) / 1250).
#[test]
fn dccp_bbr_sender_gets_loss_rate_of_ten_seconds() {
    let source = "app = { kind = \"cbr\", rate = \"1mbit\", write = \"1000B\" }";
    for p in [0.0, 0.02, 0.1, 0.3] {
        let bell = Bell { more: &format!("loss = \"{}%\"", p * 100.0), ..Bell::default() };
        let mut engine = Engine::new(spec(&bell.text(&[("dccp-bbr", source)])));
        let deviation = f64::sqrt(p * (1.0 - p) / 1_250.0);
        for second in [15, 20, 25, 30] {
            engine.run_until(Nanos::from_secs(second));
            let reported = internal(&engine, "loss_rate").expect("an internal of the scheme");
            assert!((reported - p).abs() <= 4.0 * deviation, "{reported} of {p} after {second} s");
        }
    }
}

/// All datagrams of a constant-rate source below capacity arrive, with only propagation and transmission delay.
#[test]
fn dccp_cbr_below_capacity_arrives_without_queueing() {
    let source = "app = { kind = \"cbr\", rate = \"1mbit\", write = \"1000B\" }";
    for scheme in ["ccid2", "ccid3", "dccp-bbr", "cubic"] {
        let result = Bell::default().run(&[(scheme, source)]);
        let reported = datagrams(&result);
        // 125 datagrams per second; the last one or two are still in flight.
        assert_eq!((reported.unsent, result.links[0].drops), (0, 0), "{scheme}");
        assert!((3_745..=3_750).contains(&reported.delivered), "{scheme}: {}", reported.delivered);
        assert_within(scheme, result.flows[0].goodput_mbit_s, 1.0, 0.002);
        // Delay: 20 ms one way and transmission of 1036 bytes at 10 Mbit/s. Packets that acknowledge ACKs are longer.
        let travel = 20.0 + (1000.0 + HEADER) * 8.0 / 10e3;
        println!("{scheme}: {reported:?}, travel {travel}");
        assert!((reported.delay_min_ms.unwrap() - travel).abs() < 0.001, "{scheme}");
        assert_within(scheme, reported.delay_p95_ms.unwrap(), travel, 0.016);
        // ProbeRTT: for 0.24 s of every 10 s, four packets may be in flight instead of 5.1, so at most 50 ms of data
        // queue up.
        let waits = if scheme == "dccp-bbr" { 0.05 * 0.3 / 10.0 * 1e3 } else { 0.05 };
        assert!((reported.delay_mean_ms.unwrap() - travel).abs() < waits, "{scheme}");
    }
}

/// If a sender is paced below the rate of its source, its queue of n datagrams is full, and the overflow policy
/// determines the age of delivered datagrams. With drop-newest each datagram waits for the whole queue, n / (served
/// rate). With drop-oldest the queue contains the newest n datagrams, and each waits n / (offered rate).
#[test]
fn dccp_overflow_policy_sets_queueing_delay() {
    // The source writes 250 datagrams of 1000 bytes per second, of which 125 can be sent.
    let delay = |overflow: &str| {
        let source = format!(
            "params = {{ rate = 1, window = 1e6 }}\napp = {{ kind = \"cbr\", rate = \"2mbit\", write = \"1000B\" }}\n\
             dccp = {{ queue = 50, overflow = \"{overflow}\" }}"
        );
        let result = Bell::default().run(&[("fixed", &source)]);
        let reported = datagrams(&result);
        println!("{overflow}: {reported:?}");
        // Each of the 7500 datagrams written in 30 s is delivered, dropped or still queued.
        let rest = 7_500 - (reported.delivered + reported.unsent);
        assert!((50..=56).contains(&rest), "{overflow}: {rest}");
        assert_within(overflow, result.flows[0].goodput_mbit_s, 1.0, 0.01);
        reported.delay_mean_ms.unwrap() - (20.0 + (1000.0 + HEADER) * 8.0 / 10e3)
    };
    // Tolerance: one datagram, the next to be sent.
    assert_within("drop-newest", delay("drop-newest"), 50.0 / 0.125, 0.03);
    assert_within("drop-oldest", delay("drop-oldest"), 50.0 / 0.250, 0.03);
}

/// A video source below capacity gets its rate, and only large frames are delayed.
#[test]
fn dccp_video_below_capacity_gets_its_rate() {
    let source = |rate: &str| {
        format!(
            "app = {{ kind = \"video\", rate = \"{rate}\", frames = 25, key_every = 25, key_size = 4, variation = 0.2 }}"
        )
    };
    for scheme in ["ccid2", "ccid3", "dccp-bbr"] {
        let bell = Bell { rate: "20mbit", seconds: 60.0, ..Bell::default() };
        let result = bell.run(&[(scheme, &source("2mbit"))]);
        let reported = datagrams(&result);
        println!("{scheme}: {} Mbit/s, {reported:?}", result.flows[0].goodput_mbit_s);
        assert_eq!(reported.unsent, 0, "{scheme}");
        // The size of each of 1375 frames (55 groups of 25) varies by 20 %: 0.2 / sqrt(1375) is half a percent.
        assert_within(scheme, result.flows[0].goodput_mbit_s, 2.0, 0.02);
        // The minimum delay is 20 ms for a packet of at least one byte. A frame of 10 kB is sent within two round trips
        // on average.
        let [least, mean, p95] =
            [reported.delay_min_ms, reported.delay_mean_ms, reported.delay_p95_ms].map(Option::unwrap);
        assert!((20.0..20.6).contains(&least) && mean < p95 && mean < 20.0 + 80.0, "{scheme}");
    }
}

/// A file completes, and its end closes the connection.
#[test]
fn dccp_file_completes_and_closes_connection() {
    // 1 000 001 bytes are 690 datagrams of 1448 bytes and one of 881.
    for (more, all) in [("buffer = \"4bdp\"", true), ("loss = \"1%\"", false)] {
        for scheme in ["ccid2", "ccid3", "dccp-bbr", "bbr3"] {
            let bell = Bell { more, warmup: 0.0, seconds: 60.0, ..Bell::default() };
            let result = bell.run(&[(scheme, "size = \"1000001B\"")]);
            let (flow, reported) = (&result.flows[0], datagrams(&result));
            let lost = flow.loss_percent / 100.0 * flow.packets_sent as f64;
            println!(
                "{scheme} {more}: {:?} s, {} sent, {lost:.0} lost, {reported:?}",
                flow.completion_s, flow.packets_sent
            );
            assert_eq!((flow.packets_sent, reported.unsent), (691, 0), "{scheme}");
            assert_eq!(reported.delivered + lost.round() as u64, 691, "{scheme}");
            assert_eq!(flow.bytes_delivered == 1_000_001, reported.delivered == 691, "{scheme}");
            assert_eq!(lost > 0.5, !all || result.links[0].drops > 0, "{scheme}");
            // The file cannot complete before the link has carried all its data.
            assert!(flow.completion_s.is_some_and(|s| s > 1.0 * 8.0 / 10.0), "{scheme}");
        }
    }
}

/// At any time, for every scheme, loss and application: a datagram that the application wrote was refused, is
/// queued or was sent. A sent datagram is in the network, was dropped there or has arrived. The sender counts each
/// packet as delivered, lost, unanswered (CCID 3's timer) or outstanding, and counts no more packets as delivered than
/// have arrived.
#[test]
fn law_dccp_every_datagram_is_counted_once() {
    let networks = [
        "buffer = \"20pkt\"\nloss = \"2%\"",
        "buffer = \"40pkt\"\nqueue = { kind = \"codel\", ecn = true }",
        "buffer = \"40pkt\"\nloss = { kind = \"gilbert-elliott\", to_bad = \"1%\", to_good = \"20%\", loss_bad = \"50%\" }",
        "buffer = \"40pkt\"\nreorder = { probability = \"5%\", delay = \"15ms\" }",
    ];
    let apps = ["", "app = { kind = \"video\", rate = \"12mbit\" }", "app = { kind = \"cbr\", rate = \"2mbit\" }"];
    for scheme in ["ccid2", "ccid3", "dccp-bbr", "bbr", "cubic"] {
        for (i, network) in networks.iter().enumerate() {
            let app = apps[i % apps.len()];
            let bell = Bell { more: network, seconds: 12.0, warmup: 0.0, ..Bell::default() };
            let more = format!("{app}\nstop = \"10s\"\ncount = 2");
            let mut engine = Engine::new(spec(&bell.text(&[(scheme, &more)])));
            let (mut most, mut sent) = (0, 0);
            // The step is not a multiple of a round trip or of a frame interval.
            for step in 1..=1_200 {
                engine.run_until(Nanos::from_micros(step * 9_973));
                let ledger = engine.packet_ledger();
                if !app.is_empty() {
                    assert_eq!(ledger.pushed, ledger.refused + ledger.queued + ledger.sent, "{scheme} {network}");
                }
                let network_has = ledger.in_network + ledger.dropped + ledger.arrived;
                assert_eq!(ledger.sent, network_has, "{scheme} {network}: {ledger:?}");
                let knows = ledger.delivered + ledger.lost + ledger.unanswered + ledger.outstanding;
                assert!(ledger.delivered <= ledger.arrived, "{scheme} {network}: {ledger:?}");
                assert_eq!(ledger.sent, knows, "{scheme} {network}: {ledger:?}");
                (most, sent) = (ledger.in_network.max(most), ledger.sent);
            }
            println!("{scheme} {network}: {sent} sent, up to {most} under way; {:?}", engine.packet_ledger());
            assert!(sent > 1_000 && most > 5, "{scheme} {network}: {sent} sent");
        }
    }
}

/// A failed or stopped flow does not complete.
#[test]
fn dccp_abandoned_or_stopped_flow_does_not_complete() {
    // The sender stops retransmitting the Request after three minutes (RFC 4340 section 8.1.1).
    let never = Bell { more: "loss = \"99.99%\"", warmup: 0.0, seconds: 200.0, ..Bell::default() };
    let result = never.run(&[("ccid2", "size = \"100kB\"")]);
    assert_eq!((result.flows[0].completion_s, result.flows[0].bytes_delivered), (None, 0));
    let stopped = Bell { warmup: 1.0, seconds: 10.0, ..Bell::default() };
    for scheme in ["ccid2", "ccid3", "dccp-bbr"] {
        let flow = &stopped.run(&[(scheme, "stop = \"5s\"")]).flows[0];
        assert_eq!(flow.completion_s, None, "{scheme}");
        // Goodput covers the four seconds from the warm-up to the stop; the connection closes a round trip later.
        let all = flow.bytes_delivered as f64 * 8.0 / 1e6;
        assert!(flow.goodput_mbit_s > all / 5.0 && flow.goodput_mbit_s <= 10.0, "{scheme}: {flow:?}");
    }
}

/// Every sent packet arrives or is lost, and no data is sent after a stop.
#[test]
fn dccp_stop_ends_sending_and_accounts_every_packet() {
    for scheme in ["ccid2", "ccid3", "dccp-bbr", "cubic"] {
        for loss in ["0%", "2%"] {
            let more = format!("buffer = \"20pkt\"\nloss = \"{loss}\"");
            let bell = Bell { more: &more, seconds: 20.0, warmup: 0.0, ..Bell::default() };
            let mut engine = Engine::new(spec(&bell.text(&[(scheme, "stop = \"10s\"")])));
            engine.run_until(Nanos::from_millis(10_100));
            let until = engine.delivered_packets();
            let result = engine.finish();
            let (flow, reported) = (&result.flows[0], datagrams(&result));
            let lost = (flow.loss_percent / 100.0 * flow.packets_sent as f64).round() as u64;
            println!("{scheme} {loss}: {} sent, {lost} lost, {} delivered", flow.packets_sent, reported.delivered);
            assert_eq!(reported.delivered + lost, flow.packets_sent, "{scheme}");
            assert_eq!((reported.delivered, reported.unsent), (until, 0), "{scheme}");
            assert!(reported.delivered > 500 && (lost > 0 || result.links[0].drops == 0), "{scheme}");
        }
    }
}

/// Schemes respond to ECN marks as to losses.
#[test]
fn dccp_ecn_marks_reduce_like_losses() {
    for scheme in ["ccid2", "ccid3", "dccp-bbr", "cubic"] {
        let queue = |own: &str| {
            let bell =
                Bell { more: "buffer = \"200pkt\"\nqueue = { kind = \"codel\", ecn = true }", ..Bell::default() };
            bell.run(&[(scheme, own)])
        };
        let (marked, dropped) = (queue(""), queue("dccp = { ecn = false }"));
        let [marks, drops] = [&marked, &dropped].map(|result| (result.links[0].marks, result.links[0].drops));
        println!("{scheme}: marks, drops {marks:?}, {drops:?}; {:?}, {:?}", goodputs(&marked), goodputs(&dropped));
        assert!(marks.0 > 0 && marks.1 == 0 && drops.0 == 0 && drops.1 > 0, "{scheme}");
        assert!(scheme == "ccid3" || marked.counters().ecn_reductions > 0, "{scheme}");
        // Marks limit the queue as losses do: the flow gets the link's rate, and CoDel limits the delay.
        assert_within(scheme, goodputs(&marked)[0], goodputs(&dropped)[0], 0.1);
        assert!(marked.links[0].queue_delay_mean_ms < 25.0, "{scheme}");
    }
}

/// Short sequence numbers save four bytes per datagram.
#[test]
fn dccp_short_sequence_numbers_save_four_bytes() {
    let measure = |dccp: &str| {
        let source = format!("app = {{ kind = \"cbr\", rate = \"1mbit\", write = \"100B\" }}\ndccp = {{ {dccp} }}");
        let result = Bell::default().run(&[("ccid3", &source)]);
        (result.flows[0].goodput_mbit_s, result.flows[0].throughput_mbit_s)
    };
    let ((long_goodput, long), (goodput, short)) = (measure(""), measure("short_sequence_numbers = true"));
    assert_within("goodput", goodput, long_goodput, 1e-3);
    assert_within("with 48 bits", long, 1.0 + HEADER / 100.0, 0.002);
    assert_within("with 24 bits", short, 1.0 + SHORT_HEADER / 100.0, 0.002);
}

/// While a link drops everything for five seconds, the sender stays nearly silent, and then recovers.
#[test]
fn dccp_dead_link_silences_sender_until_it_recovers() {
    for scheme in ["ccid2", "ccid3", "dccp-bbr", "cubic"] {
        let mut spec = spec(&Bell { seconds: 40.0, warmup: 0.0, ..Bell::default() }.text(&[(scheme, "")]));
        spec.links[0].config.loss_trace = Some(LossTrace::parse("10000 15000 1").expect("valid"));
        let mut engine = Engine::new(spec);
        let mut at = |ms: u64| {
            engine.run_until(Nanos::from_millis(ms));
            engine.flow(0).receiver().bytes_in_order as f64
        };
        let before = at(10_000);
        let (dead, alive, later, end) = (at(10_100), at(15_000), at(25_000), at(40_000));
        let lost = engine.finish().links[0].random_losses;
        println!("{scheme}: delivered {before}, {dead}, {alive}, {later}, {end}; {lost} lost");
        assert_eq!(alive.to_bits(), dead.to_bits(), "{scheme}: data arrives over a dead link");
        // Ten seconds after the outage the rate is the same as before.
        assert_within(scheme, (end - later) * 8e-6 / 15.0, 10.0 * 1448.0 / (1448.0 + HEADER), 0.05);
        // The outage drops a window of at most 67 packets (BDP and buffer). CCID 3's rate halves every four round
        // trips, so CCID 3 loses eight windows. Afterwards each expiry of a timer sends one packet: timers double from
        // a fifth of a second, and CCID 3 sends one packet in 16 s.
        let most = if scheme == "ccid3" { 8 * 67 } else { 67 + 10 };
        assert!((30..=most + 10).contains(&lost), "{scheme}: {lost} lost");
    }
}

/// Two runs of a scenario process the same events.
#[test]
fn dccp_same_scenario_gives_same_events() {
    let text = Bell { more: "loss = \"1%\"\nbuffer = \"1bdp\"", ..Bell::default() }.text(&[
        ("ccid2", ""),
        ("ccid3", "app = { kind = \"video\", rate = \"3mbit\" }"),
        ("dccp-bbr", ""),
    ]);
    let [one, two] = [run(&text), run(&text)];
    assert_eq!((one.event_hash, one.events), (two.event_hash, two.events));
}
