//! Linux's reports to an application: transmit timestamps (`SO_TIMESTAMPING`), the time for which a connection was busy
//! or limited by the peer's window or the send buffer (`TCP_INFO`), and the user timeout (`TCP_USER_TIMEOUT`).

use std::collections::VecDeque;

use narrows_cc::Nanos;

/// A transmit timestamp, of the last byte of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// `SCM_TSTAMP_SCHED`, `SCM_TSTAMP_SND` or `SCM_TSTAMP_ACK`.
    pub(crate) kind: &'static str,
    pub(crate) at: Nanos,
    /// Index of the byte, counted from 0 at the request for timestamps.
    pub(crate) key: u64,
}

/// Transmit timestamps of a connection after the application's request.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    /// Kinds of timestamps requested at departure; `arrival`: whether acknowledgements are stamped too.
    departure: Vec<&'static str>,
    arrival: bool,
    /// Lowest unacknowledged byte at the request.
    base: u64,
    /// Ends of the writes that are not yet sent; `unacked` has those not yet acknowledged.
    unsent: VecDeque<u64>,
    unacked: VecDeque<u64>,
    pub(super) queue: VecDeque<Stamp>,
}

impl Stamps {
    /// Starts timestamps with the bytes after `base`. `flags`: the flags of the socket option.
    pub(super) fn begin(&mut self, base: u64, flags: &[String]) {
        let has = |flag: &str| flags.iter().any(|own| own == flag);
        let kinds =
            [("SOF_TIMESTAMPING_TX_SCHED", "SCM_TSTAMP_SCHED"), ("SOF_TIMESTAMPING_TX_SOFTWARE", "SCM_TSTAMP_SND")];
        self.departure = kinds.iter().filter(|(flag, _)| has(flag)).map(|&(_, kind)| kind).collect();
        self.arrival = has("SOF_TIMESTAMPING_TX_ACK");
        self.base = base;
    }

    /// A write ended at the sequence number `end`.
    pub(super) fn on_write(&mut self, end: u64) {
        if !self.departure.is_empty() {
            self.unsent.push_back(end);
        }
        if self.arrival {
            self.unacked.push_back(end);
        }
    }

    /// Data up to `end` has left.
    pub(super) fn on_sent(&mut self, now: Nanos, end: u64) {
        while let Some(write) = passed(&mut self.unsent, end) {
            let key = write - 1 - self.base;
            self.queue.extend(self.departure.iter().map(|&kind| Stamp { kind, at: now, key }));
        }
    }

    /// Data before `una` is acknowledged.
    pub(super) fn on_ack(&mut self, now: Nanos, una: u64) {
        while let Some(write) = passed(&mut self.unacked, una) {
            self.queue.push_back(Stamp { kind: "SCM_TSTAMP_ACK", at: now, key: write - 1 - self.base });
        }
    }
}

/// Removes the first end of a write if it is at most `at`.
fn passed(writes: &mut VecDeque<u64>, at: u64) -> Option<u64> {
    if *writes.front()? <= at { writes.pop_front() } else { None }
}

/// Activity of a connection (Linux `tcp_chrono`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Activity {
    /// All data written is acknowledged.
    #[default]
    Idle,
    Busy,
    /// Data waits because the peer's window is full.
    WindowLimited,
    /// A write waits for space in the send buffer, and the cwnd is not full.
    BufferLimited,
}

/// Times for which a connection was busy or limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time with unacknowledged data, including the limited times.
    pub(crate) busy: Nanos,
    pub(crate) window_limited: Nanos,
    pub(crate) buffer_limited: Nanos,
}

/// Time spent in each activity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chronograph {
    pub(super) now: Activity,
    since: Nanos,
    times: Times,
}

impl Chronograph {
    pub(super) fn read(&self, now: Nanos) -> Times {
        let passed = now - self.since;
        let mut times = self.times;
        if self.now != Activity::Idle {
            times.busy += passed;
        }
        match self.now {
            Activity::Idle | Activity::Busy => {}
            Activity::WindowLimited => times.window_limited += passed,
            Activity::BufferLimited => times.buffer_limited += passed,
        }
        times
    }

    pub(super) fn set(&mut self, now: Nanos, activity: Activity) {
        *self = Self { now: activity, since: now, times: self.read(now) };
    }
}

/// The user timeout. In Linux it starts with the first retransmission of data that stays unacknowledged, and with the
/// first probe of a closed window or of a queue that drops packets, whether or not the probe leaves the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) limit: Nanos,
    pub(super) since: Option<Nanos>,
    probing_since: Option<Nanos>,
}

impl Patience {
    pub(super) const ENDLESS: Self = Self { limit: Nanos::MAX, since: None, probing_since: None };

    /// Time at which the connection is aborted; [`Nanos::MAX`] for never.
    pub(super) fn deadline(&self) -> Nanos {
        let first = self.since.into_iter().chain(self.probing_since).min();
        first.map_or(Nanos::MAX, |since| since.saturating_add(self.limit))
    }

    /// Records the number of consecutive timeouts and, while the sender probes, of unanswered probes. As in Linux
    /// (`tcp_probe_timer`), answers do not restart the timeout as long as the sender continues to probe.
    pub(super) fn note(&mut self, now: Nanos, timeouts: u32, probes: Option<u32>) {
        if timeouts > 0 {
            self.since.get_or_insert(now);
        }
        match probes {
            None => self.probing_since = None,
            Some(0) => {}
            Some(_) => {
                self.probing_since.get_or_insert(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    /// A write is stamped when its last byte leaves and when it is acknowledged.
    #[test]
    fn marks_stamp_the_last_byte_of_a_write() {
        let mut stamps = Stamps::default();
        let flags = ["SOF_TIMESTAMPING_TX_SOFTWARE", "SOF_TIMESTAMPING_TX_ACK"].map(str::to_owned);
        stamps.begin(101, &flags);
        stamps.on_write(2101);
        stamps.on_sent(MS, 1101);
        assert_eq!(stamps.queue.pop_front(), None);
        stamps.on_sent(MS * 2, 2101);
        stamps.on_ack(MS * 3, 2101);
        assert_eq!(stamps.queue[0], Stamp { kind: "SCM_TSTAMP_SND", at: MS * 2, key: 1999 });
        assert_eq!(stamps.queue[1], Stamp { kind: "SCM_TSTAMP_ACK", at: MS * 3, key: 1999 });
    }

    /// Limited time also counts as busy; idle time counts as neither.
    #[test]
    fn marks_chronograph_adds_activities() {
        let mut own = Chronograph::default();
        own.set(MS * 10, Activity::Busy);
        own.set(MS * 30, Activity::WindowLimited);
        let times = Times { busy: MS * 25, window_limited: MS * 5, buffer_limited: Nanos::ZERO };
        assert_eq!(own.read(MS * 35), times);
        own.set(MS * 40, Activity::BufferLimited);
        own.set(MS * 43, Activity::Idle);
        let times = Times { busy: MS * 33, window_limited: MS * 10, buffer_limited: MS * 3 };
        assert_eq!(own.read(MS * 90), times);
    }
}
