//! Counters of both ends.

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data packets sent, retransmissions included.
    pub data_packets_sent: u64,
    /// Payload bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Data packets sent again.
    pub retransmits: u64,
    /// Payload bytes sent again.
    pub bytes_retransmitted: u64,
    /// Data packets declared lost; a packet whose retransmission is lost too counts again.
    pub lost_packets: u64,
    /// Fast recoveries entered for loss.
    pub recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Recoveries and timeouts found out to be unnecessary.
    pub spurious_recoveries: u64,
    /// Tail-loss probes sent.
    pub tlp_probes: u64,
    /// SACK blocks that told something new.
    pub sack_blocks: u64,
    /// Delivery-rate samples taken.
    pub rate_samples: u64,
    /// Round-trip time samples taken, the handshake's included.
    pub rtt_samples: u64,
    /// Times the pacer held a packet back that the window allowed.
    pub paced_waits: u64,
    /// Reductions for congestion marks.
    pub ecn_reductions: u64,
    /// Rates read in acknowledgements that were old or acknowledged what was never sent, and ignored.
    pub stale_advice: u64,
    /// Messages to nodes of the network.
    pub messages_sent: u64,
    /// Messages that were not for this connection, unasked for, or impossible.
    pub messages_refused: u64,
}

/// What a receiver saw and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data packets that brought something new.
    pub data_packets: u64,
    /// Data packets that brought nothing new.
    pub duplicate_packets: u64,
    /// Payload bytes delivered in order.
    pub bytes_in_order: u64,
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Acknowledgements sent.
    pub acks_sent: u64,
    /// Acknowledgements sent because the delay ran out.
    pub delayed_acks: u64,
    /// Packets that arrived with a congestion mark.
    pub ce_packets: u64,
    /// Data packets that arrived before data in front of them.
    pub out_of_order: u64,
    /// Messages that were not for this connection, or impossible.
    pub messages_refused: u64,
}
