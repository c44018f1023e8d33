//! Acknowledgements, losses, and the start and end of recovery.

use narrows_cc::{
    Ack, Bytes, CongestionControl, Lost, Phase, RecoveryEntered, RecoveryLeft, SpuriousLoss, Timeout, record,
};

use super::path::Packet;
use super::{Flow, MSS, events};

impl<C: CongestionControl> Flow<C> {
    fn report_lost(&mut self, packet: Packet) {
        self.inflight -= MSS;
        self.lost += 1;
        self.sampler.on_lost(MSS);
        let lost = events::lost(self.now, MSS, &packet.snapshot, self.sampler.lost(), self.inflight);
        self.cc.on_lost(&record!(Lost { packet: packet.seq, ..lost }));
    }

    /// Declares all packets sent before `until` lost.
    fn give_up(&mut self, until: u64) {
        while let Some(packet) = self.dropped.front().copied().filter(|packet| packet.seq < until) {
            self.dropped.pop_front();
            self.missed = true;
            if self.path.repairs && packet.seq <= self.recover_until {
                self.repaired_after = self.sent;
            }
            self.report_lost(packet);
        }
        for nth in 0..self.delayed.len() {
            let packet = &mut self.delayed[nth];
            let found = Self::presume_lost(packet, until);
            self.report_missing(found);
        }
        let mut nth = 0;
        while self.flying.get(nth).is_some_and(|packet| packet.seq < until) {
            let found = Self::presume_lost(&mut self.flying[nth], until);
            self.report_missing(found);
            nth += 1;
        }
    }

    fn presume_lost(packet: &mut Packet, until: u64) -> Option<Packet> {
        let found = packet.seq < until && !packet.given_up;
        packet.given_up |= found;
        found.then_some(*packet)
    }

    fn report_missing(&mut self, packet: Option<Packet>) {
        if let Some(packet) = packet {
            self.missing += 1;
            self.report_lost(packet);
        }
    }

    /// Removes the packets delivered until now. Returns their bytes and the newest packet.
    fn deliver(&mut self) -> (Bytes, Packet) {
        let (mut acked, mut newest, mut sampled) = (Bytes::ZERO, None::<Packet>, None);
        for line in [&mut self.flying, &mut self.delayed] {
            while let Some(packet) = line.front().copied().filter(|packet| packet.ack_at <= self.now) {
                line.pop_front();
                self.sampler.on_delivered(self.now, MSS, &packet.snapshot, &mut sampled);
                acked += MSS;
                if packet.given_up {
                    self.missing = self.missing.saturating_sub(1);
                } else {
                    self.inflight -= MSS;
                }
                if newest.is_none_or(|newest| packet.seq > newest.seq) {
                    newest = Some(packet);
                }
            }
        }
        self.delivered += acked;
        self.last_ack_at = self.now;
        (acked, newest.expect("called when one is due"))
    }

    /// Delivers all acknowledgements that are due now as a single acknowledgement.
    pub(super) fn acknowledge(&mut self) -> Ack {
        self.check_app_limited();
        let before = self.inflight;
        let (acked, newest) = self.deliver();
        let rtt = self.now - newest.snapshot.sent_at;
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.least_rtt = self.least_rtt.min(rtt);
        let (lost_before, repairing) = (self.lost, self.phase != Phase::Open);
        let found_late = repairing && self.missing == 0 && !self.missed;
        self.give_up(newest.seq.saturating_sub(2));
        let lost = MSS * (self.lost - lost_before);
        let (now, inflight, delivered) = (self.now, self.inflight, self.delivered);
        if !repairing && !lost.is_zero() {
            self.phase = Phase::Recovery;
            self.recover_until = self.sent;
            let flight_size = before;
            let event = record!(RecoveryEntered { now, flight_size, inflight, acked, delivered });
            self.cc.on_recovery_entered(&event);
        } else if found_late && lost.is_zero() {
            self.cc.on_spurious_loss(&record!(SpuriousLoss { now, inflight, delivered, phase: self.phase }));
            self.leave_recovery();
        } else if repairing
            && newest.seq > self.recover_until.max(self.repaired_after)
            && lost.is_zero()
            && self.missing == 0
        {
            self.leave_recovery();
            self.cc.on_recovery_left(&record!(RecoveryLeft { now, inflight, delivered }));
        }
        let round_start = self.round.on_ack(newest.snapshot.delivered, self.delivered);
        let ack = record!(Ack {
            acked,
            acked_cumulative: Some(acked),
            lost,
            rtt: Some(rtt),
            rate: self.sampler.sample(Some(&newest.snapshot), Some(self.least_rtt)),
            inflight_before: before,
            round_start,
            round: self.round.count(),
            ..self.blank_ack()
        });
        self.cc.on_ack(&ack);
        ack
    }

    fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        (self.missing, self.missed) = (0, false);
    }

    pub(super) fn time_out(&mut self) {
        let flight_size = self.inflight;
        self.give_up(self.sent + 1);
        self.phase = Phase::Loss;
        self.recover_until = self.sent;
        self.last_sent_at = self.now;
        let (now, inflight, delivered) = (self.now, self.inflight, self.delivered);
        self.cc.on_timeout(&record!(Timeout { now, flight_size, inflight, delivered, consecutive: 1 }));
    }
}
