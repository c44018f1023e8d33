//! The table of TCP options, and the settings of a connection, which are generated from it.

/// Passes the table of options to the macro `$then`. A row:
///
/// ```text
/// /// Meaning (default). More.                  for the reference of scenarios
/// field as "key": Type {                        field of `TcpConfig`; key in scenarios, if it differs
///     linux: value, "fact"; rfc: …; ns3: …;     value in each profile, and its source;
///     default: value;                           instead of these: the default of an option that no profile sets
///     needs: other, "reason";                   off if the option `other` is off
///     kernel: set                               `--on kernel` sets the stated value; with `linux` it keeps Linux's
/// }                                             behaviour and refuses other values
/// ```
///
/// Types have the same names in scenarios, where values are strings: `Time`, `Size`, `Amount`, `Period`, and the words
/// of an enumeration. Scenarios list the keys in the order of rows, on which identities of runs depend.
#[macro_export]
macro_rules! tcp_options {
    ($then:ident) => {
        $then! {
            /// Initial window in segments (10).
            initial_window: u32 {
                linux: 10, "TCP_INIT_CWND";
                rfc: 10, "RFC 6928";
                ns3: 10, "TcpSocket::InitialCwnd";
                kernel: set
            }
            /// Full segments per acknowledgement (2).
            ack_every: u32 {
                linux: 2, "__tcp_ack_snd_check";
                rfc: 2, "RFC 5681 section 4.2";
                ns3: 2, "TcpSocket::DelAckCount";
                kernel: linux
            }
            /// The longest delay of an acknowledgement (40ms).
            ack_delay: Time {
                linux: ms(40), "TCP_DELACK_MIN";
                rfc: ms(40), "below the 500 ms of RFC 5681 section 4.2";
                ns3: ms(200), "TcpSocket::DelAckTimeout";
                kernel: linux
            }
            /// Acknowledgements that a receiver sends without delay at the start and after an idle time (16). Linux
            /// `TCP_MAX_QUICKACKS`; 0 delays from the first segment on, as RFC 5681 allows.
            quick_acks: u32 {
                linux: 16, "TCP_MAX_QUICKACKS";
                rfc: 0, "no RFC has them";
                ns3: 0, "TcpSocketBase::ReceivedData has none";
                kernel: linux
            }
            /// The receiver acknowledges every packet that lets its window grow, by two segments each (true). Linux
            /// `tcp_grow_window`. With a fixed buffer these are the first packets, until it has grown by a quarter.
            quick_growth: bool {
                linux: true, "tcp_grow_window, scaling_ratio";
                rfc: false, "no RFC has it";
                ns3: false, "TcpSocketBase::ReceivedData has none";
                kernel: linux
            }
            /// After three acknowledgements of out-of-order data the receiver delays further ones by up to 5 % of the
            /// RTT, at most 1 ms (true where there is sack). Linux `tcp_comp_sack_delay_ns`; by RFC 5681 such data is
            /// acknowledged at once.
            sack_compression: bool {
                linux: true, "tcp_comp_sack_delay_ns, tcp_comp_sack_nr";
                rfc: false, "RFC 5681 section 4.2";
                ns3: false, "TcpSocketBase::ReceivedData: a gap is acknowledged at once";
                needs: sack, "there are no selective acknowledgements to compress";
                kernel: linux
            }
            /// The receiving host hands packets that arrive within this time to TCP as one (off). Linux's network
            /// interfaces do so (GRO), by an amount that depends on the hardware.
            gro: Period {
                default: off();
                kernel: linux
            }
            /// Payload bytes of a full segment (1448).
            segment as "segment_bytes": u16 {
                default: 1448;
                kernel: set
            }
            /// Header bytes of every packet (52). IPv4, TCP and timestamps; it does not follow `timestamps`.
            header as "header_bytes": u16 {
                default: narrows_packet::HEADER_BYTES;
                kernel: set
            }
            /// The receiver's buffer, the largest window (64MiB).
            receive_window: Size {
                default: mib(64);
                kernel: set
            }
            /// The receiver's buffer follows the amount that the application reads per round trip, from 80 KiB up to
            /// `receive_window` (true). Linux `tcp_rcv_space_adjust`; if false, the buffer has its full size from the
            /// start.
            receive_autotuning: bool {
                linux: true, "tcp_rcv_space_adjust, tcp_rcvbuf_grow";
                rfc: false, "no RFC has it";
                ns3: false, "TcpSocket::RcvBufSize is fixed";
                kernel: set
            }
            /// Rules of the timers: retransmission, tail-loss probe, reordering (linux).
            timers: TimerRules {
                linux: TimerRules::Linux, "tcp_rtt_estimator, tcp_schedule_loss_probe";
                rfc: TimerRules::Rfc, "RFC 6298, RFC 8985";
                ns3: TimerRules::Rfc, "TcpL4Protocol::RttEstimatorType = RttMeanDeviation";
                kernel: linux
            }
            /// Least retransmission timeout (200ms). Linux adds it to the smoothed RTT; with `timers = "rfc"` it bounds
            /// the sum.
            min_rto: Time {
                linux: ms(200), "TCP_RTO_MIN";
                rfc: ms(200), "below the 1 s of RFC 6298, as all stacks do";
                ns3: secs(1), "TcpSocketBase::MinRto";
                kernel: linux
            }
            /// Retransmission timeout before the first RTT sample (1s).
            initial_rto: Time {
                linux: secs(1), "TCP_TIMEOUT_INIT";
                rfc: secs(1), "RFC 6298 section 2.1";
                ns3: secs(3), "TcpSocket::ConnTimeout";
                kernel: linux
            }
            /// Greatest retransmission timeout (120s).
            max_rto: Time {
                linux: secs(120), "TCP_RTO_MAX";
                rfc: secs(120), "above the least of RFC 6298 section 2.5";
                ns3: secs(60), "TcpSocketBase::ReTxTimeout";
                kernel: linux
            }
            /// Timestamps, RFC 7323: their echo gives RTT samples and shows spurious reductions (true). Linux
            /// `tcp_timestamps`.
            timestamps: bool {
                linux: true, "tcp_timestamps";
                rfc: true, "RFC 7323";
                ns3: true, "TcpSocketBase::Timestamp";
                kernel: set
            }
            /// The echo of a timestamp gives an RTT sample also when retransmitted data is acknowledged, which ends the
            /// timer's back-off (true where there are timestamps). Linux `tcp_ack_update_rtt`; without it Karn's
            /// algorithm.
            timestamp_rtt: bool {
                linux: true, "tcp_ack_update_rtt";
                rfc: true, "RFC 7323 section 4";
                ns3: true, "TcpSocketBase::CalculateRttSample";
                needs: timestamps, "samples from timestamps need timestamps";
                kernel: linux
            }
            /// Selective acknowledgements (true).
            sack: bool {
                linux: true, "tcp_sack";
                rfc: true, "RFC 2018";
                ns3: true, "TcpSocketBase::Sack";
                kernel: set
            }
            /// Time-based loss detection, RFC 8985 (true where there is sack).
            rack: bool {
                linux: true, "tcp_recovery";
                rfc: true, "RFC 8985";
                ns3: false, "TcpTxBuffer::UpdateLostCount: RFC 6675";
                needs: sack, "RACK needs selective acknowledgements";
                kernel: set
            }
            /// RTT that RACK uses: that of the last or of the newest packet that an acknowledgement delivers (last).
            /// Linux `tcp_rack_advance` and the sample of the acknowledgement.
            rack_rtt_last as "rack_rtt": RackRtt {
                linux: LAST, "tcp_rack_advance";
                rfc: NEWEST, "RFC 8985 section 6.2";
                ns3: NEWEST, "there is no RACK";
                kernel: linux
            }
            /// Tail-loss probes (true where there is rack).
            tlp: bool {
                linux: true, "tcp_early_retrans";
                rfc: true, "RFC 8985 section 7";
                ns3: false, "TcpSocketBase has none";
                needs: rack, "tail-loss probes need RACK";
                kernel: set
            }
            /// Data that the receiver reports as a duplicate (DSACK) counts as delivered (true where there is sack).
            /// Linux `tcp_dsack_seen`; RFC 9937 counts data delivered for the first time only.
            dsack_delivered: bool {
                linux: true, "tcp_dsack_seen";
                rfc: false, "RFC 9937, DeliveredData";
                ns3: false, "TcpRxBuffer reports no duplicates";
                needs: sack, "duplicates are reported by selective acknowledgements";
                kernel: linux
            }
            /// Units of proportional rate reduction, and its lower bound when the data in flight is below its target
            /// (linux). Linux `tcp_cwnd_reduction`.
            prr: PrrBound {
                linux: PrrBound::Linux, "tcp_cwnd_reduction";
                rfc: PrrBound::Rfc9937, "RFC 9937";
                ns3: PrrBound::Rfc9937, "TcpL4Protocol::RecoveryType = TcpPrrRecovery";
                kernel: linux
            }
            /// Quantity that a reduction starts from (cwnd). Linux `tcp_reno_ssthresh` halves cwnd.
            reduction_from: ReductionFrom {
                linux: ReductionFrom::Cwnd, "tcp_init_cwnd_reduction, tcp_enter_loss";
                rfc: ReductionFrom::Flight, "RFC 5681 section 3.1";
                ns3: ReductionFrom::Flight, "TcpSocketBase::EnterRecovery and ReTxTimeout pass BytesInFlight";
                kernel: linux
            }
            /// cwnd after a time without sending (linux). Linux `tcp_slow_start_after_idle`.
            idle as "idle_restart": IdleRule {
                linux: IdleRule::Linux, "tcp_slow_start_after_idle";
                rfc: IdleRule::Rfc5681, "RFC 5681 section 4.1";
                ns3: IdleRule::Off, "TcpSocketBase keeps cwnd";
                kernel: set
            }
            /// After reordering, cwnd grows on selective acknowledgements too (true where there is sack). Linux
            /// `tcp_may_raise_cwnd`; RFC 5681 counts cumulative acknowledgements.
            grow_on_sack: bool {
                linux: true, "tcp_may_raise_cwnd";
                rfc: false, "RFC 5681 section 3.1";
                ns3: false, "TcpSocketBase::ProcessAck: IncreaseWindow on cumulative ACKs";
                needs: sack, "growth on selective acknowledgements needs them";
                kernel: linux
            }
            /// ECN, RFC 3168 (true for schemes that need marks, else false).
            ecn: bool {
                default: false;
                kernel: set
            }
            /// The receiver echoes every mark, RFC 8257 section 3.2 (true for schemes that need the fraction of marked
            /// packets, else false).
            ecn_precise: bool {
                default: false;
                kernel: set
            }
            /// Send data as ECT(1), RFC 9331 (true for L4S schemes, else false).
            ect1: bool {
                default: false;
                kernel: linux
            }
            /// Send in bursts of about 1 ms of data at the pacing rate, at least two segments (true). Linux
            /// `tcp_tso_autosize`; senders without pacing also wait for room for such a burst, as in
            /// `tcp_tso_should_defer`. If false, a pacing scheme chooses its bursts, and others send segment by
            /// segment.
            tso: bool {
                linux: true, "tcp_tso_autosize, tcp_tso_should_defer";
                rfc: false, "no RFC has it";
                ns3: false, "TcpSocketBase::SendPendingData: one packet per pacing timer";
                kernel: linux
            }
            /// The largest burst when pacing (65215B). That is Linux's largest TSO packet; 1pkt spaces single packets
            /// exactly, and larger values cap the bursts of `tso` or of the scheme.
            max_burst: Amount {
                linux: bytes(65_215), "GSO_LEGACY_MAX_SIZE less the headers";
                rfc: pkt(1), "no RFC has larger bursts";
                ns3: pkt(1), "TcpSocketBase::SendPendingData: one packet per pacing timer";
                kernel: linux
            }
        }
    };
}

use narrows_cc::{Bytes, IdleRule, Nanos, PrrBound};

use crate::config::{ReductionFrom, TimerRules};

// Names of the table's types, and constructors for its units.
type Time = Nanos;
type Size = Bytes;
type Amount = Bytes;
type Period = Nanos;
type RackRtt = bool;

/// RACK's RTT is that of the last packet that an acknowledgement delivers.
const LAST: RackRtt = true;
/// RACK's RTT is that of the newest packet that an acknowledgement delivers.
const NEWEST: RackRtt = false;

const fn ms(time: u64) -> Time {
    Nanos::from_millis(time)
}

const fn secs(time: u64) -> Time {
    Nanos::from_secs(time)
}

const fn off() -> Period {
    Nanos::ZERO
}

const fn bytes(size: u64) -> Amount {
    Bytes::new(size)
}

const fn mib(size: u64) -> Size {
    Bytes::new(size << 20)
}

/// Full segments of the default size.
const fn pkt(count: u64) -> Amount {
    Bytes::new(count * 1448)
}

/// The largest TSO packet of Linux: 64 KiB less the space for headers (`GSO_LEGACY_MAX_SIZE`, `MAX_TCP_HEADER`).
pub const MAX_TSO: Bytes = Bytes::new(65_536 - 1 - 320);

/// The key of an option in scenarios.
#[doc(hidden)]
#[macro_export]
macro_rules! option_key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// The value of an option on Linux: the stated value, or Linux's value, which is off if the option that it needs is
/// off.
macro_rules! on_linux {
    (set $own:expr, $linux:expr $(, $on:expr)?) => {
        $own
    };
    (linux $own:expr, $linux:expr $(, $on:expr)?) => {
        $linux $(&& $on)?
    };
}

macro_rules! config {
    ($(
        $(#[$doc:meta])*
        $field:ident $(as $key:literal)?: $Type:ident {
            $(linux: $linux:expr, $linux_fact:literal; rfc: $rfc:expr, $rfc_fact:literal; ns3: $ns3:expr, $ns3_fact:literal;)?
            $(default: $default:expr;)?
            $(needs: $on:ident, $reason:literal;)?
            kernel: $kernel:ident
        }
    )*) => {
        /// Settings of a connection. [`Default`] is TCP as Linux deploys it.
        #[derive(Clone, Debug, PartialEq)]
        pub struct TcpConfig {
            $($(#[$doc])* pub $field: $Type,)*
        }

        impl Default for TcpConfig {
            fn default() -> Self {
                Self { $($field: $($linux)? $($default)?,)* }
            }
        }

        impl TcpConfig {
            /// TCP that follows the RFCs where Linux deviates from them.
            pub fn rfc() -> Self {
                Self { $($($field: $rfc,)?)* ..Self::default() }
            }

            /// TCP with the defaults of ns-3.
            pub fn ns3() -> Self {
                Self { $($($field: $ns3,)?)* ..Self::default() }
            }

            /// These settings on a Linux host: the stated values where Linux offers a choice, else Linux's values.
            #[must_use]
            pub fn on_linux(&self) -> Self {
                let linux = Self::default();
                Self { $($field: on_linux!($kernel self.$field, linux.$field $(, self.$on)?),)* }
            }

            /// The first key in which two settings differ.
            pub fn difference(&self, other: &Self) -> Option<&'static str> {
                let keys = [$((self.$field == other.$field, option_key!($field $($key)?))),*];
                keys.into_iter().find(|(same, _)| !same).map(|(_, key)| key)
            }
        }
    };
}

tcp_options!(config);
