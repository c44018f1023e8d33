//! Selection of a scheme, and the schemes that QUIC cannot run.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{
    AckEnd, AnyScheme, Bytes, Driver, EcnNeed, Feedback, IdleRule, Nanos, Param, ParamError, ParamKind, Params, Random,
    Sent, Setup, record,
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

/// The reason why a scheme or parameter is refused, with the accepted values.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// No scheme has this name.
    #[error("there is no scheme `{name}`; accepted on {stack}: {}", accepted(*stack))]
    Unknown {
        /// The requested name.
        name: String,
        /// The requested stack.
        stack: Stack,
    },
    /// The scheme needs something that the stack does not offer.
    #[error("`{name}` cannot run on {stack}: {reason}; accepted: {}", accepted(*stack))]
    Scheme {
        /// The scheme.
        name: &'static str,
        /// The requested stack.
        stack: Stack,
        /// The missing feature.
        reason: &'static str,
    },
    /// There is no such parameter, it does not accept the value, or the stack cannot run the scheme with it.
    #[error("`{scheme}`: {problem}")]
    Param {
        /// The scheme.
        scheme: &'static str,
        /// The parameter, the value found, and what is accepted.
        problem: String,
    },
}

fn accepted(stack: Stack) -> String {
    let names = schemes::ALL.iter().filter(|entry| refusal(entry, stack).is_none()).map(|entry| entry.info.name);
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
        return Some("it needs the sibling subflows of a multipath connection, which the controller does not see");
    }
    if entry.ecn != EcnNeed::Nothing {
        return Some(MARKED);
    }
    // Whether a scheme paces depends on its decisions, not on a constant: try a new instance.
    if stack == Stack::Quinn && paces(entry, &Params::defaults(entry.info.params)) {
        return Some(PACED);
    }
    None
}

/// Why quinn refuses schemes that pace.
const PACED: &str = "it sets a pacing rate, and quinn's pacer ignores the controller's rate";

/// Why schemes that count marked packets are refused.
const MARKED: &str = "it needs the number of marked packets, and the controller only learns that there were some";
/// The flag of BBR v2, v3 and their variants with which they count marked packets.
const ECN: &str = "ecn";

/// Whether a scheme sets a pacing rate, either at the start or once it knows the RTT.
fn paces(entry: &Entry, params: &Params) -> bool {
    let (now, rtt) = (Nanos::ZERO, Nanos::from_millis(10));
    let scheme = build(entry, params, DATAGRAM, INITIAL_WINDOW, Random::stream(0, "scheme", 0));
    let mut driver = Driver::new(scheme);
    if driver.control().pacing_rate.is_some() {
        return true;
    }
    let sent = driver.stamp(now, DATAGRAM, Bytes::ZERO);
    driver.sent(&record!(Sent { now, bytes: DATAGRAM, inflight: DATAGRAM }));
    let mut ack = driver.begin_ack(DATAGRAM);
    driver.delivered_packet(rtt, &mut ack, DATAGRAM, &sent);
    let end = record!(AckEnd { now: rtt, rtt: Some(rtt), srtt: Some(rtt), min_rtt: Some(rtt) });
    driver.finish_ack(&ack, &end);
    driver.control().pacing_rate.is_some()
}

/// Why `stack` cannot run an accepted scheme with these parameters; `None` if it can.
fn problem(entry: &Entry, stack: Stack, params: &Params) -> Option<String> {
    let counts = |param: &Param| param.name == ECN && param.kind == ParamKind::Flag && params.flag(ECN);
    if entry.info.params.iter().any(counts) {
        return Some(format!("with {ECN} = 1 {MARKED}; accepted on {stack}: {ECN} = 0"));
    }
    if stack == Stack::Quinn && paces(entry, params) {
        let changed: Vec<_> = params.changed().map(|(param, value)| format!("{} = {value}", param.name)).collect();
        let changed = changed.join(", ");
        return Some(format!("with {changed} {PACED}; accepted on {stack}: parameters with which it sets none"));
    }
    None
}

/// Minimum datagram size of QUIC (RFC 9000 section 14).
const DATAGRAM: Bytes = Bytes::new(1200);
/// Initial window in datagrams (RFC 9002 section 7.2).
const INITIAL_WINDOW: u64 = 10;

fn build(entry: &Entry, params: &Params, mss: Bytes, window: u64, random: Random) -> AnyScheme {
    entry.build(&Setup::new(mss, params.clone(), random).with_window(window))
}

/// A scheme with its parameters; creates one instance per path.
#[derive(Debug)]
pub struct Scheme {
    entry: Entry,
    stack: Stack,
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
    /// If no scheme has that name or alias, or the stack cannot run it.
    pub fn find(name: &str, stack: Stack) -> Result<Self, Refused> {
        let unknown = || Refused::Unknown { name: name.to_owned(), stack };
        Self::of(schemes::find(name).ok_or_else(unknown)?, stack)
    }

    /// A scheme of the registry, or one defined outside it ([`Entry::of`]).
    ///
    /// # Errors
    /// If the stack cannot run it.
    pub fn of(entry: &Entry, stack: Stack) -> Result<Self, Refused> {
        if let Some(reason) = refusal(entry, stack) {
            return Err(Refused::Scheme { name: entry.info.name, stack, reason });
        }
        Ok(Self {
            entry: *entry,
            stack,
            params: Params::defaults(entry.info.params),
            // Schemes that draw random numbers must differ between hosts.
            seed: RandomState::new().hash_one(entry.info.name),
            first: AtomicU64::new(0),
            initial_window: INITIAL_WINDOW,
            idle: IdleRule::default(),
        })
    }

    /// Sets a parameter by name, in the unit that `narrows schemes NAME` prints.
    ///
    /// # Errors
    /// If there is no such parameter, it does not accept the value, or the stack cannot run the scheme with it.
    pub fn param(mut self, name: &str, value: f64) -> Result<Self, Refused> {
        self.params.set(name, value).map_err(|error| self.explain(name, value, error))?;
        self.checked()
    }

    /// Replaces all parameters.
    ///
    /// # Errors
    /// If the stack cannot run the scheme with them.
    pub fn params(mut self, params: Params) -> Result<Self, Refused> {
        self.params = params;
        self.checked()
    }

    fn checked(self) -> Result<Self, Refused> {
        self.runs_on(self.stack)?;
        Ok(self)
    }

    /// Returns an error if `stack` cannot run the scheme with its parameters.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn runs_on(&self, stack: Stack) -> Result<(), Refused> {
        let name = self.entry.info.name;
        if let Some(reason) = refusal(&self.entry, stack) {
            return Err(Refused::Scheme { name, stack, reason });
        }
        match problem(&self.entry, stack, &self.params) {
            Some(problem) => Err(Refused::Param { scheme: name, problem }),
            None => Ok(()),
        }
    }

    /// Seeds the schemes' random streams, which otherwise differ from process to process; `first` is the number
    /// of the first connection.
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

    /// Rule for cwnd after an idle time (default: Linux's rule).
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

    /// Creates a new instance for a path with datagrams of `mss` bytes.
    pub(crate) fn instance(&self, mss: Bytes) -> AnyScheme {
        let number = self.first.fetch_add(1, Ordering::Relaxed);
        build(&self.entry, &self.params, mss, self.initial_window, Random::stream(self.seed, "scheme", number))
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

    /// noq runs every registered scheme, or refuses it for one of the stated reasons.
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

    /// The error for a wrong name lists the schemes, and the error for a wrong parameter lists the accepted values.
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

    /// A flag that makes a scheme count marked packets is refused with the reason, because the flag would have
    /// no effect.
    #[test]
    fn flags_that_count_marks_are_refused() {
        for (name, stack) in [("bbr3", Stack::Noq), ("bbr2", Stack::Noq)] {
            let found = || Scheme::find(name, stack).expect("accepted");
            let refused = found().param("ecn", 1.0).map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains("needs the number of marked packets"), "{refused}");
            assert!(refused.contains("accepted on noq: ecn = 0"), "{refused}");
            assert!(found().param("ecn", 0.0).is_ok());
        }
        let mut params = Params::defaults(schemes::find("bbr3").expect("registered").info.params);
        params.set("ecn", 1.0).expect("a flag");
        assert!(Scheme::find("bbr3", Stack::Noq).expect("accepted").params(params).is_err());
    }

    /// No accepted flag or choice makes decisions depend on the number of marked packets, which QUIC does not report.
    #[test]
    fn accepted_settings_decide_without_marks() {
        let mut tried = 0;
        for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()) {
            for param in entry.info.params {
                let values = match param.kind {
                    ParamKind::Flag => 2,
                    ParamKind::Choice(words) => words.len(),
                    _ => continue,
                };
                for value in 0..values {
                    let mut params = Params::defaults(entry.info.params);
                    params.set(param.name, value as f64).expect("in range");
                    let differs = decisions(entry, &params, false) != decisions(entry, &params, true);
                    let refused = problem(entry, Stack::Noq, &params).is_some();
                    assert_eq!(differs, refused, "{}: {} = {value}", entry.info.name, param.name);
                    tried += 1;
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }

    /// Window and rate after each acknowledgement of a series; if `marked`, all packets of the series are marked.
    fn decisions(entry: &Entry, params: &Params, marked: bool) -> Vec<(Bytes, Option<narrows_cc::Rate>)> {
        const ROUNDS: u64 = 40;
        let rtt = Nanos::from_millis(2);
        let mut driver = Driver::new(build(entry, params, DATAGRAM, 10, Random::stream(0, "scheme", 0)));
        let mut found = Vec::new();
        for round in 0..ROUNDS {
            let now = rtt * round;
            let sent: Vec<_> = (0..10)
                .map(|place| {
                    let state = driver.stamp(now, DATAGRAM, DATAGRAM * place);
                    let inflight = DATAGRAM * (place + 1);
                    driver.sent(&record!(Sent { now, bytes: DATAGRAM, inflight }));
                    state
                })
                .collect();
            let position = narrows_cc::SendPosition { acknowledged: round * 10, next: round * 10 + 11 };
            driver.note_usage(true, DATAGRAM * 10, position);
            let mut ack = driver.begin_ack(DATAGRAM * 10);
            let now = now + rtt;
            sent.iter().for_each(|state| driver.delivered_packet(now, &mut ack, DATAGRAM, state));
            let end = record!(AckEnd {
                now,
                rtt: Some(rtt),
                ce: if marked { DATAGRAM * 10 } else { Bytes::ZERO },
                srtt: Some(rtt),
                min_rtt: Some(rtt),
            });
            driver.finish_ack(&ack, &end);
            found.push((driver.control().cwnd, driver.control().pacing_rate));
        }
        found
    }

    /// quinn refuses parameters with which a window-based scheme paces, because quinn would ignore the rate.
    /// This holds even if the scheme sets the rate only once it knows the RTT.
    #[test]
    fn quinn_refuses_parameters_that_pace() {
        for (name, param, value) in [("cubic", "paced", 1.0), ("newreno", "paced", 1.0), ("fixed", "rate", 5.0)] {
            let refused = Scheme::find(name, Stack::Quinn).expect("accepted").param(param, value);
            let refused = refused.map(|_| ()).unwrap_err().to_string();
            assert!(refused.contains(&format!("with {param} = {value} it sets a pacing rate")), "{refused}");
            assert!(Scheme::find(name, Stack::Noq).expect("accepted").param(param, value).is_ok());
        }
    }
}
