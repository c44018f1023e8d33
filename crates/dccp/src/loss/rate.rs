//! Receive rate (RFC 4342 section 8.3) and round-trip time from the window counter (section 8.1).

use narrows_cc::{Bytes, Nanos, Rate};

/// Resolution of the history: parts per round trip.
const PARTS: u64 = 8;

/// History length in parts: two round trips.
const KEPT: usize = 2 * PARTS as usize;

/// Bytes that arrived from `start` until the start of the next part.
#[derive(Clone, Copy, Default, Debug)]
struct Part {
    start: Nanos,
    bytes: u64,
}

/// X_recv: the receive rate of data, averaged over the longer of R and the time since the last report.
///
/// The bytes since the last report are exact. If the last report is more recent than R, the bytes of the last R are the
/// sum of parts of R/8; a part that lies only partly in this time counts proportionally.
#[derive(Clone, Debug)]
pub struct ReceiveRate {
    reported: Nanos,
    bytes: u64,
    /// Parts of the history, newest first.
    parts: [Part; KEPT],
}

impl ReceiveRate {
    /// Starts measuring at `now`.
    pub fn new(now: Nanos) -> Self {
        Self { reported: now, bytes: 0, parts: [Part { start: now, bytes: 0 }; KEPT] }
    }

    /// Records the arrival of data.
    pub fn arrive(&mut self, now: Nanos, bytes: u64, rtt: Nanos) {
        self.bytes += bytes;
        if (now - self.parts[0].start).as_nanos() >= rtt.as_nanos() / PARTS {
            self.parts.rotate_right(1);
            self.parts[0] = Part { start: now, bytes: 0 };
        }
        self.parts[0].bytes += bytes;
    }

    /// X_recv for a report sent now.
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
                bytes += (u128::from(part.bytes) * u128::from((end - from).as_nanos()) / u128::from(length)) as u64;
                break;
            }
            end = part.start;
        }
        Bytes::new(bytes).per(rtt)
    }

    /// X_recv for a report sent now; restarts the measurement.
    pub fn report(&mut self, now: Nanos, rtt: Nanos) -> Rate {
        let rate = self.rate(now, rtt);
        self.reported = now;
        self.bytes = 0;
        rate
    }
}

/// Weight of a new sample, as at senders (RFC 5348 section 4.3: q = 0.9).
const GAIN: f64 = 0.1;

/// Receiver's estimate of R. The sender increments the window counter every quarter of its round-trip time,
/// so packets whose counters differ by n are about n quarters apart.
///
/// A sample spans four steps, or fewer if the counter jumps further: a jump of five steps means 'five or more'.
#[derive(Clone, Copy, Debug)]
pub struct CounterRtt {
    /// Arrival time and counter of the first packet of the sample.
    from: Option<(Nanos, u8)>,
    /// First packet with the greatest counter since `from`: arrival time, and counter steps since `from`.
    upto: (Nanos, u8),
    rtt: Option<Nanos>,
}

impl CounterRtt {
    /// No sample yet; `first` is the handshake's estimate, if any.
    pub const fn new(first: Option<Nanos>) -> Self {
        Self { from: None, upto: (Nanos::ZERO, 0), rtt: first }
    }

    /// The estimate.
    pub const fn rtt(&self) -> Option<Nanos> {
        self.rtt
    }

    /// Records a data packet whose number exceeds all earlier numbers.
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
        let rtt = self.rtt.map_or(sample, |old| old.as_nanos() as f64 * (1.0 - GAIN) + sample * GAIN);
        self.rtt = Some(Nanos::from_nanos(rtt as u64));
    }
}
