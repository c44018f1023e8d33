//! Blocks of pcapng (draft-ietf-opsawg-pcapng), little-endian: one section, an interface per host, and an
//! enhanced packet block per packet.
//!
//! ```text
//! | type | total length | body, options | total length |
//! ```
//!
//! Options are (code, length, value padded to four bytes), ended by code 0.

/// Block types.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// `LINKTYPE_ETHERNET`. libpcap refuses a second interface of the type `LINKTYPE_RAW`, and tcptrace does not
/// know `LINKTYPE_IPV4`.
const ETHERNET: u16 = 1;
/// `if_tsresol`: timestamps count units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// The snapshot length when complete packets are recorded, larger than any frame.
const WHOLE: u32 = 262_144;

/// Option codes.
const END: u16 = 0;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_IPV4_ADDRESS: u16 = 4;
const IF_TSRESOL: u16 = 9;
const SHB_USER_APPLICATION: u16 = 4;
const EPB_FLAGS: u16 = 2;
/// Direction in `epb_flags`.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The interface of a host; each host has one.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) address: [u8; 4],
}

/// Time and interface of a recorded packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) interface: u32,
    /// Time in nanoseconds.
    pub(crate) at: u64,
    pub(crate) arrives: bool,
    pub(crate) snap: Option<u32>,
}

fn pad(out: &mut Vec<u8>, from: usize) {
    while !(out.len() - from).is_multiple_of(4) {
        out.push(0);
    }
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = value.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    let from = out.len();
    out.extend_from_slice(&value[..length]);
    pad(out, from);
}

/// Writes a block; `fill` appends the block's body and options.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    fill(out);
    option(out, END, &[]);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend_from_slice(&length);
}

/// Writes the section header.
pub(crate) fn section(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        out.extend_from_slice(&u64::MAX.to_le_bytes()); // no section length
        option(out, SHB_USER_APPLICATION, concat!("narrows ", env!("CARGO_PKG_VERSION")).as_bytes());
    });
}

/// Writes the description of an interface. libpcap requires the same snapshot length for all interfaces.
pub(crate) fn interface(out: &mut Vec<u8>, own: &Interface, snap: Option<u32>) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&ETHERNET.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&snap.unwrap_or(WHOLE).to_le_bytes());
        option(out, IF_NAME, own.name.as_bytes());
        option(out, IF_DESCRIPTION, own.description.as_bytes());
        let [a, b, c, d] = own.address;
        option(out, IF_IPV4_ADDRESS, &[a, b, c, d, 255, 255, 255, 0]);
        option(out, IF_TSRESOL, &[NANOSECONDS]);
    });
}

/// Writes a packet that consists of `head` and `zeros` zero bytes.
pub(crate) fn packet(out: &mut Vec<u8>, own: &Block, head: &[u8], zeros: usize) {
    let length = head.len() + zeros;
    let kept = own.snap.map_or(length, |snap| length.min(snap as usize));
    block(out, PACKET, |out| {
        let words = [own.interface, (own.at >> 32) as u32, own.at as u32, kept as u32, length as u32];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        let from = out.len();
        out.extend_from_slice(&head[..head.len().min(kept)]);
        out.resize(from + kept, 0);
        pad(out, from);
        let direction = if own.arrives { INBOUND } else { OUTBOUND };
        option(out, EPB_FLAGS, &direction.to_le_bytes());
    });
}
