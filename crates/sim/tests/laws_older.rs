//! Laws of the schemes between Reno and BBR: BIC, FAST and Compound TCP, on the dumbbell of `laws.rs`. Where
//! a law has no closed form, the expectation is computed by iterating the scheme's rule without a network.

use crate::law::{assert_within, dumbbell, flows, lossy, run};
use narrows_sim::RunResult;

/// 100 Mbit/s × 100 ms in packets, the pipe of [`alone`].
const PIPE: f64 = 100e6 / 8.0 * 0.1 / 1500.0;

/// One flow alone on 100 Mbit/s × 100 ms. It sends packets one by one, because the models have no bursts.
fn alone(scheme: &str, buffer: &str, warmup_s: f64, duration_s: f64) -> RunResult {
    let rest = format!("[tcp]\nprofile = \"rfc\"\n{}", flows(scheme, 100, ""));
    run(&dumbbell((duration_s, Some(warmup_s)), ("100mbit", buffer), &rest))
}

/// Mean window in segments of one flow under deterministic loss, as in [`lossy`], over `losses` losses at the
/// expected window. The first two fifths of the run are not measured.
fn under_periodic_loss(scheme: &str, period: f64, losses: f64, expected: f64) -> f64 {
    let seconds = losses * period / expected * 0.1;
    let loss = format!("{{ kind = \"periodic\", every = {period:.0} }}");
    let (result, window) = lossy(scheme, "100ms", &loss, 0.4 * seconds, seconds);
    let found = result.counters().recoveries as f64;
    assert!(found >= 0.8 * losses && result.counters().timeouts == 0, "{scheme}: {found} recoveries");
    window
}

/// Model of a window on a pipe over time; a queue lengthens round trips.
struct Path {
    pipe: f64,
    window: f64,
    /// Elapsed time in base round-trip times.
    time: f64,
    sent: f64,
    /// Packets queued, summed over time.
    queued: f64,
}

impl Path {
    fn new(pipe: f64, window: f64) -> Self {
        Self { pipe, window, time: 0.0, sent: 0.0, queued: 0.0 }
    }

    fn queue(&self) -> f64 {
        (self.window - self.pipe).max(0.0)
    }

    /// Sends packets with the current window.
    fn send(&mut self, packets: f64) {
        let lasts = packets / self.window.min(self.pipe);
        self.time += lasts;
        self.sent += packets;
        self.queued += self.queue() * lasts;
    }

    fn round(&mut self) {
        self.send(self.window);
    }

    fn utilisation(&self) -> f64 {
        self.sent / self.time / self.pipe
    }

    fn mean_queue(&self) -> f64 {
        self.queued / self.time
    }
}

/// BIC's window increment per round trip, with the constants of Linux.
fn bic_increment(w: f64, w_max: f64) -> f64 {
    let to_maximum = ((w_max - w) / 4.0).floor();
    match (w <= 14.0, w < w_max) {
        (true, _) => 1.0,
        (false, true) if to_maximum > 16.0 => 16.0,
        (false, true) if to_maximum <= 1.0 => 0.2,
        (false, true) => to_maximum,
        (false, false) if w - w_max < 4.0 => 0.2,
        (false, false) => ((w - w_max) / 3.0).min(16.0),
    }
}

/// Models BIC's saw-tooth segment by segment, with one ACK per two segments, over 400 losses, the first 40 of which
/// are skipped. `lost` decides whether a packet is lost, from the path and the number of packets since the last
/// detected loss. A loss is detected after another `late` windows of packets.
fn bic(pipe: f64, late: f64, lost: impl Fn(&Path, f64) -> bool) -> Path {
    let (mut path, mut w_max) = (Path::new(pipe, 100.0), 100.0);
    for epoch in 0..400 {
        if epoch == 40 {
            path = Path::new(pipe, path.window);
        }
        let before = path.sent;
        path.round(); // the window does not grow in recovery
        let (mut credit, mut found) = (0.0, f64::INFINITY);
        while path.sent < found {
            if found == f64::INFINITY && lost(&path, path.sent - before) {
                found = path.sent + late * path.window;
            }
            let step = path.window / bic_increment(path.window, w_max);
            path.send(2.0);
            credit += 2.0;
            if credit >= step {
                path.window += 1.0;
                credit -= step;
            }
        }
        w_max = if path.window < w_max { 0.9 * path.window } else { path.window };
        path.window *= if path.window <= 14.0 { 0.5 } else { 0.8 };
    }
    path
}

/// BIC's mean window under deterministic loss of every (1/p)th packet follows its table of increments, from
/// Reno's region (p = 1/100) and the binary search to the region of additive increase.
#[test]
fn law_bic_periodic_loss_window_matches_model() {
    for (p, losses) in [(1e-2, 300.0), (1e-3, 200.0), (1e-4, 100.0), (1e-5, 30.0)] {
        // A period lasts from one loss detection to the next, so it has as many packets as from one loss to the next.
        let steps = bic(f64::INFINITY, 0.0, |_, sent| sent * p >= 1.0);
        let expected = steps.sent / steps.time;
        let window = under_periodic_loss("bic", 1.0 / p, losses, expected);
        assert_within(&format!("bic p={p}"), window, expected, 0.05);
    }
}

/// Compound's mean window without a queue. The window `win` grows by alpha win^k per round trip from half its peak P
/// to P. It does not grow in two round trips per loss: the recovery and the first round trip after the recovery, which
/// Compound measures. With N = 1/p packets per loss, a = 1/8, k = 3/4:
///
///     N - P = P^(2-k) (1 - 2^(k-2)) / (a (2-k))        T = 2 + P^(1-k) (1 - 2^(k-1)) / (a (1-k))        W = N / T
#[test]
fn law_compound_periodic_loss_window_matches_closed_form() {
    for (p, losses) in [(1e-3, 200.0), (1e-4, 100.0), (1e-5, 25.0)] {
        let (n, mut peak): (f64, f64) = (1.0 / p, 0.0);
        for _ in 0..50 {
            peak = ((n - peak) * 0.125 * 1.25 / (1.0 - f64::powf(0.5, 1.25))).powf(0.8);
        }
        let rounds = 2.0 + peak.powf(0.25) * (1.0 - f64::powf(0.5, 0.25)) / (0.125 * 0.25);
        let expected = n / rounds;
        let window = under_periodic_loss("compound", n, losses, expected);
        assert_within(&format!("compound p={p}"), window, expected, 0.05);
        let reno = f64::sqrt(1.5 * n);
        assert!(window > 1.2 * reno, "{window} is less than 1.2 times Reno's {reno}");
    }
}

/// A pipe of 833 packets with a buffer of a tenth of the pipe. Reno's window falls to 0.55 of the pipe and grows by one
/// packet per round trip: Reno wastes at least the fraction ((1 - 0.55)² / 2) / (1.1² / 2 - 0.55² / 2) of the capacity.
/// BIC's window falls to 0.88 of the pipe and recovers within seconds.
#[test]
fn law_bic_long_fat_path_is_filled_unlike_reno() {
    let buffer = 0.1 * PIPE;
    let steps = bic(PIPE, 1.0, |path, _| path.queue() > buffer);
    let result = alone("bic", "0.1bdp", 40.0, 160.0);
    assert!(result.counters().recoveries >= 20, "only {} recoveries", result.counters().recoveries);
    let (link, reno) = (&result.links[0], reno_utilisation(buffer));
    assert_within("bic: utilisation", link.utilization, steps.utilisation(), 0.01);
    // Packets arrive in pairs, so the queue is one packet longer than in the model.
    assert_within("bic: mean queue", link.queue_mean_pkt, steps.mean_queue() + 1.0, 0.1);
    assert!(link.utilization > reno + 0.15, "utilisation {}, Reno's {reno}", link.utilization);
    assert_within("reno: utilisation", alone("newreno", "0.1bdp", 60.0, 300.0).links[0].utilization, reno, 0.02);
}

fn reno_utilisation(buffer: f64) -> f64 {
    let mut path = Path::new(PIPE, (PIPE + buffer) / 2.0);
    while path.queue() <= buffer {
        path.round();
        path.window += 1.0;
    }
    path.utilisation()
}

/// On the same path Compound's delay window fills the pipe in about 27 round trips; Reno needs 375. From then on `win`
/// oscillates around the pipe until Reno's window alone overflows the buffer. `win` grows by g = win^(3/4) / 8 per
/// round trip until Compound measures gamma = 30 packets in the queue. The measurement is two to three round trips old
/// (a round reports the previous round, whose minimum RTT stems from the end of the round before). Then the delay
/// window gives up all queued packets. The queue therefore oscillates between 0 and about gamma + 2.5 g = 79 packets;
/// the mean is half of that.
#[test]
fn law_compound_long_fat_path_is_filled_with_small_queue() {
    let buffer = 0.1 * PIPE;
    let mut path = Path::new(PIPE, (PIPE + buffer) / 2.0);
    let (mut cwnd, mut dwnd) = (path.window, 0.0);
    while path.queue() <= buffer {
        path.round();
        cwnd += 1.0;
        dwnd = match path.queue() {
            queue if queue >= 30.0 => f64::max(dwnd - queue, 0.0),
            _ => dwnd + 0.125 * path.window.powf(0.75) - 1.0,
        };
        path.window = cwnd + dwnd;
    }
    let link = &alone("compound", "0.1bdp", 60.0, 300.0).links[0];
    // In the model, windows grow during the recovery, too.
    assert_within("compound: utilisation", link.utilization, path.utilisation(), 0.02);
    let queue = (30.0 + 2.5 * PIPE.powf(0.75) / 8.0) / 2.0;
    assert_within("compound: mean queue", link.queue_mean_pkt, queue, 0.15);
    let reno = reno_utilisation(buffer);
    assert!(link.utilization > reno + 0.1, "utilisation {}, Reno's {reno}", link.utilization);
}

/// With a buffer of two pipes the window never falls below 1.5 pipes: the queue always exceeds gamma, the
/// delay window stays zero, and Compound behaves like Reno.
#[test]
fn law_compound_deep_buffer_is_reno() {
    let results = ["compound", "newreno"].map(|scheme| alone(scheme, "2bdp", 60.0, 200.0));
    let [compound, reno] = results.each_ref().map(|result| &result.links[0]);
    assert!(reno.queue_mean_pkt > 0.5 * PIPE, "{} packets queued", reno.queue_mean_pkt);
    assert_within("compound: mean queue", compound.queue_mean_pkt, reno.queue_mean_pkt, 0.001);
    assert_eq!(compound.drops, reno.drops);
}

/// In equilibrium each FAST flow has alpha packets in the queue, at any rate and round-trip time. The link
/// never idles, and a buffer for the packets of all flows drops no packet. The packet in transmission does not count as
/// queued.
#[test]
fn law_fast_flow_queues_alpha_packets() {
    for (rate, rtt, alpha, count) in [
        ("50mbit", 40, 100, 1),
        ("200mbit", 40, 100, 1),
        ("100mbit", 100, 100, 1),
        ("100mbit", 40, 20, 1),
        ("100mbit", 40, 100, 2),
        ("100mbit", 40, 100, 4),
        ("100mbit", 40, 30, 10),
    ] {
        let senders = flows(&format!("fast:alpha={alpha}"), rtt, &format!("count = {count}"));
        let result = run(&dumbbell((30.0, Some(15.0)), (rate, "1000pkt"), &senders));
        let link = &result.links[0];
        let what = format!("{count} flows at {rate}, {rtt} ms: queue");
        assert_within(&what, link.queue_mean_pkt, f64::from(alpha * count) - 1.0, 0.03);
        assert!(link.utilization > 0.999, "utilisation {}", link.utilization);
        assert_eq!(link.drops, 0);
        assert!(result.jain > 0.99, "Jain index {}", result.jain);
    }
}
