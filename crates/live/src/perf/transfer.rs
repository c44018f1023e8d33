//! The data of a test: both ends of its streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use noq::Connection;
use tokio::task::JoinSet;

use super::{Caller, Event, Interval, MAX_DURATION, MAX_STREAMS, PATIENCE, PerfError, TICK, measure};

/// Bytes per write and read.
const CHUNK: usize = 256 << 10;
/// Bytes of a request, and of its answer.
pub(super) const REQUEST: usize = 16;
const VERSION: u8 = 1;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) reverse: bool,
    pub(super) streams: u16,
    pub(super) duration: Duration,
}

impl Asked {
    pub(super) fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[0] = VERSION;
        bytes[1] = self.reverse.into();
        bytes[2..4].copy_from_slice(&self.streams.to_be_bytes());
        bytes[8..].copy_from_slice(&(self.duration.as_millis() as u64).to_be_bytes());
        bytes
    }

    /// The request; `None` if it is not one, or asks for too much.
    pub(super) fn decode(bytes: &[u8; REQUEST]) -> Option<Self> {
        let streams = u16::from_be_bytes([bytes[2], bytes[3]]);
        let duration = Duration::from_millis(u64::from_be_bytes(*bytes.last_chunk()?));
        let sound = bytes[0] == VERSION && bytes[1] < 2 && (1..=MAX_STREAMS).contains(&streams);
        (sound && duration <= MAX_DURATION).then_some(Self { reverse: bytes[1] == 1, streams, duration })
    }
}

/// What a test moved.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) total: Interval,
    /// It ended as asked.
    pub(super) complete: bool,
}

/// Moves the data of a test over `connection`: sends it for the duration, or receives until the streams end.
pub(super) async fn run(
    connection: &Connection,
    asked: Asked,
    sends: bool,
    interval: Duration,
    caller: &dyn Caller,
) -> Result<Moved, PerfError> {
    let begun = Instant::now();
    let count = Arc::new(AtomicU64::new(0));
    let mut streams = JoinSet::new();
    for _ in 0..asked.streams {
        let (connection, count) = (connection.clone(), Arc::clone(&count));
        if sends {
            streams.spawn(send(connection, count, begun + asked.duration));
        } else {
            streams.spawn(receive(connection, count));
        }
    }
    let most = asked.duration + PATIENCE;
    let mut reporter =
        Reporter { begun, sends, count: &count, last: measure(connection, sends), interval, caller };
    reporter.last.end_s = 0.0;
    let first = reporter.last.clone();
    let mut complete = false;
    let mut failure = None;
    loop {
        match tokio::time::timeout(TICK, streams.join_next()).await {
            Ok(None) => {
                complete = failure.is_none();
                break;
            }
            Ok(Some(Ok(Ok(())))) => {}
            Ok(Some(Ok(Err(reason)))) => failure = Some(reason),
            Ok(Some(Err(ended))) => failure = Some(ended.to_string()),
            Err(_) => {}
        }
        if caller.stop() || begun.elapsed() > most {
            break;
        }
        reporter.look(connection);
    }
    streams.abort_all();
    let total = reporter.finish(connection, &first);
    match failure {
        // A client may go when it likes.
        Some(reason) if total.bytes == 0 => Err(PerfError::failed("move data", reason)),
        _ => Ok(Moved { total, complete }),
    }
}

async fn send(connection: Connection, count: Arc<AtomicU64>, end: Instant) -> Result<(), String> {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let mut stream = connection.open_uni().await.map_err(|error| error.to_string())?;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        match tokio::time::timeout(left, stream.write(&ZEROS)).await {
            Ok(Ok(written)) => {
                count.fetch_add(written as u64, Ordering::Relaxed);
            }
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => break,
        }
    }
    stream.finish().map_err(|error| error.to_string())?;
    // Until the peer has everything.
    stream.stopped().await.map(|_| ()).map_err(|error| error.to_string())
}

async fn receive(connection: Connection, count: Arc<AtomicU64>) -> Result<(), String> {
    let mut stream = connection.accept_uni().await.map_err(|error| error.to_string())?;
    while let Some(chunk) = stream.read_chunk(CHUNK).await.map_err(|error| error.to_string())? {
        count.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

struct Reporter<'a> {
    begun: Instant,
    sends: bool,
    count: &'a AtomicU64,
    /// Counters at the end of the last interval.
    last: Interval,
    interval: Duration,
    caller: &'a dyn Caller,
}

impl Reporter<'_> {
    /// Reports the interval if it is over.
    fn look(&mut self, connection: &Connection) {
        if self.begun.elapsed().as_secs_f64() >= self.last.end_s + self.interval.as_secs_f64() {
            let now = self.now(connection);
            self.caller.event(&Event::Interval(since(&self.last, &now)));
            self.last = now;
        }
    }

    fn now(&self, connection: &Connection) -> Interval {
        let bytes = self.count.load(Ordering::Relaxed);
        Interval { bytes, end_s: self.begun.elapsed().as_secs_f64(), ..measure(connection, self.sends) }
    }

    fn finish(&self, connection: &Connection, first: &Interval) -> Interval {
        since(first, &self.now(connection))
    }
}

/// What happened between two states.
fn since(before: &Interval, now: &Interval) -> Interval {
    let seconds = now.end_s - before.end_s;
    let bytes = now.bytes - before.bytes;
    Interval {
        start_s: before.end_s,
        bytes,
        mbit_s: if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 },
        packets: now.packets - before.packets,
        lost: now.lost - before.lost,
        ..now.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request comes back as it was; a foreign or greedy one is refused.
    #[test]
    fn requests_are_checked() {
        let asked = Asked { reverse: true, streams: 4, duration: Duration::from_secs(10) };
        assert_eq!(Asked::decode(&asked.encode()), Some(asked));
        let greedy = Asked { streams: MAX_STREAMS + 1, ..asked };
        assert_eq!(Asked::decode(&greedy.encode()), None);
        let endless = Asked { duration: MAX_DURATION * 2, ..asked };
        assert_eq!(Asked::decode(&endless.encode()), None);
        assert_eq!(Asked::decode(&[0xff; REQUEST]), None);
    }
}
