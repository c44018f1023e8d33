//! The interface of a subflow to its connection: room, data one piece at a time, and the view for its
//! siblings.

use narrows_cc::{Bytes, Nanos, PathView, Paths};

use super::{Pending, Sender, State};
use crate::TcpConfig;
use crate::multipath::MAPPING_BYTES;
use crate::rates::RateEvent;
use narrows_traffic::App;

/// See [`Sender::data_header`].
pub(super) fn data_header(config: &TcpConfig, app: &App) -> u16 {
    config.header.saturating_add(if app.is_subflow() { MAPPING_BYTES } else { 0 })
}

impl AsRef<Self> for Sender {
    #[inline]
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsMut<Self> for Sender {
    #[inline]
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Sender {
    /// Connects now: a subflow that has no time of its own.
    pub fn open(&mut self, now: Nanos) {
        if self.state == State::Waiting {
            self.state = State::SynSent;
            self.timers.last_sent_at = now;
            self.pending.add(Pending::SYN);
        }
    }

    /// Whether a piece of `len` bytes would leave at once if it was handed over now. Where only the pacer is
    /// in the way the deadline becomes its time.
    pub fn has_room_for(&mut self, now: Nanos, len: u64) -> bool {
        let ready = self.state == State::Established
            && !self.stream.has_unsent()
            && !self.stream.app.is_finished()
            && !self.board.has_lost()
            && !self.agent_holds();
        if !ready {
            return false;
        }
        if !self.has_room(len) {
            self.note_usage(true);
            return false;
        }
        self.is_due(now)
    }

    /// Hands over `len` bytes and returns the sequence number of the first. To be followed by
    /// [`Sender::poll_transmit`].
    pub fn hand(&mut self, len: u64) -> u64 {
        let first = self.stream.app_end;
        self.stream.app.assign(len);
        self.stream.note_written();
        first
    }

    /// So much waits that could be handed over; `written`: the application has just written.
    pub fn set_waiting(&mut self, now: Nanos, waiting: u64, written: bool) {
        self.stream.waiting = waiting;
        if written {
            self.report_to_agent(now, RateEvent::Written);
        }
    }

    /// Nothing more will be handed over, and everything has arrived at the other end of the connection: what
    /// is out is repaired if need be, then the subflow is closed.
    pub fn finish(&mut self, now: Nanos, completed: bool) {
        self.stream.waiting = 0;
        self.stream.stop();
        if completed {
            self.milestones.completed_at = Some(now);
        }
        if self.state == State::Waiting {
            self.close();
        }
    }

    /// Header bytes of a packet with data, without the option of its agent.
    pub(super) fn data_header(&self) -> u16 {
        data_header(&self.config, &self.stream.app)
    }

    /// The lowest sequence number not acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.stream.una
    }

    /// When the packet at this sequence number was last sent, until everything up to it is acknowledged.
    pub(crate) fn sent_at(&self, seq: u64) -> Option<Nanos> {
        self.board.at(seq).map(|id| self.board.get(id).snapshot.sent_at)
    }

    /// Retransmission timeouts since data was last acknowledged.
    pub fn timeouts_in_a_row(&self) -> u32 {
        self.timers.timeouts
    }

    /// Times that it slowed down for losses or marks.
    pub(crate) fn reductions(&self) -> u64 {
        self.stats.recoveries + self.stats.timeouts + self.stats.ecn_reductions
    }

    /// All data ever delivered.
    pub(crate) fn delivered(&self) -> Bytes {
        self.window.driver.delivered()
    }

    /// Its view for siblings, except for the fields that the connection keeps. The scheme's own window is the
    /// one it returns to after a recovery: proportional rate reduction is not in it.
    pub(crate) fn view(&self) -> PathView {
        PathView {
            cwnd: self.window.driver.control().cwnd,
            srtt: self.rtt.smoothed(),
            established: self.state == State::Established,
            ..PathView::default()
        }
    }

    /// Shows the scheme its siblings.
    pub(crate) fn on_paths(&mut self, paths: &Paths) {
        self.window.driver.paths(paths);
    }
}
