//! Choice of a scheme, and the schemes that QUIC cannot run.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{
    AnyScheme, Bytes, EcnNeed, Feedback, IdleRule, ParamError, ParamKind, Params, Random, Setup,
};

/// A QUIC implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// noq: its pacer follows the controller's rate.
    Noq,
    /// quinn: its pacer ignores the controller's rate.
    Quinn,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noq => "noq",
            Self::Quinn => "quinn",
        })
    }
}

/// Why a scheme or a parameter was refused. The message names what is accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// No scheme has this name.
    #[error("there is no scheme `{name}`; accepted on {stack}: {}", accepted(*stack))]
    Unknown {
        /// The name.
        name: String,
        /// The stack asked for.
        stack: Stack,
    },
    /// The scheme needs what the stack does not offer.
    #[error("`{name}` cannot run on {stack}: {reason}; accepted: {}", accepted(*stack))]
    Scheme {
        /// The scheme.
        name: &'static str,
        /// The stack asked for.
        stack: Stack,
        /// What it needs.
        reason: &'static str,
    },
    /// A parameter has no such name or value.
    #[error("`{scheme}`: {problem}")]
    Param {
        /// The scheme.
        scheme: &'static str,
        /// The parameter, the value found, and what is accepted.
        problem: String,
    },
}

fn accepted(stack: Stack) -> String {
    let names =
        schemes::ALL.iter().filter(|entry| refusal(entry, stack).is_none()).map(|entry| entry.info.name);
    names.collect::<Vec<_>>().join(", ")
}

/// Why `stack` cannot run a scheme; `None` if it can.
pub fn refusal(entry: &Entry, stack: Stack) -> Option<&'static str> {
    if entry.rate_protocol.is_some() {
        return Some("it needs rates that routers assign, and QUIC hides its headers from them");
    }
    if entry.feedback != Feedback::Packets {
        return Some("it needs the feedback of a receiver of datagrams");
    }
    if entry.coupled {
        return Some(
            "it needs the sibling subflows of a multipath connection, which the controller does not see",
        );
    }
    if entry.ecn != EcnNeed::Nothing {
        return Some(
            "it needs the number of marked packets, and the controller only learns that there were some",
        );
    }
    // Whether a scheme paces is a property of its decisions, not a constant: ask a fresh one.
    if stack == Stack::Quinn && paces(entry, &Params::defaults(entry.info.params)) {
        return Some(PACED);
    }
    None
}

/// Why quinn refuses schemes that pace.
pub(crate) const PACED: &str = "it sets a pacing rate, and quinn's pacer ignores the controller's rate";

fn paces(entry: &Entry, params: &Params) -> bool {
    build(entry, params, DATAGRAM, INITIAL_WINDOW, Random::stream(0, "scheme", 0))
        .control()
        .pacing_rate
        .is_some()
}

/// The least datagram size of QUIC (RFC 9000 section 14).
const DATAGRAM: Bytes = Bytes::new(1200);
/// Initial window in datagrams (RFC 9002 section 7.2).
const INITIAL_WINDOW: u64 = 10;

fn build(entry: &Entry, params: &Params, mss: Bytes, window: u64, random: Random) -> AnyScheme {
    entry.build(&Setup { mss, initial_window: mss * window, sack: true, random, params: params.clone() })
}

/// A scheme with its parameters: makes one instance per path.
#[derive(Debug)]
pub struct Scheme {
    entry: Entry,
    params: Params,
    seed: u64,
    first: AtomicU64,
    initial_window: u64,
    idle: IdleRule,
}

impl Scheme {
    /// A registered scheme for `stack`, with default parameters.
    ///
    /// # Errors
    /// If there is none of that name or alias, or the stack cannot run it.
    pub fn find(name: &str, stack: Stack) -> Result<Self, Refused> {
        let unknown = || Refused::Unknown { name: name.to_owned(), stack };
        Self::of(schemes::find(name).ok_or_else(unknown)?, stack)
    }

    /// A scheme of the registry, or from outside ([`Entry::of`]).
    ///
    /// # Errors
    /// If the stack cannot run it.
    pub fn of(entry: &Entry, stack: Stack) -> Result<Self, Refused> {
        if let Some(reason) = refusal(entry, stack) {
            return Err(Refused::Scheme { name: entry.info.name, stack, reason });
        }
        Ok(Self {
            entry: *entry,
            params: Params::defaults(entry.info.params),
            // Schemes that randomise must differ between hosts.
            seed: RandomState::new().hash_one(entry.info.name),
            first: AtomicU64::new(0),
            initial_window: INITIAL_WINDOW,
            idle: IdleRule::default(),
        })
    }

    /// Sets a parameter by name, in the unit that `narrows schemes NAME` prints.
    ///
    /// # Errors
    /// If there is no such parameter, or it does not accept the value.
    pub fn param(mut self, name: &str, value: f64) -> Result<Self, Refused> {
        self.params.set(name, value).map_err(|error| self.explain(name, value, error))?;
        Ok(self)
    }

    /// Replaces all parameters.
    #[must_use]
    pub fn params(mut self, params: Params) -> Self {
        self.params = params;
        self
    }

    /// Seeds the schemes' random streams, which otherwise differ from process to process; `first` is the number of the
    /// first connection.
    #[must_use]
    pub fn seed(mut self, seed: u64, first: u64) -> Self {
        self.seed = seed;
        self.first = AtomicU64::new(first);
        self
    }

    /// Initial window in datagrams (default 10).
    #[must_use]
    pub fn initial_window(mut self, datagrams: u32) -> Self {
        self.initial_window = datagrams.max(1).into();
        self
    }

    /// Rule for cwnd after an idle time (default: that of Linux).
    #[must_use]
    pub fn idle(mut self, rule: IdleRule) -> Self {
        self.idle = rule;
        self
    }

    /// The registered name.
    pub fn name(&self) -> &'static str {
        self.entry.info.name
    }

    pub(crate) fn idle_rule(&self) -> IdleRule {
        self.idle
    }

    /// A fresh instance for a path with datagrams of `mss`.
    pub(crate) fn instance(&self, mss: Bytes) -> AnyScheme {
        let number = self.first.fetch_add(1, Ordering::Relaxed);
        build(
            &self.entry,
            &self.params,
            mss,
            self.initial_window,
            Random::stream(self.seed, "scheme", number),
        )
    }

    #[cfg(feature = "quinn")]
    pub(crate) fn paces(&self) -> bool {
        paces(&self.entry, &self.params)
    }

    fn explain(&self, name: &str, value: f64, error: ParamError) -> Refused {
        let info = self.entry.info;
        let problem = match error {
            ParamError::Unknown => {
                let known: Vec<_> = info.params.iter().map(|param| param.name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("there is no parameter `{name}`; accepted: {known}")
            }
            ParamError::OutOfRange(param) => {
                format!("{name} = {value}; accepted: {} to {} {}", param.min, param.max, param.unit)
            }
            ParamError::Fraction(param) => match param.kind {
                ParamKind::Choice(words) => {
                    format!("{name} = {value}; accepted: the index in {}", words.join(", "))
                }
                _ => format!("{name} = {value}; accepted: a whole number"),
            },
        };
        Refused::Param { scheme: info.name, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every registered scheme runs on noq, or is refused for one of the stated reasons.
    #[test]
    fn registry_is_accepted_or_refused_with_a_reason() {
        let mut counts = (0, 0);
        for entry in schemes::ALL {
            match Scheme::of(entry, Stack::Noq) {
                Ok(_) => counts.0 += 1,
                Err(refused) => {
                    counts.1 += 1;
                    assert!(refused.to_string().contains("cannot run on noq: it needs"), "{refused}");
                }
            }
        }
        assert!(counts.0 >= 20 && counts.1 >= 10, "{counts:?}");
    }

    /// quinn refuses schemes that set a rate, and runs those that set a window.
    #[test]
    fn quinn_runs_window_based_schemes_only() {
        let refused = Scheme::find("bbr-gc", Stack::Quinn).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("quinn's pacer ignores the controller's rate"), "{refused}");
        assert!(Scheme::find("cubic", Stack::Quinn).is_ok());
        assert!(Scheme::find("bbr-gc", Stack::Noq).is_ok());
    }

    /// A wrong name lists the schemes, a wrong parameter what is accepted.
    #[test]
    fn wrong_names_and_values_are_explained() {
        let unknown = Scheme::find("bbr9", Stack::Noq).map(|_| ()).unwrap_err().to_string();
        assert!(unknown.contains("no scheme `bbr9`; accepted on noq: bbr, cubic"), "{unknown}");
        let fixed = || Scheme::find("fixed", Stack::Noq).unwrap();
        let low = fixed().param("window", 0.0).map(|_| ()).unwrap_err().to_string();
        assert!(low.contains("window = 0; accepted: 1 to"), "{low}");
        let other = fixed().param("pace", 1.0).map(|_| ()).unwrap_err().to_string();
        assert!(other.contains("accepted: window, rate"), "{other}");
    }
}
