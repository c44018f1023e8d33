//! A server's connections, indexed by flow, by deadline and by pending packets. Only the end of the run, and progress
//! reports of few connections, visit all of them.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::Nanos;
use narrows_dccp::udp::Flow;

use crate::session::Session;

/// The stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The handshake is incomplete.
    HalfOpen,
    /// Served.
    Connected,
    /// Over, or dismissed.
    Over,
}

impl Stage {
    fn of(session: &Session<'_>) -> Self {
        if session.is_over() || session.is_dismissed() || session.is_listening() {
            Self::Over
        } else if session.was_connected() {
            Self::Connected
        } else {
            Self::HalfOpen
        }
    }
}

/// A connection and its entries in the table.
pub struct Entry<'a> {
    pub flow: Flow,
    pub session: Session<'a>,
    stage: Stage,
    /// The connection's time in `timers`.
    timer: Nanos,
    is_ready: bool,
}

/// The connections.
#[derive(Default)]
pub struct Table<'a> {
    entries: Vec<Option<Box<Entry<'a>>>>,
    free: Vec<usize>,
    by_flow: BTreeMap<Flow, usize>,
    /// The flow found last: packets of one flow come in batches.
    last: Option<(Flow, usize)>,
    /// One time per connection, no later than its deadline. If the deadline moves to a later time, the timer still
    /// fires at the earlier time and is then set again.
    timers: BTreeSet<(Nanos, usize)>,
    ready: Vec<usize>,
    half_open: usize,
    connected: usize,
}

impl<'a> Table<'a> {
    /// Connections with incomplete handshakes.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// Connections that are served.
    pub fn connected(&self) -> usize {
        self.connected
    }

    /// Next time at which a connection may be due.
    pub fn deadline(&self) -> Nanos {
        if self.ready.is_empty() { self.timers.first().map_or(Nanos::MAX, |(at, _)| *at) } else { Nanos::ZERO }
    }

    pub fn find(&mut self, flow: &Flow) -> Option<usize> {
        if let Some((last, id)) = self.last
            && last == *flow
        {
            return Some(id);
        }
        let id = *self.by_flow.get(flow)?;
        self.last = Some((*flow, id));
        Some(id)
    }

    pub fn get(&mut self, id: usize) -> Option<&mut Entry<'a>> {
        self.entries.get_mut(id)?.as_deref_mut()
    }

    /// Adds a connection, ready to be served.
    pub fn insert(&mut self, flow: Flow, session: Session<'a>) -> usize {
        let entry = Entry { flow, session, stage: Stage::HalfOpen, timer: Nanos::MAX, is_ready: false };
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[id] = Some(Box::new(entry));
        self.by_flow.insert(flow, id);
        self.half_open += 1;
        self.make_ready(id);
        id
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: usize) -> Option<Entry<'a>> {
        let mut entry = self.entries.get_mut(id)?.take()?;
        self.count(entry.stage, -1);
        entry.stage = Stage::Over;
        self.timers.remove(&(entry.timer, id));
        self.by_flow.remove(&entry.flow);
        if self.last.is_some_and(|(_, last)| last == id) {
            self.last = None;
        }
        self.free.push(id);
        Some(*entry)
    }

    fn count(&mut self, stage: Stage, by: isize) {
        let count = match stage {
            Stage::HalfOpen => &mut self.half_open,
            Stage::Connected => &mut self.connected,
            Stage::Over => return,
        };
        *count = count.saturating_add_signed(by);
    }

    /// Counts a connection by its stage. Returns whether it has just been connected.
    pub fn recount(&mut self, id: usize) -> bool {
        let Some(entry) = self.get(id) else { return false };
        let (before, now) = (entry.stage, Stage::of(&entry.session));
        entry.stage = now;
        if before == now {
            return false;
        }
        self.count(before, -1);
        self.count(now, 1);
        now == Stage::Connected
    }

    /// Marks a connection to be served next.
    pub fn make_ready(&mut self, id: usize) {
        if let Some(entry) = self.entries.get_mut(id).and_then(Option::as_mut)
            && !std::mem::replace(&mut entry.is_ready, true)
        {
            self.ready.push(id);
        }
    }

    /// Takes the connections that are ready or due at `now` into `out`.
    pub fn take_due(&mut self, now: Nanos, out: &mut Vec<usize>) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(entry) = self.entries[id].as_mut() else { continue };
            entry.timer = Nanos::MAX;
            if entry.session.deadline() <= now {
                self.make_ready(id);
            } else {
                self.rearm(id);
            }
        }
        out.append(&mut self.ready);
        for id in out {
            if let Some(entry) = self.entries[*id].as_mut() {
                entry.is_ready = false;
            }
        }
    }

    /// Sets the timer of a connection that was served.
    pub fn rearm(&mut self, id: usize) {
        let Some(entry) = self.entries[id].as_mut() else { return };
        let deadline = entry.session.deadline();
        if deadline < entry.timer {
            self.timers.remove(&(entry.timer, id));
            entry.timer = deadline;
            self.timers.insert((deadline, id));
        }
    }

    /// All connections, for the end of the run and for progress reports of few connections.
    pub fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.by_flow.values().copied()
    }
}
