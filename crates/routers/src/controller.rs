//! The controller of a software-defined network: it reads the counters of ports now and then and says which are congested.
//! Whoever runs it polls, and carries its answers; see [`Config`] for the times that a real one needs.

use narrows_net::PortStatistics;
use narrows_units::{Bytes, Nanos};

use crate::Congestion;

/// How a controller works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The time between two polls of a port.
    pub poll: Nanos,
    /// How long a message takes between controller and switch, one way.
    pub delay: Nanos,
    /// α of equation 5: a link used beyond this share is congested.
    pub utilization: f64,
    /// β of equation 6: a queue filled beyond this share is congested.
    pub queue: f64,
}

impl Default for Config {
    /// The thresholds are the paper's. It states no times: statistics once per second and 10 ms are those of an OpenFlow
    /// controller in the same region.
    fn default() -> Self {
        Self { poll: Nanos::from_secs(1), delay: Nanos::from_millis(10), utilization: 0.98, queue: 0.1 }
    }
}

/// Finds congested ports from their counters.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    /// The last reading of each port.
    last: Vec<Option<(Nanos, Bytes)>>,
}

impl Controller {
    /// A controller of so many ports.
    pub fn new(config: Config, ports: usize) -> Self {
        Self { config, last: vec![None; ports] }
    }

    /// How it works.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Judges the counters of a port as they were at `read`. A full queue says more than a busy link, so equation 6 comes
    /// first.
    ///
    /// Equation 5 counts packets of the greatest size, (S(t) − S(t−Δt)) · MSS · 8 / (BW · Δt); here the bytes themselves are
    /// counted, which is the same where all packets are full.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_statistics(
        &mut self,
        port: usize,
        read: Nanos,
        counters: &PortStatistics,
    ) -> Option<Congestion> {
        let before = self.last[port].replace((read, counters.sent));
        if counters.waiting as f64 > self.config.queue * counters.room as f64 {
            return Some(Congestion::Queue { packets: counters.waiting });
        }
        let (at, sent) = before?;
        let could = counters.capacity.as_bytes_per_sec() as f64 * (read - at).as_secs_f64();
        let used = (counters.sent - sent).as_f64();
        (used > self.config.utilization * could).then_some(Congestion::Load)
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rate;

    use super::*;

    /// A port of 1 MB/s with room for 100 packets.
    fn counters(sent: u64, waiting: u64) -> PortStatistics {
        PortStatistics {
            sent: Bytes::new(sent),
            waiting,
            room: 100,
            capacity: Rate::from_bytes_per_sec(1_000_000),
        }
    }

    /// A port is congested beyond either threshold.
    #[test]
    fn port_is_congested_beyond_either_threshold() {
        let mut controller = Controller::new(Config::default(), 2);
        let mut judge = |port, s, sent, waiting| {
            controller.on_statistics(port, Nanos::from_secs(s), &counters(sent, waiting))
        };
        // The first reading says nothing about use, but ten packets of a hundred are the threshold, eleven beyond it.
        assert_eq!(judge(0, 0, 0, 10), None);
        assert_eq!(judge(1, 0, 0, 11), Some(Congestion::Queue { packets: 11 }));
        assert_eq!(judge(0, 1, 980_000, 0), None);
        assert_eq!(judge(0, 2, 1_960_001, 0), Some(Congestion::Load));
        assert_eq!(judge(0, 4, 3_920_000, 100), Some(Congestion::Queue { packets: 100 }));
        assert_eq!(judge(1, 4, 3_920_001, 0), Some(Congestion::Load));
    }
}
