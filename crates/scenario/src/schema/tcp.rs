//! Transport settings. Each default is what Linux does; its comment names the fact.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::table;
use crate::quantity::{Amount, Period, Size, Time};

/// Values of the table as scenarios spell them.
fn spelled<T: std::str::FromStr>(text: &str) -> T {
    super::default(text)
}

fn ms<T: std::str::FromStr>(time: u64) -> T {
    spelled(&format!("{time}ms"))
}

fn secs<T: std::str::FromStr>(time: u64) -> T {
    spelled(&format!("{time}s"))
}

fn bytes<T: std::str::FromStr>(size: u64) -> T {
    spelled(&format!("{size}B"))
}

fn pkt<T: std::str::FromStr>(count: u64) -> T {
    spelled(&format!("{count}pkt"))
}

const LAST: RackRtt = RackRtt::Last;
const NEWEST: RackRtt = RackRtt::Newest;

/// The key of an option.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}
pub(crate) use key;

/// The value of an option in a profile, if profiles set it.
macro_rules! set {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
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
            /// The keys that a profile sets.
            pub(crate) fn of_profile(profile: ProfileName) -> Self {
                match profile {
                    ProfileName::Linux => Self { $($field: set!($($linux)?),)* ..Self::default() },
                    ProfileName::Rfc => Self { $($field: set!($($rfc)?),)* ..Self::default() },
                    ProfileName::Ns3 => Self { $($field: set!($($ns3)?),)* ..Self::default() },
                }
            }

            /// The keys that profiles set: the facts behind them in the order of [`ProfileName`], and what the kernel
            /// does with them.
            pub(crate) fn facts() -> impl Iterator<Item = (&'static str, [&'static str; 3], &'static str)> {
                let all = [$((
                    key!($field $($key)?),
                    set!($([$linux_fact, $rfc_fact, $ns3_fact])?),
                    stringify!($kernel),
                )),*];
                all.into_iter().filter_map(|(key, facts, kernel)| facts.map(|facts| (key, facts, kernel)))
            }

            /// Leaves a key unstated.
            pub(crate) fn clear(&mut self, name: &str) {
                $(if key!($field $($key)?) == name {
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

        impl crate::tcp::Key for $Name {
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
        /// RTO = srtt + max(4 rttvar, `min_rto`). A tail-loss probe waits for `min_rto` more if one packet is in
        /// flight, else for 2 ms.
        Linux => narrows_tcp::TimerRules::Linux,
        /// RTO = max(srtt + max(4 rttvar, `ack_delay`), `min_rto`), RFC 6298. A tail-loss probe of one packet waits
        /// for `ack_delay` more, RFC 8985.
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
    /// RTT by which RACK judges packets: whether it is that of the last packet.
    RackRtt => bool {
        /// That of the last packet that the acknowledgement delivers.
        Last => true,
        /// That of the newest packet, RFC 8985.
        Newest => false,
    }
}
