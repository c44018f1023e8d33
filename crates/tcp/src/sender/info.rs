//! State of a sender, with the definitions of Linux `TCP_INFO`.

use narrows_cc::{Bytes, Nanos, Phase, RecoveryStyle, Value};

use super::Sender;
use super::scoreboard::{Place, Record};

/// Congestion state, as in Linux (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    Open,
    /// Duplicate acknowledgements or SACKs have arrived, but no loss was detected.
    Disorder,
    /// The window is being reduced after a congestion mark.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Losses are repaired after a retransmission timeout.
    Loss,
}

/// A snapshot of a sender. Counts are in packets, as in Linux `struct tcp_info`, unless the type says bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// `tcpi_ca_state`.
    pub ca_state: CaState,
    /// `tcpi_snd_cwnd`: whole segments of the cwnd in force.
    pub cwnd: u64,
    /// `tcpi_snd_ssthresh`; `None` before slow start has ended for the first time, and for schemes that have no
    /// such threshold: Linux's BBR leaves it infinite.
    pub ssthresh: Option<Bytes>,
    /// `tcpi_snd_mss`: payload of a full segment.
    pub mss: Bytes,
    /// `tcpi_bytes_acked`: payload acknowledged cumulatively. Linux counts the SYN too.
    pub bytes_acked: Bytes,
    /// `tcpi_unacked`: packets sent and not acknowledged cumulatively, a FIN included.
    pub unacked: u32,
    /// `tcpi_sacked`: packets SACKed; without SACK, duplicate acknowledgements.
    pub sacked: u32,
    /// `tcpi_lost`: packets declared lost and not acknowledged since, whether retransmitted or not.
    pub lost: u32,
    /// `tcpi_retrans`: retransmissions in flight.
    pub retrans: u32,
    /// `tcpi_total_retrans`: data packets retransmitted since the start.
    pub total_retrans: u64,
    /// `tcpi_reordering`: maximum observed distance of reordering, in segments.
    pub reordering: u32,
    /// `tcpi_reord_seen`: acknowledgements that showed reordering; SACKs and cumulative acknowledgements count
    /// separately.
    pub reordering_seen: u32,
    /// `tcpi_retransmits`: consecutive expiries of the retransmission timer.
    pub timeouts: u32,
    /// `tcpi_backoff`: doublings of the retransmission timeout. The timeout is not doubled for a retransmission that
    /// the host's queue drops.
    pub backoff: u32,
    /// `tcpi_probes`: probes without an answer, for the peer's window or the host's queue.
    pub probes: u32,
    /// `tcpi_rto`, back-off included.
    pub rto: Nanos,
    /// `tcpi_rtt`.
    pub srtt: Option<Nanos>,
    /// `tcpi_rttvar`: mean deviation of the round-trip time.
    pub rttvar: Option<Nanos>,
    /// `tcpi_min_rtt`.
    pub min_rtt: Option<Nanos>,
    /// Data written by the application and never sent (`tcpi_notsent_bytes`).
    pub unsent: Bytes,
}

impl Sender {
    /// The slow-start threshold; see [`TcpInfo::ssthresh`].
    pub fn ssthresh(&self) -> Option<Bytes> {
        // Prefer the threshold that the scheme reports: slow start may have ended without a reduction.
        let shaped = self.scheme().info().recovery == RecoveryStyle::Prr;
        let mut ssthresh = if shaped { self.window.driver.ssthresh() } else { Bytes::MAX };
        self.scheme().telemetry(&mut |name, value| {
            if let ("ssthresh", Value::Bytes(bytes)) = (name, value) {
                ssthresh = bytes;
            }
        });
        (ssthresh != Bytes::MAX).then_some(ssthresh)
    }

    /// Mean deviation and minimum of the round-trip time; `None` before the first sample.
    pub fn rtt_spread(&self) -> (Option<Nanos>, Option<Nanos>) {
        (self.rtt.mean_deviation(), self.rtt.least())
    }

    /// First sequence numbers of the packets declared lost and not yet retransmitted, lowest first. This iterates over
    /// all outstanding packets.
    pub fn lost(&self) -> impl Iterator<Item = u64> + '_ {
        let lost = |&id: &u32| self.board.get(id).place == Place::Lost;
        self.board.ids().filter(lost).map(|id| self.board.get(id).seq)
    }

    /// A snapshot, for tests and tools. Slow, because it iterates over all outstanding packets.
    pub fn info(&self) -> TcpInfo {
        let mss = self.mss();
        let recovery = &self.recovery;
        let sacked = if self.config.sack { self.board.sacked_packets() } else { recovery.duplicate_acks };
        let ca_state = match recovery.phase {
            Phase::Open if sacked > 0 || recovery.duplicate_acks > 0 => CaState::Disorder,
            Phase::Open => CaState::Open,
            Phase::Recovery if recovery.marked => CaState::Cwr,
            Phase::Recovery => CaState::Recovery,
            Phase::Loss => CaState::Loss,
        };
        let count = |test: fn(&Record) -> bool| self.board.ids().filter(|&id| test(self.board.get(id))).count() as u32;
        let waiting = count(|record| record.place == Place::Lost);
        let repeated = count(|record| record.place == Place::Flight && record.retransmissions > 0);
        TcpInfo {
            ca_state,
            cwnd: self.window.cwnd / mss.as_u64(),
            ssthresh: self.ssthresh(),
            mss,
            bytes_acked: self.stream.acknowledged_payload(),
            unacked: self.board.len(),
            sacked,
            lost: waiting + count(Record::is_repair),
            retrans: repeated,
            total_retrans: self.stats.retransmits,
            reordering: recovery.rack.reordering,
            reordering_seen: u32::from(recovery.rack.reordering_count),
            timeouts: self.timers.timeouts,
            backoff: self.rtt.backoff,
            probes: self.probes().unwrap_or(0),
            rto: self.rtt.rto(),
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.mean_deviation(),
            min_rtt: self.rtt.least(),
            unsent: Bytes::new(self.stream.app_end.saturating_sub(self.stream.nxt)),
        }
    }
}
