//! Model of coupled schemes for comparison with the simulator: the increases and decreases of their papers under
//! independent losses. The model has no transport, no whole segments and no recovery.

use narrows_cc::Random;

/// A subflow: its window, the data ACKed since the last loss, and the data ACKed between the last two losses, all in
/// segments.
#[derive(Clone, Copy, Debug)]
struct Subflow {
    window: f64,
    since: f64,
    between: f64,
}

/// Growth of the window of subflow `own` per ACKed segment, at equal round-trip times.
fn increase(scheme: &str, own: usize, all: &[Subflow]) -> f64 {
    let n = all.len() as f64;
    let (w, sum) = (all[own].window, all.iter().map(|of| of.window).sum::<f64>());
    let largest = all.iter().map(|of| of.window).fold(0.0, f64::max);
    let growth = match scheme {
        "newreno" => 1.0 / w,
        "ewtcp" => 1.0 / (n * n * w),
        "lia" => largest / (sum * sum),
        "mptcp-coupled" | "mptcp-semicoupled" => 1.0 / sum,
        "balia" => {
            let a = largest / w;
            w / (sum * sum) * (1.0 + a) / 2.0 * (4.0 + a) / 5.0
        }
        "olia" => {
            let interval = |of: &Subflow| of.since.max(of.between);
            let best = all.iter().map(interval).fold(0.0, f64::max);
            let in_m = |of: &Subflow| of.window.floor() == largest.floor();
            let wanting = |of: &&Subflow| interval(of) >= best && !in_m(of);
            let some = all.iter().filter(wanting).count() as f64;
            let many = all.iter().filter(|of| in_m(of)).count() as f64;
            let shift = match (some > 0.0, wanting(&&all[own]), in_m(&all[own])) {
                (true, true, _) => 1.0 / (n * some),
                (true, false, true) => -1.0 / (n * many),
                _ => 0.0,
            };
            w / (sum * sum) + shift / w
        }
        other => panic!("no rule for {other}"),
    };
    growth.min(1.0 / w)
}

/// Window of subflow `own` after a loss.
fn decrease(scheme: &str, own: usize, all: &[Subflow]) -> f64 {
    let w = all[own].window;
    match scheme {
        "mptcp-coupled" => w - all.iter().map(|of| of.window).sum::<f64>() / 2.0,
        "balia" => w - w / 2.0 * (all.iter().map(|of| of.window).fold(0.0, f64::max) / w).min(1.5),
        _ => w / 2.0,
    }
    .max(1.0)
}

/// Mean windows, in segments, of subflows with these loss probabilities per packet.
pub fn mean_windows<const N: usize>(scheme: &str, losses: [f64; N], rounds: u32) -> [f64; N] {
    let mut random = Random::stream(1, "model", 0);
    let mut all = losses.map(|p| Subflow { window: (1.0 / p).sqrt() / N as f64, since: 0.0, between: 0.0 });
    let mut sums = [0.0; N];
    for _ in 0..rounds {
        for own in 0..N {
            let flight = all[own].window;
            sums[own] += flight;
            let mut lost = false;
            for _ in 0..flight as u32 + u32::from(random.chance(flight.fract())) {
                if random.chance(losses[own]) {
                    lost = true;
                } else {
                    all[own].since += 1.0;
                    if !lost {
                        let growth = increase(scheme, own, &all);
                        all[own].window = (all[own].window + growth).max(1.0);
                    }
                }
            }
            if lost {
                all[own].window = decrease(scheme, own, &all);
                (all[own].between, all[own].since) = (all[own].since, 0.0);
            }
        }
    }
    sums.map(|sum| sum / f64::from(rounds))
}
