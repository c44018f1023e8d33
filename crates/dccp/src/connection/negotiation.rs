//! Feature negotiation of a connection: which features it requests, and how agreed values take effect.

use narrows_cc::Nanos;

use super::Connection;
use super::ratio::max_ratio;
use crate::ccid::Ccid;
use crate::feature::{self, Side};
use crate::wire::ResetCode;

impl Connection {
    /// What this end wants of features.
    pub(super) fn wish(&mut self, now: Nanos) {
        let Self { config, features, .. } = self;
        let mut wanted = vec![Ccid::of(config.scheme).number()];
        wanted.extend(config.fallback.map(|entry| Ccid::of(entry).number()));
        // Without agreement the other side keeps CCID 2, which only serves a scheme that is one.
        let mandatory = !wanted.contains(&2);
        features.want(now, feature::CCID, Side::Local, &wanted, mandatory);
        features.accept(feature::CCID, Side::Remote, &config.accept);
        if !config.accept.contains(&Ccid::TcpLike.number()) {
            // CCID 2 is what a connection begins with: who cannot take it has to say so at once (section 10).
            features.want(now, feature::CCID, Side::Remote, &config.accept, true);
        }
        for (number, values) in [
            (feature::SEND_ACK_VECTOR, &[1, 0][..]),
            (feature::SEND_LOSS_EVENT_RATE, &[1, 0]),
            (feature::SEND_NDP_COUNT, &[1, 0]),
        ] {
            features.accept(number, Side::Local, values);
        }
        features.accept(feature::ECN_INCAPABLE, Side::Remote, &[0, 1]);
        features.accept(feature::CHECK_DATA, Side::Local, &[1, 0]);
        if config.data_checksum {
            features.want(now, feature::CHECK_DATA, Side::Remote, &[1], true);
        }
        if config.short {
            features.want(now, feature::SHORT_NUMBERS, Side::Local, &[1, 0], false);
            features.accept(feature::SHORT_NUMBERS, Side::Remote, &[1, 0]);
        }
        if !config.ecn {
            // Section 12.1.
            features.want(now, feature::ECN_INCAPABLE, Side::Local, &[1], true);
        }
        let (least, most) = feature::SEQUENCE_WINDOWS;
        features.state(now, feature::SEQUENCE_WINDOW, config.sequence_window.clamp(least, most));
        let window = u64::from(config.initial_window);
        features.state(now, feature::ACK_RATIO, u64::from(config.ack_ratio).clamp(1, max_ratio(window)));
        self.wish_for_reports(now);
    }

    /// What the receiver of our data shall report.
    fn wish_for_reports(&mut self, now: Nanos) {
        // CCID 3 does without vectors, but then nobody knows which packets were lost (RFC 4342 section 6).
        self.features.want(now, feature::SEND_ACK_VECTOR, Side::Remote, &[1], false);
        if self.half.ccid == Ccid::Tfrc {
            self.features.want(now, feature::SEND_LOSS_EVENT_RATE, Side::Remote, &[1], false);
        }
    }

    /// Features may have changed: the half-connections follow.
    pub(super) fn settle(&mut self, now: Nanos) {
        let ours = self.features.value(feature::CCID, Side::Local) as u8;
        if !self.features.is_changing(feature::CCID, Side::Local) && ours != self.half.ccid.number() {
            let other = self.config.fallback.filter(|entry| Ccid::of(entry).number() == ours);
            match other {
                Some(entry) if self.half.offset == 0 => {
                    self.half.replace(entry, &self.config, &self.random);
                    self.wish_for_reports(now);
                }
                _ => {
                    self.reset(now, ResetCode::MandatoryError, [1, feature::CCID, ours]);
                    return;
                }
            }
        }
        let theirs = self.features.value(feature::CCID, Side::Remote) as u8;
        if let Some(ccid) = Ccid::from_number(theirs) {
            let rtt = self.half.rtt.last;
            self.reception.set_ccid(now, ccid, self.gsr, rtt);
            if ccid == Ccid::Tfrc {
                // Its loss intervals count packets with data only (RFC 4342 section 6.1).
                self.features.want(now, feature::SEND_NDP_COUNT, Side::Remote, &[1], false);
            }
        }
    }

    /// After an acknowledgement: once per window the ratio is looked at.
    pub(super) fn control_acknowledgements(&mut self, now: Nanos) {
        let half = &mut self.half;
        if half.ccid == Ccid::Tfrc || !half.ratio.ends_window(half.records.known(), half.records.end()) {
            return;
        }
        if self.features.is_changing(feature::ACK_RATIO, Side::Local) {
            return;
        }
        let ratio = self.features.value(feature::ACK_RATIO, Side::Local);
        let cwnd = half.control.cwnd.as_u64() / u64::from(self.config.datagram.max(1));
        let next = match half.ccid {
            Ccid::TcpLike => half.ratio.next(ratio, cwnd),
            _ => u64::from(self.config.ack_ratio).clamp(1, max_ratio(cwnd)),
        };
        if next != ratio {
            self.features.state(now, feature::ACK_RATIO, next);
        }
    }

    /// Asks for another window of valid sequence numbers.
    pub fn set_sequence_window(&mut self, now: Nanos, packets: u64) {
        let (least, most) = feature::SEQUENCE_WINDOWS;
        self.features.state(now, feature::SEQUENCE_WINDOW, packets.clamp(least, most));
    }
}
