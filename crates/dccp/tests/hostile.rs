//! Hostile datagrams passed to endpoints without sockets, in every state: no panic, bounded memory, few answers.
//!
//! `NARROWS_REDTEAM=N` sends N times as many datagrams, `NARROWS_SEED=N` selects another seed; `-- --nocapture` prints
//! the table.

// The environment sets only the length and the seed of the test; it is no input of a run.
#![allow(clippy::disallowed_methods)]

use narrows_cc::{Nanos, Params, Random, schemes};
use narrows_dccp::connection::{CookieKeys, Ends, KEY, REPLY_LIMIT, Returned};
use narrows_dccp::{Config, Connection, Event, Header, Kind, Role, State};

const SEED: u64 = 15;
const DATAGRAMS: u64 = 100_000;
/// Memory of an endpoint with small queues: docs/security.md states about 5 kB.
const MEMORY: usize = 8 << 10;
/// Maximum number of bytes sent to an address per byte received from it, until the address proves that it receives them
/// (RFC 9000 section 8.1).
const FACTOR: usize = 3;

fn config(role: Role, scheme: &str) -> Config {
    let scheme = schemes::find(scheme).expect("a scheme");
    let params = Params::defaults(scheme.info.params);
    Config {
        role,
        scheme,
        params,
        queue: 8,
        outstanding: 256,
        ack_vector_limit: 256,
        first_number: None,
        ..Config::default()
    }
}

/// Takes all packets and events of an endpoint.
fn drain(end: &mut Connection, now: Nanos) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    let mut bytes = vec![];
    while packets.len() < 32 && end.poll_transmit(now, &mut bytes).is_some() {
        packets.push(std::mem::take(&mut bytes));
    }
    while let Some(event) = end.poll_event() {
        if let Event::Datagram(data) = event {
            end.recycle(data);
        }
    }
    packets
}

/// A pair of endpoints in a state: a server in LISTEN, RESPOND, or both endpoints OPEN with data, closing or over.
fn pair(scheme: &str, seed: u64, now: Nanos, state: u64) -> [Connection; 2] {
    let end = |role, i| Connection::new(&config(role, scheme), Random::stream(seed, "end", i), now);
    let mut ends = [end(Role::Client, 0), end(Role::Server, 1)];
    for _ in 0..[0, 1, 3, 4, 5, 6][state as usize] {
        let packets = ends.each_mut().map(|end| drain(end, now));
        for (to, packets) in [(1, &packets[0]), (0, &packets[1])] {
            for packet in packets {
                ends[to].on_packet(now, packet, 0);
            }
        }
        if state >= 3 {
            let _ = ends[0].push(now, &[1; 400]);
        }
    }
    if state == 5 {
        ends[0].close(now);
    }
    ends
}

/// A damaged or hostile packet: noise, a genuine packet with changed bits or length, or a header with chosen
/// fields, options of known types, and numbers near the genuine ones.
fn hostile(random: &mut Random, genuine: &[Vec<u8>]) -> Vec<u8> {
    let noise = |random: &mut Random, most: u64| -> Vec<u8> {
        let size = random.below(most) as usize;
        (0..size).map(|_| random.bits() as u8).collect()
    };
    if random.chance(0.1) {
        return noise(random, 120);
    }
    let base = genuine.get(random.below(genuine.len().max(1) as u64) as usize);
    if let Some(base) = base
        && random.chance(0.5)
    {
        let mut packet = base.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(packet.len() as u64) as usize;
            packet[at] ^= 1 << random.below(8);
        }
        match random.below(4) {
            0 => packet.truncate(random.below(packet.len() as u64) as usize),
            1 => packet.extend(noise(random, 40)),
            _ => {}
        }
        return packet;
    }
    let known = base.and_then(|base| Header::decode(base).ok()).map(|(header, _)| header);
    let mut header = Header::new(Kind::from_wire(random.below(10) as u8).expect("a type"));
    (header.source, header.destination) = (5001, 5001);
    header.long = random.chance(0.8);
    header.ccval = random.below(16) as u8;
    let near = |random: &mut Random, number: Option<u64>| match number {
        Some(number) if random.chance(0.8) => number.wrapping_add_signed(random.below(64) as i64 - 8),
        _ => random.bits(),
    };
    header.seq = near(random, known.map(|header| header.seq)) & ((1 << 48) - 1);
    let ack = near(random, known.and_then(|header| header.ack)) & ((1 << 48) - 1);
    header.ack = header.ack.map(|_| ack);
    header.reset = (random.bits() as u8, [0; 3]);
    let mut options = vec![];
    for _ in 0..random.below(6) {
        let kind = [1, 2, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 192, 193, 194, 195];
        let kind = kind[random.below(kind.len() as u64) as usize];
        options.push(kind);
        if kind >= 32 {
            let value = noise(random, 24);
            // One option in ten has a random length byte.
            let length = if random.chance(0.1) { random.bits() as u8 } else { value.len() as u8 + 2 };
            options.push(length);
            options.extend(value);
        }
    }
    options.truncate(400);
    let mut packet = vec![];
    header.encode(&options, &noise(random, 60), &mut packet);
    packet
}

/// 100 000 hostile datagrams passed to endpoints in every state and to the cookie check: no panic, bounded memory, at
/// most one short answer to each datagram whose sender has not proved that it owns its address.
#[test]
fn endpoints_survive_hostile_datagrams() {
    let number = |name: &str, default| {
        let Ok(text) = std::env::var(name) else { return default };
        text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number; accepted: such as {default}"))
    };
    let (length, seed) = (number("NARROWS_REDTEAM", 1), number("NARROWS_SEED", SEED));
    println!("seed {seed}");
    let mut random = Random::stream(seed, "hostile", 0);
    let schemes = ["newreno", "bbr", "ccid2", "ccid3", "dccp-bbr"];
    let ends_of = || Ends { remote: "192.0.2.1:9".parse().unwrap(), local: "192.0.2.2:6511".parse().unwrap() };
    let (mut now, mut tried, mut most, mut answers) = (Nanos::from_secs(1), 0_u64, 0, 0_u64);
    let mut over = 0;
    while tried < DATAGRAMS * length {
        let scheme = schemes[random.below(5) as usize];
        let state = random.below(6);
        let mut ends = pair(scheme, random.bits(), now, state);
        let mut genuine: Vec<Vec<u8>> = ends.each_mut().map(|end| drain(end, now)).concat();
        let mut keys = CookieKeys::default();
        keys.refresh(now, || Ok::<_, ()>([random.bits() as u8; KEY])).unwrap();
        // For each endpoint: bytes received from, and bytes sent to, an unproven address.
        let mut unproven_bytes = [(0, 0); 2];
        for _ in 0..200 {
            tried += 1;
            let packet = hostile(&mut random, &genuine);
            let to = random.below(2) as usize;
            let unproven = matches!(ends[to].state(), State::Listen | State::Respond);
            ends[to].on_packet(now, &packet, random.below(4) as u8);
            // An open connection proves the address: the packet that opened it had a valid acknowledgement number, so
            // its sender received the Response.
            let proven = ends[to].state().is_open();
            let sent = drain(&mut ends[to], now);
            let bytes: usize = sent.iter().map(Vec::len).sum();
            if unproven && !proven {
                assert!(sent.len() <= 1 && bytes <= REPLY_LIMIT, "{sent:?}");
                let (got, answered) = &mut unproven_bytes[to];
                (*got, *answered) = (*got + packet.len(), *answered + bytes);
                assert!(*answered <= FACTOR * *got, "{answered} bytes for {got}");
            }
            answers += sent.len() as u64;
            if let Ok((header, body)) = Header::decode(&packet) {
                let server = config(Role::Server, scheme);
                if header.kind == Kind::Request {
                    let answer = keys.answer(&server, now, ends_of(), &header, &body, packet.len());
                    assert!(answer.is_none_or(|answer| answer.len() <= FACTOR * packet.len()));
                } else {
                    let random = Random::stream(1, "server", 0);
                    let returned = keys.open(&server, random, now, ends_of(), &header, &body);
                    assert!(!matches!(returned, Returned::Connection(_)), "a forged cookie: {packet:?}");
                }
            }
            genuine.extend(sent.into_iter().take(4));
            if genuine.len() > 64 {
                genuine.drain(..genuine.len() - 64);
            }
            now += Nanos::from_micros(random.below(3_000));
            for end in &mut ends {
                if end.deadline() <= now {
                    end.on_timer(now);
                }
                most = most.max(end.memory());
                assert!(end.memory() < MEMORY, "{} bytes", end.memory());
            }
        }
        over += ends.iter().filter(|end| end.state().is_over()).count();
    }
    // Fewer than one datagram in eight gets an answer, data of the open connections included.
    assert!(answers < tried / 8 && over > 0, "{answers} answers, {over} ended");
    println!(
        "hostile datagrams into endpoints | {tried} | no panic, at most {most} bytes of memory, {answers} answers"
    );
}
