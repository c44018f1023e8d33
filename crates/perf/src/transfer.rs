//! Data transfer of a test: the sender and the receiver of its streams.
//!
//! Both endpoints count the bytes that the receiver has read. The sender learns this count from reports on the
//! control stream ([`super::control`]); it does not count buffered or lost data. At the end of the test's
//! duration, the sender resets its streams, so that no queue has to drain, and the receiver's last report
//! states the bytes that arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use noq::{Connection, ConnectionError, ReadError, RecvStream, SendStream, WriteError};
use noq_proto::PathId;
use tokio::task::JoinSet;

use super::control::{Counts, Delivered, Reports, Tally};
use super::measure::{Reporter, Test};
use super::{Interval, PATIENCE, SEND_WINDOW, SILENCE, TICK, WINDOW, explained};

/// Bytes per write: to a single stream, and to each of several streams, which the sender fills in turn.
const CHUNK: usize = 256 << 10;
const TURN: usize = 16 << 10;
static ZEROS: [u8; CHUNK] = [0; CHUNK];
/// Chunks per read from a stream.
const CHUNKS: usize = 32;
/// Error codes of stream resets: the duration is over, or the sender was stopped.
const OVER: u32 = 0;
const STOPPED: u32 = 1;
/// Longest wait for the last messages of a stopped test.
const BRIEF: Duration = Duration::from_secs(1);

/// Failure reported by an endpoint whose peer stopped the test while its caller did not.
const INTERRUPTED: &str = "the other end stopped the test";

/// Whether the peer has closed the connection without an error.
fn finished(connection: &Connection) -> bool {
    matches!(connection.close_reason(), Some(ConnectionError::ApplicationClosed(close)) if close.error_code == 0_u32.into())
}

/// The data that a test transferred.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) total: Interval,
    pub(super) sent: Option<Tally>,
    pub(super) received: Option<Tally>,
    /// Whether the test ended as requested.
    pub(super) complete: bool,
    /// The reason why the test failed.
    pub(super) failure: Option<String>,
}

/// Transfers the data of a test; `send` and `receive` are the control stream.
pub(super) async fn run(test: &Test<'_>, send: SendStream, receive: RecvStream) -> Moved {
    if test.sends { sender(test, send, receive).await } else { receiver(test, send, receive).await }
}

/// The time of a test's last progress; a test without progress for [`SILENCE`] ends.
struct Watch {
    bytes: u64,
    at: Instant,
}

impl Watch {
    fn new(now: Instant) -> Self {
        Self { bytes: 0, at: now }
    }

    fn stalled(&mut self, now: Instant, bytes: u64) -> Option<String> {
        if bytes != self.bytes {
            *self = Self { bytes, at: now };
        }
        (now - self.at > SILENCE).then(|| format!("no data has arrived for {} s", SILENCE.as_secs()))
    }
}

/// Shared state of a sender's tasks.
#[derive(Debug, Default)]
struct Shared {
    /// Whether the sender writes no more data.
    over: AtomicBool,
    /// Whether the receiver has stopped the streams.
    stopped: AtomicBool,
    followed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn fail(&self, reason: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_set(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }
}

async fn sender(test: &Test<'_>, mut control: SendStream, reports: RecvStream) -> Moved {
    let streams = test.asked.streams;
    let (written, delivered) = (Counts::new(streams), Delivered::new(streams));
    let shared = Arc::new(Shared::default());
    let mut reporter = Reporter::new(test, Arc::clone(&delivered.counts));
    let begun = Instant::now();
    let end = begun + test.asked.duration;
    // Dropping the set aborts the tasks.
    let mut tasks = JoinSet::new();
    let (connection, counts, flags) = (test.connection.clone(), Arc::clone(&written), Arc::clone(&shared));
    tasks.spawn(async move {
        match write(&connection, streams, &counts, &flags.over, end).await {
            Ok(()) => {}
            Err(WriteError::Stopped(_)) => flags.stopped.store(true, Ordering::Relaxed),
            Err(error) => flags.fail(explained(&connection, &error)),
        }
    });
    let (connection, heard, flags) = (test.connection.clone(), Arc::clone(&delivered), Arc::clone(&shared));
    let longest = test.longest();
    tasks.spawn(async move {
        match heard.follow(reports, &written, longest).await {
            Err(reason) if !finished(&connection) => flags.fail(explained(&connection, &reason)),
            _ => flags.followed.store(true, Ordering::Relaxed),
        }
    });
    let (mut watch, mut interrupted) = (Watch::new(begun), false);
    let ended = loop {
        let left = end.saturating_duration_since(Instant::now());
        tokio::time::sleep(left.min(TICK)).await;
        let now = Instant::now();
        if now >= end {
            break true;
        }
        reporter.look(now - begun);
        let stalled = || watch.stalled(now, delivered.counts.sum());
        if let Some(reason) = reporter.unanswered(now - begun, SILENCE).or_else(stalled) {
            shared.fail(reason);
        }
        interrupted = Shared::is_set(&shared.stopped) || Shared::is_set(&shared.followed);
        if interrupted || test.caller.stop() || shared.failure().is_some() {
            break false;
        }
    };
    shared.over.store(true, Ordering::Relaxed);
    let total = reporter.finish(begun.elapsed());
    let sent = Tally { seconds: total.end_s, streams: total.streams.clone(), lost: Some(total.lost) };
    let patience = if ended { PATIENCE } else { BRIEF };
    let last = async {
        let _ = control.set_priority(1);
        if control.write_all(&sent.encode()).await.is_ok() {
            let _ = control.finish();
        }
        while !Shared::is_set(&shared.followed) && shared.failure().is_none() {
            tokio::time::sleep(TICK / 4).await;
            if let Some(reason) = reporter.unanswered(begun.elapsed(), PATIENCE) {
                shared.fail(reason);
            }
        }
        // After this message a client closes the connection, so wait until the server has received the result.
        let _ = control.stopped().await;
    };
    if tokio::time::timeout(patience, last).await.is_err() && ended {
        shared.fail("the receiver did not say what arrived".to_owned());
    }
    if interrupted && !test.caller.stop() {
        shared.fail(INTERRUPTED.to_owned());
    }
    let failure = shared.failure();
    Moved { total, sent: Some(sent), received: Some(delivered.tally()), complete: ended && failure.is_none(), failure }
}

/// Fills the streams in turn until the end of the test, then resets them.
async fn write(
    connection: &Connection,
    streams: u16,
    written: &Counts,
    over: &AtomicBool,
    end: Instant,
) -> Result<(), WriteError> {
    let mut open = Vec::with_capacity(streams.into());
    for _ in 0..streams {
        open.push(connection.open_uni().await?);
    }
    let chunk = Bytes::from_static(if streams == 1 { &ZEROS } else { &ZEROS[..TURN] });
    let mut window = SEND_WINDOW;
    let left = || end.saturating_duration_since(Instant::now());
    let mut turn = 0;
    let done = loop {
        if Shared::is_set(over) || left().is_zero() {
            break Ok(());
        }
        let Some(stream) = open.get_mut(turn) else { break Ok(()) };
        let mut whole = [chunk.clone()];
        match tokio::time::timeout(left().min(TICK), stream.write_many_chunks(&mut &mut whole[..])).await {
            Ok(Ok(bytes)) => {
                written.add(turn as u64, bytes);
                if bytes < chunk.len() {
                    widen(connection, &mut window);
                }
                turn = (turn + 1) % open.len();
            }
            Ok(Err(error)) => break Err(error),
            Err(_) => widen(connection, &mut window),
        }
    };
    let code = if left().is_zero() { OVER } else { STOPPED };
    for stream in &mut open {
        let _ = stream.reset(code.into());
    }
    done
}

/// Allows noq to buffer two congestion windows of data: enough to keep the sender busy, with little waiting data.
fn widen(connection: &Connection, window: &mut u64) {
    let Some(path) = connection.path_stats(PathId::ZERO) else { return };
    let wanted = path.cwnd.saturating_mul(2).clamp(SEND_WINDOW, WINDOW);
    if wanted > *window + *window / 8 || wanted < *window / 2 {
        *window = wanted;
        connection.set_send_window(wanted);
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Over,
    Stopped,
}

async fn receiver(test: &Test<'_>, control: SendStream, mut result: RecvStream) -> Moved {
    let connection = test.connection;
    let count = Counts::new(test.asked.streams);
    let mut reporter = Reporter::new(test, Arc::clone(&count));
    let mut reports = Reports::new(control, test.asked.streams);
    let mut failure = None;
    let mut tasks = JoinSet::new();
    match begin(test).await {
        Ok(Some(first)) => {
            tasks.spawn(read(first, Arc::clone(&count)));
        }
        Ok(None) => {}
        Err(reason) => failure = Some(reason),
    }
    // The time excludes the handshake, as the sender's time does.
    let begun = Instant::now();
    let mut awaited = if tasks.is_empty() { 0 } else { usize::from(test.asked.streams) };
    for _ in 1..awaited {
        let (connection, count) = (connection.clone(), Arc::clone(&count));
        tasks.spawn(async move { read(connection.accept_uni().await?, count).await });
    }
    let (mut watch, mut looked) = (Watch::new(begun), begun);
    let (mut stopped, mut interrupted) = (awaited == 0, false);
    while awaited > 0 && !stopped && failure.is_none() {
        match tokio::time::timeout(TICK, tasks.join_next()).await {
            Ok(Some(Ok(Ok(end)))) => {
                awaited -= 1;
                interrupted |= end == End::Stopped;
                stopped |= interrupted;
            }
            Ok(Some(Ok(Err(error)))) => failure = Some(explained(connection, &error)),
            Ok(Some(Err(error))) => failure = Some(error.to_string()),
            Ok(None) | Err(_) => {}
        }
        if looked.elapsed() < TICK {
            continue;
        }
        looked = Instant::now();
        let over = begun.elapsed() > test.asked.duration;
        let limit = if over { PATIENCE } else { SILENCE };
        failure = failure.or_else(|| reporter.unanswered(begun.elapsed(), limit));
        failure = failure.or_else(|| watch.stalled(looked, count.sum()));
        if begun.elapsed() > test.asked.duration + PATIENCE {
            failure.get_or_insert("the sender goes on after the end of the test".to_owned());
        }
        stopped |= test.caller.stop();
        reporter.look(begun.elapsed());
        if let Err(error) = reports.write(&count, begun.elapsed().as_secs_f64()).await {
            failure.get_or_insert(explained(connection, &error));
        }
    }
    let ended = awaited == 0 && !stopped && failure.is_none();
    // A reset that arrives late, because its first copy was lost, does not extend the test; late data does.
    let time = begun.elapsed();
    let last = (watch.bytes == count.sum()).then(|| watch.at.saturating_duration_since(begun));
    let time = if ended { time.min(last.unwrap_or(time).max(test.asked.duration)) } else { time };
    tasks.abort_all();
    let total = reporter.finish(time);
    let patience = if ended { PATIENCE } else { BRIEF };
    let (mut sent, mut false_result) = (None, None);
    let exchange = async {
        let told = reports.finish(&count, total.end_s).await;
        if let Ok(read) = Tally::read(&mut result, &total.streams, test.longest()).await {
            match read {
                Ok(tally) => sent = Some(tally),
                Err(reason) => false_result = Some(reason),
            }
        }
        // After this message a client closes the connection, so wait until the server has received the report.
        told.is_ok() && (reports.taken().await.is_ok() || finished(connection))
    };
    match tokio::time::timeout(patience, exchange).await {
        Ok(false) if ended => failure = Some(explained(connection, &"the sender has gone")),
        Err(_) if ended => failure = Some("the sender does not end the test".to_owned()),
        _ => {}
    }
    failure = failure.or(false_result);
    if interrupted && !test.caller.stop() {
        failure.get_or_insert(INTERRUPTED.to_owned());
    }
    let received = Tally { seconds: total.end_s, streams: total.streams.clone(), lost: None };
    let complete = ended && failure.is_none();
    Moved { total, sent, received: Some(received), complete, failure }
}

/// Waits for the first stream, with which a test begins; `None` if the caller requests the end first.
async fn begin(test: &Test<'_>) -> Result<Option<RecvStream>, String> {
    let waiting = Instant::now();
    while !test.caller.stop() {
        if let Ok(stream) = tokio::time::timeout(TICK, test.connection.accept_uni()).await {
            return stream.map(Some).map_err(|error| explained(test.connection, &error));
        }
        if waiting.elapsed() > PATIENCE {
            return Err(format!("the sender has sent nothing for {} s", PATIENCE.as_secs()));
        }
    }
    Ok(None)
}

async fn read(mut stream: RecvStream, count: Arc<Counts>) -> Result<End, ReadError> {
    let index = stream.id().index();
    let mut chunks: [Bytes; CHUNKS] = std::array::from_fn(|_| Bytes::new());
    loop {
        match stream.read_many_chunks(&mut chunks).await {
            Ok(Some(filled)) => {
                let bytes = chunks[..filled].iter().map(Bytes::len).sum();
                if !count.add(index, bytes) {
                    return Err(ReadError::ClosedStream);
                }
            }
            Ok(None) => return Ok(End::Over),
            Err(ReadError::Reset(code)) if code == OVER.into() => return Ok(End::Over),
            Err(ReadError::Reset(_)) => return Ok(End::Stopped),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that receives no byte for longer than [`SILENCE`] counts as stalled; any byte restarts the wait.
    #[test]
    fn transfer_without_progress_is_stalled() {
        let begun = Instant::now();
        let mut watch = Watch::new(begun);
        let after = |seconds: f64| begun + SILENCE.mul_f64(seconds);
        assert_eq!(watch.stalled(after(0.9), 0), None);
        assert_eq!(watch.stalled(after(0.95), 1), None);
        assert_eq!(watch.stalled(after(1.9), 1), None);
        let reason = watch.stalled(after(2.0), 1).expect("nothing has come since");
        assert!(reason.contains("no data has arrived for"), "{reason}");
        assert_eq!(watch.stalled(after(2.1), 2), None);
    }
}
