//! Laws of the adapter, tested with a scheme that records its events.

use std::sync::{Arc, Mutex, PoisonError};

use narrows_cc::{
    Ack, CongestionControl, Control, IdleRestart, Info, Lost, Provenance, RecoveryEntered, RecoveryLeft, RecoveryStyle,
    Scheme, Setup, SpuriousLoss, Timeout, record, schemes,
};

use super::*;

const PACKET: Bytes = Bytes::new(1000);

/// An event that the driver reported to the scheme.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Ack { acked: u64, lost: u64, rtt: Option<u64>, app_limited: Option<bool>, phase: Phase },
    Lost(u64),
    Entered(CongestionCause),
    Left,
    TimedOut(u32),
    Spurious(Phase),
    Idle { app_limited: bool },
}

/// A scheme with a fixed window of ten packets, which records its events.
#[derive(Clone, Debug)]
struct Spy {
    /// Events of this instance. A copy of the driver includes them, so restoring the copy restores the earlier events.
    told: Vec<Told>,
    shown: Arc<Mutex<Vec<Told>>>,
}

impl Spy {
    fn note(&mut self, told: Told) {
        self.told.push(told);
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = self.told.clone();
    }
}

impl Scheme for Spy {
    const INFO: Info = record!(Info {
        provenance: Provenance::Tool,
        recovery: RecoveryStyle::Own,
        ..Info::new("spy", "notes its events")
    });

    fn new(_: &Setup) -> Self {
        Self { told: Vec::new(), shown: Arc::default() }
    }
}

impl CongestionControl for Spy {
    fn on_ack(&mut self, event: &Ack) {
        self.note(Told::Ack {
            acked: event.acked.as_u64(),
            lost: event.lost.as_u64(),
            rtt: event.rtt.map(|rtt| rtt.as_nanos() / 1_000_000),
            app_limited: event.rate.map(|rate| rate.app_limited),
            phase: event.phase,
        });
    }
    fn on_lost(&mut self, event: &Lost) {
        self.note(Told::Lost(event.packet));
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.note(Told::Entered(event.cause));
    }
    fn on_recovery_left(&mut self, _: &RecoveryLeft) {
        self.note(Told::Left);
    }
    fn on_timeout(&mut self, event: &Timeout) {
        self.note(Told::TimedOut(event.consecutive));
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.note(Told::Spurious(event.phase));
    }
    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.note(Told::Idle { app_limited: event.app_limited });
    }
    fn control(&self) -> Control {
        Control::unpaced(PACKET * 10)
    }
}

/// A flow, its packets in flight by number, and the events of its scheme.
struct Run {
    flow: Flow,
    sent: Vec<Option<SentState>>,
    shown: Arc<Mutex<Vec<Told>>>,
}

fn ms(time: u64) -> Nanos {
    Nanos::from_millis(time)
}

impl Run {
    fn new() -> Self {
        let shown = Arc::default();
        let spy = Spy { told: Vec::new(), shown: Arc::clone(&shown) };
        let flow = Flow::new(AnyScheme::External(Box::new(spy)), IdleRule::default(), PACKET);
        Self { flow, sent: Vec::new(), shown }
    }

    fn send(&mut self, at: u64, count: usize) {
        for _ in 0..count {
            let state = self.flow.send(ms(at), PACKET);
            self.sent.push(Some(state));
        }
    }

    /// Acknowledges these packets; `idle`: the transport had nothing to send before the acknowledgement.
    fn ack(&mut self, at: u64, numbers: impl IntoIterator<Item = usize>, idle: bool) {
        let mut newest = 0;
        for number in numbers {
            let state = self.sent[number].take().expect("in flight");
            self.flow.deliver(ms(at), PACKET, Some(&state));
            newest = newest.max(number);
        }
        let gap = self.sent[..newest].iter().any(Option::is_some);
        self.flow.end_ack(ms(at), Some(self.inflight()), idle, gap);
    }

    fn lose(&mut self, at: u64, numbers: impl IntoIterator<Item = usize>, persistent: bool) {
        let mut newest = Nanos::ZERO;
        for number in numbers {
            let state = self.sent[number].take().expect("in flight");
            self.flow.lose(ms(at), number as u64, PACKET, &state);
            newest = newest.max(state.sent_at);
        }
        self.flow.congestion(ms(at), newest, CongestionCause::Loss, persistent);
    }

    fn mark(&mut self, at: u64, sent: u64) {
        self.flow.congestion(ms(at), ms(sent), CongestionCause::Ecn, false);
    }

    fn inflight(&self) -> Bytes {
        PACKET * self.sent.iter().flatten().count() as u64
    }

    /// Events that the scheme received.
    fn told(&self) -> Vec<Told> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes lost in each acknowledgement.
    fn losses(&self) -> Vec<u64> {
        let told = self.told().into_iter();
        told.filter_map(|told| if let Told::Ack { lost, .. } = told { Some(lost) } else { None }).collect()
    }

    /// The events that report recovery and timeouts.
    fn reductions(&self) -> Vec<Told> {
        let told = self.told().into_iter();
        told.filter(|told| !matches!(told, Told::Ack { .. } | Told::Lost(_) | Told::Idle { .. })).collect()
    }
}

/// Every packet is either acknowledged or lost, exactly once: the sums of these bytes equal the bytes sent.
#[test]
fn fates_of_packets_add_up() {
    let mut run = Run::new();
    run.send(0, 10);
    run.ack(20, 0..3, false);
    run.ack(21, [4, 6, 7], false);
    run.lose(21, [3], false);
    run.ack(22, [8, 9], false);
    run.lose(40, [5], false);
    run.send(41, 1);
    run.ack(61, [10], true);
    let (mut acked, mut lost) = (0, 0);
    for told in run.told() {
        if let Told::Ack { acked: own, lost: other, .. } = told {
            (acked, lost) = (acked + own, lost + other);
        }
    }
    assert_eq!((acked, lost), (9_000, 2_000));
    assert_eq!(run.flow.inflight(), Bytes::ZERO);
    assert_eq!(run.flow.driver().delivered(), Bytes::new(9_000));
    let numbers: Vec<_> = run.told().into_iter().filter(|told| matches!(told, Told::Lost(_))).collect();
    assert_eq!(numbers, [Told::Lost(3), Told::Lost(5)]);
}

/// Losses that follow an acknowledgement are reported before its end, and the acknowledgement ends only once.
#[test]
fn losses_precede_the_end_of_their_acknowledgement() {
    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3, 4], false);
    run.lose(20, [0], false);
    let ack = Told::Ack { acked: 4_000, lost: 1_000, rtt: Some(20), app_limited: Some(false), phase: Phase::Recovery };
    assert_eq!(run.told(), [Told::Lost(0), Told::Entered(CongestionCause::Loss), ack]);
}

/// Losses belong to their acknowledgement even if the transport's clock steps back between the two reports,
/// because times are clamped before they are compared.
#[test]
fn losses_belong_to_their_ack_when_time_steps_back() {
    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3, 4], false);
    run.lose(19, [0], false);
    assert_eq!(run.losses(), [1_000]);
}

/// Losses that a timer detects after an acknowledgement count for the next acknowledgement, not for the previous one.
#[test]
fn losses_of_a_timer_count_for_the_next_ack() {
    let mut run = Run::new();
    run.send(0, 3);
    run.ack(20, [1], false);
    run.lose(23, [0], false);
    run.ack(25, [2], false);
    assert_eq!(run.losses(), [0, 1_000]);
}

/// Only the largest packet number so far gives an RTT sample (RFC 9002 section 5.1). A reordered packet gives
/// none, because an earlier acknowledgement of this packet may have been lost.
#[test]
fn rtt_sample_needs_the_largest_packet() {
    let mut run = Run::new();
    run.send(0, 1);
    run.send(10, 2);
    run.ack(30, [1], false);
    run.ack(35, [0], false);
    run.ack(36, [2], false);
    let acks = run.told().into_iter();
    let samples: Vec<_> =
        acks.filter_map(|told| if let Told::Ack { rtt, .. } = told { Some(rtt) } else { None }).collect();
    assert_eq!(samples, [Some(20), None, Some(26)]);
    // The first sample is 20 ms; the second, 26 ms, has the weight of one eighth.
    assert_eq!(run.flow.srtt(), Some(Nanos::from_micros(20_750)));
}

/// Spurious losses are reported once, with the acknowledgement that proves them spurious.
#[test]
fn spurious_losses_are_told_once() {
    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3], false);
    run.lose(20, [0], false);
    run.flow.spurious();
    run.ack(22, [4], false);
    run.flow.spurious();
    run.send(23, 1);
    run.ack(43, [5], false);
    let entered = Told::Entered(CongestionCause::Loss);
    assert_eq!(run.reductions(), [entered, Told::Spurious(Phase::Recovery)]);
    assert_eq!(run.flow.phase(), Phase::Open);
}

/// Spurious losses do not undo a response to marks, whether it comes later or within the same recovery.
#[test]
fn spurious_losses_do_not_undo_a_response_to_marks() {
    let (lost, marked) = (Told::Entered(CongestionCause::Loss), Told::Entered(CongestionCause::Ecn));
    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3, 4], false);
    run.lose(20, [0], false);
    run.send(21, 2);
    run.ack(41, [5], false);
    run.mark(41, 21);
    run.flow.spurious();
    run.ack(42, [6], false);
    assert_eq!(run.reductions(), [lost.clone(), Told::Left, marked.clone()]);

    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3], false);
    run.mark(20, 0);
    run.lose(21, [0], false);
    run.flow.spurious();
    run.ack(22, [4], false);
    assert_eq!(run.reductions(), [marked]);
}

/// The acknowledgement that proves losses spurious may acknowledge no new packet. A reduction after these
/// losses stays in force.
#[test]
fn spurious_losses_do_not_undo_a_later_reduction() {
    let mut run = Run::new();
    run.send(0, 5);
    run.ack(20, [1, 2, 3, 4], false);
    run.lose(20, [0], false);
    run.send(21, 4);
    run.ack(41, [5, 7], false);
    run.flow.spurious();
    run.lose(44, [6], false);
    run.ack(45, [8], false);
    let lost = Told::Entered(CongestionCause::Loss);
    assert_eq!(run.reductions(), [lost.clone(), Told::Left, Told::Spurious(Phase::Recovery), lost]);
    assert_eq!(run.flow.phase(), Phase::Recovery);
}

/// Recovery begins once per flight, and ends when a packet sent after it began is delivered.
#[test]
fn recovery_lasts_until_a_later_packet_arrives() {
    let mut run = Run::new();
    run.send(0, 6);
    run.ack(20, [2, 3, 4], false);
    run.lose(20, [0], false);
    run.lose(21, [1], false);
    run.send(22, 1);
    run.ack(23, [5], false);
    assert_eq!(run.flow.phase(), Phase::Recovery);
    run.ack(42, [6], false);
    assert_eq!(run.reductions(), [Told::Entered(CongestionCause::Loss), Told::Left]);
}

/// Persistent congestion counts as a timeout. Consecutive timeouts are numbered; a delivery restarts the numbering.
#[test]
fn persistent_congestion_is_a_timeout() {
    let mut run = Run::new();
    run.send(0, 3);
    run.lose(500, [0, 1, 2], true);
    run.send(501, 2);
    run.lose(1000, [3], true);
    run.ack(1001, [4], false);
    run.send(1002, 1);
    run.lose(2000, [5], true);
    assert_eq!(run.reductions(), [Told::TimedOut(1), Told::TimedOut(2), Told::TimedOut(1)]);
}

/// A pacer that delays packets until nothing is in flight does not make the flow application-limited, because
/// the transport reports when it had nothing to send.
#[test]
fn empty_flight_alone_is_not_application_limited() {
    for idle in [false, true] {
        let mut run = Run::new();
        run.send(0, 1);
        run.ack(20, [0], idle);
        run.send(100, 1);
        run.ack(120, [1], false);
        let told = run.told();
        assert_eq!(told[1], Told::Idle { app_limited: idle });
        let Told::Ack { app_limited, .. } = told[2] else { panic!("{told:?}") };
        assert_eq!(app_limited, Some(idle));
    }
}

/// On a new path, the flow begins with nothing in flight, and this does not make it application-limited.
#[test]
fn forgotten_flight_is_empty_and_unlimited() {
    let mut run = Run::new();
    run.send(0, 4);
    run.ack(20, [0], false);
    run.flow.forget();
    assert_eq!(run.flow.inflight(), Bytes::ZERO);
    run.send(21, 1);
    run.ack(41, [4], false);
    assert!(matches!(
        run.told()[..],
        [_, Told::Idle { app_limited: false }, Told::Ack { app_limited: Some(false), .. }]
    ));
}

/// If a scheme leaves recovery to the transport, the adapter applies proportional rate reduction: of ten
/// packets in flight, half are replaced by new packets as the others are delivered.
#[test]
fn window_of_recovery_is_a_proportional_reduction() {
    let entry = schemes::find("newreno").expect("registered");
    let setup =
        Setup::new(PACKET, narrows_cc::Params::defaults(entry.info.params), narrows_cc::Random::stream(1, "scheme", 0));
    let flow = Flow::new(entry.build(&setup), IdleRule::default(), PACKET);
    let mut run = Run { flow, sent: Vec::new(), shown: Arc::default() };
    run.send(0, 10);
    run.ack(20, [1, 2, 3], false);
    run.lose(20, [0], false);
    let mut sent = 0;
    for number in 4..10 {
        while run.inflight() + PACKET <= run.flow.window() {
            run.send(20, 1);
            sent += 1;
        }
        run.ack(21, [number], false);
    }
    assert!((4..=5).contains(&sent), "{sent} sent");
    assert_eq!(run.flow.driver().control().cwnd, PACKET * 5);
}
