//! Transport settings. Each default is what Linux does; the comment of the key names the source.

use narrows_cc::{Bytes, Nanos};
use narrows_tcp::{TcpConfig, option_key};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::table;
use crate::diagnostic::{Diagnostic, refuse, show};
use crate::quantity::{Amount, DataAmount, Period, Size, Time, parsed};

/// Converts between the value of a key and the value in the engine; `mss` is the payload of a full segment.
pub(crate) trait Key {
    type Engine;
    fn engine(&self, mss: u64) -> Self::Engine;
    fn of(value: Self::Engine, mss: u64) -> Self;
}

macro_rules! plain {
    ($($Type:ty),*) => {$(
        impl Key for $Type {
            type Engine = Self;
            fn engine(&self, _: u64) -> Self {
                *self
            }
            fn of(value: Self, _: u64) -> Self {
                value
            }
        }
    )*};
}

plain!(bool, u16, u32);

impl Key for Time {
    type Engine = Nanos;
    fn engine(&self, _: u64) -> Nanos {
        self.value()
    }
    fn of(value: Nanos, _: u64) -> Self {
        parsed(&show(value))
    }
}

impl Key for Period {
    type Engine = Nanos;
    fn engine(&self, _: u64) -> Nanos {
        self.value().unwrap_or(Nanos::ZERO)
    }
    fn of(value: Nanos, _: u64) -> Self {
        if value.is_zero() { parsed("off") } else { parsed(&show(value)) }
    }
}

impl Key for Size {
    type Engine = Bytes;
    fn engine(&self, _: u64) -> Bytes {
        self.value()
    }
    fn of(value: Bytes, _: u64) -> Self {
        parsed(&size(value))
    }
}

impl Key for Amount {
    type Engine = Bytes;
    fn engine(&self, mss: u64) -> Bytes {
        match self.value() {
            DataAmount::Packets(packets) => Bytes::new(mss.saturating_mul(packets)),
            DataAmount::Bytes(bytes) => bytes,
        }
    }
    fn of(value: Bytes, mss: u64) -> Self {
        match value.as_u64() {
            bytes if bytes.is_multiple_of(mss) => parsed(&format!("{}pkt", bytes / mss)),
            bytes => parsed(&format!("{bytes}B")),
        }
    }
}

/// Formats a size in MiB or kB if the result is exact, else in bytes.
fn size(size: Bytes) -> String {
    const MIB: u64 = 1 << 20;
    match size.as_u64() {
        bytes if bytes.is_multiple_of(MIB) => format!("{}MiB", bytes / MIB),
        bytes if bytes.is_multiple_of(1_000) => format!("{}kB", bytes / 1_000),
        bytes => format!("{bytes}B"),
    }
}

/// The tables that state the settings of a flow.
pub(crate) struct Stated<'a> {
    pub(crate) common: &'a Tcp,
    pub(crate) own: Option<&'a Tcp>,
    /// The flow's table.
    pub(crate) table: &'a str,
}

impl<'a> Stated<'a> {
    /// The stated value of a key, and the full key that states it.
    pub(crate) fn get<T>(&self, name: &str, field: impl Fn(&'a Tcp) -> Option<&'a T>) -> Option<(&'a T, String)> {
        match self.own.and_then(&field) {
            Some(value) => Some((value, format!("{}.tcp.{name}", self.table))),
            None => field(self.common).map(|value| (value, format!("tcp.{name}"))),
        }
    }
}

/// Turns an option off if the option that it needs is off. Returns an error if the scenario turns the dependent
/// option on.
macro_rules! needs {
    ($stated:ident, $config:ident, $field:ident, $name:expr,) => {};
    ($stated:ident, $config:ident, $field:ident, $name:expr, $on:ident $reason:literal) => {
        if !$config.$on {
            let stated = $stated.get($name, |keys| keys.$field.as_ref()).filter(|(on, _)| **on);
            if let Some((_, key)) = stated {
                let accepted = format!("{} = false, or {} = true", $name, stringify!($on));
                return refuse(key, $reason, accepted);
            }
            $config.$field = false;
        }
    };
}

macro_rules! schema {
    ($(
        $(#[$doc:meta])*
        $field:ident $(as $key:literal)?: $Type:ident {
            $(linux: $linux:expr, $linux_fact:literal; rfc: $rfc:expr, $rfc_fact:literal; ns3: $ns3:expr, $ns3_fact:literal;)?
            $(default: $default:expr;)?
            $(needs: $on:ident, $reason:literal;)?
            kernel: $kernel:ident
        }
    )*) => {
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
                $($(#[$doc])* $(#[serde(rename = $key)])? $field: $Type,)*
            }
        }

        impl Tcp {
            /// Resolves every option: to the stated value, else to the profile's value, else to the default.
            pub(crate) fn resolved(
                stated: &Stated<'_>,
                profile: &Self,
                default: &TcpConfig,
            ) -> Result<TcpConfig, Diagnostic> {
                let segment = stated.get("", |keys| keys.segment.as_ref()).map_or(default.segment, |(own, _)| *own);
                let mss = u64::from(segment);
                let mut config = TcpConfig {
                    $($field: {
                        let own = stated.get("", |keys| keys.$field.as_ref()).map(|(own, _)| own);
                        own.or(profile.$field.as_ref()).map_or(default.$field, |value| value.engine(mss))
                    },)*
                };
                $(needs!(stated, config, $field, option_key!($field $($key)?), $($on $reason)?);)*
                Ok(config)
            }

            /// The keys that a profile sets.
            pub(crate) fn of_profile(profile: ProfileName) -> Self {
                let config = match profile {
                    ProfileName::Linux => TcpConfig::default(),
                    ProfileName::Rfc => TcpConfig::rfc(),
                    ProfileName::Ns3 => TcpConfig::ns3(),
                };
                let all = Self::spelled(&config, profile, &[]);
                // Profiles set only the options for which the table states facts.
                Self { $($($field: (all.$field, $linux_fact).0,)?)* ..Self::default() }
            }

            /// The settings as keys of `[tcp]`; every key is stated.
            pub(crate) fn spelled(config: &TcpConfig, profile: ProfileName, except: &[String]) -> Self {
                let mss = u64::from(config.segment);
                Self {
                    profile: Some(profile),
                    profile_except: Some(except.to_vec()),
                    $($field: Some(Key::of(config.$field, mss)),)*
                }
            }

            /// The keys that profiles set, with the facts behind their values in the order of [`ProfileName`]
            /// and the kernel backend's treatment.
            pub(crate) fn facts() -> impl Iterator<Item = (&'static str, [&'static str; 3], &'static str)> {
                let all = [$((
                    option_key!($field $($key)?),
                    &[$([$linux_fact, $rfc_fact, $ns3_fact])?] as &[_],
                    stringify!($kernel),
                )),*];
                all.into_iter().flat_map(|(key, facts, kernel)| facts.iter().map(move |&facts| (key, facts, kernel)))
            }

            /// Removes the stated value of a key.
            pub(crate) fn clear(&mut self, name: &str) {
                $(if option_key!($field $($key)?) == name {
                    self.$field = None;
                })*
            }
        }
    };
}

narrows_tcp::tcp_options!(schema);

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

/// Defines the words that a key accepts, and the engine's value for each word.
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

        impl Key for $Name {
            type Engine = $Engine;
            fn engine(&self, _: u64) -> $Engine {
                match self {
                    $(Self::$Variant => $value,)*
                }
            }
            fn of(value: $Engine, _: u64) -> Self {
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
    TimerRules => narrows_tcp::TimerRules {
        /// RTO = srtt + max(4 rttvar, `min_rto`). A tail-loss probe waits `min_rto` longer if one packet is in
        /// flight, else 2 ms longer.
        Linux => narrows_tcp::TimerRules::Linux,
        /// RTO = max(srtt + max(4 rttvar, `ack_delay`), `min_rto`), RFC 6298. With one packet in flight, a
        /// tail-loss probe waits `ack_delay` longer, RFC 8985.
        Rfc => narrows_tcp::TimerRules::Rfc,
    }
}

words! {
    /// Units and lower bound of proportional rate reduction.
    PrrBound => narrows_tcp::PrrBound {
        /// As rfc9937, but in whole segments, rounded up.
        Linux => narrows_tcp::PrrBound::Linux,
        /// At least the data that this acknowledgement delivered.
        Rfc9937 => narrows_tcp::PrrBound::Rfc9937,
        /// The data delivered less the data sent in this recovery, unless the acknowledgement shows progress.
        Rfc6937 => narrows_tcp::PrrBound::Rfc6937,
    }
}

words! {
    /// Quantity that a reduction starts from.
    ReductionFrom => narrows_tcp::ReductionFrom {
        /// cwnd. After a timeout cwnd becomes the data in flight plus one segment.
        Cwnd => narrows_tcp::ReductionFrom::Cwnd,
        /// FlightSize, RFC 5681. After a timeout cwnd becomes one segment.
        Flight => narrows_tcp::ReductionFrom::Flight,
    }
}

words! {
    /// cwnd after a time without sending.
    IdleRule => narrows_cc::IdleRule {
        /// Halve cwnd per RTO of idle time, not below the initial window, and keep three quarters of it in ssthresh
        /// (RFC 2861).
        Linux => narrows_cc::IdleRule::Linux,
        /// The initial window after more than one RTO, RFC 5681 section 4.1.
        Rfc5681 => narrows_cc::IdleRule::Rfc5681,
        /// Keep cwnd.
        Off => narrows_cc::IdleRule::Off,
    }
}

words! {
    /// RTT by which RACK judges packets; the engine stores whether it is that of the last packet.
    RackRtt => bool {
        /// The RTT of the last packet that the acknowledgement delivers.
        Last => true,
        /// The RTT of the newest packet, RFC 8985.
        Newest => false,
    }
}
