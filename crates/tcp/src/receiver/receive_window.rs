//! The window that a receiver offers: fixed, or tuned as in Linux.
//!
//! There are two rules in Linux 6.18. An arriving packet opens the window by two segments, up to the limit of the
//! buffer (`tcp_grow_window`). The buffer follows the amount that the application reads within a round trip
//! (`tcp_rcv_space_adjust`, dynamic right-sizing). Here, the size of a buffer is the payload that fits into it.

use narrows_cc::Nanos;
use narrows_packet::{Packet, timestamp};

use crate::TcpConfig;

/// Payload that fits into the first buffer: 5/8 of 131 072 bytes (`tcp_rmem`), because a packet with 1448 bytes of
/// payload takes 2304 bytes of memory (`scaling_ratio`).
const FIRST_BUFFER: u64 = 81_920;
/// The first window is half of the 131 072 bytes, in whole segments (`tcp_select_initial_window`).
const FIRST_WINDOW: u64 = 65_536;
/// Segments that count as read in the first round trip (`TCP_INIT_CWND`).
const FIRST_READ: u64 = 10;
/// Segments by which an arriving packet opens the window.
const OPENING: u64 = 2;
/// Minimum payload of a packet that opens the window.
const LEAST_PAYLOAD: u64 = 128;
/// A quarter of a fixed buffer becomes usable with the first packets: Linux assumes that half of the memory is usable
/// for payload until packets show that 5/8 are.
const FIXED_OPENING_DIVISOR: u64 = 4;
/// RTT below which the growth of the buffer is proportional to the RTT (`tcp_rcvbuf_low_rtt`).
const LOW_RTT_US: u64 = 1_000;

/// Window of a receiver whose application reads data immediately.
// Every packet accesses all fields, so they fit in one cache line: times are in µs and numbers modulo 2³², as in Linux.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    /// Start time of the measurement of the application's reads; `from` is the sequence number at that time.
    since: u32,
    from: u32,
    /// Eight times the smoothed round-trip time; zero before the first sample.
    rtt8: u32,
    /// Timestamp echo of the last RTT sample; without timestamps, start time of the current sample.
    sampled: u32,
    /// Without timestamps: the sequence number whose arrival ends a sample.
    until: u32,
    /// Current upper limit of the window (`rcv_ssthresh`).
    open: u32,
    /// Payload that fits into the buffer (`window_clamp`).
    buffer: u32,
    largest: u32,
    /// Largest number of bytes read in a round trip.
    read: u32,
    segment: u16,
    timestamps: bool,
    /// Whether the buffer follows the application.
    tuned: bool,
    /// Whether `open` limits the advertised window.
    limits: bool,
    /// Whether data has arrived.
    started: bool,
}

impl Window {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let segment = u64::from(config.segment.max(1));
        let largest = config.receive_window.as_u64().min(u64::from(u32::MAX));
        let tuned = config.receive_autotuning;
        let buffer = if tuned { largest.min(FIRST_BUFFER) } else { largest };
        let open = if tuned {
            buffer.min((FIRST_WINDOW - FIRST_WINDOW % segment).max(segment))
        } else {
            buffer - buffer / FIXED_OPENING_DIVISOR
        };
        Self {
            from: 1,
            open: open as u32,
            buffer: buffer as u32,
            largest: largest as u32,
            read: open.min(FIRST_READ * segment) as u32,
            segment: config.segment,
            timestamps: config.timestamps,
            tuned,
            limits: tuned,
            ..Self::default()
        }
    }

    /// The window of a subflow, which the multipath connection limits.
    pub(super) fn without_limit(self) -> Self {
        Self { limits: false, ..self }
    }

    /// The window to offer while `stored` bytes of out-of-order data are in the buffer.
    #[inline]
    pub(super) fn offer(&self, stored: u64) -> u64 {
        let room = u64::from(self.buffer).saturating_sub(stored);
        if self.limits { room.min(u64::from(self.open)) } else { room }
    }

    /// Handles `bytes` of new data while `stored` bytes of out-of-order data are in the buffer. Returns whether the
    /// window opened.
    #[inline]
    pub(super) fn on_data(&mut self, bytes: u64, stored: u64) -> bool {
        let room = u64::from(self.buffer).saturating_sub(stored).saturating_sub(u64::from(self.open));
        if room == 0 || bytes < LEAST_PAYLOAD {
            return false;
        }
        let opening = OPENING * u64::from(self.segment).max(bytes);
        self.open += room.min(opening) as u32;
        true
    }

    /// Samples the round-trip time from `packet`, which carries data; `next` is the next expected sequence number
    /// (`tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_measure`).
    #[inline]
    pub(super) fn sample(&mut self, now: Nanos, packet: &Packet, next: u64) {
        if !self.tuned {
            return;
        }
        let (now, next) = (timestamp(now), next as u32);
        if !self.started {
            (self.started, self.since) = (true, now);
            (self.sampled, self.until) = (if self.timestamps { 0 } else { now }, next.wrapping_add(self.open));
        }
        if self.timestamps {
            let echo = packet.tcp().ts_ecr;
            if echo != self.sampled && packet.payload >= self.segment {
                let sample = now.wrapping_sub(echo);
                let smoothed = u64::from(self.rtt8 - (self.rtt8 >> 3)) + u64::from(sample);
                self.take(sample, smoothed);
            }
            self.sampled = echo;
        } else if next.wrapping_sub(self.until) as i32 >= 0 {
            self.take(now.wrapping_sub(self.sampled).max(1), u64::from(self.rtt8));
            (self.sampled, self.until) = (now, next.wrapping_add(self.open));
        }
    }

    /// Sets the RTT to `sample` if it is the first or the lowest so far, otherwise to `other` (in eighths).
    fn take(&mut self, sample: u32, other: u64) {
        let eightfold = u64::from(sample) << 3;
        let first_or_least = self.rtt8 == 0 || eightfold < u64::from(self.rtt8);
        self.rtt8 = if first_or_least { eightfold } else { other }.min(u64::from(u32::MAX)) as u32;
    }

    /// Handles the application's read up to `next`; out-of-order data ends at `end`.
    #[inline]
    pub(super) fn on_read(&mut self, now: Nanos, next: u64, end: Option<u64>) {
        let (now, rtt) = (timestamp(now), self.rtt8 >> 3);
        if !self.tuned || self.rtt8 == 0 || now.wrapping_sub(self.since) < rtt {
            return;
        }
        let read = (next as u32).wrapping_sub(self.from);
        if read > self.read {
            self.resize(read, u64::from(rtt), end.map_or(0, |end| end - next));
        }
        (self.from, self.since) = (next as u32, now);
    }

    /// Grows the buffer for `read` bytes per round trip (`tcp_rcvbuf_grow`).
    fn resize(&mut self, read: u32, rtt_us: u64, waiting: u64) {
        let before = u64::from(self.read).max(1);
        self.read = read;
        // A measurement is a round trip old, so the window covers the data of two round trips. The measured growth
        // enlarges the window further, because the rate doubles in the meantime if the sender is in slow start.
        let window = 2 * u64::from(read);
        let growth = if rtt_us < LOW_RTT_US {
            window * rtt_us / LOW_RTT_US
        } else {
            (2 * window).saturating_mul(u64::from(read) - before) / before
        };
        let wanted = window.saturating_add(growth).saturating_add(waiting).min(u64::from(self.largest));
        self.buffer = self.buffer.max(wanted as u32);
    }
}

#[cfg(test)]
mod tests {
    use narrows_cc::Bytes;

    use super::*;

    const MS: Nanos = Nanos::from_millis(1);
    const SEGMENT: u64 = 1448;

    fn full() -> Packet {
        let mut packet = Packet::new(0);
        packet.payload = SEGMENT as u16;
        packet
    }

    fn tuned(largest: u64) -> Window {
        Window::new(&TcpConfig { receive_window: Bytes::new(largest), ..TcpConfig::default() })
    }

    /// Feeds `segments` segments at `now`, all with the echo of a timestamp from `rtt` earlier; returns how many of
    /// them opened the window.
    fn feed(window: &mut Window, now: Nanos, rtt: Nanos, next: &mut u64, segments: u64) -> u64 {
        let mut packet = full();
        *packet.tcp_mut().ts_ecr = timestamp(now - rtt);
        let mut opened = 0;
        for _ in 0..segments {
            window.sample(now, &packet, *next);
            *next += SEGMENT;
            opened += u64::from(window.on_data(SEGMENT, 0));
            window.on_read(now, *next, None);
        }
        opened
    }

    /// Linux's window in a SYN-ACK to a peer with timestamps is 65 160 bytes; the window reaches 81 920 bytes after six
    /// packets.
    #[test]
    fn first_window_is_linux_s() {
        let mut window = tuned(64 << 20);
        assert_eq!(window.offer(0), 65_160);
        let mut next = 1;
        assert_eq!(feed(&mut window, MS * 40, MS * 40, &mut next, 10), 6);
        assert_eq!(window.offer(0), FIRST_BUFFER);
    }

    /// The buffer does not grow at a rate of ten segments per round trip.
    #[test]
    fn slow_flows_keep_the_first_buffer() {
        let (mut window, mut next) = (tuned(64 << 20), 1);
        for round in 1..100 {
            feed(&mut window, MS * 40 * round, MS * 40, &mut next, 10);
        }
        assert_eq!(window.offer(0), FIRST_BUFFER);
    }

    /// In slow start the offered window stays larger than the sender's doubling window. At a steady rate it stays at
    /// least twice the amount read per round trip, and packets no longer open it.
    #[test]
    fn buffer_stays_ahead_of_slow_start() {
        let (mut window, mut next) = (tuned(64 << 20), 1);
        let mut segments = 10;
        for round in 1..10 {
            assert!(window.offer(0) >= segments * SEGMENT, "round {round}");
            feed(&mut window, MS * 40 * round, MS * 40, &mut next, segments);
            segments *= 2;
        }
        let last = segments / 2;
        for round in 10..20 {
            feed(&mut window, MS * 40 * round, MS * 40, &mut next, last);
        }
        assert!(window.offer(0) >= 2 * last * SEGMENT, "{}", window.offer(0));
        assert_eq!(feed(&mut window, MS * 800, MS * 40, &mut next, last), 0);
    }

    /// By Linux's rule, if twice as much is read as before, the buffer becomes 6 times the amount read at an RTT of 40
    /// ms, and 2.5 times at 0.5 ms.
    #[test]
    fn buffer_follows_tcp_rcvbuf_grow() {
        for (rtt, factor) in [(MS * 40, 6.0), (MS / 2, 2.5)] {
            let mut window = tuned(64 << 20);
            window.resize(100 * SEGMENT as u32, 40_000, 0);
            let before = u64::from(window.buffer);
            window.resize(200 * SEGMENT as u32, rtt.as_nanos() / 1_000, 0);
            let expected = (factor * (200 * SEGMENT) as f64) as u64;
            assert_eq!(u64::from(window.buffer), expected.max(before), "{rtt:?}");
        }
        let mut window = tuned(1 << 20);
        window.resize(1000 * SEGMENT as u32, 40_000, 0);
        assert_eq!(window.buffer, 1 << 20, "the largest buffer");
    }

    /// A lower sample replaces the round-trip time; a higher sample enters a moving average with weight 1/8. There is
    /// one sample per echo.
    #[test]
    fn rtt_is_smoothed_upwards() {
        let (mut window, mut next) = (tuned(64 << 20), 1);
        feed(&mut window, MS * 100, MS * 40, &mut next, 3);
        assert_eq!(window.rtt8, 8 * 40_000);
        feed(&mut window, MS * 200, MS * 80, &mut next, 3);
        assert_eq!(window.rtt8, 8 * 45_000);
        feed(&mut window, MS * 300, MS * 20, &mut next, 3);
        assert_eq!(window.rtt8, 8 * 20_000);
    }

    /// Without timestamps the RTT is the time that a whole window takes to arrive.
    #[test]
    fn rtt_without_timestamps_is_that_of_a_window() {
        let mut window = Window::new(&TcpConfig { timestamps: false, ..TcpConfig::default() });
        let packet = full();
        window.sample(MS * 10, &packet, 1);
        window.sample(MS * 40, &packet, 65_160);
        assert_eq!(window.rtt8, 0);
        window.sample(MS * 50, &packet, 1 + 65_160);
        assert_eq!(window.rtt8, 8 * 40_000);
    }

    /// A fixed buffer is offered completely from the start, less stored out-of-order data. In the last quarter of the
    /// buffer, packets count as opening the window.
    #[test]
    fn fixed_buffers_are_offered_whole() {
        let config = TcpConfig {
            receive_autotuning: false,
            receive_window: Bytes::new(4 * OPENING * SEGMENT * 10),
            ..TcpConfig::default()
        };
        let mut window = Window::new(&config);
        let whole = config.receive_window.as_u64();
        assert_eq!((window.offer(0), window.offer(1000)), (whole, whole - 1000));
        let mut next = 1;
        assert_eq!(feed(&mut window, MS * 40, MS * 40, &mut next, 30), 10);
        assert_eq!(window.offer(0), whole);
    }
}
