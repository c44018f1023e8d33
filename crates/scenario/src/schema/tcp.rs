//! Transport settings. Each default is what Linux does; its comment names the fact.

use narrows_cc::IdleRule;
use narrows_tcp::{PrrBound, ReductionFrom, TimerRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::table;
use crate::quantity::{Amount, Period, Size, Time};

table! {
    /// Transport settings. The defaults are Linux's.
    #[derive(Default)]
    Tcp {
        ; // optional:
        /// A named set of options (linux). It replaces the defaults of the keys below, and of some parameters of
        /// schemes; stated keys win. [Profiles](profiles.md) lists what each sets.
        profile: ProfileName,
        /// Settings of the profile that do not apply: their keys in [Profiles](profiles.md), such as
        /// `["min_rto", "quantum"]` (none). These options keep Linux's values.
        profile_except: Vec<String>,
        /// Initial window in segments (10).
        initial_window: u32,
        /// Full segments per acknowledgement (2).
        ack_every: u32,
        /// The longest delay of an acknowledgement (40ms).
        ack_delay: Time,
        /// Acknowledgements that a receiver sends without delay at the start and after an idle time (16). Linux
        /// `TCP_MAX_QUICKACKS`; 0 delays from the first segment on, as RFC 5681 allows.
        quick_acks: u32,
        /// The receiver acknowledges every packet that lets its window grow, by two segments each (true). Linux
        /// `tcp_grow_window`. With a fixed buffer these are the first packets, until it has grown by a quarter.
        quick_growth: bool,
        /// After three acknowledgements of out-of-order data the receiver holds further ones for up to 5 % of the
        /// RTT, at most 1 ms (true where there is sack). Linux `tcp_comp_sack_delay_ns`; RFC 5681 acknowledges
        /// such data at once.
        sack_compression: bool,
        /// The receiving host hands packets that arrive within this time to TCP as one (off). Linux's network
        /// interfaces do so (GRO), by an amount that depends on the hardware.
        gro: Period,
        /// Payload bytes of a full segment (1448).
        segment_bytes: u16,
        /// Header bytes of every packet (52). IPv4, TCP and timestamps; it does not follow `timestamps`.
        header_bytes: u16,
        /// The receiver's buffer, the largest window (64MiB).
        receive_window: Size,
        /// The receiver's buffer follows what the application reads per round trip, from 80 KiB up to `receive_window`
        /// (true). Linux `tcp_rcv_space_adjust`; without it the whole buffer is there from the start.
        receive_autotuning: bool,
        /// Rules of the timers: retransmission, tail-loss probe, reordering (linux).
        timers: TimerRulesKind,
        /// Least retransmission timeout (200ms). Linux adds it to the smoothed RTT; with `timers = "rfc"` it bounds
        /// the sum.
        min_rto: Time,
        /// Retransmission timeout before the first RTT sample (1s).
        initial_rto: Time,
        /// Greatest retransmission timeout (120s).
        max_rto: Time,
        /// Timestamps, RFC 7323: their echo gives RTT samples and shows spurious reductions (true). Linux
        /// `tcp_timestamps`.
        timestamps: bool,
        /// The echo of a timestamp gives an RTT sample also when retransmitted data is acknowledged, which ends the
        /// timer's back-off (true where there are timestamps). Linux `tcp_ack_update_rtt`; without it Karn's
        /// algorithm.
        timestamp_rtt: bool,
        /// Selective acknowledgements (true).
        sack: bool,
        /// Time-based loss detection, RFC 8985 (true where there is sack).
        rack: bool,
        /// RTT by which RACK judges packets: that of the last or of the newest packet that an acknowledgement
        /// delivers (last). Linux `tcp_rack_advance` and the sample of the acknowledgement.
        rack_rtt: RackRtt,
        /// Tail-loss probes (true where there is rack).
        tlp: bool,
        /// Data that the receiver reports as a duplicate (DSACK) counts as delivered (true where there is sack).
        /// Linux `tcp_dsack_seen`; RFC 9937 counts data delivered for the first time only.
        dsack_delivered: bool,
        /// Units of proportional rate reduction, and its lower bound when the data in flight is below its target
        /// (linux). Linux `tcp_cwnd_reduction`.
        prr: PrrKind,
        /// Quantity that a reduction starts from (cwnd). Linux `tcp_reno_ssthresh` halves cwnd.
        reduction_from: ReductionFromKind,
        /// cwnd after a time without sending (linux). Linux `tcp_slow_start_after_idle`.
        idle_restart: IdleRestartKind,
        /// After reordering, cwnd grows on selective acknowledgements too (true where there is sack). Linux
        /// `tcp_may_raise_cwnd`; RFC 5681 counts cumulative acknowledgements.
        grow_on_sack: bool,
        /// ECN, RFC 3168 (true for schemes that need marks, else false).
        ecn: bool,
        /// The receiver echoes every mark, RFC 8257 section 3.2 (true for schemes that need their share, else
        /// false).
        ecn_precise: bool,
        /// Send data as ECT(1), RFC 9331 (true for L4S schemes, else false).
        ect1: bool,
        /// Send in bursts of about 1 ms of data at the pacing rate, at least two segments (true). Linux
        /// `tcp_tso_autosize`; senders without pacing also wait for room for such a burst, as in
        /// `tcp_tso_should_defer`. If false, a pacing scheme chooses its bursts, and others send segment by segment.
        tso: bool,
        /// The largest burst when pacing (65215B). That is Linux's largest TSO packet; 1pkt spaces single packets
        /// exactly, and larger values cap the bursts of `tso` or of the scheme.
        max_burst: Amount,
    }
}

/// A named set of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// TCP as Linux deploys it.
    #[default]
    Linux,
    /// TCP as its RFCs describe it.
    Rfc,
    /// TCP with the defaults of ns-3.
    Ns3,
}

/// Defines the words of a key and the engine's value of each.
macro_rules! words {
    ($(#[$doc:meta])* $Name:ident => $Engine:ty {
        $($(#[$vdoc:meta])* $Variant:ident => $value:expr,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $Name {
            $($(#[$vdoc])* $Variant,)*
        }

        impl From<$Name> for $Engine {
            fn from(word: $Name) -> Self {
                match word {
                    $($Name::$Variant => $value,)*
                }
            }
        }

        impl From<$Engine> for $Name {
            fn from(value: $Engine) -> Self {
                $(if value == $value {
                    return Self::$Variant;
                })*
                unreachable!("every value has its word")
            }
        }
    };
}

words! {
    /// Rules of the timers.
    TimerRulesKind => TimerRules {
        /// RTO = srtt + max(4 rttvar, `min_rto`). A tail-loss probe waits for `min_rto` more if one packet is in
        /// flight, else for 2 ms.
        Linux => TimerRules::Linux,
        /// RTO = max(srtt + max(4 rttvar, `ack_delay`), `min_rto`), RFC 6298. A tail-loss probe of one packet waits
        /// for `ack_delay` more, RFC 8985.
        Rfc => TimerRules::Rfc,
    }
}

words! {
    /// Units and lower bound of proportional rate reduction.
    PrrKind => PrrBound {
        /// As rfc9937, but in whole segments, rounded up.
        Linux => PrrBound::Linux,
        /// At least the data that this acknowledgement delivered.
        Rfc9937 => PrrBound::Rfc9937,
        /// The data delivered less the data sent in this recovery, unless the acknowledgement shows progress.
        Rfc6937 => PrrBound::Rfc6937,
    }
}

words! {
    /// Quantity that a reduction starts from.
    ReductionFromKind => ReductionFrom {
        /// cwnd. After a timeout cwnd becomes the data in flight plus one segment.
        Cwnd => ReductionFrom::Cwnd,
        /// FlightSize, RFC 5681. After a timeout cwnd becomes one segment.
        Flight => ReductionFrom::Flight,
    }
}

words! {
    /// cwnd after a time without sending.
    IdleRestartKind => IdleRule {
        /// Halve cwnd per RTO of idle time, not below the initial window, and keep three quarters of it in ssthresh
        /// (RFC 2861).
        Linux => IdleRule::Linux,
        /// The initial window after more than one RTO, RFC 5681 section 4.1.
        Rfc5681 => IdleRule::Rfc5681,
        /// Keep cwnd.
        Off => IdleRule::Off,
    }
}

words! {
    /// RTT by which RACK judges packets: whether it is that of the last packet.
    RackRtt => bool {
        /// That of the last packet that the acknowledgement delivers.
        Last => true,
        /// That of the newest packet, RFC 8985.
        Newest => false,
    }
}
