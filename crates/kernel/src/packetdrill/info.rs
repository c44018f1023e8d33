//! The kernel's report of the connection: fields of its `struct tcp_info`, by name.

use std::net::SocketAddrV4;

use narrows_host::diagnostics;
use narrows_host::netlink::Netlink;
use narrows_packetdrill::script::Problem;

use super::wire::{LOCAL, Mapping, REMOTE};

/// How a field is stored.
#[derive(Clone, Copy)]
enum Width {
    Byte,
    Short,
    Word,
    Long,
}

use Width::{Byte, Long, Short, Word};

/// Name without `tcpi_`, offset and width (`include/uapi/linux/tcp.h`).
const FIELDS: &[(&str, usize, Width)] = &[
    ("state", 0, Byte),
    ("ca_state", 1, Byte),
    ("retransmits", 2, Byte),
    ("probes", 3, Byte),
    ("backoff", 4, Byte),
    ("options", 5, Byte),
    ("rto", 8, Word),
    ("ato", 12, Word),
    ("snd_mss", 16, Word),
    ("rcv_mss", 20, Word),
    ("unacked", 24, Word),
    ("sacked", 28, Word),
    ("lost", 32, Word),
    ("retrans", 36, Word),
    ("fackets", 40, Word),
    ("last_data_sent", 44, Word),
    ("last_ack_sent", 48, Word),
    ("last_data_recv", 52, Word),
    ("last_ack_recv", 56, Word),
    ("pmtu", 60, Word),
    ("rcv_ssthresh", 64, Word),
    ("rtt", 68, Word),
    ("rttvar", 72, Word),
    ("snd_ssthresh", 76, Word),
    ("snd_cwnd", 80, Word),
    ("advmss", 84, Word),
    ("reordering", 88, Word),
    ("rcv_rtt", 92, Word),
    ("rcv_space", 96, Word),
    ("total_retrans", 100, Word),
    ("pacing_rate", 104, Long),
    ("max_pacing_rate", 112, Long),
    ("bytes_acked", 120, Long),
    ("bytes_received", 128, Long),
    ("segs_out", 136, Word),
    ("segs_in", 140, Word),
    ("notsent_bytes", 144, Word),
    ("min_rtt", 148, Word),
    ("data_segs_in", 152, Word),
    ("data_segs_out", 156, Word),
    ("delivery_rate", 160, Long),
    ("busy_time", 168, Long),
    ("rwnd_limited", 176, Long),
    ("sndbuf_limited", 184, Long),
    ("delivered", 192, Word),
    ("delivered_ce", 196, Word),
    ("bytes_sent", 200, Long),
    ("bytes_retrans", 208, Long),
    ("dsack_dups", 216, Word),
    ("reord_seen", 220, Word),
    ("rcv_ooopack", 224, Word),
    ("snd_wnd", 228, Word),
    ("rcv_wnd", 232, Word),
    ("rehash", 236, Word),
    ("total_rto", 240, Short),
    ("total_rto_recoveries", 242, Short),
    ("total_rto_time", 244, Word),
];

fn field(name: &str) -> Option<(usize, Width)> {
    let name = name.strip_prefix("tcpi_")?;
    FIELDS.iter().find(|(own, ..)| *own == name).map(|&(_, at, width)| (at, width))
}

/// The last report on the connection, kept after the connection ends.
#[derive(Debug)]
pub(super) struct Info {
    diagnostics: Netlink,
    /// `struct tcp_info`.
    bytes: Vec<u8>,
    /// Bytes in the send queue.
    queued: u32,
}

impl Info {
    pub(super) const fn new(diagnostics: Netlink) -> Self {
        Self { diagnostics, bytes: Vec::new(), queued: 0 }
    }

    /// Reads the report of a connection. Returns whether the connection has a report.
    pub(super) fn read(&mut self, line: usize, connection: &Mapping) -> Result<bool, Problem> {
        let local = SocketAddrV4::new(LOCAL, connection.local);
        let remote = SocketAddrV4::new(REMOTE, connection.remote);
        let read = diagnostics::read_info(&mut self.diagnostics, local, remote);
        let read = read.map_err(|error| Problem::failure(line, format!("sock_diag: {error}")))?;
        let alive = read.is_some();
        if let Some((bytes, queued)) = read {
            (self.bytes, self.queued) = (bytes, queued);
        }
        Ok(alive)
    }

    /// Reads the number of bytes in the send queue, and how many of them are unsent.
    pub(super) fn outstanding(&mut self, line: usize, connection: &Mapping) -> Result<(u32, u32), Problem> {
        self.read(line, connection)?;
        let unsent = self.value("tcpi_notsent_bytes").unwrap_or(0.0);
        Ok((self.queued, unsent as u32))
    }

    /// The value of a field; `None` if the field is unknown or newer than the kernel.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        value(&self.bytes, name)
    }
}

/// Whether the structure has this field (`tcpi_…`).
pub(super) fn is_known(name: &str) -> bool {
    field(name).is_some()
}

fn value(info: &[u8], name: &str) -> Option<f64> {
    let (at, width) = field(name)?;
    let bytes = info.get(at..)?;
    Some(match width {
        Byte => f64::from(*bytes.first()?),
        Short => f64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
        Word => f64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
        Long => u64::from_ne_bytes(*bytes.first_chunk()?) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields do not overlap, and a field beyond the end of an older kernel's structure has no value.
    #[test]
    fn fields_are_apart_and_end_with_the_structure() {
        let size = |width| match width {
            Byte => 1,
            Short => 2,
            Word => 4,
            Long => 8,
        };
        for pair in FIELDS.windows(2) {
            assert!(pair[0].1 + size(pair[0].2) <= pair[1].1, "{} and {}", pair[0].0, pair[1].0);
        }
        let info: Vec<u8> = (0..224).collect();
        assert_eq!(value(&info, "tcpi_probes"), Some(3.0));
        assert_eq!(value(&info, "tcpi_reord_seen"), Some(f64::from(u32::from_ne_bytes([220, 221, 222, 223]))));
        assert_eq!(value(&info, "tcpi_rcv_ooopack"), None);
        assert_eq!(value(&info, "cwnd"), None);
    }
}
