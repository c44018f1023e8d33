//! The flows of a switch. Assigns the router's numbers to entries of the kernel's table, and passes events of the table
//! to the router.

use std::collections::BTreeMap;

use narrows_cc::{Nanos, Rate};
use narrows_routers::{Brf, Port};

use super::maps::{ANSWERED, Decision, ENDED, FlowState, GONE, Key, OBEYS, Programs, STRIPPED};

/// A flow that the router knows.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The flow's number in the router.
    pub(super) id: u32,
    /// The state that the router received last.
    pub(super) told: FlowState,
    pub(super) obeys: bool,
    pub(super) opened: Nanos,
    /// The decision in the kernel.
    decided: Option<Decision>,
    /// The share offered before the sender answered; until then the router has no share for the flow.
    offered: Option<Rate>,
}

/// An event of a flow, for the log.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    In { name: String, obeys: bool, share: Option<Rate> },
    Stripped { name: String },
    Out { name: String, bytes: u64, seconds: f64 },
}

/// All flows.
#[derive(Debug)]
pub(super) struct Flows {
    pub(super) known: BTreeMap<Key, Known>,
    /// Flow numbers that are not in use.
    free: Vec<u32>,
    /// Number of flows refused for lack of space, here or in the router.
    pub(super) refused: u64,
    pub(super) news: Vec<News>,
}

impl Flows {
    /// An empty table for `room` flows.
    pub(super) fn new(room: u32) -> Self {
        Self { known: BTreeMap::new(), free: (0..room).rev().collect(), refused: 0, news: Vec::new() }
    }

    /// Reports a flow's changes since its last state to the router.
    pub(super) fn update(
        &mut self,
        brf: &mut Brf,
        port: &mut Port<'_>,
        programs: &Programs,
        key: Key,
        state: FlowState,
    ) {
        if self.known.get(&key).is_some_and(|known| known.told.opened != state.opened && is_new(known, &state)) {
            self.remove(brf, port, programs, &key, false);
        }
        if !self.known.contains_key(&key) && !self.open(brf, port, programs, key, &state) {
            return;
        }
        let Some(known) = self.known.get_mut(&key) else { return };
        let id = known.id;
        if known.obeys && state.has(STRIPPED) {
            known.obeys = false;
            known.offered = None;
            brf.remove_flow(port, id);
            brf.open_flow(port, id, false);
            self.news.push(News::Stripped { name: key.name() });
            if known.told.has(ANSWERED) {
                brf.answer(port, id, Nanos::from_nanos(state.rtt));
            }
        }
        if state.has(ANSWERED) && !known.told.has(ANSWERED) {
            brf.answer(port, id, Nanos::from_nanos(state.rtt));
            known.offered = None;
        }
        if state.bytes > known.told.bytes {
            brf.add_bytes(port, id, state.bytes - known.told.bytes, !state.has(ANSWERED));
        }
        if state.written != known.told.written {
            brf.note_written(id, Rate::from_bytes_per_sec(state.advised));
        }
        if state.returned != known.told.returned {
            brf.note_returned(port.now, id);
        }
        if state.has(ENDED) && !known.told.has(ENDED | GONE) {
            brf.end_flow(port, id);
            self.news.push(out(&key, known, &state, port.now));
        }
        known.told = state;
        if state.has(GONE) {
            self.remove(brf, port, programs, &key, true);
        }
    }

    /// Adds a flow to the router. Returns whether the router accepted it.
    fn open(&mut self, brf: &mut Brf, port: &mut Port<'_>, programs: &Programs, key: Key, state: &FlowState) -> bool {
        if state.has(GONE) {
            programs.remove(&key);
            return false;
        }
        let Some(id) = self.free.pop() else {
            self.refused += 1;
            programs.remove(&key);
            return false;
        };
        brf.assign(id, key.tuple());
        let obeys = state.has(OBEYS) && !state.has(STRIPPED);
        if !brf.open_flow(port, id, obeys) {
            self.refused += 1;
            self.free.push(id);
            programs.remove(&key);
            return false;
        }
        // A flow whose handshake is over needs no offer: the router gives it a share when `update` reports the sender's
        // answer.
        let offered = (obeys && !state.has(ANSWERED)).then(|| brf.offer(port, id));
        let told = FlowState { opened: state.opened, ..FlowState::default() };
        let opened = Nanos::from_nanos(state.opened);
        self.known.insert(key, Known { id, told, obeys, opened, decided: None, offered });
        self.news.push(News::In { name: key.name(), obeys, share: offered });
        true
    }

    fn remove(&mut self, brf: &mut Brf, port: &mut Port<'_>, programs: &Programs, key: &Key, from_kernel: bool) {
        if let Some(known) = self.known.remove(key) {
            if !known.told.has(ENDED) {
                self.news.push(out(key, &known, &known.told, port.now));
            }
            brf.remove_flow(port, known.id);
            self.free.push(known.id);
        }
        if from_kernel {
            programs.remove(key);
        }
    }

    /// Removes flows that the router no longer tracks, and writes changed decisions for the remaining flows.
    pub(super) fn publish(&mut self, brf: &mut Brf, port: &mut Port<'_>, programs: &Programs) -> std::io::Result<()> {
        let gone: Vec<Key> =
            self.known.iter().filter(|(_, known)| !brf.is_tracked(known.id)).map(|(key, _)| *key).collect();
        for key in gone {
            self.remove(brf, port, programs, &key, true);
        }
        for (key, known) in &mut self.known {
            let Some(class) = brf.class_of(known.id) else { continue };
            let share = brf.share(known.id).or(known.offered);
            let decision = Decision { share, class };
            if known.decided != Some(decision) {
                programs.decide(key, decision)?;
                known.decided = Some(decision);
            }
        }
        Ok(())
    }
}

/// Whether the kernel created a new entry after the flow ended; otherwise the sender only retransmitted its SYN.
const fn is_new(known: &Known, state: &FlowState) -> bool {
    state.bytes < known.told.bytes || known.told.has(ENDED | ANSWERED)
}

fn out(key: &Key, known: &Known, state: &FlowState, now: Nanos) -> News {
    News::Out { name: key.name(), bytes: state.bytes, seconds: (now - known.opened).as_secs_f64() }
}
