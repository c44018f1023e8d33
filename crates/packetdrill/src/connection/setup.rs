//! Initial state of a connection: settings, socket options, and the options of the peer's SYN.

use narrows_cc::schemes::{self, Entry};
use narrows_cc::{Bytes, EcnNeed, IdleRule, Nanos, ParamKind, Params, Random};
use narrows_tcp::{Receiver, Sender, TcpConfig};
use narrows_traffic::{App, AppConfig};

use super::{Agreed, SYN_WINDOW};
use crate::script::Segment;
use crate::shell::Settings;

/// Bytes of the timestamp option with its padding.
const TIMESTAMP_BYTES: u16 = 12;
/// Headers of IPv4 and TCP without options.
const HEADERS: u16 = 40;
/// The largest segment of a peer that announces none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// Seed of the schemes' random streams.
const SEED: u64 = 1;

/// Initial state of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) mtu: u16,
    pub(crate) scheme: &'static Entry,
    pub(crate) params: Params,
    /// `TCP_MAXSEG`.
    pub(crate) max_segment: Option<u16>,
    pub(crate) nodelay: bool,
    pub(crate) cork: bool,
    /// Size of the send buffer (`SO_SNDBUF`).
    pub(crate) send_buffer: Option<u64>,
    /// Largest window of a fixed receive buffer (`SO_RCVBUF`); the system tunes it if `None`.
    pub(crate) receive_space: Option<u64>,
    /// ECN is requested, or was requested and accepted.
    pub(crate) ecn: bool,
}

/// The scheme that Linux uses unless a sysctl names another: the first of the registry with HyStart.
pub(crate) fn default_scheme() -> Option<&'static Entry> {
    let ends_slow_start = |entry: &&Entry| entry.info.params.iter().any(|param| param.name == "hystart");
    schemes::ALL.iter().find(ends_slow_start)
}

/// The scheme that Linux calls by this name.
pub(crate) fn scheme_of(name: &str) -> Option<&'static Entry> {
    schemes::find(name).filter(|entry| !entry.coupled)
}

/// The segment size in a SYN of this end.
pub(crate) fn mss_option(mtu: u16, max_segment: Option<u16>) -> u16 {
    let own = mtu - HEADERS;
    max_segment.map_or(own, |most| most.min(own))
}

impl Setup {
    /// The largest payload announced to the peer (`tcpi_advmss`).
    pub(crate) fn advertised(&self) -> u16 {
        mss_option(self.mtu, self.max_segment)
    }

    /// Scale of our window fields (Linux: until the largest buffer fits).
    pub(crate) fn own_scale(&self) -> u8 {
        let mut scale = 0;
        let largest = self.receive_space.unwrap_or(self.settings.receive_buffer.1);
        while scale < 14 && largest >> scale > u64::from(u16::MAX) {
            scale += 1;
        }
        scale
    }

    /// Window field of a SYN: whole segments of a fixed buffer, without a scale (`tcp_select_initial_window`).
    pub(crate) fn syn_window(&self) -> u32 {
        let mss = u64::from(mss_option(self.mtu, None));
        self.receive_space.map_or(SYN_WINDOW, |space| {
            let whole = if space > mss { space / mss * mss } else { space };
            whole.min(u64::from(SYN_WINDOW)) as u32
        })
    }

    /// Options that both ends agree on; all wanted ones before the peer's SYN.
    pub(crate) fn agree(&self, peer: Option<&Segment>) -> Agreed {
        let wanted = &self.settings;
        let Some(options) = peer.and_then(|syn| syn.options.as_ref()) else {
            let timestamps = wanted.timestamps;
            let segment = self.advertised() - if timestamps { TIMESTAMP_BYTES } else { 0 };
            return Agreed { timestamps, sack: wanted.sack, scales: None, segment };
        };
        let timestamps = wanted.timestamps && options.timestamps.is_some();
        let scale = options.window_scale.filter(|_| wanted.window_scaling);
        let largest = options.mss.unwrap_or(DEFAULT_MSS).min(self.advertised());
        Agreed {
            timestamps,
            sack: wanted.sack && options.sack_ok,
            scales: scale.map(|peer| (peer.min(14), self.own_scale())),
            segment: largest.saturating_sub(if timestamps { TIMESTAMP_BYTES } else { 0 }).max(1),
        }
    }

    /// Settings of the endpoint. Without timestamps the connection presents none that could prove anything.
    fn config(&self, agreed: &Agreed) -> TcpConfig {
        let base = self.settings.extension.tcp(agreed.segment);
        let (start, largest) = self.settings.receive_buffer;
        TcpConfig {
            initial_window: self.settings.initial_window,
            receive_window: Bytes::new(match self.receive_space {
                Some(space) => space,
                None if base.receive_autotuning => largest,
                None => start,
            }),
            receive_autotuning: base.receive_autotuning && self.receive_space.is_none(),
            min_rto: self.settings.min_rto.unwrap_or(base.min_rto),
            sack: agreed.sack,
            rack: agreed.sack && self.settings.rack,
            tlp: agreed.sack && self.settings.probes,
            timestamps: agreed.timestamps,
            idle: if self.settings.idle_restart { base.idle } else { IdleRule::Off },
            ecn: self.ecn,
            ecn_precise: base.ecn_precise || self.scheme.ecn != EcnNeed::Nothing,
            ..base
        }
    }

    /// A sender that connects at `start`, with an application that this crate writes for.
    pub(crate) fn sender(&self, start: Nanos, agreed: &Agreed) -> Sender {
        let config = self.config(agreed);
        let mut params = self.params.clone();
        if self.settings.fair_queue {
            // A scheme without this parameter has a rate of its own, or none.
            let _ = params.set("paced", 1.0);
        }
        if !self.settings.hystart {
            // Schemes without this parameter have nothing to turn off.
            let own = self.scheme.info.params.iter().find(|param| param.name == "hystart");
            let off = own.map_or(0, |param| match param.kind {
                ParamKind::Choice(words) => words.iter().position(|word| *word == "off").unwrap_or(0),
                _ => 0,
            });
            let _ = params.set("hystart", off as f64);
        }
        let mss = Bytes::new(u64::from(config.segment));
        let scheme = self.scheme.build(
            &narrows_cc::Setup::new(mss, params, Random::stream(SEED, "scheme", 0))
                .with_window(config.initial_window)
                .with_sack(config.sack),
        );
        let app = App::new(AppConfig::Written, Random::stream(SEED, "app", 0), start);
        let mut sender = Sender::new(0, config, scheme, app, start);
        sender.set_local_congestion(self.settings.drops);
        sender
    }

    /// A receiver that waits for the peer's SYN.
    pub(crate) fn receiver(&self, agreed: &Agreed) -> Receiver {
        Receiver::new(0, &self.config(agreed))
    }
}
