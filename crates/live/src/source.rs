//! What a sender sends: the applications of `narrows-tcp`, cut into datagrams.

use std::time::{SystemTime, UNIX_EPOCH};

use narrows_cc::{Bytes, Nanos};
use narrows_dccp::Connection;
use narrows_traffic::{App, AppConfig};

/// Feeds a connection.
pub struct Source {
    app: App,
    written: u64,
    payload: Vec<u8>,
    /// Datagrams handed over.
    pub(crate) datagrams: u64,
}

impl Source {
    pub(crate) fn new(app: App, size: u16) -> Self {
        Self { app, written: 0, payload: vec![0; usize::from(size.max(1))], datagrams: 0 }
    }

    /// When it has something to write; what waits for room is written when there is some.
    pub(crate) fn deadline(&self) -> Nanos {
        self.app.deadline()
    }

    /// Writes what is due. Media are not held back: what finds no room is lost at once, and counted by the connection.
    pub(crate) fn write(&mut self, now: Nanos, connection: &mut Connection) {
        self.app.on_time(now, Bytes::new(self.written));
        let limit = self.app.limit().as_u64();
        while self.written < limit && (self.app.is_live() || connection.can_push()) {
            let size = (limit - self.written).min(self.payload.len() as u64) as usize;
            let stamp = realtime().to_be_bytes();
            let stamped = size.min(stamp.len());
            self.payload[..stamped].copy_from_slice(&stamp[..stamped]);
            let _ = connection.push(now, &self.payload[..size]);
            self.written += size as u64;
            self.datagrams += 1;
        }
    }

    /// Everything was written.
    pub(crate) fn is_done(&self) -> bool {
        self.app.is_finished() && self.written >= self.app.limit().as_u64()
    }
}

/// Datagrams that wait at a sender whose source always has more: what lies there only adds delay.
const SHORT_QUEUE: usize = 32;
/// So much of a constant or mean rate finds room: a sender that is held up so long loses nothing.
const HELD_UP: Nanos = Nanos::from_millis(100);
/// The most that waits, in bytes, unless more is asked for.
const MOST_WAITING: u64 = 64 << 20;

/// How many datagrams of `size` bytes may wait to be sent: what media write at once, and what they write in 100 ms, but at least
/// `least` and at most 64 MiB.
pub fn queue_for(app: &AppConfig, size: u16, least: usize) -> usize {
    let bytes = match *app {
        AppConfig::Bulk => return SHORT_QUEUE,
        AppConfig::Cbr { rate, write } => rate.over(HELD_UP).max(write),
        AppConfig::Video { rate, frames, key_size, .. } => {
            // The largest frame: twice the mean of those that stand alone, of which all have at most `key_size` times the mean rate.
            let largest = 2.0 * key_size.max(1.0) * rate.as_bytes_per_sec() as f64 / frames;
            rate.over(HELD_UP).max(Bytes::new(largest as u64))
        }
        _ => return least,
    };
    let size = u64::from(size.max(1));
    let wanted = bytes.as_u64().min(MOST_WAITING).div_ceil(size) + 1;
    least.max(usize::try_from(wanted).unwrap_or(usize::MAX))
}

/// Nanoseconds of the system's clock.
pub fn realtime() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
