//! State of a sender in the units of Linux `TCP_INFO`: packets, not bytes.

use narrows_cc::{Bytes, Nanos, Phase, Value};

use super::Sender;
use super::scoreboard::{Place, Record};

/// Congestion state, as Linux counts it (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    Open,
    /// Duplicate acknowledgements or SACKs, not yet taken for a loss.
    Disorder,
    /// Reducing after a congestion mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Repairing after a retransmission timeout.
    Loss,
}

/// A snapshot of a sender. Counts are in packets, as in Linux `struct tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_ca_state`.
    pub ca_state: CaState,
    /// `tcpi_snd_cwnd`: whole segments of the cwnd in force.
    pub cwnd: u64,
    /// `tcpi_snd_ssthresh`: whole segments; `None` before slow start has ended for the first time.
    pub ssthresh: Option<u64>,
    /// `tcpi_unacked`: packets sent and not acknowledged cumulatively, a FIN included.
    pub unacked: u32,
    /// `tcpi_sacked`: packets SACKed; without SACK, duplicate acknowledgements.
    pub sacked: u32,
    /// `tcpi_lost`: packets declared lost and not acknowledged since, be they retransmitted or not.
    pub lost: u32,
    /// `tcpi_retrans`: retransmissions in flight.
    pub retrans: u32,
    /// `tcpi_total_retrans`: data packets retransmitted since the start.
    pub total_retrans: u64,
    /// `tcpi_reordering`: how far packets were seen to arrive out of order, in segments.
    pub reordering: u32,
    /// `tcpi_backoff`: consecutive expiries of the retransmission timer.
    pub timeouts: u32,
    /// `tcpi_rto`, back-off included.
    pub rto: Nanos,
    /// `tcpi_rtt`.
    pub srtt: Option<Nanos>,
    /// `tcpi_min_rtt`.
    pub min_rtt: Option<Nanos>,
    /// Data written by the application and never sent (`tcpi_notsent_bytes`).
    pub unsent: Bytes,
}

impl Sender {
    /// A snapshot in the units of `TCP_INFO`. For tests and tools: it visits every outstanding packet.
    pub fn info(&self) -> TcpInfo {
        let mss = self.mss().as_u64();
        let recovery = &self.recovery;
        let sacked = if self.config.sack { self.board.sacked_packets() } else { recovery.duplicate_acks };
        let ca_state = match recovery.phase {
            Phase::Open if sacked > 0 || recovery.duplicate_acks > 0 => CaState::Disorder,
            Phase::Open => CaState::Open,
            Phase::Recovery if recovery.marked => CaState::Cwr,
            Phase::Recovery => CaState::Recovery,
            Phase::Loss => CaState::Loss,
        };
        let count = |test: fn(&Record) -> bool| {
            self.board.ids().filter(|&id| test(self.board.get(id))).count() as u32
        };
        let waiting = count(|record| record.place == Place::Lost);
        let repeated = count(|record| record.place == Place::Flight && record.retransmissions > 0);
        // A tail-loss probe repeats a packet that is not deemed lost.
        let probe = u32::from(recovery.probe.is_some_and(|probe| probe.repeated)).min(repeated);
        // The scheme's own threshold, if it shows one: slow start may have ended without a reduction.
        let mut ssthresh = self.window.driver.ssthresh();
        self.scheme().telemetry(&mut |name, value| {
            if let ("ssthresh", Value::Bytes(bytes)) = (name, value) {
                ssthresh = bytes;
            }
        });
        TcpInfo {
            ca_state,
            cwnd: self.window.cwnd / mss,
            ssthresh: (ssthresh != Bytes::MAX).then(|| ssthresh.as_u64() / mss),
            unacked: self.board.len(),
            sacked,
            lost: waiting + repeated - probe,
            retrans: repeated,
            total_retrans: self.stats.retransmits,
            reordering: recovery.rack.reordering(),
            timeouts: self.timers.timeouts,
            rto: self.rtt.rto(),
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.least(),
            unsent: Bytes::new(self.stream.app_end.saturating_sub(self.stream.nxt)),
        }
    }
}
