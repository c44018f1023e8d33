//! Local congestion: the queue of the sending host drops all packets (Linux `net_xmit_eval`, `tcp_enter_cwr`).
//!
//! A host knows immediately that its queue dropped a packet, so a failed transmission does not count as a transmission:
//! data stays unsent, and a lost packet stays lost. Linux reduces the window as for a congestion mark and retries with
//! every acknowledgement and write. If nothing is outstanding, a timer probes whether the queue accepts packets again.
//!
//! Deliberate difference from Linux: a SYN is lost as in the network, without a retry after 500 ms.

use narrows_cc::{Bytes, CongestionCause, Nanos, Phase};

use super::timers::LossTimer;
use super::undo::Undo;
use super::{Pending, Sender, State};

/// Interval of retries while the host's queue drops (Linux `TCP_RESOURCE_PROBE_INTERVAL`).
const RESOURCE_PROBE_INTERVAL: Nanos = Nanos::from_millis(500);

impl Sender {
    /// Sets whether the queue of this host drops every packet from now on. While it drops packets,
    /// [`Sender::poll_transmit`] returns nothing: each packet that it would return is a failed transmission.
    pub fn set_local_congestion(&mut self, congested: bool) {
        self.pending.take(Pending::CONGESTED);
        if congested && self.state != State::Closed {
            self.pending.add(Pending::CONGESTED);
        }
    }

    /// Reports that this host dropped a packet of the connection that was not polled from this sender, such as an
    /// acknowledgement of the receiver. Like every failed transmission, the drop reduces the window, once per window of
    /// data (Linux `tcp_enter_cwr`), and no reduction can be undone afterwards.
    pub fn on_local_drop(&mut self, now: Nanos) {
        if self.state != State::Established {
            return;
        }
        if self.recovery.is_open() {
            self.enter_recovery(now, CongestionCause::Ecn, (Bytes::ZERO, Bytes::ZERO));
            self.window.driver.refresh();
            self.window.follow(self.mss());
        }
        self.recovery.undo = Undo::default();
    }

    /// Number of unanswered probes (`tcpi_probes`), of the peer's window or of the queue of this host; `None` if the
    /// sender does not probe.
    pub fn probes(&self) -> Option<u32> {
        let waits = self.timers.loss_timer == LossTimer::Resource && self.timers.loss_timer_at != Nanos::MAX;
        (self.timers.persist || waits).then_some(u32::from(self.timers.probes))
    }

    /// Attempts to send while the queue of this host drops every packet.
    #[cold]
    pub(super) fn attempt(&mut self, now: Nanos) {
        if self.pending.take(Pending::SYN) {
            self.syn(now);
        }
        if self.pending.take(Pending::MESSAGE) {
            self.poll_message(now);
        }
        if self.state != State::Established {
            return;
        }
        self.pacing.clear();
        let acknowledgement = self.pending.take(Pending::ACK);
        let repair = self.pending.take(Pending::RETRANSMISSION) && self.board.has_lost();
        if repair && self.recovery.phase == Phase::Loss {
            // Linux `tcp_retransmit_timer`: no back-off for a retransmission that did not leave the host.
            self.rtt.revoke_back_off();
            self.timers.rto_at = now + RESOURCE_PROBE_INTERVAL;
        }
        let tail_probe = self.pending.take(Pending::TAIL_PROBE);
        let window_probe = self.pending.take(Pending::WINDOW_PROBE);
        if window_probe {
            self.rtt.revoke_back_off();
            self.timers.rto_at = now + RESOURCE_PROBE_INTERVAL;
        }
        if acknowledgement || repair || tail_probe || window_probe || self.could_send(now) {
            self.on_local_drop(now);
        }
        let idle = self.board.is_empty() && self.timers.rto_at == Nanos::MAX;
        let has_more = self.stream.has_unsent() || (self.stream.app.is_finished() && !self.stream.fin_sent);
        if idle && has_more && self.probes().is_none() {
            // As in Linux `tcp_check_probe_timer`.
            self.timers.probes = 0;
            self.timers.loss_timer = LossTimer::Resource;
            self.timers.loss_timer_at = now + self.rtt.rto();
        }
    }

    /// Whether a packet would leave now; see [`Sender::poll_transmit`].
    fn could_send(&mut self, now: Nanos) -> bool {
        if self.waits_for_rate() {
            return false;
        }
        if let Some(id) = self.board.next_lost() {
            return self.has_room(u64::from(self.board.get(id).len)) && self.is_due(now);
        }
        let mut len = self.stream.next_len(self.config.segment);
        if len == 0 && self.stream.app.is_finished() && !self.stream.fin_sent {
            return true;
        }
        if len > 0 && !self.stream.admits(len) {
            len = self.fitting_len(now);
        }
        if len > 0 {
            return self.has_room(len) && !self.defers(now) && self.is_due(now);
        }
        let Some((id, _)) = self.next_doubtful() else { return false };
        self.has_room(u64::from(self.board.get(id).len)) && self.is_due(now)
    }

    /// Handles the timer that probes the queue of this host. As in Linux `tcp_send_probe0`, the data itself is the
    /// probe, and probes that do not leave the host are sent at a constant interval.
    pub(super) fn on_resource_timer(&mut self, now: Nanos) {
        if self.pending.has(Pending::CONGESTED) && self.board.is_empty() {
            self.timers.probes = self.timers.probes.saturating_add(1);
            self.timers.loss_timer_at = now + RESOURCE_PROBE_INTERVAL;
        }
    }
}
