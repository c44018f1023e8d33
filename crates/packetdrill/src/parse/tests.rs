use narrows_packet::Ecn;

use super::parse;
use crate::script::{Action, Call, Options, Problem, Segment, TcpFlags, Time, Value};

/// The only event of a script.
fn action(text: &str) -> Action {
    let mut script = parse(text).unwrap();
    assert_eq!(script.events.len(), 1, "{text}");
    script.events.remove(0).action
}

fn segment(text: &str) -> Segment {
    match action(text) {
        Action::Inbound(segment) | Action::Outbound(segment) => segment,
        other => panic!("{text}: {other:?}"),
    }
}

fn call(text: &str) -> Call {
    match action(text) {
        Action::Call { call, .. } => call,
        other => panic!("{text}: {other:?}"),
    }
}

fn refusal(text: &str) -> Problem {
    parse(text).unwrap_err()
}

/// Every form of a time is parsed.
#[test]
fn parse_times_have_their_forms() {
    let time = |text: &str| parse(&format!("{text} > . 1:1(0) ack 1")).unwrap().events[0].time;
    let at = |first: u64, last: u64, relative, range| Time::At {
        first: first * 1_000_000,
        last: last * 1_000_000,
        relative,
        range,
    };
    assert_eq!(time("0.25"), at(250, 250, false, false));
    assert_eq!(time("+.1"), at(100, 100, true, false));
    assert_eq!(time("+2"), at(2000, 2000, true, false));
    assert_eq!(time("1~1.5"), at(1000, 1500, false, true));
    assert_eq!(time("+.1~+.2"), at(100, 200, true, true));
    assert_eq!(time("*"), Time::Any);
}

/// Every field of a packet is parsed.
#[test]
fn parse_packet_reads_every_field() {
    let all =
        segment("+0 < [ce] FPEW. 1001:2001(1000) ack 7 win 257 <nop,nop,TS val 5 ecr 6,sack 1:2 3:4,nop,wscale 8>");
    let flags = TcpFlags { fin: true, psh: true, ece: true, cwr: true, ack: true, ..TcpFlags::default() };
    let options =
        Options { timestamps: Some((5, 6)), sack: vec![(1, 2), (3, 4)], window_scale: Some(8), ..Options::default() };
    let expected =
        Segment { flags, seq: 1001, len: 1000, ack: 7, window: Some(257), ecn: Some(Ecn::Ce), options: Some(options) };
    assert_eq!(all, expected);
    let syn = segment("+0 > SEW 0:0(0) <mss 1460,sackOK,eol>").options.unwrap();
    assert_eq!((syn.mss, syn.sack_ok), (Some(1460), true));
    assert_eq!(segment("+0 > S. 0:0(0) ack 1 <...>").options, None);
    assert_eq!(segment("+0 < - 1:11(10) win 5").flags, TcpFlags::default());
}

/// The `<` of options is not taken for the next inbound packet.
#[test]
fn parse_separates_options_from_next_packet() {
    let script = parse("+0 > . 1:1(0) ack 1\n+0 < . 1:1(0) ack 1 win 5 <sack 2:3>\n0.5 < R 1:1(0)").unwrap();
    assert_eq!(script.events.iter().map(|event| event.line).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Arguments of every kind, result and error of a call are parsed, and the return time of a blocking call.
#[test]
fn parse_call_reads_arguments_and_result() {
    let connect = call("+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now (really) in progress)");
    assert_eq!((connect.result, connect.errno.as_deref()), (Some(-1), Some("EINPROGRESS")));
    assert_eq!(connect.args, [Value::Int(3), Value::Ellipsis, Value::Ellipsis]);
    let set = call("+0 setsockopt(4, SOL_TCP, TCP_CONGESTION, \"reno\", 4) = 0");
    assert_eq!(set.args[3], Value::Text("reno".to_owned()));
    let control = call("+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0x2 (flags O_RDWR)");
    assert!(control.args[2].has("O_NONBLOCK") && control.result == Some(2));
    let message = call("+0 sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 40}, {..., 5}], msg_flags=0}, 0) = ?");
    assert_eq!(message.result, None);
    assert_eq!(message.args[1].field("msg_iov").unwrap().items().len(), 2);
    match action("+.1...0.2 read(4, ..., 10) = 10") {
        Action::Call { end, .. } => assert_eq!(end, Some(200_000_000)),
        other => panic!("{other:?}"),
    }
}

/// Options, setup, events and cleanup of a script are parsed.
#[test]
fn parse_script_has_four_parts() {
    let script = parse(
        "// remark\n--tolerance_usecs=7000\n--dry_run\n`a\nb`\n+0 `c`\n/* two\nlines */ +0 %{ assert 1 }%\n`d`\n",
    )
    .unwrap();
    let options: Vec<_> = script.options.iter().map(|own| (own.name.as_str(), own.value.as_str())).collect();
    assert_eq!(options, [("tolerance_usecs", "7000"), ("dry_run", "")]);
    assert_eq!(script.setup, Some((4, "a\nb".to_owned())));
    assert_eq!(script.events.len(), 2);
    assert_eq!(script.events[1].line, 8);
    assert_eq!(script.cleanup, Some((9, "d".to_owned())));
}

/// Syntax errors name the line and the accepted text.
#[test]
fn parse_refusals_name_line_and_accepted() {
    for (text, line, reason) in [
        ("", 1, "no events"),
        ("+0 ! 1:1(0)", 1, "'!' found; accepted: a packet (< or >), a system call"),
        ("\n+0 < . 1:5(3) ack 1 win 5", 2, "1:5(3): the length is not the difference"),
        ("+0 < . 1:1(0) ack 1 <...>", 1, "<...> can only stand in a packet that is sent"),
        ("* < . 1:1(0) ack 1", 1, "only a packet sent (>) may have '*' or a range"),
        ("+.2~+.1 > . 1:1(0) ack 1", 1, "the time range is backwards"),
        ("+.2~.3 > . 1:1(0) ack 1", 1, "one end of the time range is relative"),
        ("+.2....1 read(3, ..., 1) = 1", 1, "the call would end before it begins"),
        ("+0 > Q. 1:1(0) ack 1", 1, "'Q.' are no flags; accepted: the letters S F R P E W"),
        ("+0 > . 1:1(0) ack 99999999999999999999", 1, "too large for a number"),
        ("+0 write(3, ..., 1)", 1, "the end found; accepted: '='"),
    ] {
        let problem = refusal(text);
        assert!(!problem.skips && problem.line == line, "{text}: {problem:?}");
        assert!(problem.reason.contains(reason) && problem.reason.starts_with("syntax: "), "{problem:?}");
    }
}

/// Unsupported features skip the script.
#[test]
fn parse_unsupported_packets_skip() {
    for (text, reason) in [
        ("+0 < icmp unreachable mtu 1000", "icmp packets"),
        ("+0 < [1:1001(1000)] icmp unreachable frag_needed mtu 600", "icmp packets"),
        ("+0 < . 1:1(0) ack 1 win 5 urg 1", "urgent data"),
        ("+0 > S 0:0(0) <mss 1460,FO>", "TCP option 'FO'"),
        ("+0 < [tos 0x10] . 1:1(0) ack 1", "[tos]"),
        ("+0 < 80 > 8080 . 1:1(0) ack 1", "port numbers"),
        ("+0 > SA. 0:0(0) ack 1", "no AccECN"),
    ] {
        let problem = refusal(text);
        assert!(problem.skips && problem.reason.contains(reason), "{text}: {problem:?}");
    }
}
