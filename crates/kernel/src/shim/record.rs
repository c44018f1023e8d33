//! The shim's records and their answers, in the layout of `bpf/protocol.h`.

use narrows_cc::{Bytes, Nanos, Rate};

macro_rules! record {
    ($(#[$doc:meta])* pub struct Record { $($(#[$long_doc:meta])* $long:ident: u64,)+ ; $($(#[$word_doc:meta])* $word:ident: u32,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Record {
            $($(#[$long_doc])* pub $long: u64,)+
            $($(#[$word_doc])* pub $word: u32,)+
        }

        impl Record {
            /// Names of the fields, in order.
            pub const FIELDS: &[&'static str] = &[$(stringify!($long),)+ $(stringify!($word),)+];
            /// Bytes that the kernel writes.
            pub const SIZE: usize = [$(stringify!($long)),+].len() * 8 + [$(stringify!($word)),+].len() * 4;

            /// Reads a record from the kernel's bytes; `None` if their number is not [`Record::SIZE`].
            pub fn read(bytes: &[u8]) -> Option<Self> {
                if bytes.len() != Self::SIZE {
                    return None;
                }
                let mut at = 0;
                $(let $long = u64::from_ne_bytes(*bytes[at..].first_chunk()?); at += 8;)+
                $(let $word = u32::from_ne_bytes(*bytes[at..].first_chunk()?); at += 4;)+
                let _ = at;
                Some(Self { $($long,)+ $($word,)+ })
            }

            /// The values of [`Record::FIELDS`].
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$long,)+ $(u64::from(self.$word),)+]
            }

            /// The record with these values; `None` if a value does not fit, or the number of values differs.
            pub fn of_values(values: &[u64]) -> Option<Self> {
                let mut values = values.iter().copied();
                $(let $long = values.next()?;)+
                $(let $word = u32::try_from(values.next()?).ok()?;)+
                values.next().is_none().then_some(Self { $($long,)+ $($word,)+ })
            }
        }
    };
}

record! {
    /// One event of a flow. Names are those of Linux (`struct tcp_sock`, `struct rate_sample`), amounts are packets
    /// unless the name says otherwise.
    pub struct Record {
        /// Number of the record in its flow, from 1.
        sequence: u64,
        /// Number of the last record that the decision in force after the event accounts for; 0 before the first
        /// decision.
        applied: u64,
        /// `CLOCK_MONOTONIC` when the record was made.
        time_ns: u64,
        /// The kernel's time of the event (`tcp_mstamp`).
        mstamp_us: u64,
        /// Time of the last delivery before the newest packet delivered was sent.
        prior_mstamp_us: u64,
        /// Departure of the newest packet delivered.
        first_tx_us: u64,
        /// Payload sent, retransmissions included.
        bytes_sent: u64,
        /// Payload retransmitted.
        bytes_retrans: u64,
        /// Pacing rate in force, in bytes per second.
        pacing_rate: u64,
        ;
        /// Local port.
        port: u32,
        /// A [`Kind`].
        kind: u32,
        /// States entered since the previous record. Each takes four bits and is stored plus one; the last state is in
        /// the lowest bits.
        transitions: u32,
        /// [`flag`]s.
        flags: u32,
        /// `flag` of `cong_control`.
        ack_flags: u32,
        /// Packets newly delivered.
        acked_sacked: u32,
        /// Packets newly lost.
        losses: u32,
        /// The connection's delivered count when the newest packet delivered was sent.
        prior_delivered: u32,
        /// Packets delivered over the sample's interval.
        sample_delivered: u32,
        /// The longer of the two phases below; all ones if there is no sample.
        interval_us: u32,
        /// Send phase of the sample.
        snd_interval_us: u32,
        /// Acknowledgement phase of the sample.
        rcv_interval_us: u32,
        /// RTT of the newest packet delivered; all ones if there is none.
        rtt_us: u32,
        /// Packets in flight before the event.
        prior_in_flight: u32,
        /// Packets delivered so far.
        delivered: u32,
        /// Packets delivered with ECN marks so far.
        delivered_ce: u32,
        /// Packets lost so far.
        lost: u32,
        /// Packets sent and not acknowledged.
        packets_out: u32,
        /// Packets acknowledged selectively.
        sacked_out: u32,
        /// Packets lost and not acknowledged.
        lost_out: u32,
        /// Retransmissions in flight.
        retrans_out: u32,
        /// In force after the event.
        snd_cwnd: u32,
        /// In force after the event.
        ssthresh: u32,
        /// Eight times the smoothed RTT.
        srtt_us: u32,
        /// RTT variation, as the retransmission timeout uses it.
        rttvar_us: u32,
        /// Minimum RTT; all ones if there is none.
        min_rtt_us: u32,
        /// Bytes of a full segment.
        mss: u32,
        /// Sequence number up to which data is acknowledged cumulatively.
        snd_una: u32,
        /// Next sequence number to send.
        snd_nxt: u32,
        /// Packets sent in the reduction.
        prr_out: u32,
        /// The most packets outstanding in the last observed window.
        max_packets_out: u32,
        /// Delivery count up to which samples are application-limited; 0 if they are not.
        app_limited: u32,
        /// Consecutive timeouts before this event.
        retransmits: u32,
        /// Reordering degree of the path in packets, at least 3.
        reordering: u32,
    }
}

/// Bits of [`Record::flags`].
pub mod flag {
    /// The last reduction was unnecessary.
    pub const UNDO: u32 = 1;
    /// The timeout calls for a reduction.
    pub const LOSS_EVENT: u32 = 2;
    /// cwnd limited the sender in the last observed window.
    pub const CWND_LIMITED: u32 = 4;
    /// The sample is application-limited.
    pub const APP_LIMITED: u32 = 8;
    /// The fields of the sample are valid.
    pub const SAMPLED: u32 = 64;
    /// The shim followed no decision.
    pub const FALLBACK: u32 = 128;
    /// Of [`Record::ack_flags`](super::Record::ack_flags): the receiver echoes congestion (`FLAG_ECE`).
    pub const ECE: u32 = 0x40;
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The connection is established.
    Init,
    /// An acknowledgement was processed.
    Ack,
    /// The retransmission timer expired.
    Timeout,
    /// The state changed without an acknowledgement.
    State,
    /// Sending begins with nothing in flight.
    Start,
    /// The socket ends.
    Close,
}

impl Record {
    /// The kind; `None` if it is unknown.
    pub fn kind(&self) -> Option<Kind> {
        let kinds = [Kind::Init, Kind::Ack, Kind::Timeout, Kind::State, Kind::Start, Kind::Close];
        kinds.get((self.kind as usize).checked_sub(1)?).copied()
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Packets in flight (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        self.packets_out.wrapping_sub(self.sacked_out.wrapping_add(self.lost_out)).wrapping_add(self.retrans_out)
    }

    /// The states entered (`TCP_CA_*`), in order.
    pub fn states(&self) -> impl Iterator<Item = u32> {
        let word = self.transitions;
        (0..8).rev().filter_map(move |place| (word >> (4 * place) & 15).checked_sub(1))
    }
}

/// An answer to the shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Number of the last record that the decision accounts for.
    pub answers: u64,
    /// Payload bytes per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Packets.
    pub cwnd: u32,
    /// Packets.
    pub ssthresh: u32,
    /// Packets allowed by a proportional rate reduction in progress.
    pub reduction: Option<Allowance>,
    /// Minimum burst in packets.
    pub burst: u32,
}

/// Packets that a reduction allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Packets that may be sent in the reduction beyond `out`.
    pub packets: u32,
    /// Packets sent in the reduction when the decision was made.
    pub out: u32,
}

impl Decision {
    /// Number of bytes of a decision in the map.
    pub const SIZE: usize = 40;

    /// The decision's bytes in the map.
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let flags = u32::from(self.reduction.is_some()) | u32::from(self.pacing_rate.is_some()) << 1;
        let reduction = self.reduction.unwrap_or_default();
        let words = [self.cwnd, self.ssthresh, flags, reduction.packets, reduction.out, self.burst];
        bytes[..8].copy_from_slice(&self.answers.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.pacing_rate.unwrap_or(0).to_ne_bytes());
        for (place, word) in bytes[16..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// All fields as numbers, for tapes.
    pub fn values(&self) -> Vec<u64> {
        let optional = |value: Option<u64>| value.map_or(0, |value| value.saturating_add(1));
        let reduction = self.reduction.map(|own| u64::from(own.packets) << 32 | u64::from(own.out));
        let words = [self.cwnd, self.ssthresh, self.burst].map(u64::from);
        vec![self.answers, optional(self.pacing_rate), optional(reduction), words[0], words[1], words[2]]
    }

    /// The decision with these values.
    pub fn of_values(values: &[u64]) -> Option<Self> {
        let &[answers, rate, reduction, cwnd, ssthresh, burst] = values else { return None };
        let word = |value: u64| u32::try_from(value).ok();
        Some(Self {
            answers,
            pacing_rate: rate.checked_sub(1),
            reduction: reduction.checked_sub(1).map(|own| Allowance { packets: (own >> 32) as u32, out: own as u32 }),
            cwnd: word(cwnd)?,
            ssthresh: word(ssthresh)?,
            burst: word(burst)?,
        })
    }
}

/// A time in microseconds; all ones mean none.
pub(super) fn measured(micros: u32) -> Option<Nanos> {
    (micros != u32::MAX).then(|| Nanos::from_micros(micros.into()))
}

/// Whole packets in an amount of data.
pub(super) fn packets(bytes: Bytes, mss: Bytes) -> u32 {
    u32::try_from(bytes.as_u64() / mss.as_u64()).unwrap_or(u32::MAX).min(u32::MAX >> 1)
}

/// A pacing rate as the map stores it; `None`, without pacing, for rates that Linux cannot represent.
pub(super) fn paced(rate: Option<Rate>) -> Option<u64> {
    rate.map(Rate::as_bytes_per_sec).filter(|rate| *rate < u64::MAX)
}
