//! Bytes of packets for which the simulated packet has no space; it carries their slot number.

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

    /// The bytes of a packet in the network: of a DCCP packet from its own header on, with the checksum field
    /// zero; of a real host's packet from the IP header on. Other packets have none.
    pub fn bytes(&self, packet: &Packet) -> &[u8] {
        handle(packet).map_or(&[], |handle| &self.slots[handle as usize])
    }

    /// Like [`PayloadArena::bytes`].
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

/// The slot of a packet's bytes.
fn handle(packet: &Packet) -> Option<u32> {
    match packet.kind() {
        Kind::Dccp => Some(packet.dccp().handle),
        Kind::External => Some(packet.external().handle),
        Kind::Tcp | Kind::Message => None,
    }
}
