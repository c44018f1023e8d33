use crate::{Report, Verdict, run};

/// A server with segments of 1000 bytes and an RTT of 100 ms, connected at 0.1 s.
const OPEN: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 8>
+0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 7>
+.1 < . 1:1(0) ack 1 win 1000
+0 accept(3, ..., ...) = 4
";

/// Runs a script with a handshake and then these events, whose first line has number 1 in the report.
fn after_open(text: &str) -> Report {
    let mut report = run(&format!("{OPEN}{text}"), &|_| None);
    report.line = report.line.map(|line| line.saturating_sub(OPEN.lines().count()));
    report
}

#[track_caller]
fn fails(text: &str, line: usize, reason: &str) {
    let report = after_open(text);
    assert_eq!((report.verdict, report.line), (Verdict::Fail, Some(line)), "{}", report.reason);
    assert!(report.reason.contains(reason), "{}", report.reason);
}

#[track_caller]
fn passes(text: &str) {
    let report = after_open(text);
    assert_eq!(report.verdict, Verdict::Pass, "line {:?}: {}", report.line, report.reason);
}

const TEN: &str = "+0 write(4, ..., 10000) = 10000\n+0 > P. 1:10001(10000) ack 1\n";

/// A packet of the script may be sent as several packets, unless `--strict_segments` is set.
#[test]
fn runner_joins_segments_unless_strict() {
    passes(TEN);
    passes("+0 write(4, ..., 2000) = 2000\n+0 > . 1:1001(1000) ack 1\n+0 > P. 1001:2001(1000) ack 1");
    let strict = format!("--strict_segments\n{OPEN}{TEN}");
    let report = run(&strict, &|_| None);
    assert_eq!(report.verdict, Verdict::Fail);
    assert!(report.reason.contains("(length)"), "{}", report.reason);
}

/// If an expected packet does not leave, leaves at another time or differs, the script fails at its line.
#[test]
fn runner_wrong_packets_fail_at_their_line() {
    fails(
        "+0 write(4, ..., 1000) = 1000\n+0 > P. 1:2001(2000) ack 1",
        2,
        "seen . 1:1001(1000) ack 1 at 0.1 s (length)",
    );
    fails("+0 > . 1:1001(1000) ack 1", 1, "expected . 1:1001(1000) ack 1 at 0.1 s; seen nothing until 0.104 s");
    fails(&format!("{TEN}+0 > . 10001:10001(0) ack 1"), 3, "seen nothing until");
    fails(&format!("{TEN}+.1 < . 1:1(0) ack 10001 win 1000\n+.5 > . 10001:11001(1000) ack 1"), 4, "seen nothing");
    fails("+0 write(4, ..., 1000) = 1000\n+.1 > P. 1:1001(1000) ack 1", 2, "at 0.1 s (time; tolerance 0.0125 s)");
    fails("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 2", 2, "(acknowledgement number)");
    fails("+0 write(4, ..., 1000) = 1000\n+0 > F. 1:1001(1000) ack 1", 2, "(flags)");
    fails("+0 write(4, ..., 1000) = 1000\n+0 > [ect0] P. 1:1001(1000) ack 1", 2, "seen [noecn] . 1:1001");
    fails("+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1 <nop,nop,TS val 1 ecr 1>", 2, "(TCP options)");
}

/// A script fails at a packet that it does not expect: a packet before an expected packet, the rest of a burst, or a
/// packet that a timer sends.
#[test]
fn runner_unexpected_packets_fail() {
    fails(
        "+0 write(4, ..., 2000) = 2000\n+0 > . 1:1001(1000) ack 1\n+.1 < . 1:1(0) ack 2001 win 1000\n\
         +0 write(4, ..., 500) = 500\n+0 > P. 2001:2501(500) ack 1",
        5,
        "seen . 1001:2001(1000) ack 1 at 0.1 s (sequence number)",
    );
    fails(
        "+0 write(4, ..., 2000) = 2000\n+0 > . 1:1001(1000) ack 1\n+.1 < . 1:1(0) ack 2001 win 1000",
        2,
        "expected no more packets; seen",
    );
    // The unexpected packet is a tail-loss probe.
    fails(&format!("{TEN}+1 < . 1:1(0) ack 10001 win 1000"), 2, "expected no more packets; seen");
    // Reactions to events after the last expected packet are not compared.
    passes(
        "+0 write(4, ..., 15000) = 15000\n+0 > P. 1:10001(10000) ack 1\n+.1 < . 1:1(0) ack 5001 win 1000\n+.01 %{ assert 1 }%",
    );
}

/// A false assertion fails with the observed values; unknown names are refused before any event runs.
#[test]
fn runner_false_assertion_shows_values() {
    passes(&format!("{TEN}+0 %{{ assert tcpi_unacked == 10 and tcpi_snd_cwnd == 10 and tcpi_lost == 0 }}%"));
    // The first RTT sample is 100 ms: the deviation is half of the sample, and the timeout is 100 + 4 x 50 ms.
    passes("+0 %{ assert tcpi_rtt == 100000 and tcpi_rttvar == 50000 and tcpi_rto == 300000 }%");
    fails(
        &format!("{TEN}+0 %{{ assert tcpi_unacked == 9, tcpi_unacked }}%"),
        3,
        "expected tcpi_unacked == 9; seen tcpi_unacked = 10",
    );
    let report = after_open("+0 write(4, ..., 1) = 5\n+0 %{ assert tcpi_snd_wscale == 1 }%");
    assert_eq!((report.verdict, report.line), (Verdict::Skip, Some(2)));
    assert_eq!(report.reason, "there is no tcpi_snd_wscale here");
}

/// Results of calls are compared; unsupported calls skip the script.
#[test]
fn runner_compares_results_of_calls() {
    fails("+0 read(4, ..., 100) = 100", 1, "read(): expected to return at once; seen it block");
    passes("+0 < . 1:101(100) ack 1 win 1000\n* > . 1:1(0) ack 101\n+0 read(4, ..., 100) = 100");
    passes("+0 shutdown(4, SHUT_WR) = 0\n+0 > F. 1:1(0) ack 1\n+0 write(4, ..., 10) = -1 EPIPE (Broken pipe)");
    fails("+0 write(4, ..., 10) = -1 EPIPE (Broken pipe)", 1, "expected write() = -1 EPIPE; seen 10");
    fails("+0 getsockopt(4, SOL_TCP, TCP_MAXSEG, [900], [4]) = 0", 1, "TCP_MAXSEG: expected [900]; seen [1000]");
    let report = after_open("+0 splice(4, NULL, 6, NULL, 99, 0) = 99");
    assert_eq!((report.verdict, report.reason.as_str()), (Verdict::Skip, "system call splice()"));
}

/// A blocked call must return at the stated time, not earlier or later.
#[test]
fn runner_blocked_calls_return_in_time() {
    let read = |end: &str| {
        format!("+0...{end} read(4, ..., 100) = 100\n+.1 < . 1:101(100) ack 1 win 1000\n* > . 1:1(0) ack 101")
    };
    passes(&read("0.1"));
    fails(&read("0.05"), 1, "read(): expected to return at 0.15 s; seen to return at 0.2 s");
    let never = "+0...0.05 read(4, ..., 100) = 100\n+.2 %{ assert 1 }%";
    fails(never, 1, "read(): expected to return at 0.15 s; seen it block");
    fails(&read("0.3"), 1, "read(): expected to return at 0.4 s; seen to return at 0.2 s");
}

/// Timestamps of a script are mapped to timestamps of the endpoint; ticks are compared with the clock.
#[test]
fn runner_maps_timestamps() {
    let script = |second: u32| {
        format!(
            "--tcp_ts_tick_usecs=1000\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 listen(3, 1) = 0\n\
             +0 < S 0:0(0) win 65535 <mss 1000,sackOK,TS val 7 ecr 0>\n\
             +0 > S. 0:0(0) ack 1 <mss 1460,sackOK,TS val 500 ecr 7>\n\
             +.1 < . 1:1(0) ack 1 win 65535 <nop,nop,TS val 8 ecr 500>\n+0 accept(3, ..., ...) = 4\n\
             +1 write(4, ..., 988) = 988\n+0 > P. 1:989(988) ack 1 <nop,nop,TS val {second} ecr 8>\n"
        )
    };
    let good = run(&script(1600), &|_| None);
    assert_eq!(good.verdict, Verdict::Pass, "{}", good.reason);
    let bad = run(&script(2600), &|_| None);
    assert_eq!((bad.verdict, bad.line), (Verdict::Fail, Some(9)));
    assert!(bad.reason.contains("timestamp: expected 2100000 us"), "{}", bad.reason);
}
