//! A test on its connection, and the reports of its intervals.

use std::sync::Arc;
use std::time::Duration;

use narrows_quic::noq as schemes;
use noq::Connection;
use noq_proto::PathId;

use super::control::{Asked, Counts};
use super::{Caller, Event, Interval, PATIENCE, peer, unanswered};

/// A test on its connection.
pub(super) struct Test<'a> {
    pub(super) id: u64,
    pub(super) connection: &'a Connection,
    pub(super) asked: Asked,
    pub(super) sends: bool,
    pub(super) interval: Duration,
    pub(super) caller: &'a dyn Caller,
}

impl Test<'_> {
    /// Longest test time that the peer may report: each endpoint waits up to [`PATIENCE`] for the other
    /// endpoint, both before and after the data.
    pub(super) fn longest(&self) -> Duration {
        self.asked.duration + 2 * PATIENCE
    }
}

/// The current state of a connection, and its counters since the start.
pub(super) fn measure(connection: &Connection, sends: bool) -> Interval {
    let mut now = Interval { peer: peer(connection), sends, ..Interval::default() };
    if let Some(path) = connection.path_stats(PathId::ZERO) {
        // Lost MTU probes do not count as losses of the path.
        now.lost = path.lost_packets.saturating_sub(path.lost_plpmtud_probes);
        now.packets = path.sent_packets.saturating_sub(path.sent_plpmtud_probes);
        now.mtu_bytes = path.current_mtu;
    }
    now.rtt_ms = connection.rtt(PathId::ZERO).map(|rtt| rtt.as_secs_f64() * 1e3);
    if !sends {
        return now;
    }
    if let Some(controller) = connection.congestion_state(PathId::ZERO) {
        let metrics = controller.metrics();
        now.cwnd_bytes = Some(metrics.congestion_window);
        now.pacing_mbit_s = metrics.pacing_rate.map(|rate| rate as f64 * 8e-6);
        if let Some(own) = schemes::Controller::inspect(controller.as_ref()) {
            own.driver().scheme().telemetry(&mut |name, value| {
                if let ("state", narrows_cc::Value::State(state)) = (name, value) {
                    now.state = Some(state);
                }
            });
        }
    }
    now
}

/// Number of datagrams that have arrived from the peer.
fn arrived(connection: &Connection) -> u64 {
    connection.path_stats(PathId::ZERO).map_or(0, |path| path.udp_rx.datagrams)
}

/// The time of the last arrival of a datagram.
#[derive(Debug, Default)]
struct Silence {
    datagrams: u64,
    at: Duration,
}

impl Silence {
    /// Returns the time since the last datagram arrived, if `datagrams` have arrived so far.
    fn since(&mut self, datagrams: u64, now: Duration) -> Duration {
        if datagrams != self.datagrams {
            *self = Self { datagrams, at: now };
        }
        now.saturating_sub(self.at)
    }
}

/// Reports the intervals of a test.
pub(super) struct Reporter<'a> {
    id: u64,
    connection: &'a Connection,
    sends: bool,
    caller: &'a dyn Caller,
    count: Arc<Counts>,
    interval: Duration,
    /// End of the current interval.
    next: Duration,
    silence: Silence,
    /// Counters at the start of the test, and at the end of the last interval.
    first: Interval,
    last: Interval,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(test: &Test<'a>, count: Arc<Counts>) -> Self {
        let streams = vec![0; test.asked.streams.into()];
        let first = Interval { test: test.id, streams, ..measure(test.connection, test.sends) };
        Self {
            id: test.id,
            connection: test.connection,
            sends: test.sends,
            caller: test.caller,
            count,
            interval: test.interval,
            next: test.interval,
            silence: Silence::default(),
            last: first.clone(),
            first,
        }
    }

    /// The failure of the test if, at `time`, the peer has sent no packet for longer than `limit`.
    pub(super) fn unanswered(&mut self, time: Duration, limit: Duration) -> Option<String> {
        (self.silence.since(arrived(self.connection), time) > limit).then(|| unanswered(limit))
    }

    /// Reports the current interval if it is over.
    pub(super) fn look(&mut self, time: Duration) {
        self.silence.since(arrived(self.connection), time);
        if time >= self.next {
            self.report(time);
            while self.next <= time {
                self.next += self.interval;
            }
        }
    }

    fn report(&mut self, time: Duration) {
        let streams = self.count.all();
        let now = Interval {
            test: self.id,
            end_s: time.as_secs_f64(),
            bytes: streams.iter().sum(),
            streams,
            silent_s: self.silence.since(arrived(self.connection), time).as_secs_f64(),
            ..measure(self.connection, self.sends)
        };
        self.caller.event(&Event::Interval(since(&self.last, &now)));
        self.last = now;
    }

    /// Reports the rest of the current interval, and returns the measurements of all intervals together.
    pub(super) fn finish(&mut self, time: Duration) -> Interval {
        let time = time.max(Duration::from_secs_f64(self.last.end_s));
        if time.as_secs_f64() > self.last.end_s || self.count.sum() > self.last.bytes {
            self.report(time);
        }
        since(&self.first, &self.last)
    }
}

/// The interval between two states of a connection.
fn since(before: &Interval, now: &Interval) -> Interval {
    let seconds = now.end_s - before.end_s;
    let bytes = now.bytes.saturating_sub(before.bytes);
    let streams = now.streams.iter().zip(&before.streams);
    Interval {
        start_s: before.end_s,
        bytes,
        streams: streams.map(|(now, before)| now.saturating_sub(*before)).collect(),
        mbit_s: if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 },
        packets: now.packets.saturating_sub(before.packets),
        lost: now.lost.saturating_sub(before.lost),
        ..now.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peer's silence starts at its last datagram and ends with any datagram.
    #[test]
    fn silence_is_the_time_since_the_last_datagram() {
        let (mut silence, second) = (Silence::default(), Duration::from_secs(1));
        assert_eq!(silence.since(5, second), Duration::ZERO);
        assert_eq!(silence.since(5, 3 * second), 2 * second);
        assert_eq!(silence.since(6, 4 * second), Duration::ZERO);
        assert_eq!(silence.since(6, 4 * second), Duration::ZERO);
        assert_eq!(silence.since(6, 9 * second), 5 * second);
    }
}
