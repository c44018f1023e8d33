//! Interface of a subflow to its connection: whether the subflow can send, assignment of data piece by piece, and the
//! view for coupled schemes.

use narrows_cc::{Bytes, Nanos, PathView, Paths, record};

use super::{Pending, Sender, State};
use crate::TcpConfig;
use crate::multipath::MAPPING_BYTES;
use crate::rates::RateEvent;
use narrows_traffic::App;

/// See [`Sender::data_header`].
pub(super) fn data_header(config: &TcpConfig, app: &App) -> u16 {
    config.header.saturating_add(if app.is_subflow() { MAPPING_BYTES } else { 0 })
}

impl Sender {
    /// Connects now. Used for subflows whose start time is unknown beforehand.
    pub fn open(&mut self, now: Nanos) {
        if self.state == State::Waiting {
            self.state = State::SynSent;
            self.timers.last_sent_at = now;
            self.pending.add(Pending::SYN);
        }
    }

    /// Whether a piece of `len` bytes could leave immediately. If only the pacer blocks the piece, the deadline becomes
    /// the departure time.
    pub fn has_room_for(&mut self, now: Nanos, len: u64) -> bool {
        let ready = self.state == State::Established
            && !self.stream.has_unsent()
            && !self.stream.app.is_finished()
            && !self.board.has_lost()
            && !self.agent_blocks_data();
        if !ready {
            return false;
        }
        if !self.has_room(len) {
            self.note_usage(true);
            return false;
        }
        self.is_due(now)
    }

    /// Appends `len` bytes and returns the sequence number of the first. Call [`Sender::poll_transmit`] afterwards.
    pub fn assign(&mut self, len: u64) -> u64 {
        let first = self.stream.app_end;
        self.stream.app.assign(len);
        self.stream.note_written();
        first
    }

    /// Sets the connection's unassigned data to `waiting` bytes; `written`: whether the application has just written.
    pub fn set_waiting(&mut self, now: Nanos, waiting: u64, written: bool) {
        self.stream.waiting = waiting;
        if written {
            self.report_to_agent(now, RateEvent::Written);
        }
    }

    /// Finishes the subflow after all data of the connection has arrived. The subflow retransmits outstanding data if
    /// necessary, then closes.
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

    /// Header bytes of a data packet, without the agent's option.
    pub(super) fn data_header(&self) -> u16 {
        data_header(&self.config, &self.stream.app)
    }

    /// SND.UNA: lowest unacknowledged sequence number.
    pub fn acknowledged(&self) -> u64 {
        self.stream.una
    }

    /// Last send time of the packet with this sequence number, while the packet is outstanding.
    pub(crate) fn sent_at(&self, seq: u64) -> Option<Nanos> {
        self.board.at(seq).map(|id| self.board.get(id).snapshot.sent_at)
    }

    /// Consecutive retransmission timeouts since data was last acknowledged.
    pub fn timeouts_in_a_row(&self) -> u32 {
        self.timers.timeouts
    }

    /// Number of window reductions for losses, timeouts and marks.
    pub(crate) fn reductions(&self) -> u64 {
        self.stats.recoveries + self.stats.timeouts + self.stats.ecn_reductions
    }

    /// Total bytes delivered.
    pub(crate) fn delivered(&self) -> Bytes {
        self.window.driver.delivered()
    }

    /// Path view for coupled schemes, without the fields that the connection fills. `cwnd` is the scheme's cwnd, which
    /// applies again after recovery, not the cwnd of proportional rate reduction.
    pub(crate) fn view(&self) -> PathView {
        record!(PathView {
            cwnd: self.window.driver.control().cwnd,
            srtt: self.rtt.smoothed(),
            established: self.state == State::Established,
        })
    }

    /// Passes the views of all subflows to the scheme.
    pub(crate) fn on_paths(&mut self, paths: &Paths) {
        self.window.driver.paths(paths);
    }
}
