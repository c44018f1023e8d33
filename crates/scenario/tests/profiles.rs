//! Profiles and transport options. Every key reaches the plan, and the precedence is default < profile <
//! `[tcp]` < flow < override.

use crate::texts::plan_with;
use narrows_cc::{Bytes, IdleRule, Nanos, Params};
use narrows_scenario::profile::ALL;
use narrows_scenario::{NoFiles, Plan, Source, expand};
use narrows_tcp::{MAX_TSO, PrrBound, ReductionFrom, TcpConfig, TimerRules};

/// The plan of two flows, with the keys `common` in `[tcp]` and the keys `own` in the second flow's `tcp`.
fn plan(schemes: [&str; 2], common: &str, own: &str, overrides: &[(&str, &str)]) -> Plan {
    let [first, second] = schemes;
    let text = format!(
        "[network]\nrate = \"100mbit\"\n[tcp]\n{common}\n[[flows]]\nscheme = \"{first}\"\nrtt = \"40ms\"\n\
         [[flows]]\nscheme = \"{second}\"\nrtt = \"40ms\"\ntcp = {{ {own} }}\n"
    );
    plan_with(&text, overrides)
}

/// The TCP settings of a flow, with these keys in `[tcp]`.
fn tcp(keys: &str) -> TcpConfig {
    plan(["newreno"; 2], keys, "", &[]).flows.remove(0).tcp.as_ref().clone()
}

/// The error message that refuses these keys of `[tcp]`.
fn refused(keys: &str) -> String {
    let text =
        format!("[network]\nrate = \"100mbit\"\n[tcp]\n{keys}\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n");
    expand(&Source { name: "bad.toml", text: &text, files: &NoFiles }, &[]).expect_err(keys).to_string()
}

/// The parameters of a flow's scheme, with these keys in `[tcp]`.
fn params(scheme: &str, keys: &str) -> Params {
    plan([scheme; 2], keys, "", &[]).flows.remove(0).params
}

/// Without keys, and with the profile `linux`, the TCP settings are the engine's defaults.
#[test]
fn profile_linux_lists_the_defaults() {
    assert_eq!(tcp(""), TcpConfig::default());
    assert_eq!(tcp("profile = 'linux'"), TcpConfig::default());
    for scheme in ["cubic", "newreno", "bbr", "bbr2", "vegas"] {
        let stated = params(scheme, "profile = 'linux'").changed().count();
        assert_eq!(stated, 0, "{scheme}: the profile changes a default");
    }
}

/// All profiles list the same keys, so that no profile silently keeps a default that another profile replaces.
#[test]
fn profiles_list_the_same_keys() {
    let keys = |profile: usize| ALL[profile].tcp.iter().map(|setting| setting.key).collect::<Vec<_>>();
    assert_eq!(keys(0), keys(1));
    assert_eq!(keys(0), keys(2));
}

/// TCP settings with all options in which both `rfc` and `ns3` differ from Linux.
fn other_than_linux() -> TcpConfig {
    TcpConfig {
        tso: false,
        max_burst: Bytes::new(1448),
        quick_acks: 0,
        quick_growth: false,
        receive_autotuning: false,
        sack_compression: false,
        timers: TimerRules::Rfc,
        prr: PrrBound::Rfc9937,
        reduction_from: ReductionFrom::Flight,
        rack_rtt_last: false,
        dsack_delivered: false,
        grow_on_sack: false,
        ..TcpConfig::default()
    }
}

/// The profile `rfc` sets the options as the RFCs require.
#[test]
fn profile_rfc_sets_the_rules_of_rfcs() {
    let expected = TcpConfig { idle: IdleRule::Rfc5681, ..other_than_linux() };
    assert_eq!(tcp("profile = 'rfc'"), expected);
    let cubic = params("cubic", "profile = 'rfc'");
    assert_eq!((cubic.word("hystart"), cubic.word("growth")), ("rfc9406", "rfc9438"));
    for (profile, units) in [("linux", "segments"), ("rfc", "bytes"), ("ns3", "bytes")] {
        assert_eq!(params("newreno", &format!("profile = '{profile}'")).word("units"), units);
    }
}

/// The profile `ns3` sets the options as ns-3 does: RFC 6675 without RACK and TLP, and ns-3's timers and
/// acknowledgements.
#[test]
fn profile_ns3_sets_the_attributes_of_ns3() {
    let expected = TcpConfig {
        ack_delay: Nanos::from_millis(200),
        min_rto: Nanos::from_secs(1),
        initial_rto: Nanos::from_secs(3),
        max_rto: Nanos::from_secs(60),
        rack: false,
        tlp: false,
        idle: IdleRule::Off,
        ..other_than_linux()
    };
    assert_eq!(tcp("profile = 'ns3'"), expected);
    let bbr = params("bbr", "profile = 'ns3'");
    assert_eq!((bbr.number("quantum"), bbr.flag("lt_bw"), bbr.number("high_gain")), (1.0, false, 2.89));
    assert!(!params("newreno", "profile = 'ns3'").flag("abc"));
    let variant = params("bbr-gc", "profile = 'ns3'");
    assert_eq!((variant.number("quantum"), variant.flag("lt_bw")), (1.0, false), "variants build on BBR");
    assert_eq!(variant.number("high_gain"), params("bbr-gc", "").number("high_gain"), "only BBR's is set");
}

/// Each key of `[tcp]` sets the corresponding field of the settings.
#[test]
fn tcp_keys_reach_their_fields() {
    let with = |change: fn(&mut TcpConfig)| {
        let mut config = TcpConfig::default();
        change(&mut config);
        config
    };
    let cases: [(&str, TcpConfig); 19] = [
        ("tso = false", with(|tcp| tcp.tso = false)),
        ("max_burst = '1pkt'", with(|tcp| tcp.max_burst = Bytes::new(1448))),
        ("max_burst = '64kB'", with(|tcp| tcp.max_burst = Bytes::new(64_000))),
        ("quick_acks = 0", with(|tcp| tcp.quick_acks = 0)),
        ("quick_growth = false", with(|tcp| tcp.quick_growth = false)),
        ("receive_autotuning = false", with(|tcp| tcp.receive_autotuning = false)),
        ("sack_compression = false", with(|tcp| tcp.sack_compression = false)),
        ("gro = '50us'", with(|tcp| tcp.gro = Nanos::from_micros(50))),
        ("gro = '0ms'", with(|_| {})),
        ("gro = 'off'", with(|_| {})),
        ("timers = 'rfc'", with(|tcp| tcp.timers = TimerRules::Rfc)),
        ("prr = 'rfc6937'", with(|tcp| tcp.prr = PrrBound::Rfc6937)),
        ("reduction_from = 'flight'", with(|tcp| tcp.reduction_from = ReductionFrom::Flight)),
        ("idle_restart = 'rfc5681'", with(|tcp| tcp.idle = IdleRule::Rfc5681)),
        ("idle_restart = 'off'", with(|tcp| tcp.idle = IdleRule::Off)),
        ("timestamp_rtt = false", with(|tcp| tcp.timestamp_rtt = false)),
        ("rack_rtt = 'newest'", with(|tcp| tcp.rack_rtt_last = false)),
        ("dsack_delivered = false", with(|tcp| tcp.dsack_delivered = false)),
        ("grow_on_sack = false", with(|tcp| tcp.grow_on_sack = false)),
    ];
    for (keys, expected) in cases {
        assert_eq!(tcp(keys), expected, "{keys}");
    }
    assert_eq!(TcpConfig::default().max_burst, MAX_TSO);
}

/// An option is off by default if an option that it needs is off.
#[test]
fn tcp_options_follow_the_ones_they_need() {
    let without = tcp("sack = false\ntimestamps = false");
    let off = [
        without.rack,
        without.tlp,
        without.sack_compression,
        without.dsack_delivered,
        without.grow_on_sack,
        without.timestamp_rtt,
    ];
    assert_eq!(off, [false; 6]);
    assert!(!without.timestamps);
}

/// Turning on an option while an option that it needs is off is an error, and so is an unknown word.
#[test]
fn tcp_options_are_refused_by_name() {
    let cases = [
        ("sack = false\nsack_compression = true", "tcp.sack_compression: there are no selective", "sack = true"),
        ("sack = false\ndsack_delivered = true", "tcp.dsack_delivered: duplicates are reported", "sack = true"),
        ("sack = false\ngrow_on_sack = true", "tcp.grow_on_sack: growth on selective", "sack = true"),
        ("timestamps = false\ntimestamp_rtt = true", "tcp.timestamp_rtt: samples from", "timestamps = true"),
        ("rack = false\ntlp = true", "tcp.tlp: tail-loss probes need RACK", "rack = true"),
        ("timers = 'Linux'", "tcp.timers: unknown value `Linux`; did you mean `linux`?", "linux, rfc"),
        ("prr = 'rfc3517'", "tcp.prr: unknown value `rfc3517`", "linux, rfc9937, rfc6937"),
        ("reduction_from = 'pipe'", "tcp.reduction_from: unknown value `pipe`", "cwnd, flight"),
        ("idle_restart = 'on'", "tcp.idle_restart: unknown value `on`", "linux, rfc5681, off"),
        ("rack_rtt = 'min'", "tcp.rack_rtt: unknown value `min`", "last, newest"),
        ("profile = 'ns-3'", "tcp.profile: unknown value `ns-3`; did you mean `ns3`?", "linux, rfc, ns3"),
        ("gro = '1500B'", "tcp.gro: ", "off, or a time such as 10ms"),
        ("quick_acks = -1", "tcp.quick_acks: `-1` is out of range", "a whole number from 0"),
        ("tso = 'no'", "tcp.tso: found the string `no`", "true or false"),
        ("profile = 'rfc'\ntso = true", "tcp.tso: bursts of several segments, but the profile", "max_burst = "),
    ];
    for (keys, message, accepted) in cases {
        let found = refused(keys);
        assert!(found.contains(message), "{keys}: {found}");
        let line = 3 + keys.lines().count();
        assert!(found.starts_with(&format!("bad.toml:{line}: ")), "{keys}: {found}");
        assert!(found.split("accepted: ").nth(1).is_some_and(|text| text.contains(accepted)), "{keys}: {found}");
    }
}

/// Each of these takes precedence over those before it: default, profile, `[tcp]`, the flow's `tcp`, an override.
#[test]
fn tcp_precedence_ends_with_overrides() {
    let delays = |common: &str, own: &str, overrides: &[(&str, &str)]| {
        let plan = plan(["newreno"; 2], common, own, overrides);
        let [first, second] = [0, 1].map(|flow: usize| plan.flows[flow].tcp.ack_delay.as_nanos() / 1_000_000);
        (first, second)
    };
    assert_eq!(delays("", "", &[]), (40, 40));
    assert_eq!(delays("profile = 'ns3'", "", &[]), (200, 200));
    assert_eq!(delays("profile = 'ns3'\nack_delay = '7ms'", "", &[]), (7, 7));
    assert_eq!(delays("profile = 'ns3'\nack_delay = '7ms'", "ack_delay = '3ms'", &[]), (7, 3));
    let over = [("flows.1.tcp.ack_delay", "1ms"), ("tcp.ack_delay", "9ms")];
    assert_eq!(delays("profile = 'ns3'\nack_delay = '7ms'", "ack_delay = '3ms'", &over), (9, 1));
    assert_eq!(delays("", "", &[("tcp.profile", "ns3")]), (200, 200));
}

/// A flow's profile takes precedence over the common profile, and keys of `[tcp]` take precedence over both.
#[test]
fn profile_of_flow_wins_over_common_one() {
    let plan = plan(["cubic"; 2], "profile = 'ns3'\nquick_acks = 5", "profile = 'rfc'", &[]);
    let [first, second] = [0, 1].map(|flow: usize| plan.flows[flow].tcp.clone());
    assert_eq!((first.min_rto, second.min_rto), (Nanos::from_secs(1), Nanos::from_millis(200)));
    assert_eq!((first.rack, second.rack), (false, true));
    assert_eq!((first.quick_acks, second.quick_acks), (5, 5));
    let word = |flow: usize| plan.flows[flow].params.word("hystart");
    assert_eq!((word(0), word(1)), ("linux", "rfc9406"));
}

/// `rack` can be turned on although the profile turns RACK off, and a burst in packets uses the stated segment size.
#[test]
fn profile_gives_way_to_stated_keys() {
    let own = tcp("profile = 'ns3'\nrack = true");
    assert_eq!((own.sack, own.rack, own.tlp), (true, true, false));
    assert!(tcp("profile = 'ns3'\nrack = true\ntlp = true").tlp);
    assert!(!tcp("profile = 'linux'\nsack = false").rack);
    assert_eq!(tcp("profile = 'ns3'\nsegment_bytes = 536").max_burst, Bytes::new(536));
    assert_eq!(tcp("segment_bytes = 65400").segment, 65_400, "no default refuses a large segment");
    let stated = plan(["cubic:hystart=off"; 2], "profile = 'rfc'", "", &[]).flows.remove(0);
    assert_eq!(stated.params.word("hystart"), "off");
}

/// A profile applies only to TCP: it does not change the parameters of DCCP flows.
#[test]
fn profile_leaves_datagram_flows_alone() {
    let text = "[network]\nrate = \"100mbit\"\n[tcp]\nprofile = \"rfc\"\n[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\n\
                protocol = \"dccp\"\n";
    assert_eq!(crate::texts::plan(text).flows[0].params.changed().count(), 0);
}

/// An exception omits a setting of the profile, whether a key of `[tcp]` or a parameter. Stated keys still take
/// precedence.
#[test]
fn exceptions_leave_settings_of_a_profile_out() {
    let own = tcp("profile = 'ns3'\nprofile_except = ['min_rto', 'rack']");
    let (whole, linux) = (tcp("profile = 'ns3'"), tcp(""));
    assert_ne!((whole.min_rto, whole.rack), (linux.min_rto, linux.rack));
    assert_eq!((own.min_rto, own.rack), (linux.min_rto, linux.rack));
    assert_eq!((own.initial_rto, own.ack_delay), (whole.initial_rto, whole.ack_delay));
    let lt_bw = |common: &str| {
        let run = plan(["bbr"; 2], common, "", &[]);
        run.flows[0].params.flag("lt_bw")
    };
    assert!(!lt_bw("profile = 'ns3'"));
    assert!(lt_bw("profile = 'ns3'\nprofile_except = ['lt_bw']"));
    let from_option = plan(["bbr"; 2], "profile = 'ns3'", "", &[("tcp.profile_except", "['lt_bw']")]);
    assert!(from_option.flows[0].params.flag("lt_bw"));
    let stated = tcp("profile = 'ns3'\nprofile_except = ['min_rto']\nmin_rto = '300ms'");
    assert_eq!(stated.min_rto, Nanos::from_millis(300));
}

/// An exception that names no setting of the profile is an error.
#[test]
fn exception_unknown_to_the_profile_is_refused() {
    let text = "[network]\nrate = \"100mbit\"\n[tcp]\nprofile = \"ns3\"\nprofile_except = [\"tos\"]\n\
                [[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\n";
    let error = crate::texts::spec(text).unwrap_err();
    assert!(error.contains("does not set `tos`") && error.contains("min_rto"), "{error}");
}
