//! Explicit headers: what a sender asks of the network, and the answers that acknowledgements bring.

use narrows_cc::{Advice, Nanos, Rate, RateAdvice};
use narrows_net::Extension;
use narrows_net::allocator::RateCode;
use narrows_net::allocator::protocol::Explicit;
use narrows_net::packet::Packet;

use super::Sender;
use super::ack::before;
use super::subflow::data_header;
use crate::config::TcpConfig;
use narrows_traffic::App;

/// RCP: no router has set a rate.
const UNSET: f32 = -1.0;
/// XCP: as much as the network will give (ns-2.35 `xcp-end-sys.cc`).
const EVERYTHING: f64 = 1e24;

/// What tells old acknowledgements from new ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freshness {
    /// The newest timestamp of the receiver, and the newest that it echoed.
    newest: Option<(u32, u32)>,
}

impl Freshness {
    /// Whether this acknowledgement is no older than any before: not overtaken, and not played back. `una` is the highest
    /// acknowledgement number so far.
    pub(super) fn note(&mut self, packet: &Packet, una: u64) -> bool {
        let (value, echo) = (packet.ts_val, packet.ts_ecr);
        let Some((newest, newest_echo)) = &mut self.newest else {
            self.newest = Some((value, echo));
            return packet.ack >= una;
        };
        let fresh = packet.ack >= una && !before(value, *newest) && !before(echo, *newest_echo);
        if fresh {
            (*newest, *newest_echo) = (value, echo);
        }
        fresh
    }
}

/// See [`Sender::payload_share`].
pub(super) fn payload_share(config: &TcpConfig, app: &App, explicit: Explicit) -> f64 {
    let header = f64::from(data_header(config, app)) + f64::from(explicit.header_bytes());
    let payload = f64::from(config.segment);
    payload / (payload + header)
}

/// The rate on the wire that requests of RCP name (the desired rate R_p of the paper): the greatest of the header's numbers
/// that, coming back, is no more than the line's rate.
pub(super) fn desired(line: Option<Rate>, share: f64) -> f32 {
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

impl Sender {
    /// The header of a packet that leaves now; a SYN opens the connection.
    pub(super) fn request(&self, explicit: Explicit, opens: bool) -> Extension {
        let rtt_us = (self.rtt.srtt.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
        match explicit {
            Explicit::Brf if opens => Extension::BrfOffer,
            Explicit::Brf | Explicit::Nodectl => Extension::None,
            Explicit::Rcp => Extension::RcpRequest { rate: self.desired, rtt_us },
            Explicit::Xcp if rtt_us == 0 => Extension::XcpRequest { rtt_us, spacing: 0.0, delta: 0.0 },
            Explicit::Xcp => {
                let window = self.window.driver.control().cwnd.as_f64().max(1.0);
                let srtt = self.rtt.srtt.as_secs_f64();
                Extension::XcpRequest {
                    rtt_us,
                    spacing: (srtt * self.mss().as_f64() / window) as f32,
                    delta: (EVERYTHING - window / self.payload_share(explicit) / srtt) as f32,
                }
            }
        }
    }

    /// How much of a full packet on the wire is payload. The network counts everything, a scheme payload alone.
    pub(super) fn payload_share(&self, explicit: Explicit) -> f64 {
        payload_share(&self.config, &self.stream.app, explicit)
    }

    /// An acknowledgement with explicit fields has been processed.
    pub(super) fn on_reply(&mut self, now: Nanos, packet: &Packet, fresh: bool) {
        let Some(explicit) = self.explicit else { return };
        let share = self.payload_share(explicit);
        let advice = match (explicit, packet.extension()) {
            (Explicit::Rcp, Extension::RcpReply { rate }) => Advice::Rate(payload(rate, share)),
            (Explicit::Xcp, Extension::XcpReply { delta }) => Advice::Change(f64::from(delta) * share),
            (Explicit::Brf, Extension::BrfRate { .. }) if !fresh => {
                self.stats.stale_advice += 1;
                return;
            }
            (Explicit::Brf, Extension::BrfRate { code }) => {
                Advice::Rate(RateCode(code).decode().mul_f64(share))
            }
            _ => return,
        };
        self.on_advice(now, advice);
    }

    /// The network advises how fast to send; to be followed by [`Sender::poll_transmit`] as any other event.
    pub fn on_advice(&mut self, now: Nanos, advice: Advice) {
        self.window.driver.rate_advice(&RateAdvice { now, advice });
        self.window.follow(self.mss());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_asked_for_is_the_greatest_that_comes_back_within_the_line() {
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
