//! Feature negotiation of a connection: which features it requests, and how agreed values take effect.

use narrows_cc::Nanos;

use super::Connection;
use super::ratio::max_ratio;
use crate::ccid::Ccid;
use crate::feature::{self, Side};
use crate::wire::ResetCode;

impl Connection {
    /// Opens the negotiation of the features in the configuration.
    pub(super) fn request_features(&mut self, now: Nanos) {
        let Self { config, features, .. } = self;
        let mut ccids = vec![Ccid::of(config.scheme).number()];
        ccids.extend(config.fallback.map(|entry| Ccid::of(entry).number()));
        // Without agreement the CCID stays 2, so the request is mandatory if neither the scheme nor its fallback has
        // CCID 2.
        let mandatory = !ccids.contains(&2);
        features.request(now, feature::CCID, Side::Local, &ccids, mandatory);
        features.set_preferences(feature::CCID, Side::Remote, &config.accept);
        if !config.accept.contains(&Ccid::TcpLike.number()) {
            // Connections start with CCID 2. An endpoint that rejects CCID 2 must open the negotiation immediately
            // (section 10).
            features.request(now, feature::CCID, Side::Remote, &config.accept, true);
        }
        for (number, values) in [
            (feature::SEND_ACK_VECTOR, &[1, 0][..]),
            (feature::SEND_LOSS_EVENT_RATE, &[1, 0]),
            (feature::SEND_NDP_COUNT, &[1, 0]),
        ] {
            features.set_preferences(number, Side::Local, values);
        }
        features.set_preferences(feature::ECN_INCAPABLE, Side::Remote, &[0, 1]);
        features.set_preferences(feature::CHECK_DATA, Side::Local, &[1, 0]);
        if config.data_checksum {
            features.request(now, feature::CHECK_DATA, Side::Remote, &[1], true);
        }
        if config.short {
            features.request(now, feature::SHORT_NUMBERS, Side::Local, &[1, 0], false);
            features.set_preferences(feature::SHORT_NUMBERS, Side::Remote, &[1, 0]);
        }
        if !config.ecn {
            // RFC 4340 section 12.1.
            features.request(now, feature::ECN_INCAPABLE, Side::Local, &[1], true);
        }
        let (least, most) = feature::SEQUENCE_WINDOWS;
        features.set_local(now, feature::SEQUENCE_WINDOW, config.sequence_window.clamp(least, most));
        let window = u64::from(config.initial_window);
        features.set_local(now, feature::ACK_RATIO, u64::from(config.ack_ratio).clamp(1, max_ratio(window)));
        self.request_feedback(now);
    }

    /// Requests the feedback that the local CCID needs from the data receiver.
    fn request_feedback(&mut self, now: Nanos) {
        // CCID 3 works without Ack Vectors, but they identify the lost packets (RFC 4342 section 6).
        self.features.request(now, feature::SEND_ACK_VECTOR, Side::Remote, &[1], false);
        if self.half.ccid == Ccid::Tfrc {
            self.features.request(now, feature::SEND_LOSS_EVENT_RATE, Side::Remote, &[1], false);
        }
    }

    /// Applies agreed features to both half-connections.
    pub(super) fn apply_features(&mut self, now: Nanos) {
        let ours = self.features.value(feature::CCID, Side::Local) as u8;
        if !self.features.is_changing(feature::CCID, Side::Local) && ours != self.half.ccid.number() {
            let other = self.config.fallback.filter(|entry| Ccid::of(entry).number() == ours);
            match other {
                Some(entry) if self.half.offset == 0 => {
                    self.half.replace(entry, &self.config, &self.random);
                    self.request_feedback(now);
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
                // CCID 3 loss intervals count data packets only (RFC 4342 section 6.1).
                self.features.request(now, feature::SEND_NDP_COUNT, Side::Remote, &[1], false);
            }
        }
    }

    /// Adapts the Ack Ratio, once per window.
    pub(super) fn control_acknowledgements(&mut self, now: Nanos) {
        let half = &mut self.half;
        if half.ccid == Ccid::Tfrc || !half.ratio.ends_window(half.records.known(), half.records.end()) {
            return;
        }
        if self.features.is_changing(feature::ACK_RATIO, Side::Local) {
            return;
        }
        let ratio = self.features.value(feature::ACK_RATIO, Side::Local);
        let cwnd = self.control().cwnd.as_u64() / u64::from(self.config.datagram.max(1));
        let half = &mut self.half;
        let next = match half.ccid {
            Ccid::TcpLike => half.ratio.next_ratio(ratio, cwnd),
            _ => u64::from(self.config.ack_ratio).clamp(1, max_ratio(cwnd)),
        };
        if next != ratio {
            self.features.set_local(now, feature::ACK_RATIO, next);
        }
    }

    /// Negotiates a new Sequence Window.
    pub fn set_sequence_window(&mut self, now: Nanos, packets: u64) {
        let (least, most) = feature::SEQUENCE_WINDOWS;
        self.features.set_local(now, feature::SEQUENCE_WINDOW, packets.clamp(least, most));
    }
}
