//! Rate headers at the endpoints: the sender's request, the reply in acknowledgements, and the receiver's
//! echo.

use narrows_cc::{Advice, Nanos, Rate};
use narrows_packet::{Packet, RawOption};
use narrows_tcp::rates::{RateAgent, RateReply, RateSetup, SenderView};

use super::payload_share;
use crate::protocol::Explicit;
use crate::{RateCode, RateHeader, RouterFrame};

/// RCP: unset rate.
const UNSET: f32 = -1.0;
/// XCP: requests the maximum change (ns-2.35 `xcp-end-sys.cc`).
const EVERYTHING: f64 = 1e24;

/// Whether timestamp `a` is before `b`, modulo 2^32.
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Newest acknowledgement, to detect stale ones.
#[derive(Clone, Copy, Debug, Default)]
struct Freshness {
    /// Newest timestamp of the receiver, and newest timestamp echo.
    newest: Option<(u32, u32)>,
}

impl Freshness {
    /// Whether this acknowledgement is at least as new as all previous acknowledgements, neither reordered nor
    /// replayed. `una` is SND.UNA.
    fn note(&mut self, packet: &Packet, una: u64) -> bool {
        let tcp = packet.tcp();
        let (value, echo) = (tcp.ts_val, tcp.ts_ecr);
        let Some((newest, newest_echo)) = &mut self.newest else {
            self.newest = Some((value, echo));
            return tcp.ack >= una;
        };
        let fresh = tcp.ack >= una && !before(value, *newest) && !before(echo, *newest_echo);
        if fresh {
            (*newest, *newest_echo) = (value, echo);
        }
        fresh
    }
}

/// Wire rate in RCP requests (the desired rate R_p of the paper): the greatest header value whose payload
/// part does not exceed the line rate.
fn desired(line: Option<Rate>, share: f64) -> f32 {
    let Some(line) = line else { return UNSET };
    let mut rate = (line.as_bytes_per_sec() as f64 / share) as f32;
    while payload(rate, share) > line {
        rate = rate.next_down();
    }
    rate
}

/// Payload part of a rate in an RCP header. Invalid rates become zero, which schemes ignore.
fn payload(rate: f32, share: f64) -> Rate {
    Rate::from_bytes_per_sec((f64::from(rate) * share) as u64)
}

/// Agent that requests rates in packet headers (RCP, XCP) or offers to obey (BRF).
#[derive(Clone, Debug)]
pub(super) struct HeaderAgent {
    protocol: Explicit,
    segment: f64,
    /// Payload fraction of a full packet on the wire. The network counts wire bytes; a scheme counts payload only.
    share: f64,
    /// Rate in RCP requests.
    desired: f32,
    freshness: Freshness,
}

impl HeaderAgent {
    pub(super) fn new(protocol: Explicit, setup: &RateSetup) -> Self {
        let share = payload_share(setup, protocol);
        Self {
            protocol,
            segment: f64::from(setup.segment),
            share,
            desired: desired(setup.line, share),
            freshness: Freshness::default(),
        }
    }
}

impl RateAgent for HeaderAgent {
    fn option(&self, sender: &SenderView, opens: bool) -> Option<RawOption> {
        let srtt = sender.srtt.unwrap_or(Nanos::ZERO); // zero on the wire: unknown
        let rtt_us = (srtt.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
        let header = match self.protocol {
            Explicit::Brf if opens => RateHeader::BrfOffer,
            Explicit::Brf | Explicit::Nodectl => RateHeader::None,
            Explicit::Rcp => RateHeader::RcpRequest { rate: self.desired, rtt_us },
            Explicit::Xcp if rtt_us == 0 => RateHeader::XcpRequest { rtt_us, spacing: 0.0, delta: 0.0 },
            Explicit::Xcp => {
                let window = sender.cwnd.as_f64().max(1.0);
                let srtt = srtt.as_secs_f64();
                RateHeader::XcpRequest {
                    rtt_us,
                    spacing: (srtt * self.segment / window) as f32,
                    delta: (EVERYTHING - window / self.share / srtt) as f32,
                }
            }
        };
        header.encode()
    }

    fn on_acknowledgement(&mut self, packet: &Packet, una: u64, nxt: u64) -> RateReply {
        let header = packet.rate_header();
        let stale = RateReply { advice: None, stale: matches!(header, RateHeader::BrfRate { .. }) };
        if packet.tcp().ack > nxt {
            return stale;
        }
        let fresh = self.freshness.note(packet, una);
        let advice = match (self.protocol, header) {
            (Explicit::Rcp, RateHeader::RcpReply { rate }) => Advice::Rate(payload(rate, self.share)),
            (Explicit::Xcp, RateHeader::XcpReply { delta }) => Advice::Change(f64::from(delta) * self.share),
            (Explicit::Brf, RateHeader::BrfRate { .. }) if !fresh => return stale,
            (Explicit::Brf, RateHeader::BrfRate { code }) => Advice::Rate(RateCode(code).decode().mul_f64(self.share)),
            _ => return RateReply::default(),
        };
        RateReply { advice: Some(advice), stale: false }
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}

/// The receiver's echo: the latest rate (RCP), or the sum of the changes since the last acknowledgement
/// (XCP).
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    reply: RateHeader,
}

impl Echo {
    pub(super) fn on_option(&mut self, packet: &Packet) {
        match packet.rate_header() {
            RateHeader::RcpRequest { rate, .. } => self.reply = RateHeader::RcpReply { rate },
            RateHeader::XcpRequest { delta, .. } if delta.is_finite() => {
                let sum = if let RateHeader::XcpReply { delta } = self.reply { delta } else { 0.0 };
                self.reply = RateHeader::XcpReply { delta: sum + delta };
            }
            _ => {}
        }
    }

    pub(super) fn option(&mut self) -> Option<RawOption> {
        let option = self.reply.encode();
        if let RateHeader::XcpReply { delta } = &mut self.reply {
            *delta = 0.0;
        }
        option
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The desired rate is the greatest whose payload part stays within the line rate.
    #[test]
    fn desired_rate_is_greatest_within_line() {
        // From 2^24 on, 32-bit floats have no fractions; near 125 GB/s header values are multiples of 8 KiB/s.
        for share in [1448.0 / 1512.0, 1000.0 / 1066.0, 9000.0 / 9064.0] {
            for line in [999, 125_000, 16_777_217, 1_250_000_003, 12_499_999_999, 124_999_999_999] {
                let wire = desired(Some(Rate::from_bytes_per_sec(line)), share);
                assert!(payload(wire, share).as_bytes_per_sec() <= line, "{line}: {wire}");
                let above = payload(wire.next_up(), share).as_bytes_per_sec();
                assert!(above > line || f64::from(wire) * share >= line as f64 * (1.0 - 1e-7), "{line}: {wire}");
            }
        }
        assert_eq!(desired(None, 0.9), UNSET);
    }
}
