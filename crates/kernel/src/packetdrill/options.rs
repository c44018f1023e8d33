//! Socket options, and transmit timestamps of the error queue.

use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use narrows_packetdrill::script::{Call, Problem, Value};
use narrows_packetdrill::stack::Outcome;
use nix::sys::socket::sockopt::{Mark, TcpMaxSeg, Timestamping};
use nix::sys::socket::{ControlMessageOwned, GetSockOpt, MsgFlags, SetSockOpt, SockaddrIn, TimestampingFlag, recvmsg};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::socket::{Socket, done, expect, name_of};

/// Options that rustix and nix cannot set without unsafe code.
const REFUSED: &[&str] = &["SO_PRIORITY", "TCP_NOTSENT_LOWAT", "TCP_SYNCNT", "TCP_DEFER_ACCEPT", "TCP_INQ"];
/// `SOF_TIMESTAMPING_…`.
const STAMPS: &[(&str, u32)] = &[
    ("TX_HARDWARE", 1),
    ("TX_SOFTWARE", 1 << 1),
    ("RX_HARDWARE", 1 << 2),
    ("RX_SOFTWARE", 1 << 3),
    ("SOFTWARE", 1 << 4),
    ("SYS_HARDWARE", 1 << 5),
    ("RAW_HARDWARE", 1 << 6),
    ("OPT_ID", 1 << 7),
    ("TX_SCHED", 1 << 8),
    ("TX_ACK", 1 << 9),
    ("OPT_CMSG", 1 << 10),
    ("OPT_TSONLY", 1 << 11),
];
/// `SCM_TSTAMP_…`, by number.
const KINDS: &[&str] = &["SCM_TSTAMP_SND", "SCM_TSTAMP_SCHED", "SCM_TSTAMP_ACK"];
/// Bytes reserved for ancillary data.
const CONTROL: usize = 512;

/// Whether an option cannot be used here.
pub(super) fn is_refused(name: &str) -> bool {
    REFUSED.contains(&name)
}

fn of_nix(error: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(error as i32)
}

/// Executes `setsockopt`.
pub(super) fn set(socket: &Socket, line: usize, call: &Call) -> Result<Outcome, Problem> {
    let name = call.args.get(2).and_then(Value::word).unwrap_or("");
    let value = call.args.get(3).and_then(|list| list.items().first().or(Some(list)));
    let number = value.and_then(Value::int).unwrap_or(0);
    let (on, size) = (number != 0, usize::try_from(number).unwrap_or(0));
    let seconds = Duration::from_secs(size as u64);
    let result = match name {
        "SO_SNDBUF" => sockopt::set_socket_send_buffer_size(socket, size),
        "SO_SNDBUFFORCE" => sockopt::set_socket_send_buffer_size_force(socket, size),
        "SO_RCVBUF" => sockopt::set_socket_recv_buffer_size(socket, size),
        "SO_RCVBUFFORCE" => sockopt::set_socket_recv_buffer_size_force(socket, size),
        "SO_REUSEADDR" => sockopt::set_socket_reuseaddr(socket, on),
        "SO_REUSEPORT" => sockopt::set_socket_reuseport(socket, on),
        "SO_KEEPALIVE" => sockopt::set_socket_keepalive(socket, on),
        "SO_MARK" => Mark.set(socket, &(number as u32)).map_err(of_nix),
        "IP_TOS" => sockopt::set_ip_tos(socket, number as u8),
        "IP_TTL" => sockopt::set_ip_ttl(socket, number as u32),
        "IP_MTU_DISCOVER" => match value.and_then(Value::word).and_then(discovery) {
            Some(how) => sockopt::set_ip_mtu_discover(socket, how),
            None => return Err(Problem::unsupported(line, "IP_MTU_DISCOVER without a known name")),
        },
        "IP_FREEBIND" => sockopt::set_ip_freebind(socket, on),
        "TCP_NODELAY" => sockopt::set_tcp_nodelay(socket, on),
        "TCP_CORK" => sockopt::set_tcp_cork(socket, on),
        "TCP_QUICKACK" => sockopt::set_tcp_quickack(socket, on),
        "TCP_USER_TIMEOUT" => sockopt::set_tcp_user_timeout(socket, number as u32),
        "TCP_KEEPIDLE" => sockopt::set_tcp_keepidle(socket, seconds),
        "TCP_KEEPINTVL" => sockopt::set_tcp_keepintvl(socket, seconds),
        "TCP_KEEPCNT" => sockopt::set_tcp_keepcnt(socket, number as u32),
        "TCP_MAXSEG" => TcpMaxSeg.set(socket, &(number as u32)).map_err(of_nix),
        "TCP_CONGESTION" => match value {
            Some(Value::Text(scheme)) => sockopt::set_tcp_congestion(socket, scheme),
            Some(Value::Words(words)) if words.len() == 1 => sockopt::set_tcp_congestion(socket, &words[0]),
            _ => return Err(Problem::unsupported(line, "TCP_CONGESTION without a name")),
        },
        "SO_TIMESTAMPING" => {
            let bits = match value {
                Some(Value::Words(flags)) => bits(flags)
                    .ok_or_else(|| Problem::unsupported(line, format!("SO_TIMESTAMPING with {}", flags.join("|"))))?,
                _ => number as u32,
            };
            Timestamping.set(socket, &TimestampingFlag::from_bits_retain(bits)).map_err(of_nix)
        }
        _ => return Err(Problem::unsupported(line, format!("socket option {name} on the kernel"))),
    };
    Ok(done(result))
}

fn discovery(name: &str) -> Option<sockopt::Ipv4PathMtuDiscovery> {
    use sockopt::Ipv4PathMtuDiscovery as Discovery;
    Some(match name {
        "IP_PMTUDISC_DONT" => Discovery::DONT,
        "IP_PMTUDISC_WANT" => Discovery::WANT,
        "IP_PMTUDISC_DO" => Discovery::DO,
        "IP_PMTUDISC_PROBE" => Discovery::PROBE,
        _ => return None,
    })
}

/// Bit mask of the flags of `SO_TIMESTAMPING`; `None` if a flag is unknown.
fn bits(flags: &[String]) -> Option<u32> {
    let bit = |flag: &String| {
        let name = flag.strip_prefix("SOF_TIMESTAMPING_")?;
        STAMPS.iter().find(|(own, _)| *own == name).map(|(_, bit)| *bit)
    };
    flags.iter().map(bit).try_fold(0, |all, bit| Some(all | bit?))
}

/// Executes `getsockopt` and compares the value with the script's; options that are not listed here stay unchecked.
pub(super) fn compare(socket: &Socket, line: usize, call: &Call) -> Result<Outcome, Problem> {
    let name = call.args.get(2).and_then(Value::word).unwrap_or("");
    let seen = match name {
        "TCP_MAXSEG" => TcpMaxSeg.get(socket).map(i64::from).map_err(of_nix),
        "TCP_NODELAY" => sockopt::tcp_nodelay(socket).map(i64::from),
        "TCP_CORK" => sockopt::tcp_cork(socket).map(i64::from),
        "TCP_USER_TIMEOUT" => sockopt::tcp_user_timeout(socket).map(i64::from),
        "SO_SNDBUF" => sockopt::socket_send_buffer_size(socket).map(|size| size as i64),
        "SO_RCVBUF" => sockopt::socket_recv_buffer_size(socket).map(|size| size as i64),
        "SO_ERROR" => {
            sockopt::socket_error(socket).map(|state| state.err().map_or(0, |error| i64::from(error.raw_os_error())))
        }
        _ => return Ok(Outcome::Unchecked),
    };
    match seen {
        Ok(seen) => expect(line, name, seen, call.args.get(3)).map(|()| Outcome::Done(Ok(0))),
        Err(error) => Ok(Outcome::Done(Err(name_of(error)))),
    }
}

/// Reads a timestamp from the error queue and compares its time since `started` with the script's, within `lateness`.
pub(super) fn read_stamp(
    socket: &Socket,
    line: usize,
    call: &Call,
    started: SystemTime,
    lateness: Duration,
) -> Result<Outcome, Problem> {
    let mut control = vec![0; CONTROL];
    let mut vectors: [IoSliceMut<'_>; 0] = [];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut vectors, Some(&mut control), flags) {
        Ok(message) => message,
        Err(error) => return Ok(Outcome::Done(Err(name_of(of_nix(error))))),
    };
    let mut at = None;
    let fail = |reason: String| Err(Problem::failure(line, reason));
    for item in message.cmsgs().into_iter().flatten() {
        match item {
            ControlMessageOwned::ScmTimestampsns(stamps) => {
                let stamp = Duration::from(stamps.system);
                let start = started.duration_since(UNIX_EPOCH).unwrap_or_default();
                at = Some(stamp.saturating_sub(start));
            }
            ControlMessageOwned::Ipv4RecvErr(error, _) => {
                let kind = KINDS.get(error.ee_info as usize).copied().unwrap_or("another kind");
                if let Some(wanted) = call.ancillary_field("ee_info").and_then(Value::word)
                    && wanted != kind
                {
                    return fail(format!("ee_info: expected {wanted}; seen {kind}"));
                }
                expect(line, "ee_data", error.ee_data.into(), call.ancillary_field("ee_data"))?;
            }
            _ => {}
        }
    }
    let number = |field| call.ancillary_field(field).and_then(Value::int).and_then(|n| u64::try_from(n).ok());
    if let (Some(seconds), Some(nanos)) = (number("scm_sec"), number("scm_nsec")) {
        let wanted = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        let Some(at) = at else {
            return fail("expected a timestamp; seen none".to_owned());
        };
        if at.abs_diff(wanted) > lateness {
            let (wanted, at) = (wanted.as_secs_f64(), at.as_secs_f64());
            return fail(format!("timestamp: expected {wanted} s; seen {at} s"));
        }
    }
    Ok(Outcome::Done(Ok(0)))
}
