//! A sender: one connection on a separate socket.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use narrows_cc::Nanos;
use narrows_dccp::{Role, udp};
use narrows_host::alarm::Alarm;
use narrows_host::is_transient;
use narrows_host::socket::Socket;

use crate::port::{AddressPair, Port};
use crate::report::Report;
use crate::session::{Session, nanos};
use crate::settings::{Caller, LiveError, Settings};
use crate::{TICK, block_on};

/// Sends until the source, the duration or the caller ends the connection, and returns its report.
///
/// # Errors
/// If no connection opens, or the peer falls silent or makes no progress.
pub fn send(settings: &Settings, caller: &dyn Caller) -> Result<Report, LiveError> {
    let address = settings.address;
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    block_on(async {
        let socket = Socket::open(any, Some(address)).map_err(|error| LiveError::Socket(address, error))?;
        let addresses = AddressPair { local: socket.local(), remote: address };
        let mut port = Port::new(socket, settings.capture.as_deref())?;
        let mut alarm = Alarm::new()?;
        let start = Instant::now();
        let mut session = Session::new(settings, Role::Client, addresses, Nanos::ZERO)?;
        if let Err(error) = drive(&mut session, &mut port, &mut alarm, start, caller).await {
            session.give_up(nanos(start.elapsed()), &mut port).await;
            return Err(error);
        }
        session.outcome(nanos(start.elapsed()), caller)
    })
}

/// Drives the session until its connection is over.
async fn drive(
    session: &mut Session<'_>,
    port: &mut Port,
    alarm: &mut Alarm,
    start: Instant,
    caller: &dyn Caller,
) -> Result<(), LiveError> {
    let clock = || nanos(start.elapsed());
    loop {
        session.show_progress(clock(), caller);
        session.supervise(clock(), caller.stop());
        session.advance(&clock, port).await?;
        port.recorder.flush();
        port.recorder.warn(caller);
        if session.is_over() {
            return Ok(());
        }
        let wait = session.deadline().as_nanos().saturating_sub(clock().as_nanos());
        if alarm.wait(&port.socket, Duration::from_nanos(wait).min(TICK)).await? {
            receive(port, session, clock())?;
        }
    }
}

/// Passes received packets to the session.
fn receive(port: &mut Port, session: &mut Session<'_>, now: Nanos) -> Result<(), LiveError> {
    let addresses = session.addresses();
    let Port { socket, recorder, .. } = &mut *port;
    let received = socket.receive(|packet| {
        if packet.from != addresses.remote {
            return; // such a packet arrived before the socket was connected to its peer
        }
        recorder.write(packet.from, addresses.local, packet.ecn, packet.bytes);
        // RFC 6773: drop malformed packets without an answer.
        if let Ok((header, body)) = udp::open(packet.bytes) {
            session.on_packet(now, &header, &body, packet.ecn);
        }
    });
    match received {
        Err(error) if !is_transient(&error) => session.classify(error, port),
        _ => Ok(()),
    }
}
