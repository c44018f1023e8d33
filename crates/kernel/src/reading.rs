//! The kernel's reports on its TCP senders (`sock_diag`): `TCP_INFO` and internals of the scheme.

use std::io;
use std::net::SocketAddrV4;

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_host::diagnostics::{self, INFO, SCHEME};
use narrows_host::netlink::{Netlink, attributes};
use narrows_tcp::{CaState, TcpInfo};

/// `INET_DIAG_BBRINFO`.
const MODEL: u16 = 16;
/// `TCP_INFINITE_SSTHRESH`.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// The kernel's report on one sender.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Name of the running scheme.
    pub(crate) scheme: String,
    pub(crate) info: TcpInfo,
    pub(crate) cwnd: Bytes,
    pub(crate) pacing_rate: Option<Rate>,
    /// Number of retransmission timeouts; reported from Linux 6.7 on.
    pub(crate) timeouts: Option<u64>,
    pub(crate) model: Option<ModelInfo>,
    /// Whether the connection is open; otherwise the values are the last that the kernel reported.
    pub(crate) open: bool,
}

/// `struct tcp_bbr_info`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelInfo {
    pub(crate) bandwidth: Rate,
    pub(crate) min_rtt: Nanos,
    pub(crate) pacing_gain: f64,
    pub(crate) cwnd_gain: f64,
}

/// The reading of the TCP socket with these addresses in the namespace of `netlink`.
///
/// # Errors
/// If there is no such socket, or the kernel refuses.
pub(crate) fn read(netlink: &mut Netlink, local: SocketAddrV4, remote: SocketAddrV4) -> io::Result<Option<Reading>> {
    let mut found = None;
    diagnostics::read(netlink, local, remote, |reported, _| found = reading(reported))?;
    Ok(found)
}

fn reading(reported: &[u8]) -> Option<Reading> {
    let (mut info, mut scheme, mut model) = (None, String::new(), None);
    for (kind, value) in attributes(reported) {
        match kind {
            INFO => info = Some(value),
            SCHEME => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                scheme = String::from_utf8_lossy(name).into_owned();
            }
            MODEL => model = model_info(value),
            _ => {}
        }
    }
    let raw = Raw(info?);
    let tcp = tcp_info(raw)?;
    let pacing = raw.long(104)?;
    Some(Reading {
        scheme,
        cwnd: tcp.mss * tcp.cwnd,
        info: tcp,
        pacing_rate: (pacing < u64::from(u32::MAX) * 64 && pacing > 0).then(|| Rate::from_bytes_per_sec(pacing)),
        timeouts: raw.short(240).map(u64::from),
        model,
        open: true,
    })
}

/// `struct tcp_info` as bytes; newer kernels append fields.
#[derive(Clone, Copy)]
struct Raw<'a>(&'a [u8]);

impl Raw<'_> {
    fn short(self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn word(self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn long(self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }
}

fn tcp_info(raw: Raw<'_>) -> Option<TcpInfo> {
    let micros = |at| raw.word(at).map(|time| Nanos::from_micros(time.into()));
    let measured = |at| Some(micros(at)?).map(|time| (!time.is_zero()).then_some(time));
    let mss = Bytes::new(raw.word(16)?.into());
    let ssthresh = raw.word(76)?;
    Some(TcpInfo {
        ca_state: match raw.0.get(1)? {
            0 => CaState::Open,
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            _ => CaState::Loss,
        },
        cwnd: raw.word(80)?.into(),
        ssthresh: (ssthresh < NO_SSTHRESH).then(|| mss * u64::from(ssthresh)),
        mss,
        bytes_acked: Bytes::new(raw.long(120)?),
        unacked: raw.word(24)?,
        sacked: raw.word(28)?,
        lost: raw.word(32)?,
        retrans: raw.word(36)?,
        total_retrans: raw.word(100)?.into(),
        reordering: raw.word(88)?,
        reordering_seen: raw.word(220).unwrap_or(0),
        timeouts: u32::from(*raw.0.get(2)?),
        backoff: u32::from(*raw.0.get(4)?),
        probes: u32::from(*raw.0.get(3)?),
        rto: micros(8)?,
        srtt: measured(68)?,
        rttvar: measured(72)?,
        // Before the first sample, Linux reports the largest 32-bit number.
        min_rtt: measured(148)?.filter(|rtt| rtt.as_nanos() < u64::from(u32::MAX) * 1_000),
        unsent: Bytes::new(raw.word(144)?.into()),
    })
}

fn model_info(bytes: &[u8]) -> Option<ModelInfo> {
    let raw = Raw(bytes);
    let gain = |at| raw.word(at).map(|gain| f64::from(gain) / 256.0);
    Some(ModelInfo {
        bandwidth: Rate::from_bytes_per_sec(u64::from(raw.word(0)?) | u64::from(raw.word(4)?) << 32),
        min_rtt: Nanos::from_micros(raw.word(8)?.into()),
        pacing_gain: gain(12)?,
        cwnd_gain: gain(16)?,
    })
}
