//! The kernel's program of BRF decides like its twin in the registry: the same C, compiled outside the kernel, runs on
//! events that the twin received in the simulator, and on random events. Needs no root, only a C compiler.
//!
//! Events are rounded to units of the kernel (packets, microseconds) before the twin and the program receive them.
//! Remaining differences:
//!
//! | what | bound | why |
//! |---|---|---|
//! | state | equal | both decide by whole microseconds |
//! | pacing rate | a share of 2⁻¹⁶ and 2 B/s, where CUBIC's cwnd agrees | rates are whole bytes per second, divided in another order. When recovery begins, the program changes the rate only at the acknowledgement in progress |
//! | cwnd with a rate | 1 packet | `window_gain` has 20 fractional bits |
//! | cwnd of CUBIC | 2 packets, once in 1000 events | the curve errs by less than 10⁻⁵ (`bpf/native/cubic.c`); the target is truncated to whole packets, and growth per acknowledgement depends on its distance from cwnd |
//!
//! `NARROWS_PROGRAM_FUZZ=1000` sets the number of random tapes.

mod events;
mod tapes;

use events::{Decision, Rounding};
use narrows_cc::schemes::Brf;
use narrows_cc::{Rate, Scheme};
use narrows_host::testing::number;
use narrows_programs::Program;
use narrows_routers::RateCode;

use crate::native::{Native, long, word};
use crate::recording::Tape;

fn compiled() -> Option<Native> {
    Native::compile("brf", None)
}

/// Differences between the program and its twin. The head of this file states the bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    events: u64,
    /// Events after which the states differ.
    states: u64,
    /// Largest difference of a pacing rate beyond 2 B/s, as a share.
    rate: f64,
    /// Largest difference of cwnd while a rate sets it.
    advised: u64,
    /// Events after which CUBIC's cwnd differed. `cubic_most`: the largest difference.
    cubic: u64,
    cubic_most: u64,
    /// Events in each state: waiting, advised, fallback.
    seen: [u64; 3],
}

impl Differences {
    fn note(&mut self, twin: &Decision, own: &[u8]) {
        self.events += 1;
        if word(own, 8) != twin.state {
            self.states += 1;
            return;
        }
        self.seen[twin.state as usize] += 1;
        let apart = u64::from(word(own, 12)).abs_diff(twin.cwnd);
        // CUBIC's rate depends on its cwnd.
        if let Some(wanted) = twin.rate.filter(|_| twin.state != events::FALLBACK || apart == 0) {
            let apart = long(own, 0).abs_diff(wanted).saturating_sub(2) as f64 / wanted as f64;
            self.rate = self.rate.max(apart);
        }
        if twin.state == events::FALLBACK {
            self.cubic += u64::from(apart > 0);
            self.cubic_most = self.cubic_most.max(apart);
        } else {
            self.advised = self.advised.max(apart);
        }
    }

    fn is_within(&self) -> bool {
        self.states == 0
            && self.rate <= 1.0 / 65_536.0
            && self.advised <= 1
            && self.cubic <= self.seen[events::FALLBACK as usize] / 1_000 + 1
            && self.cubic_most <= 2
    }

    fn judge(&self, what: &str) {
        eprintln!("{what}: {self:?}");
        assert!(self.is_within(), "{what}: {self:?}");
    }
}

/// Feeds tapes to the twin and to the program.
fn compare(native: &Native, tapes: &[Tape]) -> Differences {
    let mut sum = Differences::default();
    for tape in tapes {
        let params = tape.program_params.as_ref().unwrap_or(&tape.setup.params);
        let (mut input, _) = Program::find("brf").unwrap().parameters(params).expect("the program has a form of them");
        let mut twin = Brf::new(&tape.setup);
        let mut rounding = Rounding::new(&tape.setup);
        let mut decisions = Vec::new();
        for event in &tape.events {
            let Some(wire) = rounding.feed(event, &mut twin) else { continue };
            let mut decision = Decision::of(&twin, tape.setup.mss.as_u64());
            decision.rate = decision.rate.filter(|_| wire.sets_rate());
            input.extend(wire.bytes(tape.setup.mss.as_u64() as u32, &decision));
            decisions.push(decision);
        }
        let out = native.run(&[], &input);
        assert_eq!(out.len(), decisions.len() * 16, "an outcome per event");
        for (twin, own) in decisions.iter().zip(out.chunks_exact(16)) {
            sum.note(twin, own);
        }
    }
    sum
}

/// The program decides like its twin in simulations: with a router, with a router that dies, without a router, under
/// loss, and with pauses.
#[test]
fn rates_program_decides_as_its_twin() {
    let Some(native) = compiled() else { return };
    let mut seen = [0; 3];
    for (network, values) in tapes::NETWORKS {
        let all = compare(&native, &tapes::recorded(network, values));
        all.judge(network);
        seen.iter_mut().zip(all.seen).for_each(|(sum, own)| *sum += own);
    }
    assert!(seen.iter().all(|events| *events > 100), "{seen:?}");
}

/// The program decides like its twin on events that no network produces.
#[test]
fn rates_program_follows_twin_on_drawn_events() {
    let Some(native) = compiled() else { return };
    let tapes: Vec<Tape> = (0..number("NARROWS_PROGRAM_FUZZ", 12)).map(tapes::drawn).collect();
    let all = compare(&native, &tapes);
    all.judge("drawn");
    assert!(all.seen.iter().all(|events| *events > 1_000), "{all:?}");
}

/// A changed parameter is detected, so the comparison can fail.
#[test]
fn rates_comparison_notices_another_parameter() {
    let Some(native) = compiled() else { return };
    let mut tape = tapes::drawn(1);
    for (name, value) in
        [("window_gain", 2.2), ("timeout", 1.1), ("line_rate", 50.0), ("min_rate", 100.0), ("overrun", 0.4)]
    {
        tape.program_params = Some(tapes::params(&[(name, value)]));
        let wrong = compare(&native, std::slice::from_ref(&tape));
        assert!(!wrong.is_within(), "{name}: {wrong:?}");
    }
}

/// Every code decodes to the same rate as in the simulator's switches, and to the payload's share of that rate.
#[test]
fn rates_program_decodes_every_code() {
    let Some(native) = compiled() else { return };
    let input: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
    let out = native.run(&["codes"], &input);
    assert_eq!(out.len(), 16 << 16);
    for (code, own) in (0..=u16::MAX).zip(out.chunks_exact(16)) {
        let wire: Rate = RateCode(code).decode();
        let payload = (u128::from(wire.as_bytes_per_sec()) * 1448 / 1500) as u64;
        let expected = [wire.as_bytes_per_sec().to_ne_bytes(), payload.to_ne_bytes()].concat();
        assert_eq!(own, expected, "{code}");
    }
}
