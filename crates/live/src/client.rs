//! A sender: one connection, on a socket of its own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_dccp::{Role, udp};

use crate::alarm::Alarm;
use crate::peer::{Peer, nanos};
use crate::port::{Port, Way};
use crate::report::Report;
use crate::settings::{Caller, LiveError, Settings};
use crate::socket::Socket;
use crate::{TICK, block_on, forgivable};

/// Sends; the report of what was done.
///
/// # Errors
/// If there is no connection, or the other side falls silent.
pub fn send(settings: &Settings, caller: &dyn Caller) -> Result<Report, LiveError> {
    let address = settings.address;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    block_on(async {
        let socket = Socket::open(any, Some(address)).map_err(|error| LiveError::Socket(address, error))?;
        let way = Way { local: socket.local(), remote: address };
        let mut port = Port::new(socket, settings.capture.as_deref())?;
        let mut alarm = Alarm::new()?;
        let start = Instant::now();
        let mut peer = Peer::new(settings, Role::Client, way, Nanos::ZERO)?;
        if let Err(error) = drive(&mut peer, &mut port, &mut alarm, start, caller).await {
            peer.give_up(nanos(start.elapsed()), &mut port).await;
            return Err(error);
        }
        peer.verdict(nanos(start.elapsed()), caller)
    })
}

/// Goes on until the connection is over.
async fn drive(
    peer: &mut Peer<'_>,
    port: &mut Port,
    alarm: &mut Alarm,
    start: Instant,
    caller: &dyn Caller,
) -> Result<(), LiveError> {
    let clock = || nanos(start.elapsed());
    loop {
        peer.supervise(clock(), caller, caller.stop());
        peer.advance(&clock, port).await?;
        port.flush_capture()?;
        if peer.is_over() {
            return Ok(());
        }
        let wait = peer.deadline().as_nanos().saturating_sub(clock().as_nanos());
        if alarm.wait(&port.socket, Duration::from_nanos(wait).min(TICK)).await? {
            hear(port, peer, clock())?;
        }
    }
}

/// Hands what the socket has to the connection.
fn hear(port: &mut Port, peer: &mut Peer<'_>, now: Nanos) -> Result<(), LiveError> {
    let way = peer.way();
    let Port { socket, capture, .. } = &mut *port;
    let mut failed = Ok(());
    let received = socket.receive(|packet| {
        if packet.from != way.remote {
            return; // it came before the socket was bound to its peer
        }
        if let Some(capture) = capture
            && let Err(error) = capture.write(packet.from, way.local, packet.ecn, packet.bytes)
        {
            failed = Err(error);
        }
        // RFC 6773: what is no packet is dropped without an answer.
        if let Ok((header, body)) = udp::open(packet.bytes) {
            peer.on_packet(now, &header, &body, packet.ecn);
        }
    });
    failed?;
    match received {
        Err(error) if !forgivable(&error) => peer.judge(error, port),
        _ => Ok(()),
    }
}
