//! Loss intervals: their mean (RFC 5348 sections 5.4 and 5.5) and the Loss Intervals option (RFC 4342 section
//! 8.6).

use crate::wire::{MAX_VALUE, Opt};

/// Maximum number of closed intervals in the mean.
pub(super) const CLOSED: usize = 8;

/// Weights of section 5.4, newest first, in fifths so that means of whole intervals are exact.
const WEIGHTS: [f64; CLOSED] = [5.0, 5.0, 5.0, 5.0, 4.0, 3.0, 2.0, 1.0];

/// Lower bound of the discount factor (section 5.5: THRESHOLD).
const LEAST_DISCOUNT: f64 = 0.25;

/// Greatest skip length, for packets waiting for three later packets (RFC 4342 section 8.6.1).
pub const MAX_SKIP: u8 = 3;

/// Bytes per interval on the wire.
const ENTRY: usize = 9;

/// Greatest values of the 24-bit and 23-bit length fields.
const MAX_LENGTH: u64 = (1 << 24) - 1;
const MAX_LOSSY: u64 = (1 << 23) - 1;

/// A loss interval: a lossy part, from the first to the last lost packet of an event, and a lossless part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interval {
    /// Lossless length: packets of all types after the lossy part.
    pub lossless: u64,
    /// Loss length: packets in the lossy part; 0 before the first loss.
    pub lossy: u64,
    /// Data length: data packets in both parts, including lost ones. Determines p.
    pub data: u64,
}

/// A closed interval and the discount factor of its weight.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Closed {
    pub(super) interval: Interval,
    pub(super) discount: f64,
}

/// Mean of the closed intervals with DF_i applied (section 5.5: I_tot1/W_tot1); `None` without intervals.
fn mean_closed(closed: &[Closed]) -> Option<f64> {
    let weights = || closed.iter().zip(WEIGHTS).map(|(closed, w)| (closed.interval.data as f64, w * closed.discount));
    let total: f64 = weights().map(|(_, w)| w).sum();
    (total > 0.0).then(|| weights().map(|(length, w)| length * w).sum::<f64>() / total)
}

/// Discount factor that a long open interval applies to the closed intervals (section 5.5: DF).
pub(super) fn discount(open: u64, closed: &[Closed]) -> f64 {
    match mean_closed(closed) {
        Some(mean) if open as f64 > 2.0 * mean => (2.0 * mean / open as f64).max(LEAST_DISCOUNT),
        _ => 1.0,
    }
}

/// I_mean; `factor` (DF) scales the weights of the closed intervals in the sum that includes the open interval. `None`
/// without closed intervals.
pub(super) fn mean(open: u64, closed: &[Closed], factor: f64) -> Option<f64> {
    let older = mean_closed(closed)?;
    let (mut sum, mut total) = (open as f64 * WEIGHTS[0], WEIGHTS[0]);
    // The open interval replaces the oldest closed interval, so that k weights apply to k intervals.
    for (closed, w) in closed[..closed.len() - 1].iter().zip(&WEIGHTS[1..]) {
        let w = w * closed.discount * factor;
        sum += closed.interval.data as f64 * w;
        total += w;
    }
    Some(older.max(sum / total))
}

/// I_mean without discounting, from the data lengths of an option, open interval first. `None` without a closed
/// interval. Uses at most eight closed intervals. The inverse of I_mean is the loss event rate.
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

/// Appends a Loss Intervals option to `out`: the skip length, at most [`MAX_SKIP`], and at most 28 intervals,
/// newest first. Lengths saturate at the width of their fields.
pub fn write_intervals(skip: u8, intervals: impl IntoIterator<Item = Interval>, out: &mut Vec<u8>) {
    const MOST: usize = (MAX_VALUE - 1) / ENTRY;
    let mut value = [0; 1 + MOST * ENTRY];
    value[0] = skip.min(MAX_SKIP);
    let mut used = 1;
    for (slot, interval) in value[1..].chunks_exact_mut(ENTRY).zip(intervals) {
        // The top bit of the loss length is the ECN nonce, which is historic (RFC 8311) and sent as zero.
        let lengths = [interval.lossless.min(MAX_LENGTH), interval.lossy.min(MAX_LOSSY), interval.data.min(MAX_LENGTH)];
        for (to, length) in slot.chunks_exact_mut(3).zip(lengths) {
            to.copy_from_slice(&length.to_be_bytes()[5..]);
        }
        used += ENTRY;
    }
    Opt::LossIntervals(&value[..used]).write(out);
}

/// Decodes a Loss Intervals option: skip length and intervals, newest first. `None` if the skip length is
/// missing or an interval is truncated.
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
