//! The control stream of a test: the client's request, the receiver's reports and the sender's result.
//!
//! All numbers are big-endian.
//!
//! | message | writer | bytes |
//! |---|---|---|
//! | request | client, first | version, 1 if the server sends, streams (2), four zero bytes, duration in ms (8) |
//! | scheme (version 3) | sender, first after the request | length, name of its scheme in ASCII |
//! | report | receiver, every [`TICK`] and at the end | time since the first byte in µs (8), streams that follow (2), for each its index (2) and the bytes read so far (8) |
//! | result | sender, at the end | time in µs (8), packets lost (8), for each stream the bytes that reports have confirmed (8) |
//!
//! [`TICK`]: super::TICK

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use noq::{Connection, ReadExactError, RecvStream, SendStream, StoppedError, WriteError};
use noq_proto::crypto::rustls::HandshakeData;
use serde::Serialize;

use super::{MAX_DURATION, MAX_STREAMS, tls};

/// Bytes of a request.
pub(super) const REQUEST: usize = 16;
/// Versions of requests: the version of ALPN `narrows-perf/3`, and the previous version, in which senders do
/// not state their scheme.
const VERSION: u8 = 3;
const NAMELESS: u8 = 2;
/// Longest name of a scheme, in bytes.
const NAME: usize = 64;
/// Bytes of a report before the entries of its streams, and bytes per stream.
const HEAD: usize = 10;
const ENTRY: usize = 10;
/// Maximum plausible packet rate: packets of 1 250 bytes at 1 Tbit/s.
const PACKETS_PER_S: f64 = 1e8;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) reverse: bool,
    pub(super) streams: u16,
    pub(super) duration: Duration,
    /// Whether the sender states its scheme.
    pub(super) named: bool,
}

/// Whether both endpoints of a connection agreed on the version in which the sender states its scheme.
pub(super) fn is_named(connection: &Connection) -> bool {
    let agreed = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    agreed.is_some_and(|data| data.protocol.as_deref() == Some(tls::ALPN))
}

/// Encodes the message with the sender's scheme.
pub(super) fn encode_scheme(name: &str) -> Vec<u8> {
    let name = &name.as_bytes()[..name.len().min(NAME)];
    [&[name.len() as u8], name].concat()
}

/// Reads the name of the peer's scheme.
///
/// # Errors
/// If the stream ends early, or its bytes are not a valid name.
pub(super) async fn read_scheme(receive: &mut RecvStream) -> Result<String, String> {
    let (mut length, mut name) = ([0], [0; NAME]);
    receive.read_exact(&mut length).await.map_err(|error| error.to_string())?;
    let length = usize::from(length[0]);
    let Some(name) = name.get_mut(..length).filter(|name| !name.is_empty()) else {
        return Err(format!("the other end's scheme has a name of {length} bytes; accepted: 1 to {NAME}"));
    };
    receive.read_exact(name).await.map_err(|error| error.to_string())?;
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err("the other end's scheme has a name of other than visible ASCII".to_owned());
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

impl Asked {
    pub(super) fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[0] = if self.named { VERSION } else { NAMELESS };
        bytes[1] = self.reverse.into();
        bytes[2..4].copy_from_slice(&self.streams.to_be_bytes());
        bytes[8..].copy_from_slice(&(self.duration.as_millis() as u64).to_be_bytes());
        bytes
    }

    /// Decodes a request; an error names the accepted values.
    pub(super) fn decode(bytes: &[u8; REQUEST], longest: Duration) -> Result<Self, String> {
        if ![VERSION, NAMELESS].contains(&bytes[0]) || bytes[1] > 1 {
            return Err("this is no request of narrows perf, or one of another version".to_owned());
        }
        let streams = u16::from_be_bytes([bytes[2], bytes[3]]);
        let duration = u64::from_be_bytes(*bytes.last_chunk().unwrap_or(&[0; 8]));
        let (reverse, named) = (bytes[1] == 1, bytes[0] == VERSION);
        let asked = Self { reverse, streams, duration: Duration::from_millis(duration), named };
        asked.check(longest)?;
        Ok(asked)
    }

    pub(super) fn check(&self, longest: Duration) -> Result<(), String> {
        let longest = longest.min(MAX_DURATION);
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return Err(format!("a test has no {} streams; accepted: 1 to {MAX_STREAMS}", self.streams));
        }
        if self.duration.is_zero() || self.duration > longest {
            let (asked, most) = (self.duration.as_secs_f64(), longest.as_secs_f64());
            return Err(format!("a test does not take {asked} s; accepted: above 0, {most} s at most"));
        }
        Ok(())
    }
}

/// Byte counts of the streams.
#[derive(Debug)]
pub(super) struct Counts(Box<[AtomicU64]>);

impl Counts {
    pub(super) fn new(streams: u16) -> Arc<Self> {
        Arc::new(Self((0..streams).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Adds bytes to a stream's count; `false` if the stream does not exist.
    pub(super) fn add(&self, stream: u64, bytes: usize) -> bool {
        let found = usize::try_from(stream).ok().and_then(|index| self.0.get(index));
        found.inspect(|count| _ = count.fetch_add(bytes as u64, Ordering::Relaxed)).is_some()
    }

    pub(super) fn all(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// One endpoint's counts of a test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    /// Duration in seconds.
    pub seconds: f64,
    /// Payload bytes of each stream.
    pub streams: Vec<u64>,
    /// Number of packets declared lost; `None` at a receiver.
    pub lost: Option<u64>,
}

impl Tally {
    /// Payload of all streams, in bytes.
    pub fn bytes(&self) -> u64 {
        self.streams.iter().sum()
    }

    /// Encodes a sender's result.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 8 * self.streams.len());
        bytes.extend(micros(self.seconds).to_be_bytes());
        bytes.extend(self.lost.unwrap_or(0).to_be_bytes());
        bytes.extend(self.streams.iter().flat_map(|count| count.to_be_bytes()));
        bytes
    }

    /// Reads a sender's result; `received` has the bytes read from each stream.
    ///
    /// # Errors
    /// The outer error if the stream ends early; the inner error if the result is impossible.
    pub(super) async fn read(
        receive: &mut RecvStream,
        received: &[u64],
        longest: Duration,
    ) -> Result<Result<Self, String>, ReadExactError> {
        let mut bytes = vec![0; 16 + 8 * received.len()];
        receive.read_exact(&mut bytes).await?;
        let mut numbers = bytes.chunks_exact(8).map(number);
        let mut next = || numbers.next().unwrap_or(0);
        let (seconds, lost) = (next() as f64 / 1e6, next());
        let tally = Self { seconds, lost: Some(lost), streams: numbers.collect() };
        Ok(tally.check(received, longest).map(|()| tally))
    }

    /// Checks that the sender's counts are possible: the confirmed bytes have arrived, and the time is possible
    /// for a test.
    fn check(&self, received: &[u64], longest: Duration) -> Result<(), String> {
        for (index, (sent, received)) in self.streams.iter().zip(received).enumerate() {
            if sent > received {
                return Err(format!(
                    "the sender says that {sent} bytes of stream {index} have arrived; these are {received}"
                ));
            }
        }
        check_time(self.seconds, longest)?;
        if self.seconds == 0.0 && self.bytes() > 0 {
            return Err(format!("the sender says that {} bytes took no time", self.bytes()));
        }
        let (lost, most) = (self.lost.unwrap_or(0), (self.seconds * PACKETS_PER_S) as u64);
        if lost > most {
            return Err(format!(
                "the sender says that {lost} packets were lost in {} s; accepted: {most} at most",
                self.seconds
            ));
        }
        Ok(())
    }
}

/// Checks that a test can take as long as the peer reports.
fn check_time(seconds: f64, longest: Duration) -> Result<(), String> {
    let most = longest.as_secs_f64();
    if seconds > most {
        return Err(format!("the other end says that the test took {seconds} s; accepted: {most} s at most"));
    }
    Ok(())
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

/// Writes the reports of a receiver. While the peer accepts no data, the unsent report delays the next report,
/// so the buffer does not grow.
pub(super) struct Reports {
    send: SendStream,
    reported: Vec<u64>,
    unsent: Vec<u8>,
}

impl Reports {
    pub(super) fn new(send: SendStream, streams: u16) -> Self {
        Self { send, reported: vec![0; streams.into()], unsent: Vec::new() }
    }

    fn queue(&mut self, counts: &Counts, seconds: f64) {
        let now = counts.all();
        let changed: Vec<_> =
            (0_u16..).zip(now.iter().zip(&self.reported)).filter(|(_, (now, then))| now != then).collect();
        self.unsent.extend(micros(seconds).to_be_bytes());
        self.unsent.extend((changed.len() as u16).to_be_bytes());
        for (index, (count, _)) in changed {
            self.unsent.extend(index.to_be_bytes());
            self.unsent.extend(count.to_be_bytes());
        }
        self.reported = now;
    }

    /// Writes a report of the changed counts, as far as the peer accepts data.
    pub(super) async fn write(&mut self, counts: &Counts, seconds: f64) -> Result<(), WriteError> {
        if self.unsent.is_empty() {
            if self.reported.iter().sum::<u64>() == counts.sum() {
                return Ok(());
            }
            self.queue(counts, seconds);
        }
        if let Ok(written) = tokio::time::timeout(Duration::ZERO, self.send.write(&self.unsent)).await {
            self.unsent.drain(..written?);
        }
        Ok(())
    }

    /// Writes the last report.
    pub(super) async fn finish(&mut self, counts: &Counts, seconds: f64) -> Result<(), WriteError> {
        self.queue(counts, seconds);
        self.send.write_all(&self.unsent).await?;
        Ok(self.send.finish()?)
    }

    /// Waits until the peer has received the last report.
    pub(super) async fn taken(&self) -> Result<(), StoppedError> {
        self.send.stopped().await.map(|_| ())
    }
}

/// Delivered data according to the receiver's reports.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) counts: Arc<Counts>,
    micros: AtomicU64,
}

impl Delivered {
    pub(super) fn new(streams: u16) -> Arc<Self> {
        Arc::new(Self { counts: Counts::new(streams), micros: AtomicU64::new(0) })
    }

    /// The receiver's tally according to its last report.
    pub(super) fn tally(&self) -> Tally {
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        Tally { seconds, streams: self.counts.all(), lost: None }
    }

    /// Reads reports to their end.
    ///
    /// # Errors
    /// If the connection ends early, or a report has an impossible count or time.
    pub(super) async fn follow(
        &self,
        mut receive: RecvStream,
        written: &Counts,
        longest: Duration,
    ) -> Result<(), String> {
        let (mut head, mut body) = ([0; HEAD], Vec::new());
        loop {
            match receive.read_exact(&mut head).await {
                Ok(()) => {}
                Err(ReadExactError::FinishedEarly(0)) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
            let entries = usize::from(u16::from_be_bytes([head[8], head[9]]));
            if entries > self.counts.0.len() {
                return Err("a report names more streams than there are".to_owned());
            }
            body.resize(entries * ENTRY, 0);
            receive.read_exact(&mut body).await.map_err(|error| error.to_string())?;
            for entry in body.chunks_exact(ENTRY) {
                let index = usize::from(u16::from_be_bytes([entry[0], entry[1]]));
                self.take(index, number(&entry[2..]), written)?;
            }
            let time = number(&head[..8]);
            check_time(time as f64 / 1e6, longest)?;
            self.micros.store(time, Ordering::Relaxed);
        }
    }

    fn take(&self, stream: usize, bytes: u64, written: &Counts) -> Result<(), String> {
        let (Some(count), Some(most)) = (self.counts.0.get(stream), written.0.get(stream)) else {
            return Err(format!("a report names stream {stream}, which does not exist"));
        };
        if bytes < count.load(Ordering::Relaxed) || bytes > most.load(Ordering::Relaxed) {
            return Err("a report takes back bytes, or has more than were sent".to_owned());
        }
        count.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = MAX_DURATION;

    /// Decoding an encoded request returns the same request; malformed and excessive requests are refused with
    /// the accepted values.
    #[test]
    fn requests_are_checked() {
        let asked = Asked { reverse: true, streams: 4, duration: Duration::from_secs(10), named: true };
        for asked in [asked, Asked { named: false, ..asked }] {
            assert_eq!(Asked::decode(&asked.encode(), DAY), Ok(asked));
        }
        for (greedy, accepted) in [
            (Asked { streams: MAX_STREAMS + 1, ..asked }, "accepted: 1 to 128"),
            (Asked { streams: 0, ..asked }, "accepted: 1 to 128"),
            (Asked { duration: DAY * 2, ..asked }, "5 s at most"),
            (Asked { duration: Duration::from_millis(5001), ..asked }, "5 s at most"),
            (Asked { duration: Duration::ZERO, ..asked }, "accepted: above 0"),
        ] {
            let refused = Asked::decode(&greedy.encode(), Duration::from_secs(5)).expect_err("too much");
            assert!(refused.contains(accepted), "{refused}");
        }
        assert!(Asked::decode(&[0xff; REQUEST], DAY).is_err());
        assert!(Asked::decode(&Asked { duration: DAY * 2, ..asked }.encode(), DAY * 9).is_err());
    }

    /// A result is refused if its bytes exceed the arrived bytes, or if its time or loss count is impossible.
    #[test]
    fn false_results_are_refused() {
        let longest = Duration::from_secs(20);
        let check = |seconds, lost, streams: [u64; 2]| {
            Tally { seconds, lost: Some(lost), streams: streams.to_vec() }.check(&[100, 50], longest)
        };
        for good in [(10.0, 3, [100, 50]), (20.0, 0, [0, 0]), (0.0, 0, [0, 0])] {
            assert_eq!(check(good.0, good.1, good.2), Ok(()));
        }
        for (seconds, lost, streams, reason) in [
            (10.0, 0, [101, 50], "101 bytes of stream 0 have arrived; these are 100"),
            (10.0, 0, [0, u64::MAX], "of stream 1"),
            (20.1, 0, [100, 50], "accepted: 20 s at most"),
            (u64::MAX as f64 / 1e6, 0, [100, 50], "accepted: 20 s at most"),
            (0.0, 0, [100, 50], "150 bytes took no time"),
            (1.0, u64::MAX, [100, 50], "accepted: 100000000 at most"),
        ] {
            let refused = check(seconds, lost, streams).expect_err("false");
            assert!(refused.contains(reason), "{refused}");
        }
    }

    /// A report is refused if a count shrinks or exceeds the bytes written, or if it names a stream that does
    /// not exist.
    #[test]
    fn false_reports_are_refused() {
        let (delivered, written) = (Delivered::new(2), Counts::new(2));
        assert!(written.add(1, 100) && !written.add(2, 1));
        assert_eq!(delivered.take(1, 60, &written), Ok(()));
        for (stream, bytes) in [(1, 59), (1, 101), (0, 1), (2, 0)] {
            assert!(delivered.take(stream, bytes, &written).is_err(), "{stream} {bytes}");
        }
        assert_eq!(delivered.take(1, 100, &written), Ok(()));
        assert_eq!(delivered.tally().streams, [0, 100]);
    }
}
