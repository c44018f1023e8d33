//! The cases of `narrows bench`: whole scenarios, and what must have acted in each for its figure to count.
//! [`acks`]: the events that show what an acknowledgement costs a scheme. [`ports`]: what an allocator costs a link.

pub mod acks;
pub mod ports;

use narrows_scenario::result::Counters;
use narrows_scenario::{NoFiles, Plan, ScenarioError, Source, expand, resolve};

/// Something a case cannot do without.
type Need = (&'static str, fn(&Counters) -> u64);

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    needs: &'static [Need],
}

const SACK: Need = ("SACK", |c| c.sack_blocks);
const RECOVERY: Need = ("recovery", |c| c.recoveries);
const PACING: Need = ("pacing", |c| c.paced_waits);
const RATE: Need = ("rate samples", |c| c.rate_samples);
const RTT: Need = ("RTT samples", |c| c.rtt_samples);

/// All cases.
pub const CASES: &[Case] = &[
    Case {
        name: "cubic-10",
        description: "10 CUBIC flows, 100 Mbit/s, 40 ms, 60 s",
        scenario: include_str!("bench/cubic-10.toml"),
        needs: &[SACK, RECOVERY, RATE, RTT],
    },
    Case {
        name: "bbr-10",
        description: "10 BBR flows, 1 Gbit/s, 20 ms, 10 s",
        scenario: include_str!("bench/bbr-10.toml"),
        needs: &[PACING, RATE, RTT],
    },
    Case {
        name: "cubic-100",
        description: "100 CUBIC flows, 10 Gbit/s, 20 ms, 10 s",
        scenario: include_str!("bench/cubic-100.toml"),
        needs: &[SACK, RECOVERY, RATE, RTT],
    },
    Case {
        name: "cubic-1000",
        description: "1 000 CUBIC flows, 10 Gbit/s, 20 ms, 1 BDP, starts spread over 2 s, 5 s",
        scenario: include_str!("bench/cubic-1000.toml"),
        needs: &[SACK, RECOVERY, RATE, RTT],
    },
    Case {
        name: "cubic-10000",
        description: "10 000 CUBIC flows, 10 Gbit/s, 20 ms, 1 BDP, starts spread over 2 s, 5 s",
        scenario: include_str!("bench/cubic-10000.toml"),
        needs: &[SACK, RECOVERY, RATE, RTT],
    },
];

impl Case {
    /// The run.
    ///
    /// # Errors
    /// If the scenario is refused.
    #[allow(clippy::result_large_err)] // once per case, and its fields are what callers print
    pub fn plan(&self) -> Result<Plan, ScenarioError> {
        let planned = expand(&Source { name: self.name, text: self.scenario, files: &NoFiles }, &[])?;
        resolve(&planned[0].scenario, planned[0].seed, &NoFiles)
    }

    /// Needed features that never acted.
    pub fn unmet(&self, counters: &Counters) -> Vec<String> {
        let idle = self.needs.iter().filter(|(_, count)| count(counters) == 0);
        idle.map(|(name, _)| format!("{name} never acted")).collect()
    }
}

#[cfg(test)]
mod tests {
    use narrows_cc::schemes::ALL;

    use super::acks::{ACKS, Event, GAP, LOSS_EVERY, MSS, WINDOW, events, tell};
    use super::ports::Lane;

    #[test]
    fn the_events_are_a_full_window_with_a_loss_in_every_thousand_acknowledgements() {
        let events = events();
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Ack(_))), ACKS);
        let losses = ACKS / LOSS_EVERY;
        assert_eq!(count(|event| matches!(event, Event::Lost(_))), losses);
        assert_eq!(count(|event| matches!(event, Event::Entered(_))), losses);
        // The last recovery outlives the events: its round trip is of packets that are never sent.
        assert_eq!(count(|event| matches!(event, Event::Left(_))), losses - 1);
        // Two packets for each acknowledgement, one more for each loss but the last, and the first window.
        assert_eq!(count(|event| matches!(event, Event::Sent(_))), WINDOW + 2 * (ACKS - 1) + losses - 1);
        let acks =
            events.iter().filter_map(|event| if let Event::Ack(ack) = event { Some(ack) } else { None });
        for ack in acks.skip(WINDOW) {
            assert!(ack.inflight <= MSS * WINDOW as u64);
            let rate = ack.rate.expect("every packet was sent after a first one").rate;
            let fair = 2.0 * MSS.as_u64() as f64 / GAP.as_secs_f64();
            // The gap is at most 20 us longer than 240 us, and one packet in two thousand is lost.
            assert!((0.9 * fair..=1.01 * fair).contains(&(rate.as_bytes_per_sec() as f64)), "{rate:?}");
        }
    }

    #[test]
    fn every_scheme_takes_them_and_does_the_same_each_time() {
        let events = events();
        for entry in ALL {
            let once = tell(entry, 1, &events);
            assert!(once > 0, "{}", entry.info.name);
            assert_eq!(tell(entry, 2, &events), once.wrapping_mul(2), "{}", entry.info.name);
        }
    }

    #[test]
    fn every_allocator_lets_flows_open_carries_their_packets_and_takes_memory() {
        let clock = std::cell::Cell::new(0.0);
        // A clock that moves on by one whenever it is read.
        let tick = || {
            clock.set(clock.get() + 1.0);
            clock.get()
        };
        let plain = Lane::new(None, 100);
        assert_eq!((plain.opened(), plain.memory()), (100, 0));
        for entry in narrows_routers::ALL {
            let name = entry.info.name;
            let mut lane = Lane::new(Some(entry), 100);
            assert_eq!(lane.opened(), 100, "{name}");
            assert!(lane.memory() > 0, "{name}");
            let round = lane.round(10_000, &tick);
            assert!(round.packets >= 10_000, "{name}: {round:?}");
            // Readings take all the time there is, and are taken off.
            assert_eq!((round.packets_took, round.wakes_took), (0.0, 0.0), "{name}");
        }
    }
}
