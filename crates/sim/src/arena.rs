//! Storage for the bytes of packets. A simulated packet has no space for these bytes and carries their slot number.

use narrows_dccp::Header;
use narrows_packet::{Kind, Packet};

/// Bytes of the packets in the network.
#[derive(Debug, Default)]
pub struct PayloadArena {
    pub(crate) slots: Vec<Vec<u8>>,
    pub(crate) unused: Vec<u32>,
}

impl PayloadArena {
    /// Returns an empty slot and its number.
    pub(crate) fn allocate(&mut self) -> (u32, &mut Vec<u8>) {
        let id = self.unused.pop().unwrap_or_else(|| {
            self.slots.push(Vec::new());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[id as usize];
        slot.clear();
        (id, slot)
    }

    /// The stored bytes of a packet in the network. For a DCCP packet they begin at the DCCP header, whose checksum
    /// field is zero; for a real host's packet they begin at the IP header. Empty for other packets.
    pub fn bytes(&self, packet: &Packet) -> &[u8] {
        handle(packet).map_or(&[], |handle| &self.slots[handle as usize])
    }

    /// Like [`PayloadArena::bytes`], mutable.
    pub(crate) fn bytes_mut(&mut self, packet: &Packet) -> &mut [u8] {
        handle(packet).map_or(&mut [], |handle| &mut self.slots[handle as usize])
    }

    /// Stores the bytes of a real host's packet; returns their handle.
    pub fn store(&mut self, bytes: &[u8]) -> u32 {
        let (handle, slot) = self.allocate();
        slot.extend_from_slice(bytes);
        handle
    }

    /// Number of DCCP data packets in the network.
    pub fn data_packets(&self) -> u64 {
        let mut used = vec![true; self.slots.len()];
        for &id in &self.unused {
            used[id as usize] = false;
        }
        let packets = self.slots.iter().zip(used).filter(|(_, used)| *used);
        let data = packets.filter(|(bytes, _)| {
            Header::decode(bytes).is_ok_and(|(header, body)| header.kind.is_data() && !body.data.is_empty())
        });
        data.count() as u64
    }

    /// Frees the slot of a packet that left the network, if it has one.
    pub fn free(&mut self, packet: &Packet) {
        self.unused.extend(handle(packet));
    }
}

/// The slot of a packet's bytes; `None` for kinds of packets without stored bytes.
fn handle(packet: &Packet) -> Option<u32> {
    match packet.kind() {
        Kind::Dccp => Some(packet.dccp().handle),
        Kind::External => Some(packet.external().handle),
        Kind::Tcp | Kind::Message => None,
    }
}
