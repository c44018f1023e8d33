//! The handshake (RFC 4340 section 8.1): Request, Response, first acknowledgement.

use narrows_cc::Nanos;

use super::Connection;
use super::state::{Backoff, State};
use super::validity::Numbers;
use crate::seq::Seq;
use crate::wire::{Header, Kind, ResetCode};

/// First retransmission interval of a Request.
const REQUEST_INTERVAL: Nanos = Nanos::from_secs(1);

/// First retransmission interval of an Ack in PARTOPEN.
const PARTOPEN_INTERVAL: Nanos = Nanos::from_millis(200);

impl Connection {
    /// Starts a client.
    pub(super) fn begin_request(&mut self, now: Nanos) {
        self.pending.request = true;
        self.backoff = Backoff::start(now, REQUEST_INTERVAL, self.config.request_limit);
    }

    /// Step 3: a packet reaches a listening server. A Request for the server's service code opens the connection.
    pub(super) fn accept_request(&mut self, now: Nanos, header: &Header) -> Option<Numbers> {
        if header.kind != Kind::Request {
            self.refuse(now, header, ResetCode::NoConnection);
            return None;
        }
        // Section 8.1.2: the service code of all ones is invalid.
        if header.service != self.config.service || header.service == u32::MAX {
            self.refuse(now, header, ResetCode::BadServiceCode);
            return None;
        }
        let seq = Seq::new(header.seq);
        self.remote_port = header.source;
        self.gsr = seq;
        self.isr = Some(seq);
        self.osr = seq;
        self.state = State::Respond;
        self.backoff = Backoff::start(now, self.config.msl * 4, self.config.msl * 4);
        Some(Numbers { seq, ack: None })
    }

    /// Step 4: a packet reaches a client in REQUEST, which accepts a Response or a Reset.
    pub(super) fn accept_response(&mut self, now: Nanos, header: &Header) -> Option<Numbers> {
        let ack = header.ack.map(Seq::new).filter(|ack| {
            let (low, high) = self.acknowledgement_window();
            ack.within(low, high) && !low.after(high)
        });
        if !matches!(header.kind, Kind::Response | Kind::Reset) || ack.is_none() {
            self.refuse(now, header, ResetCode::PacketError);
            return None;
        }
        let seq = Seq::new(header.seq);
        self.gsr = seq;
        self.isr = Some(seq);
        Some(Numbers { seq, ack })
    }

    /// Steps 10 to 12, for a valid packet.
    pub(super) fn advance_handshake(&mut self, now: Nanos, kind: Kind, numbers: Numbers) {
        match self.state {
            State::Request => {
                self.state = State::PartOpen;
                self.backoff = Backoff::start(now, PARTOPEN_INTERVAL, self.config.msl * 4);
                self.pending.ack = true;
                self.pending.refusal = None;
                self.connected = true;
                self.measure_handshake(now, numbers);
            }
            State::Respond if kind == Kind::Request => self.pending.response = true,
            State::Respond => {
                self.open(numbers);
                self.connected = true;
                self.measure_handshake(now, numbers);
            }
            State::PartOpen if kind == Kind::Response => self.pending.ack = true,
            State::PartOpen if kind != Kind::Sync => self.open(numbers),
            _ => {}
        }
    }

    fn open(&mut self, Numbers { seq, .. }: Numbers) {
        self.osr = seq;
        self.state = State::Open;
        self.backoff = Backoff::NEVER;
        self.cookies = Vec::new();
    }

    /// The reply to a Request or Response yields the first round-trip sample. Every retransmission has a new number, so
    /// the sample is unambiguous.
    fn measure_handshake(&mut self, now: Nanos, Numbers { ack, .. }: Numbers) {
        let Some(&(_, sent_at)) = self.handshake.iter().find(|(seq, _)| Some(*seq) == ack) else { return };
        self.handshake.clear();
        let half = &mut self.half;
        let rtt = half.rtt.on_sample(now - sent_at);
        half.driver.handshake(now, rtt, half.rtt.smoothed(), half.rtt.least());
    }

    /// Retransmits or aborts the handshake.
    pub(super) fn on_handshake_timer(&mut self, now: Nanos) {
        if now >= self.backoff.until {
            // An endpoint in RESPOND reports no lost peer: the application has seen no connection yet.
            self.gone |= self.state != State::Respond;
            self.abort(now, ResetCode::Aborted);
        } else if now >= self.backoff.at {
            self.backoff.back_off(now);
            self.pending.request |= self.state == State::Request;
            self.pending.ack |= self.state == State::PartOpen;
        }
    }
}
