//! The program that follows granted rates decides like its twin in the registry: the same C, compiled outside the
//! kernel (`bpf/native/granted.c`), runs on events that the twin received in the simulator, and on random events. Needs
//! no root, only a C compiler.
//!
//! Events are rounded to units of the kernel (packets, microseconds) before the twin and the program receive them.
//! Remaining differences:
//!
//! | what | bound | why |
//! |---|---|---|
//! | state, invalid grants | equal | both compare whole numbers |
//! | pacing rate | 1 B/s | the least rate, in packets per second, has 20 fractional bits |
//! | cwnd | 1 packet | the gain has 20 fractional bits, and cwnd is rounded down to packets; a flight of more than 2^40 bytes counts as 2^40 bytes |
//!
//! Without a grant the kernel's CUBIC decides instead of the registry's; the test counts the calls of CUBIC.

use narrows_cc::schemes::{Entry, Nodectl};
use narrows_cc::{
    Ack, Advice, Bytes, CongestionCause, CongestionControl, Nanos, Params, Phase, Random, Rate, RateAdvice,
    RecoveryEntered, Scheme, Setup, Timeout, record,
};
use narrows_programs::Program;

use crate::native::{Native, long, word};
use crate::recording::{Event, Recording, Tape, recorded};

/// Bytes of `struct outcome`.
const OUTCOME: usize = 32;
const START: u32 = 1;
const ACKED: u32 = 2;
const ADVISED: u32 = 3;
const REDUCED: u32 = 4;
const EXPIRED: u32 = 5;
const UNDONE: u32 = 6;

static RECORDING: Entry = Entry::of::<Recording<Nodectl>>();

fn program() -> &'static Program {
    Program::find(Nodectl::INFO.name).expect("it is in the list")
}

fn compiled() -> Option<Native> {
    Native::compile("granted", Some(program()))
}

/// Decisions of the twin after an event.
#[derive(Clone, Copy, Debug)]
struct Decided {
    granted: bool,
    ignored: u64,
    rate: u64,
    cwnd: u64,
    /// Whether CUBIC should grow cwnd.
    grows: bool,
}

fn telemetry(twin: &Nodectl) -> (bool, u64) {
    let (mut granted, mut ignored) = (false, 0);
    twin.telemetry(&mut |name, value| match (name, value) {
        ("state", narrows_cc::Value::State(state)) => granted = state == "granted",
        ("advice_ignored", narrows_cc::Value::Number(count)) => ignored = count as u64,
        _ => {}
    });
    (granted, ignored)
}

/// Numbers of compared outcomes, by kind.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    granted: u64,
    withdrawn: u64,
    ignored: u64,
    grown: u64,
}

impl Compared {
    fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.withdrawn += other.withdrawn;
        self.ignored += other.ignored;
        self.grown += other.grown;
    }
}

/// Feeds a tape to the twin and to the program, and compares the outcomes.
fn compare(native: &Native, Tape { setup, events, .. }: &Tape, program_params: &Params) -> Result<Compared, String> {
    let mss = setup.mss.as_u64();
    let mut twin = Nodectl::new(setup);
    let (core, own) = program().parameters(program_params).expect("the program has a form of them");
    let mut input = [core, own].concat();
    let mut decided: Vec<Decided> = Vec::new();
    let mut started = false;
    for event in events {
        let packets = |bytes: Bytes| (bytes.as_u64() / mss) as u32;
        let micros = |time: Nanos| (time.as_nanos() / 1_000).max(1);
        let (mut kind, mut advice, mut acked, mut in_flight, mut srtt, mut state) = (ACKED, 0, 0, 0, 0, 0);
        let mut grows = false;
        match event {
            Event::Ack(ack) => {
                let srtt_us = ack.srtt.map(micros);
                srtt = srtt_us.map_or(0, |us| us as u32 * 8);
                state = match ack.phase {
                    Phase::Open => 0,
                    Phase::Recovery => 3,
                    Phase::Loss => 4,
                };
                acked = packets(ack.acked);
                in_flight = packets(ack.inflight);
                if started {
                    grows = state != 3 && acked > 0;
                } else {
                    (kind, acked) = (START, packets(setup.initial_window));
                }
                started = true;
                twin.on_ack(&record!(Ack { srtt: srtt_us.map(Nanos::from_micros), ..*ack }));
            }
            Event::Advice(own) => {
                kind = ADVISED;
                advice = match own.advice {
                    Advice::Rate(rate) => rate.as_bytes_per_sec(),
                    _ => 0,
                };
                twin.on_rate_advice(own);
            }
            Event::Entered(own) => {
                kind = REDUCED;
                twin.on_recovery_entered(own);
            }
            Event::Timeout(own) => {
                kind = EXPIRED;
                in_flight = packets(own.inflight);
                twin.on_timeout(own);
            }
            Event::Spurious(own) => {
                kind = UNDONE;
                twin.on_spurious_loss(own);
            }
            Event::Lost(_) | Event::Left(_) | Event::Idle(_) => continue,
        }
        if !started {
            continue; // the connection is not open
        }
        let (granted, ignored) = telemetry(&twin);
        let control = twin.control();
        let cwnd = control.cwnd.as_u64() / mss;
        let rate = control.pacing_rate.map_or(0, Rate::as_bytes_per_sec);
        decided.push(Decided { granted, ignored, rate, cwnd, grows: grows && !granted });
        input.extend_from_slice(&u64::to_ne_bytes(advice));
        let twin_cwnd = u32::try_from(cwnd).unwrap_or(u32::MAX);
        for word in [kind, mss as u32, acked, in_flight, srtt, state, twin_cwnd, u32::from(granted)] {
            input.extend_from_slice(&word.to_ne_bytes());
        }
    }
    let out = native.run(&[], &input);
    assert_eq!(out.len(), decided.len() * OUTCOME, "an outcome per event");
    let mut sum = Compared::default();
    let mut grown = 0;
    for (number, (twin, own)) in decided.iter().zip(out.chunks_exact(OUTCOME)).enumerate() {
        grown += u32::from(twin.grows);
        let same = (word(own, 20) == 1, long(own, 8), word(own, 24)) == (twin.granted, twin.ignored, grown);
        let rate = !twin.granted || long(own, 0).abs_diff(twin.rate) <= 1;
        let cwnd = !twin.granted || u64::from(word(own, 16)).abs_diff(twin.cwnd) <= 1;
        if !(same && rate && cwnd) {
            return Err(format!(
                "event {number}: {twin:?}, grown {grown}; program: granted {}, ignored {}, rate {}, cwnd {}, grown {}",
                word(own, 20),
                long(own, 8),
                long(own, 0),
                word(own, 16),
                word(own, 24)
            ));
        }
        sum.granted += u64::from(twin.granted);
        (sum.ignored, sum.grown) = (twin.ignored, grown.into());
        sum.withdrawn = u64::from(word(own, 28)) - 1; // CUBIC started afresh
    }
    Ok(sum)
}

fn params(values: &[(&str, f64)]) -> Params {
    crate::recording::params(&Nodectl::INFO, values)
}

const VALUES: &[&[(&str, f64)]] =
    &[&[], &[("line_rate", 60.0), ("window_gain", 3.7)], &[("min_rate", 300.0), ("window_gain", 1.0)]];

/// Networks with nodes, without nodes, and with a node that dies; with losses, arrivals and departures.
const NETWORKS: &[&str] = &[
    "rate = '40mbit'\nrouter = 'nodectl'\n[[flows]]\nscheme = 'nodectl'\nrtt = '20ms'\n[[flows]]\nscheme = 'nodectl'\n\
     rtt = '50ms'\nstart = '3s'\nstop = '9s'\n",
    "rate = '20mbit'\nrouter = 'none'\n[[flows]]\nscheme = 'nodectl'\nrtt = '20ms'\n",
    "rate = '30mbit'\nloss = '1%'\nrouter = { kind = 'nodectl', dies = '4s' }\n[[flows]]\nscheme = 'nodectl'\n\
     rtt = '40ms'\n[[flows]]\nscheme = 'nodectl'\nrtt = '10ms'\napp = { kind = 'cbr', rate = '5mbit' }\n",
];

/// The program decides like its twin in simulations.
#[test]
fn program_follows_grants_as_its_twin() {
    let Some(native) = compiled() else { return };
    let mut all = Compared::default();
    for (number, network) in NETWORKS.iter().enumerate() {
        let values = VALUES[number % VALUES.len()];
        let scenario = format!("duration = '20s'\nseed = 3\n[network]\nbuffer = '1bdp'\n{network}");
        for tape in recorded(&RECORDING, &scenario, values) {
            all.add(compare(&native, &tape, &params(values)).unwrap_or_else(|error| panic!("{network}: {error}")));
        }
    }
    eprintln!("{all:?}");
    assert!(all.granted > 10_000 && all.grown > 5_000 && all.withdrawn >= 1, "{all:?}");
}

/// The program decides like its twin on events that no network produces: rates of any size, withdrawals, losses.
#[test]
fn program_follows_its_twin_on_drawn_events() {
    let Some(native) = compiled() else { return };
    let mut all = Compared::default();
    for seed in 0..12 {
        let values = params(VALUES[seed as usize % VALUES.len()]);
        let compared = compare(&native, &drawn(&values, seed), &values);
        all.add(compared.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
    }
    eprintln!("{all:?}");
    assert!(all.granted > 5_000 && all.withdrawn > 100 && all.ignored > 100, "{all:?}");
}

/// A changed parameter is detected, so the comparison can fail.
#[test]
fn comparison_notices_another_parameter() {
    let Some(native) = compiled() else { return };
    let values = params(&[]);
    let tape = drawn(&values, 1);
    compare(&native, &tape, &values).expect("equal");
    for (name, value) in [("window_gain", 2.1), ("line_rate", 100.0), ("min_rate", 900.0)] {
        assert!(compare(&native, &tape, &params(&[(name, value)])).is_err(), "{name}");
    }
}

/// Random events of a connection, in any order.
fn drawn(values: &Params, seed: u64) -> Tape {
    let mut random = Random::stream(seed, "granted", 0);
    let mss = Bytes::new(1 + random.below(9000));
    let setup = Setup::new(mss, values.clone(), Random::stream(seed, "scheme", 0)).with_window(1 + random.below(20));
    let mut now = Nanos::ZERO;
    let mut events = Vec::new();
    for number in 0..2_000 {
        now += Nanos::from_micros(random.below(50_000));
        let phases = [Phase::Open, Phase::Recovery, Phase::Loss];
        let packets = |random: &mut Random, most| mss * random.below(most);
        let acked = packets(&mut random, 60);
        let event = match if number == 0 { 0 } else { random.below(12) } {
            0..=6 => {
                // Smoothed RTTs stay below about 4 s, because the program caps flights at 2^40 bytes.
                let most = 1 << random.below(23);
                let srtt = Nanos::from_micros(1 + random.below(most));
                Event::Ack(record!(Ack {
                    acked,
                    phase: phases[random.below(3) as usize],
                    inflight: packets(&mut random, 500),
                    ..Ack::of_handshake(now, srtt, Some(srtt), Some(srtt))
                }))
            }
            7 | 8 => {
                let most = 1 << (1 + random.below(38));
                let rate = 1 + random.below(most);
                Event::Advice(record!(RateAdvice { now, advice: Advice::Rate(Rate::from_bytes_per_sec(rate)) }))
            }
            9 => Event::Advice(record!(RateAdvice { now, advice: Advice::Withdrawn })),
            10 => Event::Entered(record!(RecoveryEntered {
                now,
                cause: CongestionCause::Loss,
                flight_size: acked,
                inflight: acked,
                acked,
                delivered: acked,
            })),
            _ => Event::Timeout(record!(Timeout {
                now,
                flight_size: acked,
                inflight: acked,
                delivered: acked,
                consecutive: 1,
            })),
        };
        events.push(event);
    }
    Tape { setup, events, program_params: None }
}
