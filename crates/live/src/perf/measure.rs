//! The intervals of a test.

use std::sync::Arc;
use std::time::Duration;

use narrows_quic::noq as schemes;
use noq::Connection;
use noq_proto::PathId;

use super::control::Counts;
use super::transfer::Test;
use super::{Caller, Event, Interval, peer};

/// The state of a connection now; counters since its start.
pub(super) fn measure(connection: &Connection, sends: bool) -> Interval {
    let mut now = Interval { peer: peer(connection), sends, ..Interval::default() };
    if let Some(path) = connection.path_stats(PathId::ZERO) {
        // Lost probes for a larger datagram say nothing of the path's losses.
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

/// Reports the intervals of a test.
pub(super) struct Reporter<'a> {
    id: u64,
    connection: &'a Connection,
    sends: bool,
    caller: &'a dyn Caller,
    count: Arc<Counts>,
    interval: Duration,
    /// When the next interval ends.
    next: Duration,
    /// Counters at the start, and at the end of the last interval.
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
            last: first.clone(),
            first,
        }
    }

    /// Reports the interval if it is over.
    pub(super) fn look(&mut self, time: Duration) {
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
            ..measure(self.connection, self.sends)
        };
        self.caller.event(&Event::Interval(since(&self.last, &now)));
        self.last = now;
    }

    /// Reports the rest of the last interval, and returns all intervals together.
    pub(super) fn finish(&mut self, time: Duration) -> Interval {
        let time = time.max(Duration::from_secs_f64(self.last.end_s));
        if time.as_secs_f64() > self.last.end_s || self.count.sum() > self.last.bytes {
            self.report(time);
        }
        since(&self.first, &self.last)
    }
}

/// What happened between two states.
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
