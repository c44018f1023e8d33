//! What the options of a packet say (RFC 4340 sections 5.8, 6.6 and 11; step 8 of section 8.5).

use narrows_cc::{Nanos, Rate};

use super::Connection;
use super::pending::REPLY_LIMIT;
use super::state::State;
use super::validity::Numbers;
use crate::ccid::Ccid;
use crate::loss::{LossRate, mean_interval, read_intervals};
use crate::seq::Seq;
use crate::wire::{Header, Kind, Opt, ResetCode, options};

/// What they say of our data, apart from Ack Vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// The number of the packet.
    pub(super) seq: Seq,
    /// How long the acknowledgement waited.
    pub(super) elapsed: Option<Nanos>,
    pub(super) receive_rate: Option<Rate>,
    pub(super) loss_event_rate: Option<f64>,
    pub(super) loss_rate: Option<f64>,
    /// Loss intervals came.
    pub(super) intervals: bool,
    /// The receiver of our data has trouble keeping up.
    pub(super) slow: bool,
    /// The checksum that the data of this packet is to have.
    pub(super) checksum: Option<u32>,
    pub(super) ndp: Option<u64>,
}

impl Told {
    /// Whether they make the packet a report for data of this CCID: for CCID 3, less than Elapsed Time, Receive Rate and Loss
    /// Intervals is none (RFC 4342 section 6).
    pub(super) fn is_report(&self, ccid: Ccid) -> bool {
        match ccid {
            Ccid::Tfrc => self.elapsed.is_some() && self.receive_rate.is_some() && self.intervals,
            _ => self.loss_rate.is_some(),
        }
    }
}

/// Bytes of Init Cookies that are returned at most: with them, an answer to a packet that proves nothing keeps its limit.
const MOST_COOKIES: usize = REPLY_LIMIT - 28;

/// Why an option ends the connection: code and data of the Reset.
type Refused = (ResetCode, [u8; 3]);

impl Connection {
    /// Reads all options of a valid packet, in order.
    pub(super) fn read_options(
        &mut self,
        now: Nanos,
        header: &Header,
        numbers: Numbers,
        bytes: &[u8],
    ) -> Result<Told, Refused> {
        let mut told = Told { seq: numbers.seq, ..Told::default() };
        let mut mandatory = false;
        let mut negotiated = false;
        let data = header.kind == Kind::Data;
        if header.kind == Kind::Response {
            // Those of the Response that is acknowledged are to be returned, all of them in their order (section 8.1.4).
            self.cookies.clear();
        }
        for option in options(bytes) {
            let Ok(option) = option else {
                // An option that cannot be is passed over, unless it must be understood.
                if mandatory {
                    return Err((ResetCode::MandatoryError, [0; 3]));
                }
                continue;
            };
            if matches!(option, Opt::Padding) {
                // Mandatory and Padding are two bytes of padding (section 5.8.2).
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
            negotiated |= self.read_option(now, header, numbers, &option, mandatory, &mut told)?;
            mandatory = false;
        }
        if mandatory {
            // Mandatory at the end announces nothing (section 5.8.2).
            return Err((ResetCode::OptionError, [1, 0, 0]));
        }
        if negotiated {
            self.features.received(numbers.seq);
            self.settle(now);
        }
        Ok(told)
    }

    /// Reads one option; gives whether it was about a feature.
    fn read_option(
        &mut self,
        now: Nanos,
        header: &Header,
        Numbers { seq, ack }: Numbers,
        option: &Opt<'_>,
        mandatory: bool,
        told: &mut Told,
    ) -> Result<bool, Refused> {
        let ticks = |n: u32| Nanos::from_micros(10 * u64::from(n));
        let outcome = match *option {
            Opt::ChangeL { feature, value } => self
                .features
                .on_change(seq, true, feature, value, mandatory)
                .map_err(|code| (code, feature, value)),
            Opt::ChangeR { feature, value } => self
                .features
                .on_change(seq, false, feature, value, mandatory)
                .map_err(|code| (code, feature, value)),
            Opt::ConfirmL { feature, value } => self
                .features
                .on_confirm(seq, ack, true, feature, value)
                .map_err(|code| (code, feature, value)),
            Opt::ConfirmR { feature, value } => self
                .features
                .on_confirm(seq, ack, false, feature, value)
                .map_err(|code| (code, feature, value)),
            _ => {
                match *option {
                    Opt::InitCookie(_)
                        if header.kind == Kind::Response
                            && matches!(self.state, State::Request | State::PartOpen) =>
                    {
                        option.write(&mut self.cookies);
                        if self.cookies.len() > MOST_COOKIES {
                            return Err((ResetCode::OptionError, [option.kind(), 0, 0]));
                        }
                    }
                    Opt::Timestamp(value) => self.reception.on_timestamp(now, value),
                    Opt::ElapsedTime(n) => told.elapsed = Some(ticks(n)),
                    Opt::ReceiveRate(n) => told.receive_rate = Some(Rate::from_bytes_per_sec(u64::from(n))),
                    Opt::LossEventRate(u32::MAX) => told.loss_event_rate = Some(0.0),
                    Opt::LossEventRate(n) => told.loss_event_rate = Some(1.0 / f64::from(n.max(1))),
                    Opt::LossIntervals(value) if !told.intervals => {
                        told.intervals = true;
                        if told.loss_event_rate.is_none() {
                            let lengths = read_intervals(value).map(|(_, all)| all.map(|i| i.data));
                            let mean = lengths.and_then(mean_interval);
                            told.loss_event_rate = Some(mean.map_or(0.0, |mean| 1.0 / mean.max(1.0)));
                        }
                    }
                    Opt::LossRate(n) => told.loss_rate = Some(LossRate::from_option(n)),
                    Opt::SlowReceiver => told.slow = true,
                    Opt::DataChecksum(sum) => told.checksum = Some(sum),
                    Opt::NdpCount(n) => told.ndp = Some(n),
                    Opt::Unknown { kind, value } if mandatory => {
                        let at = |i: usize| value.get(i).copied().unwrap_or(0);
                        return Err((ResetCode::MandatoryError, [kind, at(0), at(1)]));
                    }
                    _ => {}
                }
                return Ok(false);
            }
        };
        match outcome {
            Ok(()) => Ok(true),
            // Section 5.6: the option's type and the beginning of its value tell what was refused.
            Err((code, feature, value)) => {
                Err((code, [option.kind(), feature, value.first().copied().unwrap_or(0)]))
            }
        }
    }
}
