//! Received options (RFC 4340 sections 5.8, 6.6 and 11; step 8 of section 8.5).

use narrows_cc::{Nanos, Rate};

use super::Connection;
use super::pending::REPLY_LIMIT;
use super::state::State;
use super::validity::Numbers;
use crate::ccid::Ccid;
use crate::loss::{LossRate, mean_interval, read_intervals};
use crate::seq::Seq;
use crate::wire::{Header, Kind, Opt, ResetCode, TICK_NANOS, options};

/// Options of a packet, except features and Ack Vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedOptions {
    /// Sequence number of the packet.
    pub(super) seq: Seq,
    /// Delay of the acknowledgement at the receiver.
    pub(super) elapsed: Option<Nanos>,
    pub(super) receive_rate: Option<Rate>,
    pub(super) loss_event_rate: Option<f64>,
    pub(super) loss_rate: Option<f64>,
    /// A Loss Intervals option is present.
    pub(super) intervals: bool,
    /// Slow Receiver: the receiver of sent data cannot keep up.
    pub(super) slow: bool,
    /// Expected checksum of the packet's data.
    pub(super) checksum: Option<u32>,
    pub(super) ndp: Option<u64>,
}

impl ReceivedOptions {
    /// Whether the options make the packet a feedback packet for `ccid`. CCID 3 requires Elapsed Time, Receive Rate and
    /// Loss Intervals (RFC 4342 section 6).
    pub(super) fn is_report(&self, ccid: Ccid) -> bool {
        match ccid {
            Ccid::Tfrc => self.elapsed.is_some() && self.receive_rate.is_some() && self.intervals,
            _ => self.loss_rate.is_some(),
        }
    }
}

/// Maximum number of bytes of Init Cookies returned; with at most this many bytes, replies to unproven packets stay
/// within [`REPLY_LIMIT`].
const MAX_COOKIES: usize = REPLY_LIMIT - 28;

/// Reset code and data for an option that ends the connection.
type ResetReason = (ResetCode, [u8; 3]);

impl Connection {
    /// Reads the options of a valid packet in order.
    pub(super) fn read_options(
        &mut self,
        now: Nanos,
        header: &Header,
        numbers: Numbers,
        bytes: &[u8],
    ) -> Result<ReceivedOptions, ResetReason> {
        let mut received = ReceivedOptions { seq: numbers.seq, ..ReceivedOptions::default() };
        let mut mandatory = false;
        let mut negotiated = false;
        let data = header.kind == Kind::Data;
        if header.kind == Kind::Response {
            // Return the cookies of the acknowledged Response, in order (section 8.1.4).
            self.cookies.clear();
        }
        for option in options(bytes) {
            let Ok(option) = option else {
                // Malformed options are skipped, unless mandatory.
                if mandatory {
                    return Err((ResetCode::MandatoryError, [0; 3]));
                }
                continue;
            };
            if matches!(option, Opt::Padding) {
                // Mandatory before Padding is padding (section 5.8.2).
                mandatory = false;
                continue;
            }
            if data && !option.allowed_on_data() {
                continue;
            }
            if matches!(option, Opt::Mandatory) {
                if mandatory {
                    return Err((ResetCode::OptionError, [1, 0, 0]));
                }
                mandatory = true;
                continue;
            }
            negotiated |= self.read_option(now, header, numbers, &option, mandatory, &mut received)?;
            mandatory = false;
        }
        if mandatory {
            // Mandatory at the end of the options is an error (section 5.8.2).
            return Err((ResetCode::OptionError, [1, 0, 0]));
        }
        if negotiated {
            self.features.end_options(numbers.seq);
            self.apply_features(now);
        }
        Ok(received)
    }

    /// Reads one option and returns whether it negotiates a feature.
    fn read_option(
        &mut self,
        now: Nanos,
        header: &Header,
        Numbers { seq, ack }: Numbers,
        option: &Opt<'_>,
        mandatory: bool,
        received: &mut ReceivedOptions,
    ) -> Result<bool, ResetReason> {
        if let Some(outcome) = self.features.on_option(seq, ack, option, mandatory) {
            return outcome.map(|()| true);
        }
        let ticks = |n: u32| Nanos::from_nanos(TICK_NANOS * u64::from(n));
        match *option {
            Opt::InitCookie(_)
                if header.kind == Kind::Response && matches!(self.state, State::Request | State::PartOpen) =>
            {
                option.write(&mut self.cookies);
                if self.cookies.len() > MAX_COOKIES {
                    return Err((ResetCode::OptionError, [option.kind(), 0, 0]));
                }
            }
            Opt::Timestamp(value) => self.reception.on_timestamp(now, value),
            Opt::ElapsedTime(n) => received.elapsed = Some(ticks(n)),
            Opt::ReceiveRate(n) => received.receive_rate = Some(Rate::from_bytes_per_sec(u64::from(n))),
            Opt::LossEventRate(u32::MAX) => received.loss_event_rate = Some(0.0),
            Opt::LossEventRate(n) => received.loss_event_rate = Some(1.0 / f64::from(n.max(1))),
            Opt::LossIntervals(value) if !received.intervals => {
                received.intervals = true;
                if received.loss_event_rate.is_none() {
                    let lengths = read_intervals(value).map(|(_, all)| all.map(|i| i.data));
                    let mean = lengths.and_then(mean_interval);
                    received.loss_event_rate = Some(mean.map_or(0.0, |mean| 1.0 / mean.max(1.0)));
                }
            }
            Opt::LossRate(n) => received.loss_rate = Some(LossRate::from_option(n)),
            Opt::SlowReceiver => received.slow = true,
            Opt::DataChecksum(sum) => received.checksum = Some(sum),
            Opt::NdpCount(n) => received.ndp = Some(n),
            Opt::Unknown { kind, value } if mandatory => {
                let at = |i: usize| value.get(i).copied().unwrap_or(0);
                return Err((ResetCode::MandatoryError, [kind, at(0), at(1)]));
            }
            _ => {}
        }
        Ok(false)
    }
}
