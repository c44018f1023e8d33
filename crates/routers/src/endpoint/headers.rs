//! Rate headers at the endpoints: the request of a sender, the answers that acknowledgements bring, and the receiver's echo.

use narrows_cc::{Advice, Rate};
use narrows_packet::{Packet, RawOption};
use narrows_tcp::rates::{RateAgent, RateReply, RateSetup, SenderView};

use super::payload_share;
use crate::protocol::Explicit;
use crate::{RateCode, RateHeader, RouterFrame};

/// RCP: no router has set a rate.
const UNSET: f32 = -1.0;
/// XCP: as much as the network will give (ns-2.35 `xcp-end-sys.cc`).
const EVERYTHING: f64 = 1e24;

/// Whether timestamp `a` is before `b`, modulo 2^32.
const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The newest acknowledgement, to tell old ones from new ones.
#[derive(Clone, Copy, Debug, Default)]
struct Freshness {
    /// The newest timestamp of the receiver, and the newest that it echoed.
    newest: Option<(u32, u32)>,
}

impl Freshness {
    /// Whether this acknowledgement is no older than any before: not overtaken, and not played back. `una` is the highest
    /// acknowledgement number so far.
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

/// The rate on the wire that requests of RCP name (the desired rate R_p of the paper): the greatest of the header's numbers
/// that, coming back, is no more than the line's rate.
fn desired(line: Option<Rate>, share: f64) -> f32 {
    let Some(line) = line else { return UNSET };
    let mut rate = (line.as_bytes_per_sec() as f64 / share) as f32;
    while payload(rate, share) > line {
        rate = rate.next_down();
    }
    rate
}

/// A rate in a header of RCP, as payload. What is no rate becomes zero, which schemes ignore.
fn payload(rate: f32, share: f64) -> Rate {
    Rate::from_bytes_per_sec((f64::from(rate) * share) as u64)
}

/// A sender that asks in the headers of its packets, or offers to obey.
#[derive(Clone, Debug)]
pub(super) struct HeaderAgent {
    protocol: Explicit,
    segment: f64,
    /// How much of a full packet on the wire is payload. The network counts everything, a scheme payload alone.
    share: f64,
    /// The rate that requests of RCP name.
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
        let rtt_us = (sender.srtt.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
        let header = match self.protocol {
            Explicit::Brf if opens => RateHeader::BrfOffer,
            Explicit::Brf | Explicit::Nodectl => RateHeader::None,
            Explicit::Rcp => RateHeader::RcpRequest { rate: self.desired, rtt_us },
            Explicit::Xcp if rtt_us == 0 => RateHeader::XcpRequest { rtt_us, spacing: 0.0, delta: 0.0 },
            Explicit::Xcp => {
                let window = sender.cwnd.as_f64().max(1.0);
                let srtt = sender.srtt.as_secs_f64();
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
            (Explicit::Brf, RateHeader::BrfRate { code }) => {
                Advice::Rate(RateCode(code).decode().mul_f64(self.share))
            }
            _ => return RateReply::default(),
        };
        RateReply { advice: Some(advice), stale: false }
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
    }
}

/// The receiver's echo: the rate that arrived last (RCP), the sum of the changes that arrived since the last acknowledgement
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

    /// The rate asked for is the greatest that comes back within the line's rate.
    #[test]
    fn desired_rate_is_greatest_within_line() {
        // 2^24 and more have no fractions in the header; 125 GB/s are rounded to 8 KiB/s.
        for share in [1448.0 / 1512.0, 1000.0 / 1066.0, 9000.0 / 9064.0] {
            for line in [999, 125_000, 16_777_217, 1_250_000_003, 12_499_999_999, 124_999_999_999] {
                let asked = desired(Some(Rate::from_bytes_per_sec(line)), share);
                assert!(payload(asked, share).as_bytes_per_sec() <= line, "{line}: {asked}");
                let above = payload(asked.next_up(), share).as_bytes_per_sec();
                assert!(
                    above > line || f64::from(asked) * share >= line as f64 * (1.0 - 1e-7),
                    "{line}: {asked}"
                );
            }
        }
        assert_eq!(desired(None, 0.9), UNSET);
    }
}
