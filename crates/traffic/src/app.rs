//! Applications that write data to a sender.

use narrows_units::{Bytes, Nanos, Random};

use crate::AppConfig;

/// Write limit of a backlogged application, small enough that sums do not overflow.
pub(crate) const ENDLESS: u64 = u64::MAX / 4;

/// Minimum length of an on or off period, so that random periods always advance time.
const MIN_PERIOD: Nanos = Nanos::from_micros(1);

/// Minimum size of a video frame relative to the mean; the maximum is symmetric.
const MIN_FRAME: f64 = 0.1;

/// An application, which writes data at certain times and may finish.
///
/// The transport reads bulk data and files when it sends, so an application of this kind, when stopped, has written
/// exactly the data sent.
// Fields that every acknowledgement reads come first: they share cache lines with the preceding state of the transport.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct App {
    /// Time of the next write or of the next change between on and off.
    next_at: Nanos,
    finished: bool,
    stopped: bool,
    on_period: bool,
    /// Total bytes that the transport may send by now.
    limit: u64,
    /// Number of writes ([`AppConfig::Cbr`], [`AppConfig::Video`]).
    writes: u64,
    start: Nanos,
    random: Random,
    config: AppConfig,
}

impl App {
    /// An application that starts at `start`, with a separate random stream.
    pub fn new(config: AppConfig, random: Random, start: Nanos) -> Self {
        Self {
            config,
            random,
            start,
            next_at: start,
            limit: 0,
            writes: 0,
            on_period: false,
            finished: false,
            stopped: false,
        }
    }

    /// Time of the next [`App::on_time`]; [`Nanos::MAX`] for never.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        self.next_at
    }

    /// Total bytes written since the start; for a backlogged application, more than the transport can ever send.
    #[inline]
    pub fn limit(&self) -> Bytes {
        Bytes::new(self.limit)
    }

    /// Whether the application has written all its data.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// File size, unless the application was stopped before the whole file was sent.
    pub fn size(&self) -> Option<Bytes> {
        match self.config {
            AppConfig::File(size) if !self.stopped => Some(size),
            _ => None,
        }
    }

    /// Handles all deadlines until `now`; `sent` is the amount of data sent by the transport.
    pub fn on_time(&mut self, now: Nanos, sent: Bytes) {
        while self.next_at <= now {
            match self.config {
                AppConfig::Subflow | AppConfig::Written => self.next_at = Nanos::MAX,
                AppConfig::Bulk => {
                    self.limit = ENDLESS;
                    self.next_at = Nanos::MAX;
                }
                AppConfig::File(size) => {
                    self.limit = size.as_u64();
                    self.finished = true;
                    self.next_at = Nanos::MAX;
                }
                AppConfig::OnOff { on, off, random } => {
                    self.on_period = !self.on_period;
                    self.limit = if self.on_period { ENDLESS } else { sent.as_u64() };
                    let length = if self.on_period { on } else { off };
                    let length = if random {
                        Nanos::from_secs_f64(self.random.exponential(length.as_secs_f64()))
                    } else {
                        length
                    };
                    self.next_at = self.next_at.saturating_add(length.max(MIN_PERIOD));
                }
                AppConfig::Video { rate, frames, key_every, key_size, variation } => {
                    let group = f64::from(key_every.max(1));
                    // Frame sizes are normalised so that the mean over a group matches the rate.
                    let plain = rate.as_bytes_per_sec() as f64 / frames * group / (group - 1.0 + key_size);
                    let key = self.writes.is_multiple_of(u64::from(key_every.max(1)));
                    let mean = if key { plain * key_size } else { plain };
                    let size = mean * (1.0 + variation * self.normal()).clamp(MIN_FRAME, 2.0 - MIN_FRAME);
                    self.writes += 1;
                    self.limit = self.limit.saturating_add((size as u64).max(1)).min(ENDLESS);
                    let next = Nanos::from_secs_f64(self.writes as f64 / frames);
                    let next = self.start.saturating_add(next);
                    self.next_at = next.max(self.next_at.saturating_add(Nanos::from_nanos(1)));
                }
                AppConfig::Cbr { rate, write } => {
                    // The next time is computed from the start, so that rounding errors do not accumulate.
                    let write = write.max(Bytes::new(1));
                    self.writes += 1;
                    self.limit = self.limit.saturating_add(write.as_u64()).min(ENDLESS);
                    let written = Bytes::new(write.as_u64().saturating_mul(self.writes));
                    let next = self.start.saturating_add(rate.time_for(written));
                    self.next_at = if self.limit == ENDLESS {
                        Nanos::MAX
                    } else {
                        next.max(self.next_at.saturating_add(Nanos::from_nanos(1)))
                    };
                }
            }
        }
    }

    /// Whether a multipath connection assigns the data of this subflow.
    #[inline]
    pub fn is_subflow(&self) -> bool {
        matches!(self.config, AppConfig::Subflow)
    }

    /// Adds `bytes` to send ([`AppConfig::Subflow`], [`AppConfig::Written`]).
    pub fn assign(&mut self, bytes: u64) {
        self.limit += bytes;
    }

    /// Draws an approximately standard normal number: the sum of twelve uniform numbers minus the mean of the sum.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0
    }

    /// Whether the application is currently backlogged.
    #[inline]
    pub fn is_backlogged(&self) -> bool {
        self.limit >= ENDLESS
    }

    /// Whether the data is live, so that it loses value with delay.
    #[inline]
    pub fn is_real_time(&self) -> bool {
        matches!(self.config, AppConfig::Cbr { .. } | AppConfig::Video { .. })
    }

    /// Stops writing; `sent` as in [`App::on_time`].
    pub fn stop(&mut self, sent: Bytes) {
        if self.stopped {
            return;
        }
        let sized = self.is_real_time() || matches!(self.config, AppConfig::Written);
        if !sized && self.limit > sent.as_u64() {
            self.limit = sent.as_u64();
            self.stopped = true;
        }
        self.stopped |= !self.finished;
        self.finished = true;
        self.next_at = Nanos::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rate;

    fn app(config: AppConfig) -> App {
        App::new(config, Random::stream(1, "app", 0), Nanos::from_millis(10))
    }

    /// A constant bit rate does not drift because of rounding.
    #[test]
    fn cbr_does_not_drift() {
        // 1000 B at 3 MB/s are one write per 333 333.33 ns, so write 3001 is exactly one second after the first write.
        let mut app = app(AppConfig::Cbr { rate: Rate::from_bytes_per_sec(3_000_000), write: Bytes::new(1000) });
        app.on_time(Nanos::from_millis(10), Bytes::ZERO);
        assert_eq!(app.limit(), Bytes::new(1000));
        assert_eq!(app.deadline(), Nanos::from_nanos(10_333_333));
        app.on_time(Nanos::from_millis(1010), Bytes::ZERO);
        assert_eq!(app.limit(), Bytes::new(3_001_000));
    }

    /// Video has the configured rate, frame interval, key frames and variation.
    #[test]
    fn video_has_configured_rate_frames_and_groups() {
        let video = |variation| AppConfig::Video {
            rate: Rate::from_bytes_per_sec(250_000),
            frames: 25.0,
            key_every: 10,
            key_size: 4.0,
            variation,
        };
        let mut still = app(video(0.0));
        let mut last = 0;
        // The mean is 10 kB per frame. A group of ten frames has 100 kB, which are 13 times a plain frame.
        for frame in 0..20 {
            let at = Nanos::from_millis(10 + 40 * frame);
            assert_eq!(still.deadline(), at);
            still.on_time(at, Bytes::ZERO);
            let size = still.limit().as_u64() - last;
            last = still.limit().as_u64();
            assert_eq!(size, if frame % 10 == 0 { 30_769 } else { 7_692 });
        }
        let mut varied = app(video(0.3));
        let mut sizes = Vec::new();
        last = 0;
        for frame in 0..50_000 {
            varied.on_time(Nanos::from_millis(10 + 40 * frame), Bytes::ZERO);
            if frame % 10 > 0 {
                sizes.push((varied.limit().as_u64() - last) as f64 / 7_692.0);
            }
            last = varied.limit().as_u64();
        }
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance = sizes.iter().map(|size| (size - mean) * (size - mean)).sum::<f64>() / sizes.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        // Frame sizes beyond three standard deviations are clipped, 0.3 % of all frames.
        assert!((variance.sqrt() - 0.3).abs() < 0.01, "{variance}");
        assert!((last as f64 / 2000.0 / 250_000.0 - 1.0).abs() < 0.01, "{last} bytes in 2000 s");
    }

    /// Writes that would overflow saturate at the limit of a backlogged application.
    #[test]
    fn cbr_overflow_saturates_at_endless() {
        let rate = Rate::from_bytes_per_sec(1 << 59);
        let mut app = app(AppConfig::Cbr { rate, write: Bytes::new(1 << 60) });
        app.on_time(Nanos::from_secs(60), Bytes::ZERO);
        assert_eq!(app.limit(), Bytes::new(ENDLESS));
    }

    /// On and off periods alternate until the application stops.
    #[test]
    fn on_off_periods_alternate() {
        let (on, off) = (Nanos::from_millis(5), Nanos::from_millis(7));
        let mut app = app(AppConfig::OnOff { on, off, random: false });
        assert_eq!(app.deadline(), Nanos::from_millis(10));
        app.on_time(Nanos::from_millis(10), Bytes::ZERO);
        assert_eq!((app.limit(), app.deadline()), (Bytes::new(ENDLESS), Nanos::from_millis(15)));
        app.on_time(Nanos::from_millis(15), Bytes::new(1448));
        assert_eq!((app.limit(), app.deadline()), (Bytes::new(1448), Nanos::from_millis(22)));
        assert!(!app.is_finished());
        app.stop(Bytes::new(1448));
        assert!(app.is_finished());
        assert_eq!(app.deadline(), Nanos::MAX);
    }

    /// Written data remains to be sent after the application is stopped.
    #[test]
    fn written_data_survives_stop() {
        let mut calls = app(AppConfig::Written);
        calls.on_time(Nanos::from_millis(10), Bytes::ZERO);
        assert_eq!((calls.limit(), calls.deadline()), (Bytes::ZERO, Nanos::MAX));
        calls.assign(3000);
        calls.stop(Bytes::new(1000));
        assert_eq!((calls.limit(), calls.is_finished()), (Bytes::new(3000), true));
    }

    /// A file stopped half-way has no size; a file stopped after its end has its size.
    #[test]
    fn file_stopped_half_way_has_no_size() {
        let mut whole = app(AppConfig::File(Bytes::new(5000)));
        whole.on_time(Nanos::from_millis(10), Bytes::ZERO);
        assert_eq!(
            (whole.limit(), whole.size(), whole.is_finished()),
            (Bytes::new(5000), Some(Bytes::new(5000)), true)
        );
        let mut half = whole.clone();
        half.stop(Bytes::new(1448));
        assert_eq!((half.limit(), half.size()), (Bytes::new(1448), None));
        whole.stop(Bytes::new(5000));
        assert_eq!(whole.size(), Some(Bytes::new(5000)));
    }
}
