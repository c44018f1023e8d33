//! The cases of `narrows bench`: whole scenarios, and what must have acted in each for its figure to count.

use crate::result::Counters;
use crate::scenario::{ScenarioError, Source, plan, resolve};
use crate::spec::Spec;

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
    pub fn spec(&self) -> Result<Spec, ScenarioError> {
        let planned = plan(&Source { name: self.name, text: self.scenario, dir: None }, &[])?;
        resolve(&planned[0].scenario, planned[0].seed, None)
    }

    /// Needed features that never acted.
    pub fn unmet(&self, counters: &Counters) -> Vec<String> {
        let idle = self.needs.iter().filter(|(_, count)| count(counters) == 0);
        idle.map(|(name, _)| format!("{name} never acted")).collect()
    }
}
