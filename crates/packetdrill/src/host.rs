//! The host under test: descriptors, the listener, and the connection that packets belong to.
//!
//! A script has one connection at a time; a new one replaces it when the peer opens it.

mod calls;
mod info;
mod messages;
mod options;

use std::collections::{BTreeMap, VecDeque};

use narrows_cc::Nanos;

use crate::connection::{Connection, Sent, Setup, Stage, default_scheme, reset_for, scheme_of};
use crate::script::{Problem, Segment};
use crate::shell::Settings;
pub(crate) use calls::unsupported;
pub(crate) use info::{constant, is_kept};

/// Socket options that are kept from before the connection.
#[derive(Clone, Debug, Default)]
struct SocketOptions {
    nodelay: bool,
    cork: bool,
    max_segment: Option<u16>,
    congestion: Option<String>,
    nonblocking: bool,
    /// Size of the send buffer, if it was set.
    send_buffer: Option<u64>,
}

/// What a descriptor stands for.
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

/// The outcome of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It returned.
    Done(Result<i64, &'static str>),
    /// It blocks.
    Blocks,
    /// Its result is not modelled: nothing to compare.
    Unchecked,
}

/// The host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) settings: Settings,
    pub(crate) mtu: u16,
    descriptors: BTreeMap<i64, Descriptor>,
    pub(crate) connection: Option<Connection>,
    /// The connection waits for `accept`.
    waiting: bool,
    /// Packets sent and not yet compared with the script.
    pub(crate) sent: VecDeque<Sent>,
    /// Calls whose results were not compared.
    pub(crate) unchecked: Vec<String>,
}

impl Host {
    pub(crate) fn new(settings: Settings, mtu: u16) -> Self {
        Self {
            settings,
            mtu,
            descriptors: BTreeMap::new(),
            connection: None,
            waiting: false,
            sent: VecDeque::new(),
            unchecked: Vec::new(),
        }
    }

    /// Time of the next [`Host::on_timer`]; [`Nanos::MAX`] for never.
    pub(crate) fn deadline(&self) -> Nanos {
        self.connection.as_ref().map_or(Nanos::MAX, Connection::deadline)
    }

    /// Handles the timers that have expired.
    pub(crate) fn on_timer(&mut self, now: Nanos) {
        if let Some(connection) = &mut self.connection {
            connection.on_timer(now);
        }
        self.collect(now);
    }

    /// Applies settings that a script changes while it runs.
    pub(crate) fn apply_settings(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.set_congested(self.settings.drops);
        }
    }

    /// Takes over the packets that the connection sent, unless the queue of the device drops them.
    fn collect(&mut self, now: Nanos) {
        let Some(connection) = &mut self.connection else { return };
        if self.settings.drops {
            connection.drop_sent(now);
        }
        self.sent.append(&mut connection.sent);
    }

    /// A packet arrives.
    ///
    /// # Errors
    /// The connection would need what the endpoint does not have.
    pub(crate) fn on_packet(&mut self, now: Nanos, line: usize, segment: &Segment) -> Result<(), Problem> {
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
            (None, _) => self.sent.extend(reset_for(segment).map(|segment| Sent { at: now, segment })),
        }
        self.collect(now);
        Ok(())
    }

    /// What a connection with these socket options starts from.
    fn setup(&self, line: usize, options: &SocketOptions) -> Result<Setup, Problem> {
        let name = options.congestion.as_deref().or(self.settings.congestion.as_deref());
        let scheme = name.map_or_else(default_scheme, scheme_of).ok_or_else(|| {
            let name = name.unwrap_or("of Linux");
            Problem::unsupported(line, format!("congestion control '{name}': no such scheme"))
        })?;
        Ok(Setup {
            settings: self.settings.clone(),
            mtu: self.mtu,
            scheme,
            max_segment: options.max_segment,
            nodelay: options.nodelay,
            cork: options.cork,
            send_buffer: options.send_buffer,
            ecn: self.settings.ecn == 1,
        })
    }

    /// Whether the handshake is complete.
    fn is_established(&self) -> bool {
        self.connection.as_ref().is_some_and(|own| own.stage == Stage::Established)
    }
}
