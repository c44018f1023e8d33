//! Properties of all registered schemes over random event sequences.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ABSURD, Conditions, Model, Op, Step};
use narrows_cc::schemes::{ALL, Entry, find};
use narrows_cc::{Bytes, Feedback, Nanos, Params, Provenance, RecoveryStyle, Value};
use proptest::prelude::*;

/// Checks, for any sequence of events, that cwnd is at least one segment, and that rates are positive and all values
/// finite and below their limits.
fn check(entry: &Entry, conditions: &Conditions, steps: &[Step]) {
    let name = entry.info.name;
    let mss = Bytes::new(conditions.mss);
    let mut kinds = BTreeMap::new();
    for (i, step) in steps.iter().enumerate() {
        let at = format!("{name}, step {i}: {step:?}");
        let control = step.control;
        assert!(control.cwnd >= mss, "window below a segment: {at}");
        assert!(control.cwnd.as_u64() < ABSURD, "absurd window: {at}");
        assert!(control.burst >= mss, "burst below a segment: {at}");
        if let Some(rate) = control.pacing_rate {
            assert!(!rate.is_zero() && rate.as_bytes_per_sec() < ABSURD, "absurd pacing rate: {at}");
        }
        let mut names = BTreeSet::new();
        for (item, value) in &step.telemetry {
            assert!(names.insert(item), "telemetry item '{item}' reported twice: {at}");
            assert!(is_snake_case(item), "telemetry item '{item}' is not in snake case: {at}");
            if let Value::Number(number) = value {
                assert!(number.is_finite(), "telemetry item '{item}': {at}");
            }
            let kind = std::mem::discriminant(value);
            assert_eq!(*kinds.entry(*item).or_insert(kind), kind, "'{item}' changes its type: {at}");
        }
    }
}

fn is_snake_case(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn run(entry: &Entry, params: &Params, conditions: Conditions, ops: &[Op]) -> Vec<Step> {
    let mut model = Model::new(entry, params.clone(), conditions);
    model.run(ops);
    model.steps
}

/// There are many hundreds of parameter sets; each test case tries one in `SHARES` of them.
const SHARES: usize = 4;

/// Parameter sets: the defaults, each parameter alone at either end of its range, all parameters at their minimum, and
/// all at their maximum.
fn extreme_params(entry: &Entry) -> Vec<Params> {
    let defaults = Params::defaults(entry.info.params);
    let (mut all_min, mut all_max) = (defaults.clone(), defaults.clone());
    let mut sets = vec![defaults.clone()];
    for param in entry.info.params {
        for (value, all) in [(param.min, &mut all_min), (param.max, &mut all_max)] {
            all.set(param.name, value).unwrap();
            let mut one = defaults.clone();
            one.set(param.name, value).unwrap();
            sets.push(one);
        }
    }
    sets.extend([all_min, all_max]);
    sets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every scheme stays within bounds and is deterministic.
    #[test]
    fn contract_every_scheme_is_bounded_and_deterministic(conditions in crate::model::conditions(), ops in crate::model::ops()) {
        for entry in ALL {
            let params = Params::defaults(entry.info.params);
            let steps = run(entry, &params, conditions, &ops);
            check(entry, &conditions, &steps);
            let again = run(entry, &params, conditions, &ops);
            prop_assert_eq!(&steps, &again, "{} is not a function of its events", entry.info.name);
        }
    }

    /// Loss-based schemes never raise cwnd on entering recovery. After a timeout they set cwnd to the data in flight
    /// plus one segment (Linux `tcp_enter_loss`; the loss window of RFC 5681 if all data is lost).
    #[test]
    fn contract_loss_based_schemes_never_grow_on_recovery(
        conditions in crate::model::conditions(),
        ops in crate::model::ops(),
    ) {
        // The schemes that leave recovery to the transport are the loss-based schemes.
        for entry in ALL.iter().filter(|entry| entry.info.recovery == RecoveryStyle::Prr) {
            let name = entry.info.name;
            let steps = run(entry, &Params::defaults(entry.info.params), conditions, &ops);
            for pair in steps.windows(2) {
                let (before, after) = (pair[0].control.cwnd, pair[1].control.cwnd);
                match pair[1].event {
                    "recovery entered" => prop_assert!(after <= before, "{name}: {before:?} -> {after:?}"),
                    "timeout" => {
                        let restart = pair[1].inflight + Bytes::new(conditions.mss);
                        prop_assert_eq!(after, restart, "{}", name);
                    }
                    _ => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Every scheme stays within bounds at the extremes of its parameters.
    #[test]
    #[ignore = "seconds: `make test`"]
    fn contract_every_scheme_survives_parameter_extremes(
        conditions in crate::model::conditions(),
        ops in crate::model::ops(),
        turn in 0..SHARES,
    ) {
        for entry in ALL {
            for params in extreme_params(entry).iter().skip(turn).step_by(SHARES) {
                check(entry, &conditions, &run(entry, params, conditions, &ops));
            }
        }
    }
}

/// The model of these tests reaches every event and phase.
#[test]
fn contract_model_reaches_every_event_and_phase() {
    // If some event never occurred, the properties above might hold only for that reason.
    let conditions = Conditions { mss: 1_448, initial_window_segments: 10, rtt: Nanos::from_millis(20), seed: 1 };
    let ack = |lost, delivered, marked| Op::Ack { lost, delivered, late: 0, marked };
    let ops = [
        Op::Send(20),
        ack(0, 5, false),
        ack(1, 1, false),  // recovery entered
        ack(0, 40, false), // recovery left
        Op::Send(20),
        ack(0, 1, true), // a mark: recovery entered
        Op::Spurious,
        Op::Timeout { all: true },
        Op::Send(1),
        ack(0, 1, false), // recovery left
        Op::Idle(1_000),
        ack(0, 1, false), // nothing to acknowledge
        Op::Advice(narrows_cc::Advice::Rate(narrows_cc::Rate::from_bytes_per_sec(1))),
        Op::ReceiverFeedback(narrows_cc::ReceiverFeedback::default()),
        Op::Paths(Box::new(narrows_cc::Paths::new(0, &[narrows_cc::PathView::default()]))),
    ];
    let entry = find("fixed").unwrap();
    let steps = run(entry, &Params::defaults(entry.info.params), conditions, &ops);
    let mut events: Vec<_> = steps.iter().map(|step| step.event).collect();
    events.dedup();
    assert_eq!(
        events.join(", "),
        "new, sent, ack, lost, recovery entered, ack, recovery left, ack, sent, recovery entered, ack, spurious loss, \
         lost, timeout, sent, recovery left, ack, idle restart, ack of nothing, rate advice, report, paths"
    );
}

/// Every entry of the registry is well-formed.
#[test]
fn registry_every_entry_is_well_formed() {
    let mut names = BTreeSet::new();
    for entry in ALL {
        let info = entry.info;
        for name in std::iter::once(&info.name).chain(info.aliases) {
            assert!(names.insert(*name), "'{name}' is taken");
            let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            assert!(!name.is_empty() && name.bytes().all(legal), "'{name}' is not a lower-case name");
            assert_eq!(find(name).map(|found| found.info.name), Some(info.name));
        }
        // Datagram transports identify a scheme by its feedback, so each kind of feedback except the default,
        // [`Feedback::Packets`], must belong to one scheme only.
        let schemes_with_it = ALL.iter().filter(|other| other.feedback == entry.feedback).count();
        assert!(schemes_with_it == 1 || entry.feedback == Feedback::Packets, "{}: {:?}", info.name, entry.feedback);
        assert!(!info.summary.is_empty() && !info.summary.contains('\n'), "{}", info.name);
        let mut params = BTreeSet::new();
        for param in info.params {
            let at = format!("{}, parameter '{}'", info.name, param.name);
            assert!(params.insert(param.name), "{at} appears twice");
            assert!(is_snake_case(param.name), "{at}");
            assert!(param.min <= param.default && param.default <= param.max, "{at}: default out of range");
            assert!(param.min < param.max && param.min.is_finite() && param.max.is_finite(), "{at}: empty range");
            assert!(!param.help.is_empty() && !param.help.contains('\n'), "{at} has no help");
        }
    }
    assert!(find("no-such-scheme").is_none());
}

/// Every scheme has module documentation with the required sections.
#[test]
fn registry_every_scheme_has_module_documentation() {
    for entry in ALL {
        let name = entry.info.name;
        let page: Vec<_> = entry.page().collect();
        let has = |section: &str| page.iter().any(|line| line.starts_with(section));
        assert!(page.first().is_some_and(|line| line.starts_with("# ")), "{name}: no title");
        assert!(has("## Control law"), "{name}: no law");
        if entry.info.provenance != Provenance::Tool {
            for section in ["## References", "## Differences", "## Known weaknesses"] {
                assert!(has(section), "{name}: no section '{section}'");
            }
        }
        if entry.info.provenance == Provenance::Reconstruction {
            let text = page.join(" ");
            assert!(text.contains("our reconstruction"), "{name}: a reconstruction must say so");
        }
    }
}
