//! Names of `TCP_INFO` in code blocks.

use narrows_cc::Nanos;
use narrows_tcp::CaState;

use super::Host;

/// Linux `TCP_INFINITE_SSTHRESH`.
const INFINITE_SSTHRESH: f64 = 0x7fff_ffff as f64;

/// Fields of `TCP_INFO` that the host has.
const FIELDS: &[&str] = &[
    "ca_state",
    "snd_cwnd",
    "snd_ssthresh",
    "unacked",
    "sacked",
    "lost",
    "retrans",
    "total_retrans",
    "retransmits",
    "reordering",
    "reord_seen",
    "backoff",
    "probes",
    "rto",
    "rtt",
    "rttvar",
    "min_rtt",
    "notsent_bytes",
    "snd_mss",
    "advmss",
    "last_data_recv",
    "busy_time",
    "rwnd_limited",
    "sndbuf_limited",
];

/// An extension of the language: counters and state of the endpoint that `TCP_INFO` lacks, as `narrows_…`.
const EXTENSION: &[&str] =
    &["cwnd_bytes", "app_limited", "recoveries", "timeouts", "spurious_recoveries", "tlp_probes", "ecn_reductions"];

/// Whether the host has this field.
pub(super) fn is_kept(name: &str) -> bool {
    let of = |prefix, fields: &[&str]| name.strip_prefix(prefix).is_some_and(|field| fields.contains(&field));
    of("tcpi_", FIELDS) || of("narrows_", EXTENSION)
}

fn micros(time: Nanos) -> f64 {
    (time.as_nanos() / 1000) as f64
}

impl Host {
    /// A field of `TCP_INFO`, by its name in Linux; `None` if it is not kept here or there is no connection.
    /// Times are in microseconds, those of `tcpi_last_…` in milliseconds.
    pub(super) fn field(&self, now: Nanos, name: &str) -> Option<f64> {
        let connection = self.connection.as_ref()?;
        if let Some(name) = name.strip_prefix("narrows_") {
            return connection.counter(name);
        }
        let info = connection.info();
        Some(match name.strip_prefix("tcpi_")? {
            "ca_state" => match info.ca_state {
                CaState::Open => 0.0,
                CaState::Disorder => 1.0,
                CaState::Cwr => 2.0,
                CaState::Recovery => 3.0,
                CaState::Loss => 4.0,
            },
            "snd_cwnd" => info.cwnd as f64,
            "snd_ssthresh" => {
                info.ssthresh.map_or(INFINITE_SSTHRESH, |bytes| (bytes.as_u64() / info.mss.as_u64()) as f64)
            }
            "unacked" => f64::from(info.unacked),
            "sacked" => f64::from(info.sacked),
            "lost" => f64::from(info.lost),
            "retrans" => f64::from(info.retrans),
            "total_retrans" => info.total_retrans as f64,
            "retransmits" => f64::from(info.timeouts),
            "backoff" => f64::from(info.backoff),
            "probes" => f64::from(info.probes),
            "reordering" => f64::from(info.reordering),
            "reord_seen" => f64::from(info.reordering_seen),
            "rto" => micros(info.rto),
            "rtt" => micros(info.srtt.unwrap_or(Nanos::ZERO)),
            "rttvar" => micros(info.rttvar.unwrap_or(Nanos::ZERO)),
            "min_rtt" => micros(info.min_rtt?),
            "notsent_bytes" => info.unsent.as_u64() as f64,
            "snd_mss" => f64::from(connection.segment_size()),
            "advmss" => f64::from(connection.advertised()),
            "last_data_recv" => ((now - connection.data_at).as_nanos() / 1_000_000) as f64,
            "busy_time" => micros(connection.activities(now).busy),
            "rwnd_limited" => micros(connection.activities(now).window_limited),
            "sndbuf_limited" => micros(connection.activities(now).buffer_limited),
            _ => return None,
        })
    }
}
