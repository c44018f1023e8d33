//! The send buffer of a socket with `SO_SNDBUF`, accounted as in Linux (`sk_wmem_queued`, `tcp_sendmsg_locked`).
//!
//! Linux stores written data in pieces (`sk_buff`). A write first fills the last unsent piece up to the size goal, even
//! if the buffer is full, and begins another piece only while the buffer is not full. A buffer may therefore exceed its
//! size by one piece.

use std::collections::VecDeque;

/// Memory of a piece besides its data: `struct sk_buff` and a head of 704 bytes, as 64-bit kernels usually have it.
const OVERHEAD: u64 = 960;
/// Minimum size of a buffer (`SOCK_MIN_SNDBUF`).
const LEAST: u64 = 4608;
/// Minimum size of a receive buffer (`SOCK_MIN_RCVBUF`).
const LEAST_RECEIVE: u64 = 2304;
/// Maximum value of either option (`net.core.wmem_max`, `net.core.rmem_max`).
const LARGEST_OPTION: u64 = 212_992;
/// Maximum size of a piece (`sk_gso_max_size`).
const LARGEST_PIECE: u64 = 65_215;
/// Larger windows limit pieces to half of the window; smaller windows limit pieces to the whole window
/// (`TCP_MSS_DEFAULT`).
const TINY_WINDOW: u64 = 536;

/// Progress of the sent data stream, in sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) una: u64,
    /// Lowest sequence number that was never sent.
    pub(super) next: u64,
    /// End of the data in the buffer.
    pub(super) end: u64,
}

/// A send buffer.
#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    limit: u64,
    /// Start of the first piece; `ends` holds the end of each piece.
    begin: u64,
    ends: VecDeque<u64>,
    /// A write found the buffer full, and too little was freed since (`SOCK_NOSPACE`).
    full: bool,
}

/// Size of a buffer if the option `SO_SNDBUF` is set to `value` (`sk_setsockopt`).
pub(crate) fn size_of_option(value: u64) -> u64 {
    (value.min(LARGEST_OPTION) * 2).max(LEAST)
}

/// Window of a receive buffer whose option is set to `value`: half of its memory (`TCP_DEFAULT_SCALING_RATIO`).
pub(crate) fn receive_space(value: u64) -> u64 {
    (value.min(LARGEST_OPTION) * 2).max(LEAST_RECEIVE) / 2
}

/// Bytes of data in a full piece, given the largest `window` that the peer has offered (`tcp_xmit_size_goal`).
pub(super) fn size_goal(window: u64, segment: u64) -> u64 {
    let bound = if window > TINY_WINDOW { window / 2 } else { window };
    (LARGEST_PIECE.min(bound) / segment * segment).max(segment)
}

impl SendBuffer {
    /// A buffer of `limit` bytes; data written earlier forms one piece.
    pub(super) fn new(limit: u64, stream: Stream) -> Self {
        let ends = (stream.end > stream.una).then_some(stream.end).into_iter().collect();
        Self { limit, begin: stream.una, ends, full: false }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    fn used(&self, stream: Stream) -> u64 {
        stream.end.saturating_sub(stream.una) + OVERHEAD * self.ends.len() as u64
    }

    /// Updates the pieces after progress of the stream: removes acknowledged pieces and splits a partly sent piece.
    pub(super) fn follow(&mut self, stream: Stream) {
        while self.ends.front().is_some_and(|&end| end <= stream.una) {
            self.begin = self.ends.pop_front().unwrap_or(self.begin);
        }
        self.begin = self.begin.max(stream.una);
        let at = self.ends.partition_point(|&end| end < stream.next);
        if self.ends.get(at).is_some_and(|&end| end > stream.next) && stream.next > self.begin {
            self.ends.insert(at, stream.next);
        }
        // `sk_stream_is_writeable`: the buffer is writable if a third of it is free.
        let used = self.used(stream);
        if self.full && used < self.limit && self.limit - used >= used / 2 {
            self.full = false;
        }
    }

    /// Adds data to one piece: returns how many bytes of `wanted` were added; zero if the buffer is full.
    pub(super) fn take(&mut self, stream: Stream, wanted: u64, goal: u64) -> u64 {
        if self.full {
            return 0;
        }
        let pieces = self.ends.len();
        let begin = if pieces > 1 { self.ends[pieces - 2] } else { self.begin };
        let last = self.ends.back().filter(|&&end| end > stream.next).map(|&end| end - begin);
        if let Some(len) = last.filter(|&len| len < goal) {
            let taken = wanted.min(goal - len);
            self.ends[pieces - 1] += taken;
            return taken;
        }
        if self.used(stream) >= self.limit {
            self.full = true;
            return 0;
        }
        let taken = wanted.min(goal);
        if pieces == 0 {
            self.begin = stream.end;
        }
        self.ends.push_back(stream.end + taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux doubles the value of the option, within bounds.
    #[test]
    fn buffer_is_twice_its_option_within_bounds() {
        assert_eq!([1000, 10_000, 2_000_000].map(size_of_option), [4608, 20_000, 425_984]);
    }

    /// Pieces are whole segments: about 64 KiB, but at most half of the peer's window.
    #[test]
    fn buffer_pieces_are_whole_segments() {
        let goals = [(10_000, 5000), (2_560_000, 65_000), (500, 1000), (1500, 1000)];
        for (window, goal) in goals {
            assert_eq!(size_goal(window, 1000), goal, "{window}");
        }
    }

    /// Pieces are added until the buffer is full; then a third of it must be free before the next piece.
    #[test]
    fn buffer_takes_pieces_until_it_is_full() {
        let at = |una, next, end| Stream { una, next, end };
        let mut own = SendBuffer::new(20_000, at(1, 1, 1));
        let mut end = 1;
        for _ in 0..4 {
            // The buffer contains 0, 5960, 11920 and 17880 bytes before each of these pieces.
            let taken = own.take(at(1, 1, end), 100_000, 5000);
            assert_eq!(taken, 5000);
            end += taken;
        }
        assert_eq!((own.take(at(1, 1, end), 100_000, 5000), own.is_full()), (0, true));
        own.follow(at(5001, 10_001, end));
        // 15000 + 3 x 960 = 17880 bytes leave 2120.
        assert!(own.is_full());
        own.follow(at(10_001, 17_001, end));
        // 10000 + 3 x 960 = 12880 bytes leave 7120, more than half of the used bytes. The split piece grows up to the
        // goal.
        assert!(!own.is_full());
        assert_eq!(own.take(at(10_001, 17_001, end), 100_000, 5000), 2000);
        assert_eq!(own.take(at(10_001, 17_001, end + 2000), 100_000, 5000), 5000);
    }
}
