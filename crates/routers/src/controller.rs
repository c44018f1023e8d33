//! The controller of a software-defined network: it reads the counters of ports and reports congested ports. The caller
//! polls the ports and delivers the reports, with the polling interval and delay of [`Config`].

use narrows_net::PortStatistics;
use narrows_units::{Bytes, Nanos};

use crate::Congestion;

/// Configuration of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Polling interval of a port.
    pub poll: Nanos,
    /// One-way delay of messages between controller and switch.
    pub delay: Nanos,
    /// α of equation 5: utilisation above which a link is congested.
    pub utilization: f64,
    /// β of equation 6: fill level above which a queue is congested.
    pub queue: f64,
    /// Whether to follow equation 6 as printed: the fill level of all queues of a port together, ΣQ_i. Traffic of one
    /// class leaves the other queues empty, so by default the threshold is that of a single queue.
    pub printed: bool,
}

impl Default for Config {
    /// The paper's thresholds. The paper gives no times: one poll per second and 10 ms are typical of an
    /// OpenFlow controller in the same region.
    fn default() -> Self {
        Self { poll: Nanos::from_secs(1), delay: Nanos::from_millis(10), utilization: 0.98, queue: 0.1, printed: false }
    }
}

/// Detects congested ports from their counters.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    /// Time and sent bytes at the previous poll of each port.
    last: Vec<Option<(Nanos, Bytes)>>,
}

impl Controller {
    /// A controller of `ports` ports.
    pub fn new(config: Config, ports: usize) -> Self {
        Self { config, last: vec![None; ports] }
    }

    /// Configuration of the controller.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Checks the counters that a port had at time `read`. A full queue is a stronger sign than a busy link, so
    /// equation 6 is tested first.
    ///
    /// Equation 5 counts packets of maximum size, (S(t) − S(t−Δt)) · MSS · 8 / (BW · Δt); this function counts bytes,
    /// with the same result for full packets.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_statistics(&mut self, port: usize, read: Nanos, counters: &PortStatistics) -> Option<Congestion> {
        let before = self.last[port].replace((read, counters.sent));
        let queues = if self.config.printed { counters.queues } else { 1 };
        if counters.waiting as f64 > self.config.queue * (counters.room * queues) as f64 {
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

    /// A port of 1 MB/s whose queues hold 100 packets each.
    fn counters(sent: u64, waiting: u64) -> PortStatistics {
        PortStatistics {
            sent: Bytes::new(sent),
            waiting,
            room: 100,
            queues: 5,
            capacity: Rate::from_bytes_per_sec(1_000_000),
        }
    }

    /// A port is congested beyond either threshold.
    #[test]
    fn port_is_congested_beyond_either_threshold() {
        let mut controller = Controller::new(Config::default(), 2);
        let mut judge =
            |port, s, sent, waiting| controller.on_statistics(port, Nanos::from_secs(s), &counters(sent, waiting));
        // The first poll gives no utilisation. The queue threshold is 10 of 100 packets; 11 packets exceed it.
        assert_eq!(judge(0, 0, 0, 10), None);
        assert_eq!(judge(1, 0, 0, 11), Some(Congestion::Queue { packets: 11 }));
        assert_eq!(judge(0, 1, 980_000, 0), None);
        assert_eq!(judge(0, 2, 1_960_001, 0), Some(Congestion::Load));
        assert_eq!(judge(0, 4, 3_920_000, 100), Some(Congestion::Queue { packets: 100 }));
        assert_eq!(judge(1, 4, 3_920_001, 0), Some(Congestion::Load));
    }

    /// Equation 6 as printed compares the backlog with the capacity of all queues.
    #[test]
    fn printed_equation_6_compares_with_room_of_all_queues() {
        let mut controller = Controller::new(Config { printed: true, ..Config::default() }, 1);
        let mut judge = |waiting| controller.on_statistics(0, Nanos::ZERO, &counters(0, waiting));
        assert_eq!(judge(50), None);
        assert_eq!(judge(51), Some(Congestion::Queue { packets: 51 }));
    }
}
