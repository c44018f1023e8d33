//! Messages of a controller: JSON in datagrams, over UDP or a UNIX socket.
//!
//! | message | meaning | answer |
//! |---|---|---|
//! | `{"congestion": "queue", "packets": 120}` | the queue is too long | none |
//! | `{"congestion": "load"}` | the link is utilised beyond the threshold | none |
//! | `{"ask": "statistics"}` | the counters of the port | [`Statistics`] |
//!
//! Over UDP an answer has at most three times the bytes of its question, so controllers pad their questions with spaces
//! to get longer answers. Any sender that reaches the socket may report congestion.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use narrows_routers::Congestion;
use rustix::fs::Mode;
use rustix::net::{self as sockets, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

/// Longest message.
const LONGEST: usize = 1024;
/// Maximum bytes of an answer over UDP per byte of the question: source addresses may be forged.
const REPLY_FACTOR: usize = 3;
/// Maximum number of messages that one call reads.
const MOST: usize = 64;

/// The counters of the bottleneck, as a controller needs them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Time of the monotonic clock, in seconds, at which the counters were read.
    pub read_s: f64,
    /// Bytes that left the port.
    pub sent_bytes: u64,
    /// Waiting packets of flows that obey.
    pub waiting: u64,
    /// Packets that may wait in one class.
    pub room: u64,
    /// Number of classes with a queue.
    pub queues: u64,
    /// Bytes per second of the link.
    pub capacity_bytes_s: u64,
}

#[derive(Debug, Deserialize)]
struct Message {
    congestion: Option<String>,
    packets: Option<u64>,
    ask: Option<String>,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram, PathBuf),
}

/// The socket on which a switch listens to its controller.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: Socket,
    /// Number of messages that were unreadable, or too short for their answer.
    pub(super) refused: u64,
}

impl ControlSocket {
    /// Listens at `host:port` or `unix:PATH`. At a path, `bind` replaces the socket of a killed switch and no other
    /// file.
    pub(super) fn bind(address: &str) -> io::Result<Self> {
        let socket = if let Some(path) = address.strip_prefix("unix:") {
            if let Ok(found) = fs::symlink_metadata(path) {
                if !found.file_type().is_socket() {
                    let text =
                        "this is no socket; accepted: a path that does not exist, or the socket of a killed switch";
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                }
                // Only the socket of a killed switch refuses connections.
                let tried = UnixDatagram::unbound()?.connect(path);
                if tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                    fs::remove_file(path)?;
                }
            }
            Socket::Unix(bind_private(path)?, Path::new(path).to_owned())
        } else {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            Socket::Udp(socket)
        };
        Ok(Self { socket, refused: 0 })
    }

    /// Reads the waiting messages, answers questions, and returns reports of congestion.
    pub(super) fn read(&mut self, statistics: impl Fn() -> Statistics) -> Vec<Congestion> {
        let mut found = Vec::new();
        let mut buffer = [0; LONGEST];
        for _ in 0..MOST {
            let meant = match &self.socket {
                Socket::Udp(socket) => {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                    let mut meant = Meaning::of(&buffer[..length]);
                    if meant == Some(Meaning::Question) {
                        let text = serde_json::to_vec(&statistics()).unwrap_or_default();
                        if text.len() <= REPLY_FACTOR * length {
                            let _ = socket.send_to(&text, from);
                        } else {
                            meant = None;
                        }
                    }
                    meant
                }
                Socket::Unix(socket, _) => {
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                    let meant = Meaning::of(&buffer[..length]);
                    if let (Some(Meaning::Question), Some(path)) = (meant, from.as_pathname()) {
                        let text = serde_json::to_vec(&statistics()).unwrap_or_default();
                        let _ = socket.send_to(&text, path);
                    }
                    meant
                }
            };
            match meant {
                Some(Meaning::Report(congestion)) => found.push(congestion),
                Some(Meaning::Question) => {}
                None => self.refused += 1,
            }
        }
        found
    }
}

/// Binds a socket at this path to which only its user may write, whatever the umask is. Linux gives the file the
/// socket's mode at bind, so it is never open to other users.
fn bind_private(path: &str) -> io::Result<UnixDatagram> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = sockets::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    sockets::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixDatagram::from(socket))
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            let _ = fs::remove_file(path);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Report(Congestion),
    Question,
}

impl Meaning {
    fn of(bytes: &[u8]) -> Option<Self> {
        let message: Message = serde_json::from_slice(bytes).ok()?;
        match (message.congestion.as_deref(), message.packets, message.ask.as_deref()) {
            (Some("queue"), Some(packets), None) => Some(Self::Report(Congestion::Queue { packets })),
            (Some("load"), None, None) => Some(Self::Report(Congestion::Load)),
            (None, None, Some("statistics")) => Some(Self::Question),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_host::testing::{length, print_row, seed};

    use super::*;

    /// A control socket on loopback and its peer.
    fn connected() -> (ControlSocket, UdpSocket) {
        let control = ControlSocket::bind("127.0.0.1:0").unwrap();
        let Socket::Udp(own) = &control.socket else { unreachable!("bound to UDP") };
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(own.local_addr().unwrap()).unwrap();
        (control, peer)
    }

    /// Reports of congestion and questions are read; any other message is counted and ignored.
    #[test]
    fn messages_are_read_and_garbage_is_counted() {
        let (mut control, peer) = connected();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        for text in [
            r#"{"congestion": "queue", "packets": 120}"#,
            r#"{"congestion": "load"}"#,
            &format!("{:128}", r#"{"ask": "statistics"}"#),
            r#"{"ask": "statistics"}"#, // too short for the answer
            r#"{"congestion": "queue"}"#,
            "garbage",
        ] {
            peer.send(text.as_bytes()).unwrap();
        }
        let statistics =
            Statistics { read_s: 1.5, sent_bytes: 7, waiting: 3, room: 100, queues: 5, capacity_bytes_s: 12_500_000 };
        let found = control.read(|| statistics);
        assert_eq!(found, [Congestion::Queue { packets: 120 }, Congestion::Load]);
        assert_eq!(control.refused, 3);
        let mut answer = [0; 512];
        let length = peer.recv(&mut answer).unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer[..length]).unwrap();
        assert_eq!((&answer["waiting"], &answer["capacity_bytes_s"]), (&3.into(), &12_500_000.into()));
        peer.set_nonblocking(true).unwrap();
        assert!(peer.recv(&mut [0; 512]).is_err(), "one answer");
    }

    /// 20 000 messages of any length and content get at most one answer each and at most three times their bytes in
    /// answers, and a turn reads a bounded number of messages.
    #[test]
    fn flood_gets_at_most_three_times_its_bytes() {
        let (mut control, peer) = connected();
        peer.set_nonblocking(true).unwrap();
        let statistics = Statistics { read_s: 1.5, sent_bytes: 7, waiting: 3, room: 9, queues: 5, capacity_bytes_s: 1 };
        let mut random = narrows_cc::Random::stream(seed(), "flood", 0);
        let (mut sent, mut answered, mut answers, mut reports) = (0, 0, 0_u64, 0);
        let texts = [r#"{"ask": "statistics"}"#, r#"{"congestion": "load"}"#, "garbage", "{}", "[[[[", ""];
        let turns = 400 * u64::from(length());
        for turn in 0..turns {
            for _ in 0..50 {
                let text = texts[random.below(texts.len() as u64) as usize];
                let message = format!("{text:0$}", random.below(300) as usize);
                sent += peer.send(message.as_bytes()).unwrap_or(0);
            }
            reports += control.read(|| statistics).len();
            let mut answer = [0; 1024];
            while let Ok(length) = peer.recv(&mut answer) {
                (answered, answers) = (answered + length, answers + 1);
            }
            assert!(answered <= REPLY_FACTOR * sent, "turn {turn}: {answered} bytes for {sent}");
        }
        let result = format!("{answers} answers, {answered} bytes for {sent}");
        print_row("BRF switch: control messages of any length and sense", turns * 50, &result);
        assert!(answers > 500 && reports > 500 && control.refused > 5_000, "{answers} {reports} {control:?}");
        for _ in 0..MOST + 40 {
            peer.send(br#"{"congestion": "load"}"#).unwrap();
        }
        assert_eq!(control.read(|| statistics).len(), MOST);
    }

    /// A question padded to 128 bytes is long enough for the longest answer.
    #[test]
    fn padded_question_pays_for_the_longest_answer() {
        let most = u64::MAX;
        let longest = Statistics {
            read_s: -1.234_567_890_123_456_7e-300,
            sent_bytes: most,
            waiting: most,
            room: most,
            queues: most,
            capacity_bytes_s: most,
        };
        let length = serde_json::to_vec(&longest).unwrap().len();
        assert!(length <= REPLY_FACTOR * 128, "{length}");
    }

    /// Only the user of the switch may write to its socket, although the umask lets all users read and execute files.
    #[test]
    fn socket_is_for_its_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("narrows-private-{}", std::process::id()));
        let control = ControlSocket::bind(&format!("unix:{}", path.display())).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixDatagram::unbound().unwrap().send_to(b"{}", &path).expect("its user reaches it");
        drop(control);
        assert!(!path.exists());
    }

    /// `bind` replaces only the socket of a killed switch: files, links and the socket of a running switch stay.
    #[test]
    fn bind_replaces_nothing_but_dead_sockets() {
        let folder = std::env::temp_dir().join(format!("narrows-control-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let bind = |name: &str| ControlSocket::bind(&format!("unix:{}", folder.join(name).display()));
        fs::write(folder.join("file"), "precious").unwrap();
        let refused = bind("file").unwrap_err().to_string();
        assert!(refused.contains("no socket; accepted: "), "{refused}");
        assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "precious");
        drop(UnixDatagram::bind(folder.join("dead")).unwrap()); // the file stays
        std::os::unix::fs::symlink(folder.join("dead"), folder.join("link")).unwrap();
        assert!(bind("link").is_err() && folder.join("dead").exists());
        let running = bind("dead").expect("it replaces a dead socket");
        assert!(bind("dead").is_err(), "another switch listens there");
        assert!(folder.join("dead").exists());
        drop(running);
        assert!(!folder.join("dead").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
