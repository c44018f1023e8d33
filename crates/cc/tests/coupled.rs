//! Coupled schemes over paths with given loss rates: the total cwnd of the subflows and its distribution over the
//! paths.
//!
//! ```text
//!             ┌── path 1: a packet in 1/p₁ is lost ──┐
//!  subflows ──┤                                      ├── one round trip for all
//!             └── path 2: a packet in 1/p₂ is lost ──┘
//! ```

use narrows_cc::schemes::find;
use narrows_cc::{
    Ack, AnyScheme, Bytes, Nanos, Params, PathView, Paths, Phase, Random, RecoveryEntered, RecoveryLeft, Setup, record,
};

const MSS: Bytes = Bytes::new(1_000);
const RTT: Nanos = Nanos::from_millis(50);
const ROUNDS: u64 = 20_000;

struct Subflow {
    scheme: AnyScheme,
    loss: f64,
    random: Random,
    recovering: bool,
    since_loss: Bytes,
    between_losses: Bytes,
    sent: u64,
}

impl Subflow {
    fn new(name: &str, loss: f64, number: u64) -> Self {
        let entry = find(name).unwrap();
        let setup = Setup::new(MSS, Params::defaults(entry.info.params), Random::stream(3, "scheme", number));
        Self {
            scheme: entry.build(&setup),
            loss,
            random: Random::stream(3, "loss", number),
            recovering: false,
            since_loss: Bytes::ZERO,
            between_losses: Bytes::ZERO,
            sent: 0,
        }
    }

    fn view(&self) -> PathView {
        record!(PathView {
            cwnd: self.scheme.control().cwnd,
            srtt: Some(RTT),
            since_loss: self.since_loss,
            between_losses: self.between_losses,
            established: true,
        })
    }

    /// Acknowledges a packet of the flight.
    fn acknowledge(&mut self, paths: &Paths) {
        self.since_loss += MSS;
        self.scheme.on_paths(paths);
        self.scheme.on_ack(&record!(Ack {
            acked: MSS,
            acked_cumulative: Some(MSS),
            rtt: Some(RTT),
            inflight_before: MSS,
            delivered: MSS,
            cwnd_limited: true,
            cwnd_full: true,
            phase: if self.recovering { Phase::Recovery } else { Phase::Open },
            srtt: Some(RTT),
            min_rtt: Some(RTT),
        }));
    }

    /// Sends a full cwnd of packets and, a round trip later, reports each packet as delivered or lost.
    fn round(&mut self, paths: &Paths) {
        if self.recovering {
            self.recovering = false;
            self.scheme.on_recovery_left(&RecoveryLeft::default());
        }
        let flight = self.scheme.control().cwnd.as_u64() / MSS.as_u64();
        self.sent += flight;
        for _ in 0..flight {
            if (self.random.below(1_000_000) as f64) < self.loss * 1e6 {
                if !self.recovering {
                    self.recovering = true;
                    (self.between_losses, self.since_loss) = (self.since_loss, Bytes::ZERO);
                    let (flight_size, inflight) = (MSS * flight, MSS * flight);
                    self.scheme.on_recovery_entered(&record!(RecoveryEntered { flight_size, inflight }));
                }
            } else {
                self.acknowledge(paths);
            }
        }
    }
}

/// Mean cwnds, in segments, of the subflows of one connection over paths with these loss probabilities.
fn windows<const N: usize>(name: &str, losses: [f64; N]) -> [f64; N] {
    let mut number = 0;
    let mut subflows = losses.map(|loss| {
        number += 1;
        Subflow::new(name, loss, number)
    });
    for _ in 0..ROUNDS {
        for own in 0..N {
            let views: [PathView; N] = std::array::from_fn(|i| subflows[i].view());
            subflows[own].round(&Paths::new(own, &views));
        }
    }
    subflows.map(|subflow| subflow.sent as f64 / ROUNDS as f64)
}

fn together<const N: usize>(name: &str, losses: [f64; N]) -> f64 {
    windows(name, losses).iter().sum()
}

/// Whether two values are equal within 8 %. The tolerance is needed because cwnd is a whole number of segments, and the
/// square-root laws hold only for small steps.
fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.08
}

/// On paths with equal loss the subflows together take the share that their control law gives.
#[test]
fn coupled_at_equal_loss_take_the_share_of_their_law() {
    // At p = 0.002 three subflows would have cwnds below 20 segments, where rounding to whole segments costs 9 %.
    for p in [0.001, 0.0005] {
        let one = together("newreno", [p]);
        assert!(near(together("newreno", [p; 2]), 2.0 * one), "uncoupled subflows are two at {p}");
        // Growth of g/w segments per acknowledged segment gives sqrt(g) times Reno's cwnd. EWTCP has g = 1/n², and OLIA
        // equals EWTCP if all cwnds are equal, so n subflows match one Reno flow. SEMI-COUPLED has g = 1/n, so n
        // subflows match sqrt(n) Reno flows.
        let relative = |name| [together(name, [p; 2]) / one, together(name, [p; 3]) / one];
        for name in ["ewtcp", "olia"] {
            let [two, three] = relative(name);
            assert!(near(two, 1.0) && near(three, 1.0), "{name} at {p}: {two}, {three}");
        }
        let [two, three] = relative("mptcp-semicoupled");
        assert!(near(two, 2_f64.sqrt()) && near(three, 3_f64.sqrt()), "SEMI-COUPLED at {p}: {two}, {three}");
        // LIA and BALIA use the best of the subflows' oscillating cwnds, which exceeds the mean cwnd: they take more
        // than one Reno flow takes, by a factor of up to the square root of this excess. COUPLED oscillates between the
        // paths.
        for name in ["lia", "balia", "mptcp-coupled"] {
            let [two, three] = relative(name);
            assert!((0.95..1.25).contains(&two) && (0.95..1.25).contains(&three), "{name} at {p}: {two}, {three}");
        }
    }
}

/// Traffic moves off the congested path as far as the control law requires.
#[test]
fn coupled_traffic_leaves_congested_path_by_its_law() {
    for good in [0.002, 0.0005] {
        let bad = 4.0 * good;
        let one = together("newreno", [good]);
        let outcome = |name| {
            let [first, second] = windows(name, [good, bad]);
            (second / (first + second), (first + second) / one)
        };
        // If the increase on each path is independent, cwnds are proportional to 1/sqrt(p): the worse path takes a
        // third of the sum of the cwnds. For EWTCP the sum is three quarters of a Reno flow on the better path.
        let (uncoupled, _) = outcome("newreno");
        let (weighted, sum) = outcome("ewtcp");
        assert!(near(uncoupled, 1.0 / 3.0) && near(weighted, 1.0 / 3.0), "{uncoupled}, {weighted}");
        assert!(near(sum, 0.75), "EWTCP: {sum}");
        // If the increase is shared, cwnds are proportional to 1/p: the worse path takes a fifth of the sum of the
        // cwnds. SEMI-COUPLED's sum is sqrt(a (1/p1 + 1/p2)), which is sqrt(1.25) times Reno's cwnd.
        let (semi, sum) = outcome("mptcp-semicoupled");
        assert!(near(semi, 0.2) && near(sum, 1.25_f64.sqrt()), "SEMI-COUPLED: {semi}, {sum}");
        let (lia, sum) = outcome("lia");
        assert!(near(lia, 0.2) && near(sum, 0.95), "LIA: {lia}, {sum}");
        // The other schemes shift more traffic off the worse path, in the order that their designs imply; none takes
        // much less than one Reno flow on the better path.
        let (balia, of_balia) = outcome("balia");
        let (olia, of_olia) = outcome("olia");
        let (coupled, of_coupled) = outcome("mptcp-coupled");
        assert!(coupled < olia && olia < lia && balia < lia, "{coupled}, {olia}, {balia}, {lia}");
        for sum in [of_balia, of_olia, of_coupled] {
            assert!((0.85..1.05).contains(&sum), "{sum} of one Reno");
        }
    }
}
