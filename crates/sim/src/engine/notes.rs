//! Reports of senders to the observer.

use super::Engine;
use crate::observer::{Flows, Observer};

impl<O: Observer> Engine<O> {
    /// A sender has processed an acknowledgement or a timer.
    #[inline]
    pub(super) fn note_processed(&mut self, flow: u32) {
        let flows = Flows { senders: &self.senders, receivers: &self.receivers, metrics: &self.metrics };
        self.observer.processed(self.now, flow, flows);
    }

    /// A sender has sent what it may send now.
    #[inline]
    pub(super) fn note_transmitted(&mut self, flow: u32) {
        let flows = Flows { senders: &self.senders, receivers: &self.receivers, metrics: &self.metrics };
        self.observer.transmitted(self.now, flow, flows);
    }
}
