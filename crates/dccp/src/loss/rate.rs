//! How fast data arrives (RFC 4342 section 8.3), and the round-trip time as the window counter shows it (section 8.1).

use narrows_cc::{Bytes, Nanos, Rate};

/// Parts of a round trip by which arrivals are remembered.
const PARTS: u64 = 8;

/// Parts that are kept: two round trips.
const KEPT: usize = 2 * PARTS as usize;

/// What arrived in some time.
#[derive(Clone, Copy, Default, Debug)]
struct Part {
    start: Nanos,
    bytes: u64,
}

/// X_recv: bytes of data per second, over the longer of R and the time since the last report.
///
/// Since the last report bytes are counted; the rest of a round trip is remembered by eighths, an eighth counting by the share of
/// it that lies in the round trip.
#[derive(Clone, Debug)]
pub struct ReceiveRate {
    reported: Nanos,
    bytes: u64,
    /// Newest first.
    parts: [Part; KEPT],
}

impl ReceiveRate {
    /// Data begins to arrive after `now`.
    pub fn new(now: Nanos) -> Self {
        Self { reported: now, bytes: 0, parts: [Part { start: now, bytes: 0 }; KEPT] }
    }

    /// So much data arrived.
    pub fn arrive(&mut self, now: Nanos, bytes: u64, rtt: Nanos) {
        self.bytes += bytes;
        if (now - self.parts[0].start).as_nanos() >= rtt.as_nanos() / PARTS {
            self.parts.rotate_right(1);
            self.parts[0] = Part { start: now, bytes: 0 };
        }
        self.parts[0].bytes += bytes;
    }

    /// The rate that a report sent now would carry.
    pub fn rate(&self, now: Nanos, rtt: Nanos) -> Rate {
        let since = now - self.reported;
        if since >= rtt {
            return Bytes::new(self.bytes).per(since.max(Nanos::from_nanos(1)));
        }
        let from = now - rtt;
        let (mut end, mut bytes) = (now, 0);
        for part in &self.parts {
            if part.start >= from {
                bytes += part.bytes;
            } else {
                let length = (end - part.start).as_nanos().max(1);
                bytes += (u128::from(part.bytes) * u128::from((end - from).as_nanos()) / u128::from(length))
                    as u64;
                break;
            }
            end = part.start;
        }
        Bytes::new(bytes).per(rtt)
    }

    /// The rate of a report that is sent now.
    pub fn report(&mut self, now: Nanos, rtt: Nanos) -> Rate {
        let rate = self.rate(now, rtt);
        self.reported = now;
        self.bytes = 0;
        rate
    }
}

/// The part of a new sample in the estimate, as senders have it (RFC 5348 section 4.3: q = 0.9).
const NEW: f64 = 0.1;

/// R as a receiver finds it: the sender's window counter goes up by one each quarter of its round-trip time, so the time between
/// two packets whose counters differ by n is about n quarters.
///
/// A sample is taken over four steps, or over fewer if the counter jumps beyond: a jump of five says 'five or more'.
#[derive(Clone, Copy, Debug)]
pub struct CounterRtt {
    /// The first packet with its counter.
    from: Option<(Nanos, u8)>,
    /// The first packet with the counter furthest ahead of that, by the steps that are given.
    upto: (Nanos, u8),
    rtt: Option<Nanos>,
}

impl CounterRtt {
    /// No sample yet; `first`: what else is known, from the handshake.
    pub const fn new(first: Option<Nanos>) -> Self {
        Self { from: None, upto: (Nanos::ZERO, 0), rtt: first }
    }

    /// The estimate.
    pub const fn rtt(&self) -> Option<Nanos> {
        self.rtt
    }

    /// A data packet arrived whose number is greater than all before.
    pub fn arrive(&mut self, now: Nanos, counter: u8) {
        let Some((start, from)) = self.from else {
            self.from = Some((now, counter % 16));
            return;
        };
        let steps = counter.wrapping_sub(from) % 16;
        match steps {
            0 => {}
            1..4 => {
                if steps > self.upto.1 {
                    self.upto = (now, steps);
                }
            }
            4 => {
                self.sample(now - start, 4);
                self.restart(now, counter);
            }
            _ => {
                let (end, steps) = self.upto;
                if steps > 0 {
                    self.sample(end - start, steps);
                }
                self.restart(now, counter);
            }
        }
    }

    fn restart(&mut self, now: Nanos, counter: u8) {
        self.from = Some((now, counter % 16));
        self.upto = (now, 0);
    }

    fn sample(&mut self, time: Nanos, steps: u8) {
        let sample = time.as_nanos() as f64 * 4.0 / f64::from(steps);
        let rtt = self.rtt.map_or(sample, |old| old.as_nanos() as f64 * (1.0 - NEW) + sample * NEW);
        self.rtt = Some(Nanos::from_nanos(rtt as u64));
    }
}
