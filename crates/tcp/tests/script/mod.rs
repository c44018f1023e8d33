//! The interpreter of packet scripts; `scripts.rs` describes their language.

use std::fmt::Write as _;

use narrows_cc::{Bytes, Nanos, Phase, Random, Rate, Value};
use narrows_packet::{Ecn, Flags, Packet, timestamp};
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

use crate::common::scheme;

enum End {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

impl End {
    fn deadline(&self) -> Nanos {
        match self {
            Self::Sender(end) => end.deadline(),
            Self::Receiver(end) => end.deadline(),
        }
    }

    fn on_timer(&mut self, now: Nanos) {
        match self {
            Self::Sender(end) => end.on_timer(now),
            Self::Receiver(end) => end.on_timer(now),
        }
    }

    fn on_packet(&mut self, now: Nanos, packet: &Packet) {
        match self {
            Self::Sender(end) => drop(end.on_packet(now, packet)),
            Self::Receiver(end) => drop(end.on_packet(now, packet)),
        }
    }

    fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        match self {
            Self::Sender(end) => end.poll_transmit(now),
            Self::Receiver(end) => end.poll_transmit(now),
        }
    }
}

/// A running script.
struct Run {
    config: TcpConfig,
    app: AppConfig,
    end: Option<End>,
    kind: String,
    show: Vec<String>,
    now: Nanos,
    /// Packets sent and packets expected, as text.
    sent: Vec<String>,
    expected: Vec<String>,
    /// Last departure time of each packet, for timestamp echoes; 0 is the SYN.
    left: Vec<Nanos>,
    /// Previous acknowledgement and its echo.
    acknowledged: (u64, Nanos),
    failures: Vec<String>,
    /// Changes the settings before the end starts.
    flip: Flip,
}

/// A default taken back.
#[derive(Clone, Copy)]
pub enum Flip {
    None,
    Config(fn(&mut TcpConfig)),
    /// A parameter of CUBIC.
    Param(&'static str, f64),
}

fn millis(text: &str) -> Nanos {
    let value: f64 = text.parse().unwrap_or_else(|_| panic!("'{text}' is no time in milliseconds"));
    Nanos::from_nanos((value * 1e6).round() as u64)
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("'{text}' is no number"))
}

/// `3` or `3-5`.
fn range(text: &str) -> (u64, u64) {
    match text.split_once('-') {
        Some((low, high)) => (number(low), number(high)),
        None => (number(text), number(text)),
    }
}

fn show_range(low: u64, high: u64) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

impl Run {
    fn new() -> Self {
        Self {
            config: TcpConfig { segment: 1000, ..TcpConfig::default() },
            app: AppConfig::Bulk,
            end: None,
            kind: String::new(),
            show: Vec::new(),
            now: Nanos::ZERO,
            sent: Vec::new(),
            expected: Vec::new(),
            left: vec![Nanos::ZERO],
            acknowledged: (0, Nanos::ZERO),
            failures: Vec::new(),
            flip: Flip::None,
        }
    }

    fn segment(&self) -> u64 {
        u64::from(self.config.segment)
    }

    fn configure(&mut self, setting: &str) {
        let (key, value) = setting.split_once('=').expect("a setting is key=value");
        let config = &mut self.config;
        match key {
            "profile" if value == "rfc" => {
                let segment = config.segment;
                *config =
                    TcpConfig { segment, max_burst: Bytes::new(u64::from(segment)), ..TcpConfig::rfc() };
            }
            "sack" => config.sack = value == "true",
            "rack" => config.rack = value == "true",
            "tlp" => config.tlp = value == "true",
            "ecn" => config.ecn = value == "true",
            "ecn_precise" => config.ecn_precise = value == "true",
            "timestamps" => config.timestamps = value == "true",
            "tso" => config.tso = value == "true",
            "max_burst" => config.max_burst = Bytes::new(number(value)),
            "quick_acks" => config.quick_acks = number(value) as u32,
            "quick_growth" => config.quick_growth = value == "true",
            "sack_compression" => config.sack_compression = value == "true",
            "initial_window" => config.initial_window = number(value) as u32,
            "ack_every" => config.ack_every = number(value) as u32,
            "ack_delay" => config.ack_delay = millis(value),
            "min_rto" => config.min_rto = millis(value),
            "receive_window" => config.receive_window = Bytes::new(number(value)),
            "receive_autotuning" => config.receive_autotuning = value == "true",
            _ => panic!("no setting '{key}'"),
        }
    }

    fn set_app(&mut self, words: &[&str]) {
        let bytes = |text: &str| Bytes::new(number(text) * self.segment());
        self.app = match words {
            ["bulk"] => AppConfig::Bulk,
            ["file", n] => AppConfig::File(bytes(n)),
            ["once", n] => AppConfig::Cbr { rate: Rate::ZERO, write: bytes(n) },
            ["cbr", n, every] => AppConfig::Cbr { rate: bytes(n).per(millis(every)), write: bytes(n) },
            _ => panic!("no such application: {words:?}"),
        };
    }

    fn start(&mut self, words: &[&str]) {
        self.kind = words.join(" ");
        if let Flip::Config(change) = self.flip {
            change(&mut self.config);
        }
        self.end = Some(match words {
            ["receiver"] => End::Receiver(Box::new(Receiver::new(0, &self.config))),
            ["sender", name, params @ ..] => {
                let mut params: Vec<(&str, f64)> = params
                    .iter()
                    .map(|p| p.split_once('=').expect("a parameter is key=value"))
                    .map(|(key, value)| (key, value.parse().expect("a number")))
                    .collect();
                if let (Flip::Param(key, value), "cubic") = (self.flip, *name) {
                    params.push((key, value));
                }
                let app = App::new(self.app, Random::stream(1, "app", 0), Nanos::ZERO);
                let scheme = scheme(name, &params, &self.config);
                End::Sender(Box::new(Sender::new(0, self.config.clone(), scheme, app, Nanos::ZERO)))
            }
            _ => panic!("no such end: {words:?}"),
        });
    }

    /// Lets all timers before `time` fire, and those at `time` too if `inclusive`.
    fn advance(&mut self, time: Nanos, inclusive: bool) {
        let mut fired = 0;
        loop {
            let end = self.end.as_mut().expect("a script begins with its settings");
            let deadline = end.deadline();
            if deadline > time || (deadline == time && !inclusive) {
                break;
            }
            self.now = deadline.max(self.now);
            end.on_timer(self.now);
            self.transmit();
            fired += 1;
            assert!(fired < 10_000, "timers fire without end at {:?}", self.now);
        }
        self.now = time;
    }

    fn transmit(&mut self) {
        while let Some(packet) = self.end.as_mut().and_then(|end| end.poll_transmit(self.now)) {
            let text = self.describe(&packet);
            let number = (packet.seq_end() - 1) / self.segment();
            if packet.payload > 0 {
                self.left.resize(self.left.len().max(number as usize + 1), self.now);
                self.left[number as usize] = self.now;
            }
            self.sent.push(format!("{:>9} > {text}", self.now.as_millis_f64()));
        }
    }

    /// Describes a packet in the notation of scripts.
    fn describe(&self, packet: &Packet) -> String {
        let segment = self.segment();
        let up_to = |seq: u64| seq.saturating_sub(1) / segment;
        let mut text = String::new();
        let flags = packet.flags;
        let reverse = flags.has(Flags::REVERSE);
        if flags.has(Flags::SYN) {
            text += if flags.has(Flags::ACK) { "syn-ack" } else { "syn" };
        } else if packet.payload > 0
            && (packet.tcp().seq - 1).is_multiple_of(segment)
            && u64::from(packet.payload) == segment
        {
            let _ = write!(text, "data {}", up_to(packet.tcp().seq) + 1);
        } else if packet.payload > 0 {
            let _ = write!(text, "bytes {}-{}", packet.tcp().seq, packet.seq_end() - 1);
        } else if flags.has(Flags::FIN) && !reverse {
            let _ = write!(text, "fin {}", up_to(packet.tcp().seq) + 1);
        } else if reverse {
            let _ = write!(text, "ack {}", up_to(packet.tcp().ack));
        } else {
            let _ = write!(text, "bare {}", packet.tcp().seq);
        }
        if flags.has(Flags::FIN) && reverse {
            text += " fin";
        }
        let mut kind = "";
        for (start, end) in packet.sack_blocks() {
            let duplicate = kind.is_empty() && end <= packet.tcp().ack;
            let next = if duplicate { " dsack" } else { " sack" };
            text += if kind == next { "" } else { next };
            kind = next;
            let _ = write!(text, " {}", show_range(up_to(start) + 1, up_to(end)));
        }
        if flags.has(Flags::RETRANSMISSION) {
            text += " again";
        }
        if flags.has(Flags::ECE) {
            text += " ece";
        }
        if flags.has(Flags::CWR) {
            text += " cwr";
        }
        match packet.ecn() {
            Ecn::Ect0 => text += " ect0",
            Ecn::Ect1 => text += " ect1",
            Ecn::Ce => text += " ce",
            Ecn::NotEct => {}
        }
        if self.show.iter().any(|s| s == "window") {
            let _ = write!(text, " window={}", packet.tcp().window);
        }
        if self.show.iter().any(|s| s == "echo") {
            let _ = write!(text, " echo={}", f64::from(packet.tcp().ts_ecr) / 1e3);
        }
        text
    }

    /// Parses a packet from the notation of scripts.
    fn packet(&mut self, words: &[&str]) -> Packet {
        let segment = self.segment();
        let mut packet = Packet::new(0);
        *packet.tcp_mut().window = self.config.receive_window.as_u64().min(u64::from(u32::MAX)) as u32;
        *packet.tcp_mut().ts_val = timestamp(self.now);
        let mut rest = words.iter().copied().peekable();
        let mut echo = None;
        let mut blocks = Vec::new();
        while let Some(word) = rest.next() {
            let mut argument = || rest.next().expect("a word is missing");
            match word {
                "syn" => packet.flags = packet.flags.with(Flags::SYN),
                "syn-ack" => {
                    packet.flags = packet.flags.with(Flags::SYN).with(Flags::ACK).with(Flags::REVERSE);
                    *packet.tcp_mut().ack = 1;
                    echo = Some(self.left[0]);
                }
                "data" => {
                    *packet.tcp_mut().seq = (number(argument()) - 1) * segment + 1;
                    packet.payload = segment as u16;
                    packet.flags = packet.flags.with(Flags::ACK);
                }
                "fin" => {
                    *packet.tcp_mut().seq = (number(argument()) - 1) * segment + 1;
                    packet.flags = packet.flags.with(Flags::ACK).with(Flags::FIN);
                }
                "probe" => *packet.tcp_mut().seq = number(argument()) * segment,
                "ack" => {
                    let n = argument();
                    packet.flags = packet.flags.with(Flags::ACK).with(Flags::REVERSE);
                    let n = number(n);
                    *packet.tcp_mut().ack = n * segment + 1;
                    let (before, echo_before) = self.acknowledged;
                    echo = Some(if n > before { self.left[before as usize + 1] } else { echo_before });
                }
                // Everything including the FIN after packet N.
                "ack-fin" => {
                    packet.flags = packet.flags.with(Flags::ACK).with(Flags::FIN).with(Flags::REVERSE);
                    *packet.tcp_mut().ack = number(argument()) * segment + 2;
                }
                "dsack" => blocks.push(range(argument())),
                "sack" => {
                    while let Some(block) = rest.next_if(|w| w.starts_with(|c: char| c.is_ascii_digit())) {
                        blocks.push(range(block));
                    }
                }
                "ece" => packet.flags = packet.flags.with(Flags::ECE),
                "cwr" => packet.flags = packet.flags.with(Flags::CWR),
                "ce" => packet.set_ecn(Ecn::Ce),
                "ect0" => packet.set_ecn(Ecn::Ect0),
                other => match other.split_once('=') {
                    Some(("window", value)) => *packet.tcp_mut().window = number(value) as u32,
                    Some(("echo", value)) => echo = Some(millis(value)),
                    _ => panic!("what is '{other}'?"),
                },
            }
        }
        *packet.tcp_mut().ts_ecr = timestamp(echo.unwrap_or(Nanos::ZERO));
        self.acknowledged = (packet.tcp().ack.saturating_sub(1) / segment, echo.unwrap_or(Nanos::ZERO));
        for (low, high) in blocks {
            packet.push_sack((low - 1) * segment + 1, high * segment + 1);
        }
        packet
    }

    fn check(&mut self, words: &[&str], line: usize) {
        let Some(End::Sender(sender)) = &self.end else { panic!("only a sender's state can be looked at") };
        for word in words {
            let (key, value) = word.split_once('=').expect("a check is key=value");
            let segments = |bytes: Bytes| (bytes.as_f64() / f64::from(self.config.segment)).to_string();
            let stats = sender.stats();
            let found = match key {
                "phase" => match sender.phase() {
                    Phase::Open => "open".into(),
                    Phase::Recovery => "recovery".into(),
                    Phase::Loss => "loss".into(),
                },
                "window" => segments(sender.window()),
                "inflight" => segments(sender.inflight()),
                "ssthresh" => {
                    let mut ssthresh = String::from("none");
                    sender.scheme().telemetry(&mut |name, value| {
                        if let ("ssthresh", Value::Bytes(bytes)) = (name, value) {
                            ssthresh = segments(bytes);
                        }
                    });
                    ssthresh
                }
                "srtt" => sender.srtt().map_or(0.0, Nanos::as_millis_f64).to_string(),
                "app_limited" => sender.is_app_limited().to_string(),
                "closed" => sender.is_closed().to_string(),
                "retransmits" => stats.retransmits.to_string(),
                "recoveries" => stats.recoveries.to_string(),
                "timeouts" => stats.timeouts.to_string(),
                "spurious" => stats.spurious_recoveries.to_string(),
                "probes" => stats.tlp_probes.to_string(),
                "ecn_reductions" => stats.ecn_reductions.to_string(),
                _ => panic!("nothing called '{key}' to check"),
            };
            if found != value {
                let at = self.now.as_millis_f64();
                self.failures.push(format!("line {line}, at {at}: {key} is {found}, not {value}"));
            }
        }
    }

    fn line(&mut self, words: &[&str], line: usize) {
        match words {
            ["config", settings @ ..] => settings.iter().for_each(|s| self.configure(s)),
            ["app", rest @ ..] => self.set_app(rest),
            ["show", rest @ ..] => self.show = rest.iter().map(ToString::to_string).collect(),
            ["sender" | "receiver", ..] => self.start(words),
            [time, "<", rest @ ..] => {
                self.advance(millis(time), false);
                let packet = self.packet(rest);
                self.end.as_mut().expect("settings first").on_packet(self.now, &packet);
                self.transmit();
            }
            [time, ">", rest @ ..] => {
                let time = millis(time).as_millis_f64();
                // `data 1-10` stands for ten packets.
                let many = rest.len() > 1 && matches!(rest[0], "data") && rest[1].contains('-');
                let (low, high) = if many { range(rest[1]) } else { (0, 0) };
                for n in low..=high {
                    let mut text = rest.join(" ");
                    if many {
                        text = text.replacen(rest[1], &n.to_string(), 1);
                    }
                    self.expected.push(format!("{time:>9} > {text}"));
                }
            }
            [time, "?", rest @ ..] => {
                self.advance(millis(time), true);
                self.check(rest, line);
            }
            [time, "stop"] => {
                self.advance(millis(time), true);
                if let Some(End::Sender(sender)) = &mut self.end {
                    sender.stop(self.now);
                }
                self.transmit();
            }
            [time, "end"] => self.advance(millis(time), true),
            _ => panic!("line {line} is not understood: {words:?}"),
        }
    }

    /// Differences between packets sent and expected; empty if there are none.
    fn differences(&self) -> String {
        let mut text = String::new();
        if self.sent != self.expected {
            let _ = writeln!(text, "    {:<36} sent", "expected");
            for i in 0..self.sent.len().max(self.expected.len()) {
                let (a, b) = (self.expected.get(i), self.sent.get(i));
                let mark = if a == b { "   " } else { "!! " };
                let none = String::from("-");
                let _ = writeln!(text, "{mark} {:<36} {}", a.unwrap_or(&none), b.unwrap_or(&none));
            }
        }
        for failure in &self.failures {
            let _ = writeln!(text, "!!  {failure}");
        }
        text
    }
}

/// Runs a script with a default taken back; returns the differences from what it expects, empty if there are none.
pub fn run_with(script: &str, flip: Flip) -> String {
    let mut run = Run { flip, ..Run::new() };
    for (i, line) in script.lines().enumerate() {
        let code = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = code.split_whitespace().collect();
        if !words.is_empty() {
            run.line(&words, i + 1);
        }
    }
    run.differences()
}

/// Runs a script; returns the differences from what it expects, empty if there are none.
pub fn run(script: &str) -> String {
    run_with(script, Flip::None)
}
