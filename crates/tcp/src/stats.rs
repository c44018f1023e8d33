//! Counters of sender and receiver.

/// Counters of a sender.
// Counters that change with every packet or acknowledgement come last: see `Sender`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SenderStats {
    /// Data packets retransmitted.
    pub retransmits: u64,
    /// Payload bytes retransmitted.
    pub bytes_retransmitted: u64,
    /// Data packets declared lost; a lost retransmission counts again.
    pub lost_packets: u64,
    /// Fast recoveries entered for loss.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries and timeouts that were found to be spurious.
    pub spurious_recoveries: u64,
    /// Tail-loss probes sent.
    pub tlp_probes: u64,
    /// SACK blocks with new information.
    pub sack_blocks: u64,
    /// Reductions for congestion marks.
    pub ecn_reductions: u64,
    /// Rates in acknowledgements that were ignored because they are outdated or for data never sent.
    pub stale_advice: u64,
    /// Control messages sent to routers.
    pub messages_sent: u64,
    /// Control messages refused: for another connection, unsolicited or invalid.
    pub messages_refused: u64,
    /// Data packets sent, retransmissions included.
    pub data_packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Delivery-rate samples taken.
    pub rate_samples: u64,
    /// Round-trip time samples taken, including that of the handshake.
    pub rtt_samples: u64,
    /// Packets that the pacer delayed although the window allowed them.
    pub paced_waits: u64,
}

/// Counters of a receiver.
// Counters that change with every packet or acknowledgement come first: see `Receiver`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ReceiverStats {
    /// Data packets with new data.
    pub data_packets: u64,
    /// Payload bytes delivered in order.
    pub bytes_in_order: u64,
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Data packets without new data.
    pub duplicate_packets: u64,
    /// Acknowledgements sent because the delay expired.
    pub delayed_acks: u64,
    /// Packets that arrived with a CE mark.
    pub ce_packets: u64,
    /// Data packets that arrived ahead of a gap.
    pub out_of_order: u64,
    /// Control messages refused: for another connection or invalid.
    pub messages_refused: u64,
}
