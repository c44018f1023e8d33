//! # A 5G path
//!
//! Generates a radio link: transmission opportunities of 1500 bytes, loss and additional delay, in whole
//! milliseconds. A pure function of seed and settings.
//!
//! ## Model
//!
//! *Cell states.* The link is in one of four states, good, medium, poor and blocked, for an exponential time
//! of mean 1.5, 2.5, 2 and 0.4 s. [`NEXT`] gives the transition probabilities (a continuous-time Markov
//! chain). The mean rates of the states relate as 3 : 1 : 0.3 : 0.01. Outdoor measurements of commercial 5G
//! have this shape: several times the mean in line of sight of a cell, and close to zero behind a body or a
//! vehicle (Narayanan et al., 'A First Look at Commercial 5G Performance on Smartphones', WWW 2020;
//! 'Lumos5G', IMC 2020). The means and probabilities are ours.
//!
//! *Fluctuation.* Within a state the rate is log-normal with σ = 0.35: its logarithm is an AR(1) process in
//! steps of 20 ms with a correlation time of 200 ms. It is cut at the peak rate.
//!
//! *Handovers.* The time between handovers is exponential with mean 12 s, or 330 m at 100 km/h. Measured drives
//! found frequent handovers, with large changes of throughput (6 200 km; Hassan et al., 'Vivisecting Mobility
//! Management in 5G Cellular Networks', SIGCOMM 2022). Transmission stops for 30 to 80 ms. The state of the new
//! cell is then drawn from the long-run shares, and its additional delay uniformly from zero to the maximum, in
//! steps of 0.1 ms. In the 20 to 60 ms after the outage, packets are lost, because the old cell could not
//! forward them. Frequency, length and loss are our choice.
//!
//! *Fading bursts.* Between handovers the link alternates between bursts (exponential, mean 50 ms) that lose
//! a fifth of the packets, and gaps (exponential) without loss. They do not depend on the cell state, so the
//! mean loss is independent of a flow's load.
//!
//! ## Averages
//!
//! The averages follow from the model; no parameter is fitted to a generated trace. Let T, O and B be the mean
//! time to the next handover, the mean outage of a handover, and the mean loss burst after it. The link is up
//! for the share h = (T + B)/(T + O + B) of the time, and bursts take the share q = B/(T + B) of the time up.
//! With π the long-run shares of the states, m_s = k_s·u the mean rates of the states and P the peak, u solves
//!
//! h · Σ π_s · E[min(m_s·exp(σZ − σ²/2), P)] = mean rate.
//!
//! Handovers cause a third of the loss L, so their bursts lose the share L/(3q). Fading bursts take the part
//! f = (2L/3)/(0.2·(1 − q)) of the remaining time, so their gaps have mean 50 ms·(1 − f)/f.
//!
//! The default setting (mean 150 Mbit/s, peak 1 Gbit/s, 0.5 % loss) is that of the BRF paper's introduction.

use narrows_cc::{Nanos, Random, Rate};
use narrows_net::timeline::{DelayTrace, LossTrace};
use narrows_net::trace::{CapacityTrace, OPPORTUNITY_BYTES};

/// Mean sojourn time in each state, good to blocked, in milliseconds.
const STAY_MS: [f64; 4] = [1_500.0, 2_500.0, 2_000.0, 400.0];
/// Relative mean rates of the states.
const RELATIVE: [f64; 4] = [3.0, 1.0, 0.3, 0.01];
/// Transition probabilities of the chain.
const NEXT: [[f64; 4]; 4] =
    [[0.0, 0.85, 0.0, 0.15], [0.3, 0.0, 0.55, 0.15], [0.0, 0.8, 0.0, 0.2], [0.15, 0.5, 0.35, 0.0]];
/// Standard deviation of the rate's logarithm within a state.
const SIGMA: f64 = 0.35;
/// Step and correlation time of the fluctuation.
const STEP_MS: u64 = 20;
const CORRELATION_MS: f64 = 200.0;
/// Shortest and longest outage of a handover, and burst of loss after it.
const OUTAGE_MS: (u64, u64) = (30, 80);
const BURST_MS: (u64, u64) = (20, 60);
/// Share of all loss caused by handovers.
const HANDOVER_LOSS: f64 = 1.0 / 3.0;
/// Mean length of a fading burst, and the share of packets lost in it.
const FADE_MS: f64 = 50.0;
const FADE_SHARE: f64 = 0.2;
/// Greatest share of time in fading bursts, so that gaps are at least as long as bursts.
const MOST_FADING: f64 = 0.5;

/// The long-run averages of a generated path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Mean rate.
    pub mean: Rate,
    /// Greatest rate; at least three times the mean.
    pub peak: Rate,
    /// Mean loss.
    pub loss: f64,
    /// Mean time to the next handover.
    pub handovers: Nanos,
    /// Greatest additional delay of a cell.
    pub delay: Nanos,
}

/// Shortest mean time to the next handover.
pub const LEAST_HANDOVERS: Nanos = Nanos::from_millis(500);
/// Least ratio of peak and mean rate, so that the mean of the good state fits below the peak.
pub const LEAST_PEAK: u64 = 3;

/// A generated path.
#[derive(Clone, Debug, PartialEq)]
pub struct RadioPath {
    /// Transmission opportunities of 1500 bytes.
    pub capacity: CapacityTrace,
    /// Loss over time.
    pub loss: LossTrace,
    /// Additional delay over time.
    pub delay: DelayTrace,
}

const fn middle(range: (u64, u64)) -> f64 {
    (range.0 + range.1) as f64 / 2.0
}

impl Settings {
    /// Fraction of the time in which the link is up, and fraction of the time up that lies in loss bursts after
    /// handovers.
    fn shares(&self) -> (f64, f64) {
        let carrying = self.handovers.as_millis_f64() + middle(BURST_MS);
        (carrying / (carrying + middle(OUTAGE_MS)), middle(BURST_MS) / carrying)
    }

    /// Largest mean loss that is possible at this handover rate.
    pub fn most_loss(&self) -> f64 {
        let (_, burst) = self.shares();
        let fading = MOST_FADING * FADE_SHARE * (1.0 - burst) / (1.0 - HANDOVER_LOSS);
        fading.min(burst / HANDOVER_LOSS)
    }

    /// Mean rate of each state in bytes per millisecond, before the rate is cut at the peak.
    fn rates(&self) -> [f64; 4] {
        let per_ms = |rate: Rate| rate.as_bytes_per_sec() as f64 / 1e3;
        let (carrying, _) = self.shares();
        let (wanted, peak, shares) = (per_ms(self.mean) / carrying, per_ms(self.peak), long_run());
        let mean_at = |unit: f64| -> f64 { (0..4).map(|s| shares[s] * cut_mean(RELATIVE[s] * unit, peak)).sum() };
        // The mean rate grows with `unit`; a hundred times the wanted mean exceeds every solution.
        let (mut low, mut high) = (0.0, wanted * 100.0);
        for _ in 0..100 {
            let unit = (low + high) / 2.0;
            if mean_at(unit) < wanted {
                low = unit;
            } else {
                high = unit;
            }
        }
        RELATIVE.map(|relative| relative * low)
    }
}

/// Long-run shares of time in the states: the shares of visits of the Markov chain, weighted with the mean
/// sojourn times.
fn long_run() -> [f64; 4] {
    let mut visits = [0.25; 4];
    for _ in 0..1_000 {
        // Take half of every step, so that the iteration does not oscillate.
        visits = std::array::from_fn(|to| {
            (visits[to] + (0..4).map(|from| visits[from] * NEXT[from][to]).sum::<f64>()) / 2.0
        });
    }
    let total: f64 = (0..4).map(|s| visits[s] * STAY_MS[s]).sum();
    std::array::from_fn(|s| visits[s] * STAY_MS[s] / total)
}

/// The mean of a log-normal rate that has the mean `mean` before it is cut at `peak`.
fn cut_mean(mean: f64, peak: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let cut = libm::log(peak / mean) / SIGMA + SIGMA / 2.0;
    mean * below(cut - SIGMA) + peak * (1.0 - below(cut))
}

/// Draws a state with probabilities proportional to `odds`.
fn draw(random: &mut Random, odds: &[f64; 4]) -> usize {
    let mut left = random.unit();
    for (state, &part) in odds.iter().enumerate() {
        left -= part;
        if left < 0.0 {
            return state;
        }
    }
    // Because of rounding, the draw selected no state: return the most likely state.
    (0..4).max_by(|&a, &b| odds[a].total_cmp(&odds[b])).unwrap_or(0)
}

/// A normally distributed number (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = libm::sqrt(2.0 * random.exponential(1.0));
    radius * libm::cos(2.0 * std::f64::consts::PI * random.unit())
}

/// An exponentially distributed time in whole milliseconds, at least one.
fn duration(random: &mut Random, mean_ms: f64) -> u64 {
    ((random.exponential(mean_ms) + 0.5) as u64).max(1)
}

fn between(random: &mut Random, range: (u64, u64)) -> u64 {
    range.0 + random.below(range.1 - range.0 + 1)
}

/// The cell state and the fluctuation.
struct Cell {
    random: Random,
    shares: [f64; 4],
    state: usize,
    until: u64,
    fluctuation: f64,
}

impl Cell {
    /// Enters a new cell at the time `now`.
    fn enter(&mut self, now: u64) {
        self.state = draw(&mut self.random, &self.shares);
        self.until = now + duration(&mut self.random, STAY_MS[self.state]);
    }

    fn advance(&mut self, now: u64) {
        while now >= self.until {
            self.state = draw(&mut self.random, &NEXT[self.state]);
            self.until += duration(&mut self.random, STAY_MS[self.state]);
        }
    }
}

/// Intervals of loss with times in milliseconds, under construction.
#[derive(Default)]
struct Losses(Vec<(Nanos, f64)>);

impl Losses {
    fn set(&mut self, now: u64, share: f64) {
        if self.0.last().map_or(0.0, |last| last.1) != share {
            self.0.push((Nanos::from_millis(now), share));
        }
    }
}

/// Generates the path of `seed`, which repeats after `length_ms`. The last opportunity is at the end of the
/// path, as the mahimahi format requires.
pub fn generate(seed: u64, length_ms: u64, settings: &Settings) -> RadioPath {
    let random = |name| Random::stream(seed, name, 0);
    let (mut handovers, mut fading, mut fluctuation) =
        (random("radio handovers"), random("radio fading"), random("radio fluctuation"));
    let (rates, (_, burst)) = (settings.rates(), settings.shares());
    let peak = settings.peak.as_bytes_per_sec() as f64 / 1e3;
    let handover_share = settings.loss * HANDOVER_LOSS / burst;
    let fade_part = settings.loss * (1.0 - HANDOVER_LOSS) / (FADE_SHARE * (1.0 - burst));
    let gap_ms = if fade_part > 0.0 { FADE_MS * (1.0 - fade_part) / fade_part } else { f64::INFINITY };
    let (keep, fresh) = {
        let keep = libm::exp(-(STEP_MS as f64) / CORRELATION_MS);
        (keep, SIGMA * libm::sqrt(1.0 - keep * keep))
    };

    let mut cell = Cell { random: random("radio cells"), shares: long_run(), state: 0, until: 0, fluctuation: 0.0 };
    cell.enter(0);
    cell.fluctuation = SIGMA * normal(&mut fluctuation);
    let tenths = settings.delay.as_nanos() / 100_000;
    let new_delay = |random: &mut Random| Nanos::from_nanos(random.below(tenths + 1) * 100_000);
    let mut delays = vec![(Nanos::ZERO, new_delay(&mut handovers))];
    let mean_handover_ms = settings.handovers.as_millis_f64();
    let mut outage = duration(&mut handovers, mean_handover_ms);
    let (mut resume, mut calm) = (u64::MAX, u64::MAX);
    let mut faded = fading.chance(fade_part);
    let mut fade_change = next_fade(&mut fading, faded, gap_ms);
    let mut losses = Losses::default();
    let mut opportunities_ms = Vec::new();
    let mut credit = 0.0;
    for now in 0..=length_ms {
        if now == outage {
            resume = now + between(&mut handovers, OUTAGE_MS);
        } else if now == resume {
            cell.enter(now);
            let delay = new_delay(&mut handovers);
            if now < length_ms && delays.last().is_some_and(|last| last.1 != delay) {
                delays.push((Nanos::from_millis(now), delay));
            }
            calm = now + between(&mut handovers, BURST_MS);
            resume = u64::MAX;
        } else if now == calm {
            outage = now + duration(&mut handovers, mean_handover_ms);
            calm = u64::MAX;
        }
        while now >= fade_change {
            faded = !faded;
            fade_change = fade_change.saturating_add(next_fade(&mut fading, faded, gap_ms));
        }
        if now % STEP_MS == 0 {
            cell.fluctuation = keep * cell.fluctuation + fresh * normal(&mut fluctuation);
        }
        cell.advance(now);
        let in_outage = resume != u64::MAX;
        losses.set(
            now,
            match (in_outage, calm != u64::MAX, faded) {
                (false, true, _) => handover_share,
                (false, false, true) => FADE_SHARE,
                _ => 0.0,
            } * f64::from(u8::from(now < length_ms)),
        );
        // Opportunities with the time `now` represent the millisecond before `now`.
        if now > 0 && !in_outage {
            credit += (rates[cell.state] * libm::exp(cell.fluctuation - SIGMA * SIGMA / 2.0)).min(peak);
            while credit >= OPPORTUNITY_BYTES as f64 {
                credit -= OPPORTUNITY_BYTES as f64;
                opportunities_ms.push(now);
            }
        }
    }
    if opportunities_ms.last() != Some(&length_ms) {
        opportunities_ms.push(length_ms);
    }
    let period = Nanos::from_millis(length_ms);
    RadioPath {
        capacity: CapacityTrace { opportunities_ms },
        loss: LossTrace::new(losses.0).repeating(period),
        delay: DelayTrace::new(delays).repeating(period),
    }
}

/// Draws the time to the next change between burst and gap.
fn next_fade(random: &mut Random, faded: bool, gap_ms: f64) -> u64 {
    match faded {
        true => duration(random, FADE_MS),
        false if gap_ms.is_finite() => duration(random, gap_ms),
        false => u64::MAX,
    }
}
