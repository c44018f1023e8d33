//! The sender's source: applications of `narrows-traffic`, cut into datagrams.

use std::time::{SystemTime, UNIX_EPOCH};

use narrows_cc::{Bytes, Nanos};
use narrows_dccp::Connection;
use narrows_traffic::{App, AppConfig};

/// Writes an application's data to a connection.
pub struct Source {
    app: App,
    written: u64,
    payload: Vec<u8>,
    /// Datagrams written.
    pub(crate) datagrams: u64,
}

impl Source {
    pub(crate) fn new(app: App, size: u16) -> Self {
        Self { app, written: 0, payload: vec![0; usize::from(size.max(1))], datagrams: 0 }
    }

    /// Next time at which the application writes; data that does not fit the queue is written when the queue has space.
    pub(crate) fn deadline(&self) -> Nanos {
        self.app.deadline()
    }

    /// Writes scheduled data. Live sources write even if the queue is full: the connection drops and counts the excess.
    pub(crate) fn write(&mut self, now: Nanos, connection: &mut Connection) {
        self.app.on_time(now, Bytes::new(self.written));
        let limit = self.app.limit().as_u64();
        while self.written < limit && (self.app.is_real_time() || connection.can_push()) {
            let size = (limit - self.written).min(self.payload.len() as u64) as usize;
            let stamp = realtime().to_be_bytes();
            let stamped = size.min(stamp.len());
            self.payload[..stamped].copy_from_slice(&stamp[..stamped]);
            let _ = connection.push(now, &self.payload[..size]);
            self.written += size as u64;
            self.datagrams += 1;
        }
    }

    /// Whether everything was written.
    pub(crate) fn is_done(&self) -> bool {
        self.app.is_finished() && self.written >= self.app.limit().as_u64()
    }
}

/// Queue length of a backlogged source, in datagrams; a longer queue would only add delay.
const BULK_QUEUE: usize = 32;
/// The queue has space for the data of this time at the constant or mean rate, so that a sender that stalls for this
/// time loses nothing.
const STALL: Nanos = Nanos::from_millis(100);
/// Largest default queue in bytes.
const MAX_QUEUE_BYTES: u64 = 64 << 20;

/// Default queue in datagrams of `size` bytes: for real-time sources, space for the larger of the largest write and 100
/// ms of data; at least `least` datagrams and at most 64 MiB.
pub fn queue_for(app: &AppConfig, size: u16, least: usize) -> usize {
    let bytes = match *app {
        AppConfig::Bulk => return BULK_QUEUE,
        AppConfig::Cbr { rate, write } => rate.over(STALL).max(write),
        AppConfig::Video { rate, frames, key_size, .. } => {
            // The largest frame is twice the mean of key frames, which is at most `key_size` times the mean
            // frame.
            let largest = 2.0 * key_size.max(1.0) * rate.as_bytes_per_sec() as f64 / frames;
            rate.over(STALL).max(Bytes::new(largest as u64))
        }
        AppConfig::File(_) | AppConfig::OnOff { .. } | AppConfig::Subflow | AppConfig::Written => {
            return least;
        }
    };
    let size = u64::from(size.max(1));
    let wanted = bytes.as_u64().min(MAX_QUEUE_BYTES).div_ceil(size) + 1;
    least.max(usize::try_from(wanted).unwrap_or(usize::MAX))
}

/// Nanoseconds of the system clock.
pub fn realtime() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
