//! The host under test: descriptors, the listener, and the connection that packets belong to.
//!
//! A script has one connection at a time. When the peer opens a new connection after the previous one has ended, the
//! new one replaces it.

mod calls;
mod info;
mod messages;
mod options;

use std::collections::{BTreeMap, VecDeque};

use narrows_cc::Nanos;

use crate::connection::{Connection, Setup, Stage, default_scheme, reset_for, scheme_of};
use crate::script::{Call, Problem, Segment};
use crate::shell::Settings;
use crate::stack::{Outcome, Sent, Stack, Waited};
pub(crate) use calls::unsupported;

/// Socket options of a descriptor, applied when its connection opens.
#[derive(Clone, Debug, Default)]
struct SocketOptions {
    nodelay: bool,
    cork: bool,
    max_segment: Option<u16>,
    congestion: Option<String>,
    nonblocking: bool,
    /// Size of the send buffer, if the option was set.
    send_buffer: Option<u64>,
    receive_space: Option<u64>,
}

/// A file descriptor.
#[derive(Clone, Debug, Default)]
struct Descriptor {
    options: SocketOptions,
    role: Role,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// Neither connected nor listening.
    #[default]
    Fresh,
    Listener,
    /// The connection.
    Connected,
    /// An epoll instance.
    Other,
}

/// The host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) mtu: u16,
    descriptors: BTreeMap<i64, Descriptor>,
    pub(crate) connection: Option<Connection>,
    /// Whether the connection waits for `accept`.
    waiting: bool,
    /// Packets sent and not yet compared with the script.
    pub(crate) sent: VecDeque<Sent>,
    /// Calls whose results were not compared.
    pub(crate) unchecked: Vec<String>,
}

impl Host {
    pub(crate) fn new(mtu: u16) -> Self {
        Self {
            settings: Settings::default(),
            mtu,
            descriptors: BTreeMap::new(),
            connection: None,
            waiting: false,
            sent: VecDeque::new(),
            unchecked: Vec::new(),
        }
    }

    /// Collects the packets that the connection sent, unless the queue of the device drops them.
    fn collect(&mut self, now: Nanos) {
        let Some(connection) = &mut self.connection else { return };
        if self.settings.drops {
            connection.drop_sent(now);
        }
        self.sent.append(&mut connection.sent);
    }

    /// Settings of a new connection with these socket options.
    fn setup(&self, line: usize, options: &SocketOptions) -> Result<Setup, Problem> {
        let name = options.congestion.as_deref().or(self.settings.congestion.as_deref());
        let scheme = name.map_or_else(default_scheme, scheme_of).ok_or_else(|| {
            let name = name.unwrap_or("of Linux");
            Problem::unsupported(line, format!("congestion control '{name}': no such scheme"))
        })?;
        let params = self.settings.extension.params(scheme);
        Ok(Setup {
            settings: self.settings.clone(),
            mtu: self.mtu,
            scheme,
            params: params.map_err(|reason| Problem::syntax(line, format!("sysctl narrows.scheme: {reason}")))?,
            max_segment: options.max_segment,
            nodelay: options.nodelay,
            cork: options.cork,
            send_buffer: options.send_buffer,
            receive_space: options.receive_space,
            ecn: self.settings.ecn == 1,
        })
    }

    /// Whether the handshake is complete.
    fn is_established(&self) -> bool {
        self.connection.as_ref().is_some_and(|own| own.stage == Stage::Established)
    }
}

impl Stack for Host {
    fn lateness(&self) -> Option<Nanos> {
        None
    }

    fn stamp_unit(&self) -> Nanos {
        Nanos::from_micros(1)
    }

    fn lacks_call(&self, call: &Call) -> Option<String> {
        calls::unsupported(call)
    }

    fn has_field(&self, name: &str) -> bool {
        info::is_kept(name)
    }

    fn check_command(&self, line: usize, words: &[String]) -> Result<(), Problem> {
        self.settings.clone().command(line, words)
    }

    fn command(&mut self, line: usize, words: &[String]) -> Result<(), Problem> {
        self.settings.command(line, words)?;
        if let Some(connection) = &mut self.connection {
            connection.set_congested(self.settings.drops);
        }
        Ok(())
    }

    fn wait(&mut self, now: Nanos, _: usize, until: Nanos) -> Result<Waited, Problem> {
        let due = self.connection.as_ref().map_or(Nanos::MAX, Connection::deadline);
        if due > until {
            return Ok(Waited::Passed);
        }
        let at = now.max(due);
        if let Some(connection) = &mut self.connection {
            connection.on_timer(at);
        }
        self.collect(at);
        Ok(Waited::Happened(at))
    }

    fn on_packet(&mut self, now: Nanos, line: usize, segment: &Segment) -> Result<(), Problem> {
        let opens = segment.flags.syn && !segment.flags.ack;
        let listener = self.descriptors.values().find(|own| own.role == Role::Listener);
        let free = self.connection.as_ref().is_none_or(|own| own.stage == Stage::Gone);
        match (&mut self.connection, listener) {
            (_, Some(listener)) if opens && free => {
                let mut setup = self.setup(line, &listener.options.clone())?;
                setup.ecn = self.settings.ecn > 0 && segment.flags.ece && segment.flags.cwr;
                self.connection = Some(Connection::accept(now, setup, segment));
                self.waiting = true;
            }
            (Some(connection), _) => connection.on_packet(now, segment),
            (None, _) if self.settings.drops => {}
            // RFC 9293 section 3.10.7.2: a listener answers only acknowledgements with a reset.
            (None, Some(_)) if !segment.flags.ack => {}
            (None, _) => self.sent.extend(reset_for(segment).map(|segment| Sent { at: now, segment })),
        }
        self.collect(now);
        Ok(())
    }

    fn call(&mut self, now: Nanos, line: usize, call: &Call, _: bool) -> Result<Outcome, Problem> {
        self.attempt(now, line, call)
    }

    fn resume(&mut self, now: Nanos, line: usize, call: &Call) -> Result<Outcome, Problem> {
        self.attempt(now, line, call)
    }

    fn info(&self, now: Nanos, name: &str) -> Option<f64> {
        self.field(now, name)
    }

    fn sent(&mut self) -> &mut VecDeque<Sent> {
        &mut self.sent
    }

    fn unchecked(&self) -> Vec<String> {
        self.unchecked.clone()
    }
}
