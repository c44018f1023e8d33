//! CRC-32c, as SCTP has it (RFC 3309): for Data Checksums (RFC 4340 section 9.3).

/// Of every byte: the remainder of its reflection by 0x1EDC6F41.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut rest = n as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 { rest >> 1 ^ 0x82f6_3b78 } else { rest >> 1 };
            bit += 1;
        }
        table[n] = rest;
        n += 1;
    }
    table
};

/// The value of a Data Checksum option for this data. SCTP's procedure swaps the bytes of the remainder before they are sent in
/// network order, so that the least significant one comes first on the wire.
pub fn data_checksum(data: &[u8]) -> u32 {
    let rest = data
        .iter()
        .fold(u32::MAX, |rest, &byte| TABLE[((rest ^ u32::from(byte)) & 255) as usize] ^ rest >> 8);
    (!rest).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of the CRC catalogues, and test patterns of RFC 3720 appendix B.4, which has the order of the wire.
        assert_eq!(data_checksum(b"123456789").swap_bytes(), 0xe306_9283);
        assert_eq!(data_checksum(&[0; 32]).to_be_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(data_checksum(&[0xff; 32]).to_be_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        // RFC 4340 section 9.3: that of no bytes is zero.
        assert_eq!(data_checksum(&[]), 0);
    }
}
