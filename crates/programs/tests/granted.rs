//! The program that follows granted rates decides as its twin in the registry: the same C, compiled outside the
//! kernel (`bpf/native/granted.c`), runs on events that the twin had in the simulator, and on drawn ones. Needs no root,
//! only a C compiler.
//!
//! Events are rounded to what the kernel counts (packets, microseconds) before either sees them. What may differ then:
//!
//! | what | bound | why |
//! |---|---|---|
//! | state, invalid grants | equal | both compare whole numbers |
//! | pacing rate | 1 B/s | the least rate, in packets per second, has 20 fractional bits |
//! | cwnd | 1 packet | the gain has 20 fractional bits, and cwnd is rounded down to packets; a flight of more than 2^40 bytes counts as that |
//!
//! Without a grant the kernel's CUBIC decides instead of the registry's: the test counts that it is asked.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use narrows_cc::schemes::{Entry, Nodectl};
use narrows_cc::{
    Ack, Advice, Bytes, CongestionCause, CongestionControl, Control, Info, Nanos, Params, Phase, Random, Rate,
    RateAdvice, RecoveryEntered, Scheme, Setup, SpuriousLoss, Timeout, record,
};
use narrows_programs::{PROGRAMS, Program};
use narrows_scenario::{NoFiles, Source, expand, resolve};

/// Bytes of `struct outcome`.
const OUTCOME: usize = 32;
const START: u32 = 1;
const ACKED: u32 = 2;
const ADVISED: u32 = 3;
const REDUCED: u32 = 4;
const EXPIRED: u32 = 5;
const UNDONE: u32 = 6;

static RECORDING: Entry = Entry::of::<Recording>();

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack(Ack),
    Advice(RateAdvice),
    Entered(RecoveryEntered),
    Timeout(Timeout),
    Spurious(SpuriousLoss),
}

thread_local! {
    static TAPES: RefCell<Vec<(Setup, Vec<Event>)>> = const { RefCell::new(Vec::new()) };
}

/// The twin, which records its events.
#[derive(Clone, Debug)]
struct Recording {
    inner: Nodectl,
    number: usize,
}

impl Recording {
    fn note(&self, event: Event) {
        TAPES.with_borrow_mut(|tapes| tapes[self.number].1.push(event));
    }
}

impl Scheme for Recording {
    const INFO: Info = Nodectl::INFO;
    const RATE_PROTOCOL: Option<&'static str> = Nodectl::RATE_PROTOCOL;

    fn new(setup: &Setup) -> Self {
        let number = TAPES.with_borrow_mut(|tapes| {
            tapes.push((setup.clone(), Vec::new()));
            tapes.len() - 1
        });
        Self { inner: Nodectl::new(setup), number }
    }
}

impl CongestionControl for Recording {
    fn on_ack(&mut self, event: &Ack) {
        self.note(Event::Ack(*event));
        self.inner.on_ack(event);
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.note(Event::Entered(*event));
        self.inner.on_recovery_entered(event);
    }
    fn on_timeout(&mut self, event: &Timeout) {
        self.note(Event::Timeout(*event));
        self.inner.on_timeout(event);
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.note(Event::Spurious(*event));
        self.inner.on_spurious_loss(event);
    }
    fn on_rate_advice(&mut self, event: &RateAdvice) {
        self.note(Event::Advice(*event));
        self.inner.on_rate_advice(event);
    }
    fn line_rate(&self) -> Option<Rate> {
        self.inner.line_rate()
    }
    fn control(&self) -> Control {
        self.inner.control()
    }
}

fn program() -> &'static Program {
    PROGRAMS.iter().find(|program| program.scheme == Nodectl::INFO.name).expect("it is in the list")
}

/// Compiles the replay; `None` without a C compiler.
fn compiled() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/native");
    let thread = std::thread::current().name().unwrap_or("main").replace("::", "-");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("granted-{thread}"));
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command.args(["-O2", "-Wall", "-Werror", "-Wno-unused-function", "-o"]).arg(&file);
    command.arg(format!("-DPROGRAM=\"../{}.bpf.c\"", program().name)).arg(folder.join("granted.c"));
    match command.output() {
        Ok(done) if done.status.success() => Some(file),
        Ok(done) => panic!("{}", String::from_utf8_lossy(&done.stderr)),
        Err(_) => {
            eprintln!("skipped: needs a C compiler");
            None
        }
    }
}

/// What the twin decided after an event.
#[derive(Clone, Copy, Debug)]
struct Decided {
    granted: bool,
    ignored: u64,
    rate: u64,
    cwnd: u64,
    /// CUBIC is to grow.
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

/// Outcomes that were compared.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    events: u64,
    granted: u64,
    withdrawn: u64,
    ignored: u64,
    grown: u64,
}

/// Feeds a tape to the twin and to the program, and compares the outcomes.
fn compare(file: &Path, setup: &Setup, events: &[Event], program_params: &Params) -> Result<Compared, String> {
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
    let path = file.with_extension("events");
    File::create(&path).and_then(|mut file| file.write_all(&input)).expect("room for a tape");
    let stdin = Stdio::from(File::open(&path).expect("it was written"));
    let done = Command::new(file).stdin(stdin).stderr(Stdio::inherit()).output().expect("it runs");
    assert!(done.status.success(), "{:?}", done.status);
    assert_eq!(done.stdout.len(), decided.len() * OUTCOME, "an outcome per event");
    let mut sum = Compared::default();
    let mut grown = 0;
    for (number, (twin, own)) in decided.iter().zip(done.stdout.chunks_exact(OUTCOME)).enumerate() {
        let long = |at: usize| u64::from_ne_bytes(own[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_ne_bytes(own[at..at + 4].try_into().expect("four bytes"));
        grown += u32::from(twin.grows);
        let same = (word(20) == 1, long(8), word(24)) == (twin.granted, twin.ignored, grown);
        let rate = !twin.granted || long(0).abs_diff(twin.rate) <= 1;
        let cwnd = !twin.granted || u64::from(word(16)).abs_diff(twin.cwnd) <= 1;
        if !(same && rate && cwnd) {
            return Err(format!(
                "event {number}: {twin:?}, grown {grown}; program: granted {}, ignored {}, rate {}, cwnd {}, grown {}",
                word(20),
                long(8),
                long(0),
                word(16),
                word(24)
            ));
        }
        sum.events += 1;
        sum.granted += u64::from(twin.granted);
        (sum.ignored, sum.grown) = (twin.ignored, grown.into());
        sum.withdrawn = u64::from(word(28)) - 1; // CUBIC began anew
    }
    Ok(sum)
}

fn params(values: &[(&str, f64)]) -> Params {
    let mut params = Params::defaults(Nodectl::INFO.params);
    for (name, value) in values {
        params.set(name, *value).expect("in range");
    }
    params
}

const VALUES: &[&[(&str, f64)]] =
    &[&[], &[("line_rate", 60.0), ("window_gain", 3.7)], &[("min_rate", 300.0), ("window_gain", 1.0)]];

/// Networks with nodes, without, and with one that dies; losses, arrivals and departures.
const NETWORKS: &[&str] = &[
    "rate = '40mbit'\nrouter = 'nodectl'\n[[flows]]\nscheme = 'nodectl'\nrtt = '20ms'\n[[flows]]\nscheme = 'nodectl'\n\
     rtt = '50ms'\nstart = '3s'\nstop = '9s'\n",
    "rate = '20mbit'\nrouter = 'none'\n[[flows]]\nscheme = 'nodectl'\nrtt = '20ms'\n",
    "rate = '30mbit'\nloss = '1%'\nrouter = { kind = 'nodectl', dies = '4s' }\n[[flows]]\nscheme = 'nodectl'\n\
     rtt = '40ms'\n[[flows]]\nscheme = 'nodectl'\nrtt = '10ms'\napp = { kind = 'cbr', rate = '5mbit' }\n",
];

/// The program decides as its twin did in simulations.
#[test]
fn program_follows_grants_as_its_twin() {
    let Some(file) = compiled() else { return };
    let mut all = Compared::default();
    for (number, network) in NETWORKS.iter().enumerate() {
        let values = params(VALUES[number % VALUES.len()]);
        let text = format!("duration = '20s'\nseed = 3\n[network]\nbuffer = '1bdp'\n{network}");
        let planned = expand(&Source { name: "test", text: &text, files: &NoFiles }, &[]).expect("valid");
        let mut plan = resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves");
        for flow in &mut plan.flows {
            (flow.scheme, flow.params) = (&RECORDING, values.clone());
        }
        TAPES.take();
        narrows_sim::run(plan);
        for (setup, events) in TAPES.take() {
            let own = compare(&file, &setup, &events, &values).unwrap_or_else(|error| panic!("{network}: {error}"));
            all.events += own.events;
            all.granted += own.granted;
            all.withdrawn += own.withdrawn;
            all.grown += own.grown;
        }
    }
    eprintln!("{all:?}");
    assert!(all.granted > 10_000 && all.grown > 5_000 && all.withdrawn >= 1, "{all:?}");
}

/// The program decides as its twin on events that no network makes: rates of any size, withdrawals, losses.
#[test]
fn program_follows_its_twin_on_drawn_events() {
    let Some(file) = compiled() else { return };
    let mut all = Compared::default();
    for seed in 0..12 {
        let values = params(VALUES[seed as usize % VALUES.len()]);
        let (setup, events) = drawn(&values, seed);
        let own = compare(&file, &setup, &events, &values).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        all.events += own.events;
        all.granted += own.granted;
        all.withdrawn += own.withdrawn;
        all.ignored += own.ignored;
    }
    eprintln!("{all:?}");
    assert!(all.granted > 5_000 && all.withdrawn > 100 && all.ignored > 100, "{all:?}");
}

/// A program with another parameter is found out: the comparison can fail.
#[test]
fn comparison_notices_another_parameter() {
    let Some(file) = compiled() else { return };
    let values = params(&[]);
    let (setup, events) = drawn(&values, 1);
    compare(&file, &setup, &events, &values).expect("equal");
    for (name, value) in [("window_gain", 2.1), ("line_rate", 100.0), ("min_rate", 900.0)] {
        let wrong = compare(&file, &setup, &events, &params(&[(name, value)]));
        assert!(wrong.is_err(), "{name}");
    }
}

/// A connection's events in any order.
fn drawn(values: &Params, seed: u64) -> (Setup, Vec<Event>) {
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
                // Beyond 2^40 bytes the program counts no flight.
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
    (setup, events)
}
