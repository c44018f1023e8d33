//! Runs with a capture, and a reader of the file written from the format specifications: pcapng blocks, IPv4, TCP.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use narrows_pcap::{Capture, Contents};
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_sim::{Engine, RunResult};

/// An interface: its name, description and IPv4 address.
pub type Interface = (String, String, [u8; 4]);

/// A recorded frame.
#[derive(Clone, Debug)]
pub struct Frame {
    pub interface: usize,
    /// Time in nanoseconds.
    pub at: u64,
    /// Length of the frame before truncation.
    pub length: usize,
    pub inbound: bool,
    pub bytes: Vec<u8>,
}

/// An IPv4 packet.
#[derive(Clone, Debug)]
pub struct Ip {
    pub protocol: u8,
    pub ecn: u8,
    pub source: [u8; 4],
    pub destination: [u8; 4],
    pub length: usize,
    pub body: Vec<u8>,
}

/// A TCP segment.
#[derive(Clone, Debug)]
pub struct Segment {
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Kind and value of each option.
    pub options: Vec<(u8, Vec<u8>)>,
    pub payload: usize,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

pub fn plan(text: &str) -> Plan {
    let runs = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect(text);
    resolve(&runs[0].scenario, runs[0].seed, &NoFiles).expect(text)
}

pub fn path(name: &str) -> PathBuf {
    [env!("CARGO_TARGET_TMPDIR"), &format!("{name}.pcapng")].iter().collect()
}

/// Runs a scenario and returns its result, its interfaces and its frames.
pub fn captured(name: &str, text: &str, contents: Contents) -> (RunResult, Vec<Interface>, Vec<Frame>) {
    let (plan, file) = (plan(text), path(name));
    let mut capture = Capture::create(&plan, &file, contents).expect("a writable folder");
    let result = Engine::observed(plan, &mut capture).finish();
    capture.finish().expect("a writable folder");
    let bytes = fs::read(&file).expect("the file");
    fs::remove_file(&file).expect("the file");
    let (interfaces, frames) = read(&bytes);
    (result, interfaces, frames)
}

fn u16_le(bytes: &[u8]) -> u16 {
    u16::from_le_bytes(bytes[..2].try_into().unwrap())
}

fn u32_le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

fn u16_be(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(bytes[..2].try_into().unwrap())
}

pub fn u32_be(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

/// Options of a block, by code.
fn options(mut bytes: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let mut found = BTreeMap::new();
    loop {
        let (code, length) = (u16_le(bytes), usize::from(u16_le(&bytes[2..])));
        if code == 0 {
            assert_eq!((length, bytes.len()), (0, 4), "the end of the options ends the block");
            return found;
        }
        found.insert(code, bytes[4..4 + length].to_vec());
        bytes = &bytes[4 + length.next_multiple_of(4)..];
    }
}

/// Reads a file: a section header, interfaces and packets. Nothing may follow the last block.
pub fn read(mut bytes: &[u8]) -> (Vec<Interface>, Vec<Frame>) {
    let (mut interfaces, mut frames) = (Vec::new(), Vec::new());
    let mut first = true;
    while !bytes.is_empty() {
        let (kind, length) = (u32_le(bytes), u32_le(&bytes[4..]) as usize);
        assert!(length.is_multiple_of(4) && length <= bytes.len(), "a block of {length} bytes is whole");
        assert_eq!(u32_le(&bytes[length - 4..]) as usize, length, "both lengths agree");
        let body = &bytes[8..length - 4];
        match kind {
            0x0a0d_0d0a => {
                assert!(first, "one section");
                assert_eq!((u32_le(body), u16_le(&body[4..]), u16_le(&body[6..])), (0x1a2b_3c4d, 1, 0));
                options(&body[16..]);
            }
            1 => {
                assert!(frames.is_empty(), "interfaces come first");
                assert_eq!(u16_le(body), 1, "Ethernet");
                let options = options(&body[8..]);
                assert_eq!(options[&9], [9], "nanoseconds");
                let text = |code| String::from_utf8(options[code].clone()).expect("UTF-8");
                interfaces.push((text(&2), text(&3), options[&4][..4].try_into().unwrap()));
            }
            6 => {
                let kept = u32_le(&body[12..]) as usize;
                let options = options(&body[20 + kept.next_multiple_of(4)..]);
                let direction = u32_le(&options[&2]) & 3;
                assert!(direction == 1 || direction == 2);
                frames.push(Frame {
                    interface: u32_le(body) as usize,
                    at: u64::from(u32_le(&body[4..])) << 32 | u64::from(u32_le(&body[8..])),
                    length: u32_le(&body[16..]) as usize,
                    inbound: direction == 1,
                    bytes: body[20..20 + kept].to_vec(),
                });
            }
            other => panic!("a block of type {other:#x}"),
        }
        first = false;
        bytes = &bytes[length..];
    }
    (interfaces, frames)
}

/// The ones' complement sum of 16-bit words; it is 0xffff for data that contains its checksum.
fn folded(parts: &[&[u8]]) -> u32 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    sum
}

/// The IPv4 packet in a frame. Asserts the checksum of the header and, unless the frame is truncated, of the body.
pub fn ip(frame: &Frame) -> Ip {
    let bytes = &frame.bytes;
    assert_eq!(bytes[12..14], [8, 0], "IPv4");
    let header = &bytes[14..34];
    assert_eq!((header[0], folded(&[header])), (0x45, 0xffff), "IP checksum");
    let length = usize::from(u16_be(&header[2..]));
    assert_eq!(frame.length, 14 + length);
    let own = Ip {
        protocol: header[9],
        ecn: header[1] & 3,
        source: header[12..16].try_into().unwrap(),
        destination: header[16..20].try_into().unwrap(),
        length,
        body: bytes[34..].to_vec(),
    };
    assert_eq!((&bytes[2..6], &bytes[8..12]), (&own.destination[..], &own.source[..]), "hardware addresses");
    if frame.bytes.len() == frame.length {
        let size = (length - 20) as u16;
        let pseudo = [&header[12..20], &[0, own.protocol], &size.to_be_bytes()].concat();
        // DCCP's checksum may cover only part of the data; CsCov 0 means that it covers all.
        if own.protocol == 33 {
            assert_eq!(own.body[5] & 15, 0, "full coverage");
        }
        assert_eq!(folded(&[&pseudo, &own.body]), 0xffff, "checksum of protocol {}", own.protocol);
    }
    own
}

/// The TCP segment in a packet; the packet contains at least the headers.
pub fn tcp(ip: &Ip) -> Segment {
    assert_eq!(ip.protocol, 6);
    let body = &ip.body;
    let header = usize::from(body[12] >> 4) * 4;
    let mut options = Vec::new();
    let mut rest = &body[20..header];
    while let Some(&kind) = rest.first() {
        if kind == 1 {
            rest = &rest[1..];
            continue;
        }
        let length = usize::from(rest[1]);
        options.push((kind, rest[2..length].to_vec()));
        rest = &rest[length..];
    }
    Segment {
        ports: (u16_be(body), u16_be(&body[2..])),
        seq: u32_be(&body[4..]),
        ack: u32_be(&body[8..]),
        flags: body[13],
        window: u16_be(&body[14..]),
        options,
        payload: ip.length - 20 - header,
    }
}

impl Segment {
    /// The value of the option of this kind.
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        self.options.iter().find(|(own, _)| *own == kind).map(|(_, value)| value.as_slice())
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
