//! A parsed script.

use std::fmt;

use narrows_packet::Ecn;

/// Reason why a script cannot run or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the script, from 1.
    pub line: usize,
    /// The reason.
    pub reason: String,
    /// Whether the script needs an unsupported feature; otherwise it failed.
    pub skips: bool,
}

impl Problem {
    /// The text is not a valid script.
    pub fn syntax(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: format!("syntax: {}", reason.into()), skips: false }
    }

    /// The endpoint deviated from the script.
    pub fn failure(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), skips: false }
    }

    /// The script needs an unsupported feature.
    pub fn unsupported(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into(), skips: true }
    }
}

/// A script: options, shell commands before the first event, events, and shell commands after the last event.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// `--name=value` lines.
    pub options: Vec<Setting>,
    /// Shell commands before the first event, with their line.
    pub setup: Option<(usize, String)>,
    /// Events in order.
    pub events: Vec<Event>,
    /// Shell commands after the last event: they restore settings and are not run.
    pub cleanup: Option<(usize, String)>,
}

/// An option line.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Line of the option.
    pub line: usize,
    /// Name without dashes.
    pub name: String,
    /// Text after `=`.
    pub value: String,
}

/// An event: an input to the endpoint or an expectation.
#[derive(Clone, Debug)]
pub struct Event {
    /// Line of the event.
    pub line: usize,
    /// Time of the event.
    pub time: Time,
    /// Action of the event.
    pub action: Action,
}

/// Time of an event, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// `*`.
    Any,
    /// `0.5`, `+.1`, `.1~.2`, `+.1~+.2`: from `first` to `last`, counted from the previous event if `relative`.
    At {
        /// Earliest time.
        first: u64,
        /// Latest time.
        last: u64,
        /// Whether times are counted from the previous event.
        relative: bool,
        /// Whether the script gives a range.
        range: bool,
    },
}

/// Action of an event.
#[derive(Clone, Debug)]
pub enum Action {
    /// A packet arrives.
    Inbound(Segment),
    /// A packet leaves.
    Outbound(Segment),
    /// A system call. A call with `end` blocks and returns at this time, which is relative if the event's time is
    /// relative.
    Call {
        /// The call.
        call: Call,
        /// Return time of a call that blocks.
        end: Option<u64>,
    },
    /// A shell command.
    Shell(String),
    /// A block of assertions.
    Code(String),
}

/// TCP header flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags {
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// PSH.
    pub psh: bool,
    /// ACK.
    pub ack: bool,
    /// ECE.
    pub ece: bool,
    /// CWR.
    pub cwr: bool,
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
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// SACK permitted.
    pub sack_ok: bool,
    /// Shift of the window field.
    pub window_scale: Option<u8>,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks.
    pub sack: Vec<(u64, u64)>,
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
pub struct Segment {
    /// Flags.
    pub flags: TcpFlags,
    /// Sequence number.
    pub seq: u64,
    /// Payload bytes.
    pub len: u64,
    /// Acknowledgement number; zero without the ACK flag.
    pub ack: u64,
    /// The window field, not scaled; `None` if it is not compared.
    pub window: Option<u32>,
    /// The ECN field of the IP header; `None` if it is not compared.
    pub ecn: Option<Ecn>,
    /// TCP options; `None` for `<...>`, which means that they are not compared.
    pub options: Option<Options>,
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
pub struct Call {
    /// Name of the call.
    pub name: String,
    /// Arguments of the call.
    pub args: Vec<Value>,
    /// Result of the call; `None` for `?`.
    pub result: Option<i64>,
    /// Error that the call reports, such as `EPIPE`.
    pub errno: Option<String>,
}

impl Call {
    /// The number of bytes that the call requests to move, and its flags.
    pub fn sizes(&self) -> (u64, Vec<String>) {
        let args = &self.args;
        let size = |value: &Value| value.int().and_then(|len| u64::try_from(len).ok());
        let vectors = |value: &Value| -> u64 {
            let each = value.items().iter().filter_map(|item| match item {
                Value::Struct(fields) => fields.last().and_then(|(_, len)| len.int()),
                _ => None,
            });
            each.filter_map(|len| u64::try_from(len).ok()).sum()
        };
        let bytes = match self.name.as_str() {
            "writev" | "readv" => args.get(1).map_or(0, vectors),
            "sendmsg" | "recvmsg" => args.get(1).and_then(|message| message.field("msg_iov")).map_or(0, vectors),
            "sendfile" => args.get(3).and_then(size).unwrap_or(0),
            _ => args.get(2).and_then(size).unwrap_or(0),
        };
        let flags = match self.name.as_str() {
            "send" | "sendto" | "recv" | "recvfrom" => args.get(3),
            "sendmsg" | "recvmsg" => args.get(2),
            _ => None,
        };
        let flags = match flags {
            Some(Value::Words(words)) => words.clone(),
            Some(Value::Int(value)) => vec![value.to_string()],
            _ => Vec::new(),
        };
        (bytes, flags)
    }

    /// The ancillary data that a script expects.
    pub fn ancillary(&self) -> &[Value] {
        self.args.iter().find_map(|arg| arg.field("msg_control")).map_or(&[], Value::items)
    }

    /// The first field with this name in the data of an ancillary message.
    pub fn ancillary_field(&self, field: &str) -> Option<&Value> {
        self.ancillary().iter().find_map(|message| message.field("cmsg_data")?.field(field))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}()", self.name)
    }
}

/// An argument of a system call.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `...`.
    Ellipsis,
    /// A number.
    Int(i64),
    /// A string between quotes.
    Text(String),
    /// A constant, or several joined with `|`.
    Words(Vec<String>),
    /// `[a, b]`.
    List(Vec<Value>),
    /// `{a, name=b}`; a field without a name has an empty string as its name.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// The number, if the value is a number.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether the value contains this constant.
    pub fn has(&self, word: &str) -> bool {
        matches!(self, Self::Words(words) if words.iter().any(|own| own == word))
    }

    /// The constant, if the value is a single constant.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Words(words) if words.len() == 1 => Some(&words[0]),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// A field of a structure.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }
}
