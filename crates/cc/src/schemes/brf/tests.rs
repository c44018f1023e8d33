//! Unit tests of BRF.

use super::*;
use crate::testing::{Build, MSS, ack, entered, idle, timeout};

const MB: Rate = Rate::from_bytes_per_sec(1_000_000);

fn brf(overrides: &[(&str, f64)]) -> Brf {
    Brf::with(overrides)
}

fn acked(brf: &mut Brf, now_ms: u64, srtt_ms: u64) -> Control {
    let (now, srtt) = (Nanos::from_millis(now_ms), Some(Nanos::from_millis(srtt_ms)));
    brf.on_ack(&Ack { now, srtt, ..ack(MSS) });
    brf.control()
}

fn advised(brf: &mut Brf, now_ms: u64, rate: Rate) -> Control {
    brf.on_rate_advice(&RateAdvice { now: Nanos::from_millis(now_ms), advice: Advice::Rate(rate) });
    brf.control()
}

/// A scheme at 40 ms that follows a share of 1 MB/s, with a round-trip time of 40 ms.
fn obeying() -> Brf {
    let mut brf = brf(&[]);
    acked(&mut brf, 40, 40);
    advised(&mut brf, 40, MB);
    brf
}

/// The scheme paces at its share, with a cwnd of two BDPs.
#[test]
fn brf_paces_at_share_with_window_of_two_bdp() {
    let mut brf = brf(&[]);
    assert_eq!((brf.control().cwnd, brf.control().pacing_rate), (Bytes::new(10 * MSS), None));
    acked(&mut brf, 40, 40);
    let control = advised(&mut brf, 40, MB);
    // cwnd is twice the data of 40 ms at 1 MB/s.
    assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(MB)));
    // cwnd follows the RTT and is at least four segments.
    assert_eq!(acked(&mut brf, 60, 60).cwnd, Bytes::new(120_000));
    advised(&mut brf, 70, Rate::from_bytes_per_sec(5));
    let slow = acked(&mut brf, 130, 60);
    assert_eq!((slow.cwnd, slow.pacing_rate.unwrap().as_bytes_per_sec()), (Bytes::new(4 * MSS), MSS));
}

/// A smaller share slows the sender without a stall.
#[test]
fn brf_smaller_share_slows_without_stall() {
    let mut brf = obeying();
    // The new share is a tenth of the old share. 40 kB are in flight, but the cwnd for the new share alone would be 8
    // kB.
    let tenth = Rate::from_bytes_per_sec(100_000);
    let control = advised(&mut brf, 100, tenth);
    assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(80_000), Some(tenth)));
    // The cwnd for the old share applies for a whole round trip, even if another lower or higher share arrives
    // meanwhile.
    advised(&mut brf, 120, Rate::from_bytes_per_sec(50_000));
    assert_eq!(advised(&mut brf, 130, tenth).cwnd, Bytes::new(80_000));
    assert_eq!(acked(&mut brf, 159, 40).cwnd, Bytes::new(80_000));
    assert_eq!(acked(&mut brf, 160, 40).cwnd, Bytes::new(8_000));
}

/// While shares arrive, loss and timeouts change nothing.
#[test]
fn brf_loss_and_timeouts_are_ignored_with_share() {
    let mut brf = obeying();
    let control = brf.control();
    brf.on_recovery_entered(&entered(CongestionCause::Loss, 40_000));
    brf.on_recovery_entered(&entered(CongestionCause::Ecn, 40_000));
    brf.on_timeout(&Timeout { now: Nanos::from_millis(900), ..timeout(40_000, 2) });
    assert_eq!((brf.control(), brf.state), (control, State::Advised));
}

/// Invalid shares are ignored and counted.
#[test]
fn brf_invalid_share_is_ignored_and_counted() {
    let mut brf = brf(&[("line_rate", 80.0)]);
    acked(&mut brf, 40, 40);
    let control = advised(&mut brf, 40, MB);
    advised(&mut brf, 41, Rate::ZERO);
    advised(&mut brf, 42, Rate::from_bytes_per_sec(10_000_001));
    brf.on_rate_advice(&RateAdvice { now: Nanos::from_millis(43), advice: Advice::Change(1e6) });
    assert_eq!((brf.control(), brf.ignored), (control, 3));
    // An invalid share does not restart the timeout.
    acked(&mut brf, 1_041, 40);
    assert_eq!(brf.state, State::Fallback);
    // A share equal to the line rate is valid.
    let most = Rate::from_bytes_per_sec(10_000_000);
    assert_eq!(advised(&mut brf, 1_050, most).pacing_rate, Some(most));
}

/// After a second without a share the sender falls back to CUBIC at the current rate; the next share ends the fallback.
#[test]
fn brf_second_without_share_falls_back_to_cubic() {
    let mut brf = obeying();
    acked(&mut brf, 1_040, 40);
    assert_eq!(brf.state, State::Advised);
    let control = acked(&mut brf, 1_041, 40);
    assert_eq!(brf.state, State::Fallback);
    // CUBIC's first cwnd is the data of 40 ms at 1 MB/s. cwnd then grows along the cubic curve: by C · t^3 after t
    // seconds.
    assert_eq!(control.cwnd.as_u64(), 40_000);
    assert!(control.pacing_rate.is_some());
    for now in (1_042..4_041).step_by(10) {
        acked(&mut brf, now, 40);
    }
    let grown = brf.control().cwnd.as_f64() / MSS as f64;
    assert!((46.0..=40.0 + 0.4 * 3.04f64.powi(3)).contains(&grown), "{grown}");
    brf.on_recovery_entered(&entered(CongestionCause::Loss, (grown * MSS as f64) as u64));
    let cut = brf.control().cwnd.as_f64() / MSS as f64;
    assert_eq!(cut, (grown * 0.7).floor(), "whole segments");
    let again = advised(&mut brf, 5_000, MB);
    assert_eq!((again.cwnd, again.pacing_rate), (Bytes::new(80_000), Some(MB)));
    assert_eq!((brf.state, brf.fallbacks), (State::Advised, 1));
}

/// The fallback timeout is four round trips if these take longer than a second.
#[test]
fn brf_fallback_timeout_is_four_long_round_trips() {
    let mut brf = brf(&[]);
    acked(&mut brf, 500, 500);
    advised(&mut brf, 500, MB);
    acked(&mut brf, 2_500, 500);
    assert_eq!(brf.state, State::Advised);
    acked(&mut brf, 2_501, 500);
    assert_eq!(brf.state, State::Fallback);
}

/// The wait for the first share lasts four round trips, or 20 ms on short paths: the SYN-ACK would have brought the
/// share.
#[test]
fn brf_first_share_is_awaited_for_four_round_trips() {
    for (srtt, last) in [(40, 160), (1, 20)] {
        let mut brf = brf(&[]);
        acked(&mut brf, 100, srtt);
        acked(&mut brf, 100 + last, srtt);
        assert_eq!(brf.state, State::Waiting, "{srtt} ms");
        acked(&mut brf, 101 + last, srtt);
        assert_eq!(brf.state, State::Fallback, "{srtt} ms");
        assert_eq!(advised(&mut brf, 900, MB).pacing_rate, Some(MB), "a late share counts");
    }
}

/// Feeds an acknowledgement after which `delivered` and `lost` packets have been delivered and lost in total.
fn counted(brf: &mut Brf, now_ms: u64, delivered: u64, lost: u64) -> Control {
    let (now, srtt) = (Nanos::from_millis(now_ms), Some(Nanos::from_millis(40)));
    let delivered = Bytes::new(delivered * MSS);
    brf.on_lost(&crate::testing::lost(now, Bytes::new(lost * MSS)));
    brf.on_ack(&Ack { now, srtt, delivered, ..ack(MSS) });
    brf.control()
}

/// After a round trip with losses above a fifth of the deliveries, the sender ignores shares above twice the delivery
/// rate.
#[test]
fn brf_overrun_ends_obedience_until_a_share_that_fits() {
    let mut brf = brf(&[]);
    counted(&mut brf, 40, 0, 0);
    // The share is 100 packets per round trip.
    advised(&mut brf, 40, Rate::from_bytes_per_sec(2_500_000));
    counted(&mut brf, 80, 85, 15);
    assert_eq!(brf.state, State::Advised, "less than a fifth of 85");
    let control = counted(&mut brf, 120, 165, 35);
    assert_eq!((brf.state, brf.fallbacks), (State::Fallback, 1), "20 of 80");
    // The delivery rate of the last round trip is 80 packets in 40 ms, 2 MB/s.
    assert_eq!((control.cwnd, brf.path_rate), (Bytes::new(80 * MSS), Some(MB * 2)));
    let high = Rate::from_bytes_per_sec(4_000_002);
    advised(&mut brf, 121, high);
    assert_eq!((brf.state, brf.ignored), (State::Fallback, 1), "above twice that");
    counted(&mut brf, 160, 246, 35);
    assert_eq!(advised(&mut brf, 161, high).pacing_rate, Some(high), "81 packets arrived since");
    // The sender still ignores a share far above the delivery rate.
    advised(&mut brf, 162, Rate::from_bytes_per_sec(1_000_000_000));
    assert_eq!((brf.control().pacing_rate, brf.ignored), (Some(high), 2));
}

/// With few losses, after a retransmission timeout or with `overrun=0`, the sender keeps obeying its share.
#[test]
fn brf_small_losses_and_outages_are_no_overrun() {
    let ends = |overrun: f64, lost: u64, outage: bool| {
        let mut brf = brf(&[("overrun", overrun)]);
        counted(&mut brf, 40, 0, 0);
        advised(&mut brf, 40, MB);
        if outage {
            brf.on_timeout(&Timeout { now: Nanos::from_millis(60), ..timeout(40_000, 1) });
        }
        counted(&mut brf, 110, 20, lost);
        brf.state == State::Fallback
    };
    assert!(ends(0.2, 10, false), "the condition itself");
    assert!(!ends(0.2, 9, false) && !ends(0.2, 40, true) && !ends(0.0, 40, false));
}

/// Without any share the scheme starts as CUBIC.
#[test]
fn brf_without_any_share_starts_as_cubic() {
    let mut brf = brf(&[]);
    acked(&mut brf, 40, 40);
    let control = acked(&mut brf, 1_041, 40);
    // The first acknowledgement in slow start adds a segment.
    assert_eq!((brf.state, control.cwnd), (State::Fallback, Bytes::new(11 * MSS)));
    // CUBIC now responds to timeouts: cwnd becomes one segment.
    brf.on_timeout(&timeout(10 * MSS, 1));
    assert_eq!(brf.control().cwnd, Bytes::new(MSS));
}

/// A retransmission timeout that occurs after the share timeout triggers the fallback.
#[test]
fn brf_retransmission_timeout_triggers_fallback() {
    let mut brf = obeying();
    brf.on_timeout(&Timeout { now: Nanos::from_millis(1_200), ..timeout(40_000, 3) });
    assert_eq!((brf.state, brf.control().cwnd), (State::Fallback, Bytes::new(MSS)));
}

/// With frequent pauses of the application, the sender still falls back once its sending time exceeds the timeout.
#[test]
fn brf_frequent_pauses_do_not_prevent_fallback() {
    let mut brf = brf(&[]);
    acked(&mut brf, 40, 40);
    // The application is idle for 100 ms in every 200 ms, so a second of sending time takes two seconds.
    for now in (240..=2_240).step_by(200) {
        brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(now), ..idle(100, 200) });
        acked(&mut brf, now + 40, 40);
    }
    assert_eq!((brf.state, brf.fallbacks), (State::Fallback, 1));
}

/// Idle time of the application does not count towards the fallback timeout.
#[test]
fn brf_idle_application_triggers_no_fallback() {
    let mut brf = obeying();
    brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(900), ..idle(800, 200) });
    assert_eq!(acked(&mut brf, 1_100, 40).cwnd, Bytes::new(80_000));
    // After an idle time longer than the timeout, cwnd is the initial window, paced at the old rate.
    brf.on_idle_restart(&IdleRestart { now: Nanos::from_millis(9_000), ..idle(7_000, 200) });
    let control = acked(&mut brf, 9_040, 40);
    assert_eq!((control.cwnd, control.pacing_rate), (Bytes::new(10 * MSS), Some(MB)));
    assert_eq!(advised(&mut brf, 9_040, MB).cwnd, Bytes::new(80_000));
}
