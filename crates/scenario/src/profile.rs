//! Profiles: named sets of transport options and scheme parameters, each with the fact that it follows.
//!
//! A key stated in the scenario wins over the profile, and a flow's own profile over the common one. Options
//! that a profile does not list keep their defaults.
//!
//! `ns3` follows ns-3.48 (June 2026, `src/internet/model`); [`Profile::lacks`] lists what no option expresses.

use std::borrow::Cow;
use std::sync::OnceLock;

use narrows_cc::schemes;
use serde::Deserialize;

use crate::diagnostic::Location;
use crate::reader::Reader;
use crate::schema::Tcp;
use crate::schema::tcp::ProfileName;
use crate::tree::{KeyValue, Node, Tree};

/// One option that a profile sets.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// A key of `[tcp]`, or a parameter: `hystart` of every scheme that has it, `bbr.quantum` of that scheme.
    pub key: &'static str,
    /// Its value, as a scenario spells it.
    pub value: &'static str,
    /// The rule, function or attribute that it follows.
    pub follows: &'static str,
}

/// A named set of options.
#[derive(Debug)]
pub struct Profile {
    /// Its place in [`ALL`].
    pub id: ProfileName,
    /// Its name, the value of `tcp.profile`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Keys of `[tcp]`.
    pub tcp: &'static [Setting],
    /// Parameters of schemes.
    pub params: &'static [Setting],
    /// Differences that remain because no option expresses them.
    pub lacks: &'static [&'static str],
}

const fn set(key: &'static str, value: &'static str, follows: &'static str) -> Setting {
    Setting { key, value, follows }
}

/// All profiles, in the order of [`ProfileName`]; the first is the default.
pub static ALL: [Profile; 3] = [LINUX, RFC, NS3];

/// The parsed keys of each profile.
static KEYS: [OnceLock<Tcp>; ALL.len()] = [const { OnceLock::new() }; ALL.len()];

const LINUX: Profile = Profile {
    id: ProfileName::Linux,
    name: "linux",
    summary: "TCP as Linux deploys it.",
    tcp: &[
        set("tso", "true", "tcp_tso_autosize, tcp_tso_should_defer"),
        set("max_burst", "65215B", "GSO_LEGACY_MAX_SIZE less the headers"),
        set("initial_window", "10", "TCP_INIT_CWND"),
        set("ack_every", "2", "__tcp_ack_snd_check"),
        set("ack_delay", "40ms", "TCP_DELACK_MIN"),
        set("quick_acks", "16", "TCP_MAX_QUICKACKS"),
        set("quick_growth", "true", "tcp_grow_window, scaling_ratio"),
        set("receive_autotuning", "true", "tcp_rcv_space_adjust, tcp_rcvbuf_grow"),
        set("sack_compression", "true", "tcp_comp_sack_delay_ns, tcp_comp_sack_nr"),
        set("timers", "linux", "tcp_rtt_estimator, tcp_schedule_loss_probe"),
        set("min_rto", "200ms", "TCP_RTO_MIN"),
        set("initial_rto", "1s", "TCP_TIMEOUT_INIT"),
        set("max_rto", "120s", "TCP_RTO_MAX"),
        set("timestamps", "true", "tcp_timestamps"),
        set("timestamp_rtt", "true", "tcp_ack_update_rtt"),
        set("sack", "true", "tcp_sack"),
        set("rack", "true", "tcp_recovery"),
        set("rack_rtt", "last", "tcp_rack_advance"),
        set("tlp", "true", "tcp_early_retrans"),
        set("dsack_delivered", "true", "tcp_dsack_seen"),
        set("prr", "linux", "tcp_cwnd_reduction"),
        set("reduction_from", "cwnd", "tcp_init_cwnd_reduction, tcp_enter_loss"),
        set("idle_restart", "linux", "tcp_slow_start_after_idle"),
        set("grow_on_sack", "true", "tcp_may_raise_cwnd"),
    ],
    params: &[
        set("cubic.growth", "linux", "bictcp_update"),
        set("hystart", "linux", "hystart_update"),
        set("newreno.abc", "true", "tcp_reno_cong_avoid"),
        set("newreno.units", "segments", "tcp_reno_ssthresh, tcp_slow_start"),
        set("bbr.quantum", "0pkt", "bbr_tso_segs_goal"),
        set("bbr.lt_bw", "on", "bbr_lt_bw_sampling"),
        set("bbr.high_gain", "2.885", "bbr_high_gain"),
    ],
    lacks: &[],
};

const RFC: Profile = Profile {
    id: ProfileName::Rfc,
    name: "rfc",
    summary: "TCP as its RFCs describe it, with every packet spaced exactly.",
    tcp: &[
        set("tso", "false", "no RFC has it"),
        set("max_burst", "1pkt", "no RFC has larger bursts"),
        set("initial_window", "10", "RFC 6928"),
        set("ack_every", "2", "RFC 5681 section 4.2"),
        set("ack_delay", "40ms", "below the 500 ms of RFC 5681 section 4.2"),
        set("quick_acks", "0", "no RFC has them"),
        set("quick_growth", "false", "no RFC has it"),
        set("receive_autotuning", "false", "no RFC has it"),
        set("sack_compression", "false", "RFC 5681 section 4.2"),
        set("timers", "rfc", "RFC 6298, RFC 8985"),
        set("min_rto", "200ms", "below the 1 s of RFC 6298, as all stacks do"),
        set("initial_rto", "1s", "RFC 6298 section 2.1"),
        set("max_rto", "120s", "above the least of RFC 6298 section 2.5"),
        set("timestamps", "true", "RFC 7323"),
        set("timestamp_rtt", "true", "RFC 7323 section 4"),
        set("sack", "true", "RFC 2018"),
        set("rack", "true", "RFC 8985"),
        set("rack_rtt", "newest", "RFC 8985 section 6.2"),
        set("tlp", "true", "RFC 8985 section 7"),
        set("dsack_delivered", "false", "RFC 9937, DeliveredData"),
        set("prr", "rfc9937", "RFC 9937"),
        set("reduction_from", "flight", "RFC 5681 section 3.1"),
        set("idle_restart", "rfc5681", "RFC 5681 section 4.1"),
        set("grow_on_sack", "false", "RFC 5681 section 3.1"),
    ],
    params: &[
        set("cubic.growth", "rfc9438", "RFC 9438"),
        set("hystart", "rfc9406", "RFC 9406"),
        set("newreno.abc", "true", "RFC 3465"),
        set("newreno.units", "bytes", "RFC 5681 equation 4"),
    ],
    lacks: &[],
};

const NS3: Profile = Profile {
    id: ProfileName::Ns3,
    name: "ns3",
    summary: "TCP with the defaults of ns-3.48.",
    tcp: &[
        set("tso", "false", "TcpSocketBase::SendPendingData: one packet per pacing timer"),
        set("max_burst", "1pkt", "TcpSocketBase::SendPendingData: one packet per pacing timer"),
        set("initial_window", "10", "TcpSocket::InitialCwnd"),
        set("ack_every", "2", "TcpSocket::DelAckCount"),
        set("ack_delay", "200ms", "TcpSocket::DelAckTimeout"),
        set("quick_acks", "0", "TcpSocketBase::ReceivedData has none"),
        set("quick_growth", "false", "TcpSocketBase::ReceivedData has none"),
        set("receive_autotuning", "false", "TcpSocket::RcvBufSize is fixed"),
        set("sack_compression", "false", "TcpSocketBase::ReceivedData: a gap is acknowledged at once"),
        set("timers", "rfc", "TcpL4Protocol::RttEstimatorType = RttMeanDeviation"),
        set("min_rto", "1s", "TcpSocketBase::MinRto"),
        set("initial_rto", "3s", "TcpSocket::ConnTimeout"),
        set("max_rto", "60s", "TcpSocketBase::ReTxTimeout"),
        set("timestamps", "true", "TcpSocketBase::Timestamp"),
        set("timestamp_rtt", "true", "TcpSocketBase::CalculateRttSample"),
        set("sack", "true", "TcpSocketBase::Sack"),
        set("rack", "false", "TcpTxBuffer::UpdateLostCount: RFC 6675"),
        set("rack_rtt", "newest", "there is no RACK"),
        set("tlp", "false", "TcpSocketBase has none"),
        set("dsack_delivered", "false", "TcpRxBuffer reports no duplicates"),
        set("prr", "rfc9937", "TcpL4Protocol::RecoveryType = TcpPrrRecovery"),
        set("reduction_from", "flight", "TcpSocketBase::EnterRecovery and ReTxTimeout pass BytesInFlight"),
        set("idle_restart", "off", "TcpSocketBase keeps cwnd"),
        set("grow_on_sack", "false", "TcpSocketBase::ProcessAck: IncreaseWindow on cumulative ACKs"),
    ],
    params: &[
        set("cubic.growth", "linux", "TcpCubic::Update"),
        set("hystart", "linux", "TcpCubic::HyStart; see the differences"),
        set("newreno.abc", "off", "TcpNewReno::SlowStart, CongestionAvoidance: count ACKs"),
        set("newreno.units", "bytes", "TcpNewReno::GetSsThresh"),
        set("quantum", "1pkt", "TcpBbr::SetSendQuantum; variants in ns-3 build on TcpBbr"),
        set("lt_bw", "off", "TcpBbr detects no policers; variants in ns-3 build on TcpBbr"),
        set("bbr.high_gain", "2.89", "TcpBbr::HighGain"),
    ],
    lacks: &[
        "HyStart of TcpCubic leaves slow start later: after a train of a whole minimum RTT (Linux: half), or when \
         the delay grows by the minimum RTT, at least 4 ms and at most 1 s (HyStartDelayMin, HyStartDelayMax; Linux: \
         by an eighth, at most 16 ms).",
        "TcpCubic and TcpLinuxReno reduce from cwnd, the other schemes from the data in flight; after a timeout cwnd is \
         one segment for all. `reduction_from` is one rule for a flow.",
        "ClockGranularity is 1 ms; here the RTO's term for it is `ack_delay`.",
        "Timestamps count milliseconds, so RTT samples are rounded to them.",
        "TcpPrrRecovery up to 3.48 counts a further segment as delivered for each duplicate ACK, also with SACK.",
        "Spurious reductions are never undone; here timestamps show them (`timestamps = false` also ends that).",
        "SegmentSize is 536 B and RcvBufSize 128 KiB unless a script sets them, as nearly all do: set \
         `segment_bytes` and `receive_window`.",
        "A connection ends after DataRetries = 6 timeouts in a row.",
        "TcpBbr takes part in recovery by its own rule, and other schemes keep their parameters here.",
    ],
};

impl Profile {
    /// The profile of this name.
    pub fn named(name: ProfileName) -> &'static Self {
        &ALL[name as usize]
    }

    /// These settings of its keys of `[tcp]`.
    fn parsed(&self, keep: impl Fn(&Setting) -> bool) -> Tcp {
        let at = Location::Unknown;
        let entry = |setting: &Setting| KeyValue {
            key: setting.key.to_owned(),
            at,
            value: Tree::from_command_line(setting.value),
        };
        let kept = self.tcp.iter().filter(|setting| keep(setting));
        let tree = Tree { node: Node::Table(kept.map(entry).collect()), at };
        match Tcp::deserialize(Reader(&tree)) {
            Ok(keys) => keys,
            Err(error) => unreachable!("the profile `{}` is sound: {error}", self.name),
        }
    }
}

/// The profile of a flow, without the settings that `profile_except` lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowProfile<'a> {
    pub(crate) profile: &'static Profile,
    pub(crate) except: &'a [String],
}

impl<'a> FlowProfile<'a> {
    /// The flow's own profile and exceptions, else the common ones, else the default and none.
    pub(crate) fn of(common: &'a Tcp, own: Option<&'a Tcp>) -> Self {
        let name = own.and_then(|own| own.profile).or(common.profile).unwrap_or_default();
        let except = own.and_then(|own| own.profile_except.as_ref()).or(common.profile_except.as_ref());
        Self { profile: Profile::named(name), except: except.map_or(&[], Vec::as_slice) }
    }

    /// The first exception that the profile does not set, with all that it sets.
    pub(crate) fn unknown(&self) -> Option<(&'a str, Vec<&'static str>)> {
        let known = || self.profile.tcp.iter().chain(self.profile.params).map(|setting| setting.key);
        let wrong = self.except.iter().find(|name| known().all(|key| key != name.as_str()))?;
        Some((wrong, known().collect()))
    }

    fn keeps(&self, setting: &Setting) -> bool {
        self.except.iter().all(|name| name != setting.key)
    }

    /// Its keys of `[tcp]`.
    pub(crate) fn keys(&self) -> Cow<'static, Tcp> {
        if self.except.is_empty() {
            return Cow::Borrowed(
                KEYS[self.profile.id as usize].get_or_init(|| self.profile.parsed(|_| true)),
            );
        }
        Cow::Owned(self.profile.parsed(|setting| self.keeps(setting)))
    }

    /// Its parameters of a scheme: names and values.
    pub(crate) fn params(
        self,
        scheme: &'static schemes::Entry,
    ) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.profile.params.iter().filter_map(move |setting| {
            if !self.keeps(setting) {
                return None;
            }
            let name = match setting.key.split_once('.') {
                Some((owner, name)) => (owner == scheme.info.name).then_some(name)?,
                None => setting.key,
            };
            scheme.info.params.iter().any(|param| param.name == name).then_some((name, setting.value))
        })
    }
}
