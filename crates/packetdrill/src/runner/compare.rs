//! Comparison of a sent packet with the expected one.

use std::fmt::Write as _;

use narrows_cc::Nanos;

use crate::script::{Options, Segment};

/// The field in which the sent packet differs from the expected packet; `None` if they are equal. PSH is not compared,
/// because the endpoint does not know the boundaries of writes. Timestamp values are not compared here; the caller
/// compares them with the clock.
pub(super) fn difference(expected: &Segment, seen: &Segment) -> Option<&'static str> {
    let (want, have) = (&expected.flags, &seen.flags);
    let flags = |flags: &crate::script::TcpFlags| (flags.syn, flags.fin, flags.rst, flags.ack);
    if flags(want) != flags(have) {
        return Some("flags");
    }
    if (want.ece, want.cwr) != (have.ece, have.cwr) {
        return Some("ECN flags");
    }
    if expected.seq != seen.seq {
        return Some("sequence number");
    }
    if expected.len != seen.len {
        return Some("length");
    }
    if want.ack && expected.ack != seen.ack {
        return Some("acknowledgement number");
    }
    if expected.window.is_some() && expected.window != seen.window {
        return Some("window");
    }
    if expected.ecn.is_some() && expected.ecn != seen.ecn {
        return Some("ECN field");
    }
    let (Some(want), Some(have)) = (&expected.options, &seen.options) else { return None };
    options_differ(want, have).then_some("TCP options")
}

fn options_differ(want: &Options, have: &Options) -> bool {
    let bare = |options: &Options| {
        (options.mss, options.sack_ok, options.window_scale, options.timestamps.map(|(_, echo)| echo))
    };
    bare(want) != bare(have) || want.sack != have.sack
}

/// Formats a packet without the fields that the expected packet `like` does not state.
pub(super) fn show(segment: &Segment, like: &Segment) -> String {
    let mut shown = segment.clone();
    if like.window.is_none() {
        shown.window = None;
    }
    if like.ecn.is_none() {
        shown.ecn = None;
    }
    shown.flags.psh = false;
    shown.to_string()
}

/// Formats a time in seconds.
pub(super) fn seconds(time: Nanos) -> String {
    let mut text = String::new();
    let _ = write!(text, "{:.6}", time.as_secs_f64());
    let end = text.trim_end_matches('0').trim_end_matches('.').len();
    text.truncate(end);
    text + " s"
}
