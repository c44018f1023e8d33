//! Profiles: named sets of transport options and scheme parameters. Each setting states the rule that it follows.
//!
//! A key stated in the scenario takes precedence over the profile, and a flow's profile takes precedence over
//! the common profile. Options that a profile does not list keep their defaults.
//!
//! `ns3` follows ns-3.48 (June 2026, `src/internet/model`); [`Profile::lacks`] lists the remaining differences.

use std::borrow::Cow;
use std::sync::LazyLock;

use narrows_cc::schemes;
use serde_json::Value;

use crate::schema::Tcp;
use crate::schema::table::object;
use crate::schema::tcp::ProfileName;

/// One option or parameter that a profile sets.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A key of `[tcp]` or a parameter: `hystart` sets the parameter in every scheme that has it, `bbr.quantum`
    /// only in BBR.
    pub key: &'static str,
    /// Its value, as a scenario spells it.
    pub value: Cow<'static, str>,
    /// The RFC, the function of the kernel or of ns-3, or the attribute that the value follows.
    pub follows: &'static str,
    /// How `--on kernel` treats the setting: `set` means as stated, or `linux`; `None` for a parameter.
    pub kernel: Option<&'static str>,
}

/// A named set of options.
#[derive(Debug)]
pub struct Profile {
    /// The profile's index in [`ALL`].
    pub id: ProfileName,
    /// The profile's name, which is the value of `tcp.profile`.
    pub name: &'static str,
    /// A summary in one sentence.
    pub summary: &'static str,
    /// Settings of keys of `[tcp]`, from the table of transport options.
    pub tcp: Vec<Setting>,
    /// Parameters of schemes.
    pub params: &'static [Setting],
    /// Differences that remain because no option expresses them.
    pub lacks: &'static [&'static str],
    keys: Tcp,
}

const fn set(key: &'static str, value: &'static str, follows: &'static str) -> Setting {
    Setting { key, value: Cow::Borrowed(value), follows, kernel: None }
}

/// All profiles, in the order of [`ProfileName`]; the first is the default.
pub static ALL: LazyLock<[Profile; 3]> = LazyLock::new(|| {
    [
        Profile::new(ProfileName::Linux, "linux", "TCP as Linux deploys it.", LINUX, &[]),
        Profile::new(
            ProfileName::Rfc,
            "rfc",
            "TCP as its RFCs describe it, with every packet spaced exactly.",
            RFC,
            &[],
        ),
        Profile::new(ProfileName::Ns3, "ns3", "TCP with the defaults of ns-3.48.", NS3, NS3_LACKS),
    ]
});

const LINUX: &[Setting] = &[
    set("cubic.growth", "linux", "bictcp_update"),
    set("hystart", "linux", "hystart_update"),
    set("newreno.abc", "true", "tcp_reno_cong_avoid"),
    set("newreno.units", "segments", "tcp_reno_ssthresh, tcp_slow_start"),
    set("bbr.quantum", "0pkt", "bbr_tso_segs_goal"),
    set("bbr.lt_bw", "on", "bbr_lt_bw_sampling"),
    set("bbr.high_gain", "2.885", "bbr_high_gain"),
];

const RFC: &[Setting] = &[
    set("cubic.growth", "rfc9438", "RFC 9438"),
    set("hystart", "rfc9406", "RFC 9406"),
    set("newreno.abc", "true", "RFC 3465"),
    set("newreno.units", "bytes", "RFC 5681 equation 4"),
];

const NS3: &[Setting] = &[
    set("cubic.growth", "linux", "TcpCubic::Update"),
    set("hystart", "linux", "TcpCubic::HyStart; see the differences"),
    set("newreno.abc", "off", "TcpNewReno::SlowStart, CongestionAvoidance: count ACKs"),
    set("newreno.units", "bytes", "TcpNewReno::GetSsThresh"),
    set("quantum", "1pkt", "TcpBbr::SetSendQuantum; variants in ns-3 build on TcpBbr"),
    set("lt_bw", "off", "TcpBbr detects no policers; variants in ns-3 build on TcpBbr"),
    set("bbr.high_gain", "2.89", "TcpBbr::HighGain"),
];

/// Differences of ns-3 that no option expresses.
const NS3_LACKS: &[&str] = &[
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
];

impl Profile {
    fn new(
        id: ProfileName,
        name: &'static str,
        summary: &'static str,
        params: &'static [Setting],
        lacks: &'static [&'static str],
    ) -> Self {
        let keys = Tcp::of_profile(id);
        let values = object(&keys);
        let setting = |(key, facts, kernel): (&'static str, [&'static str; 3], &'static str)| {
            let value = match &values[key] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Setting { key, value: value.into(), follows: facts[id as usize], kernel: Some(kernel) }
        };
        Self { id, name, summary, tcp: Tcp::facts().map(setting).collect(), params, lacks, keys }
    }

    /// The profile of this name.
    pub fn named(name: ProfileName) -> &'static Self {
        &ALL[name as usize]
    }
}

/// The profile of a flow, without the settings that `profile_except` lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowProfile<'a> {
    pub(crate) profile: &'static Profile,
    pub(crate) except: &'a [String],
}

impl<'a> FlowProfile<'a> {
    /// The flow's profile and exceptions, else the common ones, else the default profile without exceptions.
    pub(crate) fn of(common: &'a Tcp, own: Option<&'a Tcp>) -> Self {
        let name = own.and_then(|own| own.profile).or(common.profile).unwrap_or_default();
        let except = own.and_then(|own| own.profile_except.as_ref()).or(common.profile_except.as_ref());
        Self { profile: Profile::named(name), except: except.map_or(&[], Vec::as_slice) }
    }

    /// The first exception that the profile does not set, with the names of all settings.
    pub(crate) fn unknown(&self) -> Option<(&'a str, Vec<&'static str>)> {
        let known = || self.profile.tcp.iter().chain(self.profile.params).map(|setting| setting.key);
        let wrong = self.except.iter().find(|name| known().all(|key| key != name.as_str()))?;
        Some((wrong, known().collect()))
    }

    fn keeps(&self, setting: &Setting) -> bool {
        self.except.iter().all(|name| name != setting.key)
    }

    /// The keys of `[tcp]` that the profile sets, without the exceptions.
    pub(crate) fn keys(&self) -> Cow<'static, Tcp> {
        let mut keys = Cow::Borrowed(&self.profile.keys);
        for name in self.except {
            keys.to_mut().clear(name);
        }
        keys
    }

    /// The parameters that the profile sets in a scheme: names and values.
    pub(crate) fn params(self, scheme: &'static schemes::Entry) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.profile.params.iter().filter_map(move |setting| {
            if !self.keeps(setting) {
                return None;
            }
            let name = match setting.key.split_once('.') {
                Some((owner, name)) => (owner == scheme.info.name).then_some(name)?,
                None => setting.key,
            };
            scheme.info.params.iter().any(|param| param.name == name).then_some((name, setting.value.as_ref()))
        })
    }
}
