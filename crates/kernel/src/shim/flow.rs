//! A scheme of the registry on a connection of the kernel: turns the shim's records into the driver's calls.
//!
//! The kernel stores the state of the connection at each packet's departure, and reports the state of the newest packet
//! delivered. The numbers of packets lost and in flight at that departure follow from earlier records. The kernel does
//! not identify lost packets. This code gives them the state of the newest packet delivered, which was sent soon after
//! them.

use std::collections::VecDeque;

use narrows_cc::schemes::Entry;
use narrows_cc::{
    AckEnd, Bytes, CongestionCause, Driver, EcnNeed, Episode, Flight, IdleRule, LostPacket, Nanos, Params, Phase,
    Random, SendPosition, Sent, SentState, Setup, record,
};
use narrows_scenario::FlowPlan;
use narrows_tcp::{Prr, PrrBound};

use super::record::{Allowance, Decision, Kind, Record, flag, measured, paced, packets};

/// States of the kernel (`TCP_CA_*`).
const CWR: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;
/// `net.ipv4.tcp_reordering`.
const REORDERING: u32 = 3;

/// Inputs of a flow's decisions besides its records.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// The scheme.
    pub scheme: &'static Entry,
    /// The scheme's parameters.
    pub params: Params,
    /// Seed of the run. With `number`, it selects the scheme's random stream.
    pub seed: u64,
    /// Number of the flow.
    pub number: u64,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// Packets of the initial window.
    pub initial_window: u32,
    /// The kernel uses selective acknowledgements.
    pub sack: bool,
    /// The receiver reports every ECN mark.
    pub precise_marks: bool,
    /// Rule that sets cwnd after an idle time.
    pub idle: IdleRule,
    /// `CLOCK_MONOTONIC` at time zero of the scheme.
    pub origin_ns: u64,
}

impl FlowSettings {
    /// The settings of flow `number` of a plan with this seed, as the simulator builds it.
    pub fn of(flow: &FlowPlan, number: usize, seed: u64, origin_ns: u64) -> Self {
        Self {
            scheme: flow.scheme,
            params: flow.params.clone(),
            seed,
            number: number as u64,
            mss: Bytes::new(flow.tcp.segment.into()),
            initial_window: flow.tcp.initial_window,
            sack: flow.tcp.sack,
            precise_marks: flow.tcp.ecn_precise && flow.scheme.ecn != EcnNeed::Nothing,
            idle: flow.tcp.idle,
            origin_ns,
        }
    }
}

/// State after an earlier record.
#[derive(Clone, Copy, Debug)]
struct Past {
    delivered: u64,
    lost: u64,
    in_flight: u32,
}

/// A scheme on a connection of the kernel.
#[derive(Debug)]
pub struct Flow {
    settings: FlowSettings,
    driver: Driver,
    last: Record,
    now: Nanos,
    /// Packets delivered and lost so far.
    delivered: u64,
    lost: u64,
    /// Bytes acknowledged cumulatively.
    acknowledged: u64,
    past: VecDeque<Past>,
    newest: SentState,
    episode: Episode,
    /// Packets that the reduction allows after the last event.
    allowance: u32,
}

impl Flow {
    /// A scheme before its connection opens.
    pub fn new(settings: FlowSettings) -> Self {
        let scheme = settings.scheme.build(
            &Setup::new(
                settings.mss,
                settings.params.clone(),
                Random::stream(settings.seed, "scheme", settings.number),
            )
            .with_window(settings.initial_window)
            .with_sack(settings.sack),
        );
        Self {
            settings,
            driver: Driver::new(scheme),
            last: Record::default(),
            now: Nanos::ZERO,
            delivered: 0,
            lost: 0,
            acknowledged: 0,
            past: VecDeque::new(),
            newest: SentState::default(),
            episode: Episode::default(),
            allowance: 0,
        }
    }

    /// The flow's settings.
    pub fn settings(&self) -> &FlowSettings {
        &self.settings
    }

    /// The driver, for telemetry.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The scheme's phase.
    pub fn phase(&self) -> Phase {
        self.episode.phase()
    }

    /// The decision in force after the last record.
    pub fn decision(&self) -> Decision {
        let mss = self.settings.mss;
        let control = self.driver.control();
        Decision {
            answers: self.last.sequence,
            pacing_rate: paced(control.pacing_rate),
            cwnd: packets(control.cwnd, mss).max(1),
            ssthresh: packets(self.driver.ssthresh(), mss).max(2),
            reduction: self.episode.window().map(|_| Allowance { packets: self.allowance, out: self.last.prr_out }),
            // Linux sends bursts of at least two segments (`tcp_min_tso_segs`).
            burst: packets(control.burst, mss).clamp(1, 2),
        }
    }

    /// Whether the decision allows more packets than the kernel allowed after the last event. False while lost packets
    /// wait for retransmission: retransmissions wait for acknowledgements in any case, and precede new data.
    pub fn allows_more(&self) -> bool {
        let (record, decision) = (&self.last, self.decision());
        let in_flight = record.in_flight();
        let before = record.snd_cwnd.saturating_sub(in_flight);
        let now = decision.reduction.map_or(decision.cwnd.saturating_sub(in_flight), |own| own.packets);
        now > before && record.lost_out <= record.retrans_out && record.kind() != Some(Kind::Close)
    }

    /// Processes a record.
    pub fn on_record(&mut self, record: &Record) {
        let Some(kind) = record.kind() else { return };
        let at = Nanos::from_nanos((record.mstamp_us * 1_000).saturating_sub(self.settings.origin_ns));
        self.now = self.now.max(at);
        if kind == Kind::Init {
            self.begin(record);
            return;
        }
        self.report_sent(record);
        let lost = record.lost.wrapping_sub(self.last.lost);
        match kind {
            Kind::Ack => self.on_ack(record, lost),
            Kind::Start => self.on_start(record),
            _ => {
                self.report_losses(record, lost);
                self.on_states(record, Bytes::ZERO);
                self.reduce(record, 0, false);
                self.on_timeouts(record);
                self.driver.refresh();
            }
        }
        self.remember(record);
    }

    fn begin(&mut self, record: &Record) {
        if let Some(srtt) = srtt(record) {
            self.driver.handshake(self.now, srtt, Some(srtt), measured(record.min_rtt_us));
        }
        self.remember(record);
    }

    fn remember(&mut self, record: &Record) {
        self.last = *record;
        let now = Past { delivered: self.delivered, lost: self.lost, in_flight: record.in_flight() };
        match self.past.back_mut() {
            Some(past) if past.delivered == now.delivered => {
                past.lost = now.lost;
                past.in_flight = past.in_flight.max(now.in_flight);
            }
            _ => self.past.push_back(now),
        }
    }

    fn bytes(&self, packets: impl Into<u64>) -> Bytes {
        self.settings.mss * packets.into()
    }

    /// Reports packets sent since the last record.
    fn report_sent(&mut self, record: &Record) {
        let inflight = self.bytes(record.prior_in_flight);
        if let Some(past) = self.past.back_mut() {
            past.in_flight = past.in_flight.max(record.prior_in_flight);
        }
        let again = record.bytes_retrans.wrapping_sub(self.last.bytes_retrans);
        let new = record.bytes_sent.wrapping_sub(self.last.bytes_sent).saturating_sub(again);
        for (bytes, retransmission) in [(again, true), (new, false)] {
            if bytes > 0 {
                let bytes = Bytes::new(bytes);
                self.driver.sent(&record!(Sent { now: self.now, bytes, inflight, retransmission }));
            }
        }
        self.episode.on_sent(units(record.prr_out.saturating_sub(self.last.prr_out)));
    }

    /// The connection's state when the newest packet that the record delivers was sent.
    fn sent_state(&mut self, record: &Record) -> SentState {
        let us = |micros: u64| Nanos::from_nanos((micros * 1_000).saturating_sub(self.settings.origin_ns));
        let since = u64::from(record.delivered.wrapping_sub(record.prior_delivered));
        let delivered = self.delivered.saturating_sub(since);
        while self.past.get(1).is_some_and(|next| next.delivered <= delivered) {
            self.past.pop_front();
        }
        let past = self.past.front().copied();
        let past = past.unwrap_or(Past { delivered, lost: 0, in_flight: record.prior_in_flight });
        record!(SentState {
            order: record.sequence,
            sent_at: us(record.first_tx_us),
            first_sent_at: us(record.first_tx_us.saturating_sub(record.snd_interval_us.into())),
            delivered_at: us(record.prior_mstamp_us),
            delivered: self.bytes(delivered),
            lost: self.bytes(past.lost),
            tx_in_flight: self.bytes(past.in_flight),
            app_limited: record.has(flag::APP_LIMITED),
        })
    }

    fn on_ack(&mut self, record: &Record, lost: u32) {
        let now = self.now;
        let mut ack = self.driver.begin_ack(self.bytes(record.prior_in_flight));
        let newly = record.delivered.wrapping_sub(self.last.delivered);
        let acked = self.bytes(newly);
        self.delivered += u64::from(newly);
        if record.has(flag::SAMPLED) && newly > 0 {
            self.newest = self.sent_state(record);
            self.driver.delivered_packet(now, &mut ack, acked, &self.newest);
        } else if newly > 0 {
            self.driver.delivered_again(now, acked);
        }
        self.report_losses(record, lost);
        self.on_states(record, acked);
        let advanced = u64::from(record.snd_una.wrapping_sub(self.last.snd_una));
        self.acknowledged += advanced;
        self.reduce(record, newly, advanced > 0 && lost == 0);
        // The kernel determines by the driver's rule whether cwnd limits the sender; the kernel's result replaces the
        // driver's result.
        let position = SendPosition { acknowledged: u64::MAX, next: 0 };
        let outstanding = self.bytes(record.max_packets_out);
        self.driver.note_usage(record.has(flag::CWND_LIMITED), outstanding, position);
        self.note_app_limited(record);
        let marked = record.delivered_ce.wrapping_sub(self.last.delivered_ce);
        self.driver.finish_ack(
            &ack,
            &record!(AckEnd {
                now,
                // Linux `tcp_may_raise_cwnd`: after reordering, all delivered data counts for growth.
                acked_cumulative: (record.reordering <= REORDERING).then_some(Bytes::new(advanced)),
                lost: self.bytes(lost),
                rtt: measured(record.rtt_us),
                inflight: self.bytes(record.in_flight()),
                ce: self.bytes(marked),
                phase: self.episode.phase(),
                srtt: srtt(record),
                min_rtt: measured(record.min_rtt_us),
            }),
        );
        self.on_timeouts(record);
    }

    fn note_app_limited(&mut self, record: &Record) {
        if record.app_limited != 0 {
            let left = record.app_limited.wrapping_sub(record.delivered) as i32;
            self.driver.set_app_limited(self.bytes(left.max(0).unsigned_abs()));
        }
    }

    fn on_start(&mut self, record: &Record) {
        if self.delivered == 0 {
            return; // the first data
        }
        self.note_app_limited(record);
        // Everything is acknowledged, so the newest packet delivered is the last one sent.
        let idle = Nanos::from_micros(record.mstamp_us.saturating_sub(record.first_tx_us));
        let variation = Nanos::from_micros(record.rttvar_us.into());
        let rto = srtt(record).map(|srtt| srtt + variation);
        self.driver.idle_restart(self.now, idle, rto, self.settings.idle);
    }

    fn report_losses(&mut self, record: &Record, lost: u32) {
        let first = self.acknowledged / self.settings.mss.as_u64();
        for number in 0..u64::from(lost) {
            self.lost += 1;
            let left = u64::from(record.in_flight()) + u64::from(lost) - number - 1;
            let packet = LostPacket { bytes: self.settings.mss, packet: first + number, sent: &self.newest };
            self.driver.lost(self.now, &packet, self.settings.mss * left);
        }
    }

    /// Follows the kernel through its states, except timeouts. `acked`: data newly delivered.
    fn on_states(&mut self, record: &Record, acked: Bytes) {
        let mut undo = record.has(flag::UNDO);
        let mut states = record.states().peekable();
        while let Some(state) = states.next() {
            match state {
                CWR | RECOVERY => {
                    let phase = self.episode.phase();
                    let again = phase == Phase::Recovery && state == RECOVERY;
                    // RFC 8257 section 3.5: a loss after the smaller reduction for a mark causes a full reduction.
                    if phase == Phase::Open || (again && self.settings.precise_marks) {
                        // The tail-loss probe repaired the loss if the kernel has already left the reduction.
                        let repaired = state == CWR && states.peek().is_some();
                        let marked = state == CWR && !repaired;
                        let cause = if marked { CongestionCause::Ecn } else { CongestionCause::Loss };
                        self.enter(record, cause, acked);
                    }
                }
                LOSS => {}
                _ => self.leave(record, &mut undo),
            }
        }
        if undo {
            self.undo(record);
        }
    }

    /// The flight from which the scheme reduces: cwnd, as on Linux.
    fn flight(&self, record: &Record) -> Flight {
        Flight::of_cwnd(&self.driver, self.settings.mss, self.bytes(record.in_flight()))
    }

    fn enter(&mut self, record: &Record, cause: CongestionCause, acked: Bytes) {
        let flight = self.flight(record);
        let reduces = self.episode.enter(&mut self.driver, self.now, cause, flight, acked);
        let at_once = cause == CongestionCause::Ecn && self.settings.precise_marks;
        if reduces && self.settings.sack && !at_once {
            // The reduction is computed in packets, as in the kernel: fractions of a packet round up as in
            // `tcp_cwnd_reduction`.
            let mss = self.settings.mss;
            let target = units(packets(self.driver.control().cwnd, mss).max(1));
            let prr = Prr::begin(target, units(packets(flight.size, mss)), PrrBound::Rfc9937);
            self.episode.reduce_by(prr, units(record.in_flight() + 1));
            self.episode.on_sent(units(record.prr_out));
        }
    }

    fn leave(&mut self, record: &Record, undo: &mut bool) {
        if self.episode.phase() == Phase::Open {
            return;
        }
        if std::mem::take(undo) {
            self.undo(record);
        } else {
            let inflight = self.bytes(record.in_flight());
            self.episode.leave(&mut self.driver, self.now, inflight);
        }
    }

    fn undo(&mut self, record: &Record) {
        let inflight = self.bytes(record.in_flight());
        self.episode.undo(&mut self.driver, self.now, inflight);
    }

    fn reduce(&mut self, record: &Record, acked: u32, good: bool) {
        let one = Bytes::new(1);
        self.episode.on_ack(units(acked), units(record.in_flight()), good, one);
        if let Some(cwnd) = self.episode.window() {
            self.allowance = packets(cwnd.max(one), one).saturating_sub(record.in_flight());
        }
    }

    /// Reports the record's timeouts to the driver, after everything else in the record.
    fn on_timeouts(&mut self, record: &Record) {
        if !record.states().any(|state| state == LOSS) {
            return;
        }
        let flight = self.flight(record);
        // Linux `tcp_enter_loss`: a recovery of the same data has already reduced cwnd.
        let reduced = u32::from(!record.has(flag::LOSS_EVENT) && record.retransmits == 0);
        self.episode.time_out(&mut self.driver, self.now, flight, record.retransmits + 1 + reduced);
    }
}

/// A number of packets as `Bytes`, for arithmetic in packets.
fn units(packets: u32) -> Bytes {
    Bytes::new(packets.into())
}

fn srtt(record: &Record) -> Option<Nanos> {
    (record.srtt_us > 0).then(|| Nanos::from_nanos(u64::from(record.srtt_us) * 125))
}
