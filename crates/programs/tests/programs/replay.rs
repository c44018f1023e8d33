//! Runs the program outside the kernel and measures its differences from the twin.

use narrows_cc::Scheme;
use narrows_programs::Program;

use super::tape::{Decisions, Rounding, Twin, Wire};
use crate::native::{Native, long, word};
use crate::recording::Tape;

/// Bytes of `struct outcome`.
const OUTCOME: usize = 80;
/// Bytes by which bounds may differ, and by which cwnd may differ where it is kept in bytes.
const ROUNDED: u64 = 2;
/// Share by which cwnd gains may differ.
const SCALED: f64 = 1.0 / 65_536.0;

/// A compiled `bpf/native/replay.c`.
#[derive(Debug)]
pub struct Replay {
    program: &'static Program,
    native: Native,
}

/// Differences between the program and its twin. The head of `programs.rs` states the bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Differences {
    pub events: u64,
    /// Events after which the states differ.
    states: u64,
    /// Number of periods in which cwnd differed; a period lasts until cwnd is equal again.
    cwnds: u64,
    /// Whether cwnd differed after the last event.
    parted: bool,
    /// Largest difference of cwnd in packets.
    cwnd: u64,
    /// Largest difference of the pacing rate beyond 2 B/s, as a share.
    rate: f64,
    /// Largest difference of the pacing gain.
    gain: f64,
    /// Events after which cwnd gains differ by more than [`SCALED`].
    scales: u64,
    /// Largest difference of the cwnd gain up to [`SCALED`], as a share.
    cwnd_gain: f64,
    /// The twin's least and largest cwnd gain in ProbeBW.
    pub cwnd_gains: Option<(f64, f64)>,
    /// Events after which bandwidth or min_rtt differ.
    models: u64,
    /// Largest difference of a bound, in bytes or bytes per second.
    bound: u64,
    /// The twin's states (four bits per mode) and signals that were compared.
    pub states_seen: u32,
    pub signals_seen: u32,
}

impl Differences {
    pub fn add(&mut self, other: Self) {
        self.events += other.events;
        self.states += other.states;
        self.cwnds += other.cwnds;
        self.cwnd = self.cwnd.max(other.cwnd);
        self.rate = self.rate.max(other.rate);
        self.gain = self.gain.max(other.gain);
        self.scales += other.scales;
        self.cwnd_gain = self.cwnd_gain.max(other.cwnd_gain);
        self.models += other.models;
        self.bound = self.bound.max(other.bound);
        self.states_seen |= other.states_seen;
        self.signals_seen |= other.signals_seen;
        self.cwnd_gains =
            [self.cwnd_gains, other.cwnd_gains].into_iter().flatten().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }

    pub fn is_within(&self) -> bool {
        let few = self.events / 10_000 + 1;
        self.models == 0
            && self.states <= few
            && self.cwnds <= few
            && self.cwnd <= 4
            && self.rate <= 1.0 / f64::from(1 << 17)
            && self.gain <= 4.0 / f64::from(1 << 20)
            && self.scales <= few
            && self.bound <= ROUNDED
    }

    /// Requires equal decisions. `events` names the source of the events.
    pub fn judge(&self, program: &str, events: &str) {
        eprintln!("{program}: {self:?}");
        assert!(self.is_within(), "{self:?}");
        println!("{program}: {events} events beside its twin | {} | equal decisions within stated bounds", self.events);
    }
}

impl Replay {
    /// Compiles the replay of a program; `None` without a C compiler.
    pub fn compile(program: &str) -> Option<Self> {
        let program = Program::find(program).unwrap();
        Some(Self { program, native: Native::compile("replay", Some(program))? })
    }

    /// Feeds a tape to the twin and to the program.
    pub fn compare<S: Scheme + Twin>(&self, tape: &Tape) -> Differences {
        let mut twin = S::new(&tape.setup);
        let mut rounding = Rounding::new(&tape.setup);
        let params = tape.program_params.as_ref().unwrap_or(&tape.setup.params);
        let (core, own) = self.program.parameters(params).expect("the program has a form of them");
        let mut input = [core, own].concat();
        let mut twins = Vec::with_capacity(tape.events.len());
        for event in &tape.events {
            let Some(wire) = rounding.feed(event, &mut twin) else { continue };
            let decisions = twin.decisions();
            write(&mut input, &wire, &decisions, tape.setup.mss.as_u64() as u32);
            twins.push(decisions);
        }
        let out = self.native.run(&[], &input);
        assert_eq!(out.len(), twins.len() * OUTCOME, "an outcome per event");
        let mut sum = Differences::default();
        for (twin, own) in twins.iter().zip(out.chunks_exact(OUTCOME)) {
            note(&mut sum, twin, own);
        }
        sum
    }
}

fn write(out: &mut Vec<u8>, wire: &Wire, twin: &Decisions, mss: u32) {
    let [short, inflight_short, inflight_long] = twin.bounds;
    for word in [wire.now, twin.rate, twin.since_us, twin.bytes, short, inflight_short, inflight_long] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    for word in [
        wire.kind,
        mss,
        wire.acked,
        wire.lost,
        wire.prior_in_flight,
        wire.in_flight,
        wire.delivered,
        wire.lost_total,
        wire.sample_delivered,
        wire.prior_delivered,
        wire.interval,
        wire.rtt,
        wire.srtt,
        wire.flags,
        wire.ca_state,
        twin.drawn[0],
        twin.drawn[1],
        twin.cwnd as u32,
        twin.mode,
        twin.phase,
        twin.signals,
        0,
    ] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
}

fn note(sum: &mut Differences, twin: &Decisions, own: &[u8]) {
    sum.events += 1;
    sum.models += u64::from(long(own, 8) != twin.bandwidth || word(own, 64) != twin.min_rtt_us);
    let bounds = [long(own, 24), long(own, 32), long(own, 40)];
    let set = |bounds: [u64; 3]| bounds.map(|bound| bound == u64::MAX);
    if (word(own, 52), word(own, 56), word(own, 76), set(bounds))
        != (twin.mode, twin.phase, twin.signals, set(twin.bounds))
    {
        sum.states += 1;
        return; // gain, rate and cwnd depend on the state
    }
    let apart = bounds.iter().zip(twin.bounds).map(|(own, twin)| own.abs_diff(twin)).max().unwrap_or(0);
    sum.bound = sum.bound.max(apart);
    let cwnd_gain = (f64::from(word(own, 72)) / f64::from(1 << 20) / twin.cwnd_gain - 1.0).abs();
    if cwnd_gain > SCALED {
        sum.scales += 1;
        return; // cwnd depends on the gain
    }
    sum.cwnd_gain = sum.cwnd_gain.max(cwnd_gain);
    sum.states_seen |= 1 << (4 * twin.mode.min(3) + twin.phase % 4);
    sum.signals_seen |= twin.signals;
    let mut cwnd = u64::from(word(own, 48)).abs_diff(twin.cwnd);
    if twin.bytes > 0 && cwnd <= 1 && long(own, 16).abs_diff(twin.bytes) <= ROUNDED {
        cwnd = 0;
    }
    sum.cwnds += u64::from(cwnd > 0 && !sum.parted);
    sum.parted = cwnd > 0;
    sum.cwnd = sum.cwnd.max(cwnd);
    let rate = long(own, 0).abs_diff(twin.rate).saturating_sub(2) as f64 / (twin.rate.max(1) as f64);
    sum.rate = sum.rate.max(rate);
    let gain = (f64::from(word(own, 60)) / f64::from(1 << 20) - twin.gain).abs();
    sum.gain = sum.gain.max(gain);
    if twin.mode == 2 {
        let (least, most) = sum.cwnd_gains.unwrap_or((f64::MAX, 0.0));
        sum.cwnd_gains = Some((least.min(twin.cwnd_gain), most.max(twin.cwnd_gain)));
    }
}
