//! Loss intervals: their mean (RFC 5348 sections 5.4 and 5.5) and the option that carries them (RFC 4342 section 8.6).

use crate::wire::Opt;

/// Intervals that the mean looks at, the open one apart.
pub(super) const CLOSED: usize = 8;

/// Section 5.4's weights, newest first, in fifths: so a mean of whole intervals is exact.
const WEIGHTS: [f64; CLOSED] = [5.0, 5.0, 5.0, 5.0, 4.0, 3.0, 2.0, 1.0];

/// The least that history discounting leaves of a weight (section 5.5: THRESHOLD).
const LEAST_DISCOUNT: f64 = 0.25;

/// The most packets that an option may pass over: what waits for three later ones (RFC 4342 section 8.6.1).
pub const MAX_SKIP: u8 = 3;

/// Bytes of an interval on the wire.
const ENTRY: usize = 9;

/// The most that a length of 24 or 23 bits says.
const MAX_LENGTH: u64 = (1 << 24) - 1;
const MAX_LOSSY: u64 = (1 << 23) - 1;

/// A loss interval: a lossy part, from the first packet lost to the last one of the same event, and the packets after it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// Packets after the lossy part, of all types.
    pub lossless: u64,
    /// Packets in the lossy part; 0 before the first loss.
    pub lossy: u64,
    /// Data packets in both, lost ones included: the length that p is computed from.
    pub data: u64,
}

/// An interval that has ended, and what discounting has left of its weight.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Closed {
    pub(super) interval: Interval,
    pub(super) discount: f64,
}

/// The mean of closed intervals alone, DF_i applied (section 5.5: I_tot1/W_tot1); none without any.
fn mean_closed(closed: &[Closed]) -> Option<f64> {
    let weights =
        || closed.iter().zip(WEIGHTS).map(|(closed, w)| (closed.interval.data as f64, w * closed.discount));
    let total: f64 = weights().map(|(_, w)| w).sum();
    (total > 0.0).then(|| weights().map(|(length, w)| length * w).sum::<f64>() / total)
}

/// How much less than before the closed intervals count (section 5.5: DF), because the open one is so long.
pub(super) fn discount(open: u64, closed: &[Closed]) -> f64 {
    match mean_closed(closed) {
        Some(mean) if open as f64 > 2.0 * mean => (2.0 * mean / open as f64).max(LEAST_DISCOUNT),
        _ => 1.0,
    }
}

/// I_mean, the closed intervals counting `factor` (DF) in the sum that has the open one; none without closed ones.
pub(super) fn mean(open: u64, closed: &[Closed], factor: f64) -> Option<f64> {
    let older = mean_closed(closed)?;
    let (mut sum, mut total) = (open as f64 * WEIGHTS[0], WEIGHTS[0]);
    // The open interval takes the place of the oldest: k weights for k intervals.
    for (closed, w) in closed[..closed.len() - 1].iter().zip(&WEIGHTS[1..]) {
        let w = w * closed.discount * factor;
        sum += closed.interval.data as f64 * w;
        total += w;
    }
    Some(older.max(sum / total))
}

/// I_mean without discounting, from data lengths as an option carries them, the open interval's first; none if no interval is
/// closed. More than eight closed ones are not looked at. The loss event rate is its inverse.
pub fn mean_interval(lengths: impl IntoIterator<Item = u64>) -> Option<f64> {
    let mut lengths = lengths.into_iter();
    let open = lengths.next()?;
    let mut closed = [Closed::default(); CLOSED];
    let mut count = 0;
    for (slot, data) in closed.iter_mut().zip(lengths) {
        *slot = Closed { interval: Interval { data, ..Interval::default() }, discount: 1.0 };
        count += 1;
    }
    mean(open, &closed[..count], 1.0)
}

/// Appends a Loss Intervals option to `out`: the number of the newest packets that it passes over, at most [`MAX_SKIP`], and
/// intervals from the newest to the oldest, at most 28. Longer lengths than the option's 24 bits are written as the longest.
pub fn write_intervals(skip: u8, intervals: impl IntoIterator<Item = Interval>, out: &mut Vec<u8>) {
    const MOST: usize = (crate::wire::MAX_VALUE - 1) / ENTRY;
    let mut value = [0; 1 + MOST * ENTRY];
    value[0] = skip.min(MAX_SKIP);
    let mut used = 1;
    for (slot, interval) in value[1..].chunks_exact_mut(ENTRY).zip(intervals) {
        // The top bit of the middle length is an ECN nonce, which is historic (RFC 8311): zero.
        let lengths =
            [interval.lossless.min(MAX_LENGTH), interval.lossy.min(MAX_LOSSY), interval.data.min(MAX_LENGTH)];
        for (to, length) in slot.chunks_exact_mut(3).zip(lengths) {
            to.copy_from_slice(&length.to_be_bytes()[5..]);
        }
        used += ENTRY;
    }
    Opt::LossIntervals(&value[..used]).write(out);
}

/// The value of a Loss Intervals option: how many of the newest packets it passes over, and its intervals, newest first. None
/// if it has no skip length or part of an interval.
pub fn read_intervals(value: &[u8]) -> Option<(u8, impl ExactSizeIterator<Item = Interval> + '_)> {
    let (&skip, entries) = value.split_first()?;
    if !entries.len().is_multiple_of(ENTRY) {
        return None;
    }
    let number = |b: &[u8]| u64::from(b[0]) << 16 | u64::from(b[1]) << 8 | u64::from(b[2]);
    let entries = entries.chunks_exact(ENTRY).map(move |entry| Interval {
        lossless: number(entry),
        lossy: number(&entry[3..]) & MAX_LOSSY,
        data: number(&entry[6..]),
    });
    Some((skip, entries))
}
