//! Explicit headers: what a sender asks of the network, and the answers that acknowledgements bring.

use narrows_cc::{Advice, Explicit, Nanos, Rate, RateAdvice};
use narrows_net::Extension;
use narrows_net::allocator::RateCode;
use narrows_net::packet::Packet;

use super::Sender;
use super::ack::before;

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

impl Sender {
    /// The header of a packet that leaves now; a SYN opens the connection.
    pub(super) fn request(&self, explicit: Explicit, opens: bool) -> Extension {
        let rtt_us = (self.rtt.srtt.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
        match explicit {
            Explicit::Brf if opens => Extension::BrfOffer,
            Explicit::Brf | Explicit::Nodectl => Extension::None,
            Explicit::Rcp => Extension::RcpRequest { rate: UNSET, rtt_us },
            Explicit::Xcp if rtt_us == 0 => Extension::XcpRequest { rtt_us, spacing: 0.0, delta: 0.0 },
            Explicit::Xcp => {
                let window = self.control.window.as_f64().max(1.0);
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
        let header = f64::from(self.config.header) + f64::from(explicit.header_bytes());
        let payload = f64::from(self.config.segment);
        payload / (payload + header)
    }

    /// An acknowledgement with explicit fields has been processed.
    pub(super) fn on_reply(&mut self, now: Nanos, packet: &Packet, fresh: bool) {
        let Some(explicit) = self.explicit else { return };
        let share = self.payload_share(explicit);
        let advice = match (explicit, packet.extension()) {
            // What is no rate becomes zero, which schemes ignore.
            (Explicit::Rcp, Extension::RcpReply { rate }) => {
                Advice::Rate(Rate::from_bytes_per_sec((f64::from(rate) * share) as u64))
            }
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
        self.scheme.on_rate_advice(&RateAdvice { now, advice });
        self.read_control();
    }
}
