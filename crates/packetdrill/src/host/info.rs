//! Fields of `TCP_INFO` in code blocks, by name.

use narrows_cc::{Bytes, Nanos};
use narrows_tcp::TcpInfo;

use super::Host;
use crate::connection::Connection;

/// Linux `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: f64 = 0x7fff_ffff as f64;

/// A connection and its `TCP_INFO` at one time.
struct State<'a> {
    now: Nanos,
    connection: &'a Connection,
    info: TcpInfo,
}

/// A field's name and value.
type Field = (&'static str, fn(&State<'_>) -> f64);

/// Supported fields and their values: fields of `TCP_INFO` with Linux's names, and `narrows_…`, an extension of the
/// language with counters and state of the sender that `TCP_INFO` lacks. Times are in microseconds, those of
/// `tcpi_last_…` in milliseconds. NaN stands for a value that does not exist yet.
const FIELDS: &[Field] = &[
    ("tcpi_ca_state", |own| f64::from(own.info.ca_state as u8)),
    ("tcpi_snd_cwnd", |own| own.info.cwnd as f64),
    ("tcpi_snd_ssthresh", |own| {
        let segments = |bytes: Bytes| (bytes.as_u64() / own.info.mss.as_u64()) as f64;
        own.info.ssthresh.map_or(INFINITE_SSTHRESH, segments)
    }),
    ("tcpi_unacked", |own| f64::from(own.info.unacked)),
    ("tcpi_sacked", |own| f64::from(own.info.sacked)),
    ("tcpi_lost", |own| f64::from(own.info.lost)),
    ("tcpi_retrans", |own| f64::from(own.info.retrans)),
    ("tcpi_total_retrans", |own| own.info.total_retrans as f64),
    ("tcpi_retransmits", |own| f64::from(own.info.timeouts)),
    ("tcpi_backoff", |own| f64::from(own.info.backoff)),
    ("tcpi_probes", |own| f64::from(own.info.probes)),
    ("tcpi_reordering", |own| f64::from(own.info.reordering)),
    ("tcpi_reord_seen", |own| f64::from(own.info.reordering_seen)),
    ("tcpi_rto", |own| micros(own.info.rto)),
    ("tcpi_rtt", |own| own.info.srtt.map_or(0.0, micros)),
    ("tcpi_rttvar", |own| own.info.rttvar.map_or(0.0, micros)),
    ("tcpi_min_rtt", |own| own.info.min_rtt.map_or(f64::NAN, micros)),
    ("tcpi_notsent_bytes", |own| own.info.unsent.as_u64() as f64),
    ("tcpi_snd_mss", |own| f64::from(own.connection.agreed.segment)),
    ("tcpi_advmss", |own| f64::from(own.connection.setup.advertised())),
    ("tcpi_last_data_recv", |own| ((own.now - own.connection.data_at).as_nanos() / 1_000_000) as f64),
    ("tcpi_busy_time", |own| micros(own.connection.activities(own.now).busy)),
    ("tcpi_rwnd_limited", |own| micros(own.connection.activities(own.now).window_limited)),
    ("tcpi_sndbuf_limited", |own| micros(own.connection.activities(own.now).buffer_limited)),
    ("narrows_cwnd_bytes", |own| own.connection.sender.window().as_f64()),
    ("narrows_app_limited", |own| f64::from(u8::from(own.connection.sender.is_app_limited()))),
    ("narrows_recoveries", |own| own.connection.sender.stats().recoveries as f64),
    ("narrows_timeouts", |own| own.connection.sender.stats().timeouts as f64),
    ("narrows_spurious_recoveries", |own| own.connection.sender.stats().spurious_recoveries as f64),
    ("narrows_tlp_probes", |own| own.connection.sender.stats().tlp_probes as f64),
    ("narrows_ecn_reductions", |own| own.connection.sender.stats().ecn_reductions as f64),
];

/// Whether the host has this field.
pub(super) fn is_kept(name: &str) -> bool {
    FIELDS.iter().any(|(own, _)| *own == name)
}

fn micros(time: Nanos) -> f64 {
    (time.as_nanos() / 1000) as f64
}

impl Host {
    /// A field by its name; `None` without a connection or value.
    pub(super) fn field(&self, now: Nanos, name: &str) -> Option<f64> {
        let connection = self.connection.as_ref()?;
        let (_, value) = FIELDS.iter().find(|(own, _)| *own == name)?;
        Some(value(&State { now, connection, info: connection.sender.info() })).filter(|value| !value.is_nan())
    }
}
