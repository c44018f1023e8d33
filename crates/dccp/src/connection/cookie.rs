//! Init Cookies (RFC 4340 section 8.1.4): a server under load answers Requests and keeps no state. The client returns
//! the cookie until the connection is open, and the server rebuilds the connection from it. The server replays the
//! Request whose feature options the cookie holds, so a rebuilt connection equals the connection that the server would
//! have kept.
//!
//! ```text
//!  epoch (1) | sequence number of the Request (6) | MAC (8) | feature options of the Request
//! ```
//!
//! The MAC (SipHash-2-4 under a secret key) covers the epoch, addresses and ports of both endpoints, the service code,
//! the sequence number, and the feature options. Requests with equal options have equal outcomes, so the options stand
//! for the negotiated values. The server's initial sequence number is another MAC over the same addresses: the packet
//! that returns the cookie must acknowledge it, which proves that the peer received the Response.
//!
//! A key serves for [`CookieKeys::INTERVAL`] and is accepted for another interval. The epoch identifies the key and is
//! a coarse timestamp. A returned cookie opens the same connection until its key expires: the caller must refuse the
//! addresses of an ended connection for [`CookieKeys::LIFETIME`].

use core::hash::Hasher as _;
use core::net::{IpAddr, SocketAddr};

use narrows_cc::{Nanos, Random};
use siphasher::sip::SipHasher24;

use super::Connection;
use super::config::{Config, Role};
use super::state::State;
use crate::seq::Seq;
use crate::wire::{Body, Header, Kind, MAX_VALUE, Opt, options};

/// Bytes of a secret key.
pub const KEY: usize = 16;

/// Maximum number of bytes sent per byte received, before the peer has proved its address.
pub const AMPLIFICATION: usize = 3;

/// Bytes of a cookie before the feature options.
const FIXED: usize = 1 + 6 + 8;

/// Purpose of a MAC; a MAC for one purpose is invalid for the other purpose.
const INITIAL_NUMBER: u8 = 0;
const COOKIE: u8 = 1;

/// UDP addresses of both endpoints of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The peer's address.
    pub remote: SocketAddr,
    /// The address to which the peer sent.
    pub local: SocketAddr,
}

/// Outcome of a packet with an Init Cookie.
#[derive(Debug)]
pub enum Returned {
    /// The packet has no cookie, or its type opens no connection.
    Nothing,
    /// The cookie is forged, damaged, too old, or was issued for other addresses.
    Bad,
    /// The connection, in RESPOND. Pass it the packet.
    Connection(Box<Connection>),
}

/// The server's secret keys: the current and the previous one.
#[derive(Clone, Debug, Default)]
pub struct CookieKeys {
    current: Option<(u64, [u8; KEY])>,
    previous: Option<(u64, [u8; KEY])>,
}

impl CookieKeys {
    /// Time between two keys.
    pub const INTERVAL: Nanos = Nanos::from_secs(30);

    /// Longest time in which a cookie is accepted: two intervals.
    pub const LIFETIME: Nanos = Nanos::from_secs(60);

    /// Replaces keys whose interval has passed. `fresh` returns an unpredictable key.
    ///
    /// # Errors
    /// As `fresh`.
    pub fn refresh<E>(&mut self, now: Nanos, fresh: impl FnOnce() -> Result<[u8; KEY], E>) -> Result<(), E> {
        let epoch = now.as_nanos() / Self::INTERVAL.as_nanos();
        if self.current.is_none_or(|(of, _)| of < epoch) {
            let key = fresh()?;
            self.previous = self.current.filter(|(of, _)| of + 1 == epoch);
            self.current = Some((epoch, key));
        }
        Ok(())
    }

    /// The answer to a Request of `length` bytes, without state: a Response with a cookie, or a Reset. `None`
    /// without keys, or if the answer would exceed [`AMPLIFICATION`] times the Request.
    pub fn answer(
        &self,
        config: &Config,
        now: Nanos,
        ends: Ends,
        header: &Header,
        body: &Body<'_>,
        length: usize,
    ) -> Option<Vec<u8>> {
        let (epoch, key) = self.current?;
        let features = feature_options(body.options);
        if FIXED + features.len() > MAX_VALUE {
            return None;
        }
        let tuple = Tuple { epoch, ends, header, request: Seq::new(header.seq) };
        let mut connection = Connection::of_request(config, now, &tuple, &key, body);
        let mut cookie = Vec::with_capacity(FIXED + features.len());
        cookie.push(epoch as u8);
        cookie.extend_from_slice(&header.seq.to_be_bytes()[2..]);
        cookie.extend_from_slice(&tuple.mac(&key, COOKIE, config.service, &features).to_be_bytes());
        cookie.extend_from_slice(&features);
        Opt::InitCookie(&cookie).write(&mut connection.cookies);
        let mut out = Vec::new();
        connection.poll_transmit(now, &mut out)?;
        (out.len() <= AMPLIFICATION * length).then_some(out)
    }

    /// Rebuilds the connection of a packet that returns a cookie.
    pub fn open(
        &self,
        config: &Config,
        random: Random,
        now: Nanos,
        ends: Ends,
        header: &Header,
        body: &Body<'_>,
    ) -> Returned {
        if !matches!(header.kind, Kind::Ack | Kind::DataAck) || !header.long {
            return Returned::Nothing;
        }
        let found = options(body.options).find_map(|option| match option {
            Ok(Opt::InitCookie(value)) => Some(value),
            _ => None,
        });
        let Some(cookie) = found else { return Returned::Nothing };
        let Some((fixed, features)) = cookie.split_first_chunk::<FIXED>() else { return Returned::Bad };
        let of_epoch = |(epoch, _): &(u64, _)| *epoch as u8 == fixed[0];
        let valid_until = |(epoch, _): &(u64, _)| Self::INTERVAL * (epoch + 2) > now;
        let known = [self.current, self.previous].into_iter().flatten();
        let Some((epoch, key)) = known.filter(valid_until).find(of_epoch) else { return Returned::Bad };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
        let tuple = Tuple { epoch, ends, header, request: Seq::new(number(&fixed[1..7])) };
        // The comparison takes constant time, so timing reveals only whether the MAC matches.
        let expected = tuple.mac(&key, COOKIE, config.service, features);
        if (expected ^ number(&fixed[7..])) != 0 || header.ack != Some(tuple.initial_number(&key).get()) {
            return Returned::Bad;
        }
        let body = Body { options: features, data: &[] };
        let mut connection = Connection::of_request(config, now, &tuple, &key, &body);
        connection.random = random;
        // The server has already sent the Response, without state; discard the Response that the rebuilt connection
        // generates.
        if connection.poll_transmit(now, &mut Vec::new()).is_none() || connection.state != State::Respond {
            return Returned::Bad;
        }
        connection.forget_handshake();
        Returned::Connection(Box::new(connection))
    }
}

/// Identity of a connection without state, from its Request or from a packet that returns its cookie.
struct Tuple<'a> {
    epoch: u64,
    ends: Ends,
    /// The header of a packet from the client.
    header: &'a Header,
    /// Sequence number of the Request.
    request: Seq,
}

impl Tuple<'_> {
    /// Every field has a fixed width except the last, so different inputs have different encodings.
    fn mac(&self, key: &[u8; KEY], purpose: u8, service: u32, features: &[u8]) -> u64 {
        let mut bytes = Vec::with_capacity(64 + features.len());
        bytes.push(purpose);
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        for address in [self.ends.remote, self.ends.local] {
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend_from_slice(&ip.octets());
            bytes.extend_from_slice(&address.port().to_be_bytes());
        }
        bytes.extend_from_slice(&self.header.source.to_be_bytes());
        bytes.extend_from_slice(&self.header.destination.to_be_bytes());
        bytes.extend_from_slice(&service.to_be_bytes());
        bytes.extend_from_slice(&self.request.get().to_be_bytes());
        bytes.extend_from_slice(features);
        let mut hasher = SipHasher24::new_with_key(key);
        hasher.write(&bytes);
        hasher.finish()
    }

    /// The server's initial sequence number.
    fn initial_number(&self, key: &[u8; KEY]) -> Seq {
        Seq::new(self.mac(key, INITIAL_NUMBER, 0, &[]))
    }
}

impl Connection {
    /// A server's connection that received the Request of `tuple`, with the body of the Request.
    fn of_request(config: &Config, now: Nanos, tuple: &Tuple<'_>, key: &[u8; KEY], body: &Body<'_>) -> Self {
        let mut request = Header::new(Kind::Request);
        (request.source, request.destination) = (tuple.header.source, tuple.header.destination);
        (request.seq, request.service) = (tuple.request.get(), config.service);
        if tuple.header.kind == Kind::Request {
            request.service = tuple.header.service;
        }
        let first_number = Some(tuple.initial_number(key).get());
        let config = Config { role: Role::Server, remote_port: 0, first_number, ..config.clone() };
        let mut connection = Self::new(&config, Random::stream(0, "dccp", 0), now);
        connection.on_decoded(now, &request, body, 0);
        connection
    }

    /// Forgets the recorded handshake packets: their send times are not the send time of the Response that the peer
    /// received.
    fn forget_handshake(&mut self) {
        self.handshake.clear();
        self.half.records.drop_settled(u64::MAX);
    }
}

/// The options of a Request that negotiate features, with their Mandatory.
fn feature_options(bytes: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    let mut mandatory = false;
    for option in options(bytes).flatten() {
        let change = matches!(option, Opt::ChangeL { .. } | Opt::ChangeR { .. });
        if change {
            if mandatory {
                Opt::Mandatory.write(&mut found);
            }
            option.write(&mut found);
        }
        mandatory = matches!(option, Opt::Mandatory);
    }
    found
}
