//! A parsed script.

use std::fmt;

use narrows_packet::Ecn;

/// Why a script cannot be run, or did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) line: usize,
    pub(crate) reason: String,
    /// The script asks for something that the endpoint does not have; otherwise it failed.
    pub(crate) skips: bool,
}

impl Problem {
    /// The text is no script.
    pub(crate) fn syntax(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: format!("syntax: {}", reason.into()), skips: false }
    }

    /// The endpoint did something else than the script expects.
    pub(crate) fn failure(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), skips: false }
    }

    /// The script needs what the endpoint does not have.
    pub(crate) fn unsupported(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), skips: true }
    }
}

/// A script: options, shell commands before the first event, and events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// `--name=value` lines.
    pub(crate) options: Vec<Setting>,
    /// Shell text at the head, with its line.
    pub(crate) setup: Option<(usize, String)>,
    pub(crate) events: Vec<Event>,
    /// Shell text after the last event: it restores settings and is not run.
    pub(crate) cleanup: Option<(usize, String)>,
}

/// An option line.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Something that happens, or is expected to happen.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) line: usize,
    pub(crate) time: Time,
    pub(crate) action: Action,
}

/// Time of an event, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// `*`.
    Any,
    /// `0.5`, `+.1`, `.1~.2`, `+.1~+.2`: from `first` to `last`, after the previous event if `relative`.
    At { first: u64, last: u64, relative: bool, range: bool },
}

/// What an event does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A packet arrives.
    Inbound(Segment),
    /// A packet leaves.
    Outbound(Segment),
    /// A system call; one that blocks returns at `end`, relative like the event.
    Call { call: Call, end: Option<u64> },
    /// A shell command.
    Shell(String),
    /// A block of assertions.
    Code(String),
}

/// TCP header flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpFlags {
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) psh: bool,
    pub(crate) ack: bool,
    pub(crate) ece: bool,
    pub(crate) cwr: bool,
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (self.syn, 'S'),
            (self.fin, 'F'),
            (self.rst, 'R'),
            (self.psh, 'P'),
            (self.ece, 'E'),
            (self.cwr, 'W'),
            (self.ack, '.'),
        ];
        let text: String = letters.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
        f.write_str(if text.is_empty() { "-" } else { &text })
    }
}

/// TCP options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    pub(crate) sack_ok: bool,
    pub(crate) window_scale: Option<u8>,
    /// Value and echo.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sack: Vec<(u64, u64)>,
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.mss.map(|mss| format!("mss {mss}")));
        parts.extend(self.sack_ok.then(|| "sackOK".to_owned()));
        parts.extend(self.timestamps.map(|(value, echo)| format!("TS val {value} ecr {echo}")));
        parts.extend(self.window_scale.map(|scale| format!("wscale {scale}")));
        if !self.sack.is_empty() {
            let blocks: Vec<String> = self.sack.iter().map(|(a, b)| format!("{a}:{b}")).collect();
            parts.push(format!("sack {}", blocks.join(" ")));
        }
        write!(f, "<{}>", parts.join(","))
    }
}

/// A TCP segment, in the numbers of the script: both initial sequence numbers are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: TcpFlags,
    pub(crate) seq: u64,
    /// Payload bytes.
    pub(crate) len: u64,
    /// Zero without the acknowledgement flag.
    pub(crate) ack: u64,
    /// The window field, not scaled; `None`: not compared.
    pub(crate) window: Option<u32>,
    /// `None`: not compared.
    pub(crate) ecn: Option<Ecn>,
    /// `None` for `<...>`: not compared.
    pub(crate) options: Option<Options>,
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ecn) = self.ecn {
            let name = match ecn {
                Ecn::NotEct => "noecn",
                Ecn::Ect0 => "ect0",
                Ecn::Ect1 => "ect1",
                Ecn::Ce => "ce",
            };
            write!(f, "[{name}] ")?;
        }
        write!(f, "{} {}:{}({})", self.flags, self.seq, self.seq + self.len, self.len)?;
        if self.flags.ack {
            write!(f, " ack {}", self.ack)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(options) if *options == Options::default() => Ok(()),
            Some(options) => write!(f, " {options}"),
        }
    }
}

/// A system call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Vec<Value>,
    /// Its result; `None` for `?`.
    pub(crate) result: Option<i64>,
    /// The error that it reports, such as `EPIPE`.
    pub(crate) errno: Option<String>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}()", self.name)
    }
}

/// An argument of a system call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `...`.
    Ellipsis,
    /// A number.
    Int(i64),
    /// Text between quotes.
    Text(String),
    /// A constant, or several joined with `|`.
    Words(Vec<String>),
    /// `[a, b]`.
    List(Vec<Value>),
    /// `{a, name=b}`; fields without a name have an empty one.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// The number, if it is one.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether it contains this constant.
    pub(crate) fn has(&self, word: &str) -> bool {
        matches!(self, Self::Words(words) if words.iter().any(|own| own == word))
    }

    /// The constant, if it is a single one.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Words(words) if words.len() == 1 => Some(&words[0]),
            _ => None,
        }
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// A field of a structure.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }
}
