//! Headers and options: encoding, decoding and errors.

use narrows_dccp::wire::{
    Addresses, Body, DecodeError, MAX_HEADER, MAX_VALUE, MIN_HEADER, Opt, OptionError, checksum, options, seal, verify,
};
use narrows_dccp::{Header, Kind, ResetCode};
use proptest::prelude::*;

/// The bytes of a packet.
pub fn encoded(header: &Header, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    header.encode(options, data, &mut packet);
    packet
}

/// Any valid header.
fn header() -> impl Strategy<Value = Header> {
    let fields = (any::<(u16, u16)>(), 0..16u8, 0..16u8, any::<(u64, u64, u32, u8, [u8; 3])>());
    (0..Kind::ALL.len(), any::<bool>(), fields).prop_map(
        |(kind, long, ((source, destination), ccval, coverage, rest))| {
            let kind = Kind::ALL[kind];
            let long = long || !kind.may_be_short();
            let (seq, ack, service, code, data) = rest;
            let width = if long { 48 } else { 24 };
            let number = |n: u64| n & ((1 << width) - 1);
            Header {
                source,
                destination,
                ccval,
                coverage,
                kind,
                long,
                seq: number(seq),
                ack: kind.acknowledges().then(|| number(ack)),
                service: if matches!(kind, Kind::Request | Kind::Response) { service } else { 0 },
                reset: if kind == Kind::Reset { (code, data) } else { (0, [0; 3]) },
            }
        },
    )
}

/// Ingredients of an option: type, bytes, number, flag.
fn option() -> impl Strategy<Value = (u8, Vec<u8>, u64, bool)> {
    (0..24u8, prop::collection::vec(any::<u8>(), 0..40), any::<u64>(), any::<bool>())
}

fn build<'a>((which, bytes, number, flag): &'a (u8, Vec<u8>, u64, bool)) -> Opt<'a> {
    let (value, n, feature) = (bytes.as_slice(), *number as u32, *number as u8);
    // Small and large numbers, so that short and long encodings occur.
    let n = if *flag { n } else { n % 70_000 };
    match which {
        0 => Opt::Padding,
        1 => Opt::Mandatory,
        2 => Opt::SlowReceiver,
        3 => Opt::ChangeL { feature, value },
        4 => Opt::ConfirmL { feature, value },
        5 => Opt::ChangeR { feature, value },
        6 => Opt::ConfirmR { feature, value },
        7 => Opt::InitCookie(value),
        8 => Opt::NdpCount(number >> (16 + number % 48)),
        9 => Opt::AckVector { nonce: *flag, runs: value },
        10 => Opt::DataDropped(value),
        11 => Opt::Timestamp(n),
        12 => Opt::TimestampEcho { value: *number as u32, elapsed: None },
        13 => Opt::TimestampEcho { value: *number as u32, elapsed: Some(n) },
        14 => Opt::ElapsedTime(n),
        15 => Opt::DataChecksum(n),
        16 => Opt::LossEventRate(n),
        17 => Opt::LossIntervals(&value[..value.len().saturating_sub(1) / 9 * 9 + usize::from(!value.is_empty())]),
        18 => Opt::ReceiveRate(n),
        19 => Opt::LossRate(n),
        20 => Opt::Unknown { kind: 3 + feature % 29, value: &[] },
        21 => Opt::Unknown { kind: 45 + feature % 83, value },
        _ => Opt::Unknown { kind: 196 + feature % 60, value },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any header decodes to itself, with options padded by zeros.
    #[test]
    fn header_encode_decode_round_trip(
        header in header(),
        options in prop::collection::vec(1..=255u8, 0..1000),
        data in prop::collection::vec(any::<u8>(), 56..200),
    ) {
        let mut options = options;
        options.truncate(header.room());
        let mut packet = vec![0xee]; // `encode` must append to these contents
        header.encode(&options, &data, &mut packet);
        let packet = &packet[1..];
        let (decoded, body) = Header::decode(packet).unwrap();
        prop_assert_eq!(decoded, header);
        prop_assert_eq!(body.data, &data[..]);
        let padding = options.len().next_multiple_of(4) - options.len();
        prop_assert_eq!(&body.options[..options.len()], &options[..]);
        prop_assert_eq!(&body.options[options.len()..], &vec![0; padding][..]);
        prop_assert_eq!(packet.len(), header.len() + options.len() + padding + data.len());
        prop_assert_eq!(&packet[6..8], &[0, 0]);
    }

    /// Any options decode to themselves.
    #[test]
    fn options_write_read_round_trip(list in prop::collection::vec(option(), 0..20)) {
        // A Loss Intervals option requires a skip length.
        let list: Vec<Opt> = list.iter().map(build).filter(|option| *option != Opt::LossIntervals(&[])).collect();
        let mut bytes = Vec::new();
        for option in &list {
            option.write(&mut bytes);
        }
        let read: Result<Vec<Opt>, _> = options(&bytes).collect();
        prop_assert_eq!(read.unwrap(), list);
    }

    /// Random bytes cause no panic and no read outside the packet. Decoded packets encode to the same header.
    #[test]
    fn header_random_bytes_decode_or_are_rejected(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        offset in 0..40u8,
        first in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if first && bytes.len() > 4 {
            bytes[4] = offset;
        }
        match Header::decode(&bytes) {
            Ok((header, Body { options: opts, data })) => {
                prop_assert_eq!(header.len() + opts.len() + data.len(), bytes.len());
                prop_assert_eq!(&bytes[header.len()..][..opts.len()], opts);
                prop_assert_eq!(usize::from(bytes[4]) * 4, header.len() + opts.len());
                prop_assert!(options(opts).count() <= opts.len());
                // Re-encoding changes only reserved bits and the checksum.
                let again = encoded(&header, opts, data);
                prop_assert_eq!(again.len(), bytes.len());
                prop_assert_eq!(Header::decode(&again).unwrap().0, header);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        checksum(None, &bytes, 3);
        verify(None, &bytes);
    }

    /// The option iterator ends on random bytes and reports the position of each error.
    #[test]
    fn options_random_bytes_terminate(bytes in prop::collection::vec(any::<u8>(), 0..1020)) {
        let mut at = 0;
        for option in options(&bytes) {
            match option {
                Ok(_) => {}
                Err(OptionError::Value { at: place, kind, length }) => {
                    prop_assert!(place >= at && bytes[place] == kind && usize::from(bytes[place + 1]) == length);
                    at = place;
                }
                Err(OptionError::Length { at: place, kind, have, .. }) => {
                    prop_assert!(place >= at && bytes[place] == kind && have == bytes.len() - place);
                    at = bytes.len();
                }
            }
        }
    }

    /// The checksum detects any flipped bit within its coverage, and no flipped bit beyond its coverage.
    #[test]
    fn checksum_detects_flipped_bit_in_coverage(
        header in header(),
        data in prop::collection::vec(any::<u8>(), 56..100),
        addresses in prop::option::of(any::<([u8; 4], [u8; 4])>()),
        place in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let addresses = addresses.map(|(source, destination)| Addresses { source, destination });
        let mut packet = encoded(&header, &[2, 2], &data);
        seal(addresses, &mut packet);
        prop_assert!(verify(addresses, &packet));
        let covered = match header.coverage {
            0 => packet.len(),
            n => header.len() + 4 + 4 * (usize::from(n) - 1),
        };
        let at = place.index(packet.len());
        prop_assume!(at != 4 && at != 5); // bytes 4 and 5 determine the coverage
        packet[at] ^= 1u8 << bit;
        prop_assert_eq!(verify(addresses, &packet), at >= covered);
    }
}

/// Packets encode to the layout of RFC 4340 section 5.
#[test]
fn packet_encodes_to_bytes_of_section_5() {
    let request = Header {
        source: 0x1234,
        destination: 0x5678,
        ccval: 0xa,
        coverage: 1,
        seq: 0x0102_0304_0506,
        service: 0x6669_6c6d,
        ..Header::new(Kind::Request)
    };
    let expected = [
        0x12, 0x34, 0x56, 0x78, 7, 0xa1, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, //
        0x66, 0x69, 0x6c, 0x6d, 1, 32, 4, 1, 3, 0, 0, 0, b'h', b'i',
    ];
    assert_eq!(encoded(&request, &[1, 32, 4, 1, 3], b"hi"), expected);

    let ack = Header { long: false, seq: 0xaa_bbcc, ack: Some(0x01_0203), ..Header::new(Kind::Ack) };
    assert_eq!(encoded(&ack, &[], &[]), [0, 0, 0, 0, 4, 0, 0, 0, 3 << 1, 0xaa, 0xbb, 0xcc, 0, 1, 2, 3]);

    let reset = Header {
        seq: 9,
        ack: Some(0xffff_ffff_ffff),
        reset: (ResetCode::OptionError as u8, [7, 8, 9]),
        ..Header::new(Kind::Reset)
    };
    let packet = encoded(&reset, &[], &[]);
    assert_eq!(packet[4..9], [7, 0, 0, 0, 7 << 1 | 1]);
    assert_eq!(packet[16..], [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 5, 7, 8, 9]);
}

/// Header lengths match section 5, per type, long and short.
#[test]
fn header_lengths_match_section_5() {
    let lengths: Vec<_> = Kind::ALL.iter().map(|kind| kind.header_len(true)).collect();
    assert_eq!(lengths, [20, 28, 16, 24, 24, 24, 24, 28, 24, 24]);
    let short: Vec<_> = [Kind::Data, Kind::Ack, Kind::DataAck].iter().map(|kind| kind.header_len(false)).collect();
    assert_eq!(short, [MIN_HEADER, 16, 16]);
    assert_eq!(Header { long: false, ..Header::new(Kind::Sync) }.len(), 24, "a Sync has no short form");
    assert_eq!(Header::new(Kind::DataAck).room(), MAX_HEADER - 24);
}

/// Packet types and reset codes have the numbers of RFC 4340; other numbers are reserved.
#[test]
fn kind_and_reset_code_numbers_match_the_rfc() {
    for number in 0..=255 {
        let kind = Kind::from_wire(number);
        assert_eq!(kind.map(|kind| kind as u8), (number < 10).then_some(number));
        let code = ResetCode::from_wire(number);
        assert_eq!(code.map(|code| code as u8), (number < 12).then_some(number));
    }
}

fn refused(bytes: &[u8]) -> String {
    Header::decode(bytes).unwrap_err().to_string()
}

/// The error of a malformed header names the wrong byte, and reserved bits are ignored.
#[test]
fn header_malformed_error_names_the_byte() {
    let packet = encoded(&Header::new(Kind::Response), &[], b"12345");
    assert_eq!(refused(&[]), "the packet ends at byte 0; its header has 12 bytes");
    assert_eq!(refused(&packet[..27]), "the packet ends at byte 27; its header has 28 bytes");
    let with = |at: usize, byte: u8| {
        let mut changed = packet.clone();
        changed[at] = byte;
        refused(&changed)
    };
    assert_eq!(with(8, 10 << 1 | 1), "byte 8: packet type 10 is reserved; types are 0 to 9");
    assert_eq!(with(8, 1 << 1), "byte 8: Response has a short sequence number (X = 0); only Data, Ack and DataAck may");
    assert_eq!(with(4, 6), "byte 4: data starts at byte 24, inside the header of 28 bytes");
    assert_eq!(with(4, 9), "byte 4: data starts at byte 36, after the packet's end at 33");
    assert_eq!(with(5, 3), "byte 5: the checksum covers 8 bytes of data; the packet has 5");
    let mut reserved = packet.clone();
    reserved[8] |= 0xe0;
    assert_eq!(Header::decode(&reserved).unwrap().0, Header::new(Kind::Response), "reserved bits are ignored");
}

/// Encoding turns coverage beyond the data into full coverage; decoding rejects it.
#[test]
fn header_coverage_beyond_data_encodes_as_full() {
    let mut packet = encoded(&Header { coverage: 15, ..Header::new(Kind::Data) }, &[], b"12345");
    assert_eq!(Header::decode(&packet).unwrap().0.coverage, 0);
    packet[5] = 2;
    assert_eq!(Header::decode(&packet).unwrap().0.coverage, 2);
    packet[5] = 3;
    assert_eq!(Header::decode(&packet).unwrap_err(), DecodeError::Coverage { covered: 8, have: 5 });
}

/// The error of a malformed option names the byte at which the option begins. After an invalid value later options
/// remain readable; after an invalid length no option is read.
#[test]
fn options_malformed_error_names_the_byte() {
    let read =
        |bytes: &[u8]| options(bytes).map(|option| option.map(|o| o.kind()).map_err(|e| e.to_string())).collect();
    let read_options: Vec<Result<u8, String>> = read(&[2, 41, 5, 1, 2, 3, 2]);
    let wrong = "byte 1 of the options: option 41 cannot have length 5".to_owned();
    assert_eq!(read_options, [Ok(2), Err(wrong), Ok(2)], "the options after it can be read");
    for (bytes, message) in [
        (&[2, 38, 1, 0][..], "byte 1 of the options: option 38 has length 1, but 3 bytes remain"),
        (&[0, 0, 43, 6, 1][..], "byte 2 of the options: option 43 has length 6, but 3 bytes remain"),
        (&[200][..], "byte 0 of the options: option 200 has length 0, but 1 bytes remain"),
    ] {
        let read_options: Vec<_> = read(bytes);
        assert_eq!(read_options.last(), Some(&Err(message.to_owned())), "{bytes:?}: nothing is read after it");
    }
    for bytes in
        [&[37, 2][..], &[37, 9, 1, 2, 3, 4, 5, 6, 7], &[42, 7, 1, 2, 3, 4, 5], &[193, 2], &[193, 4, 0, 0], &[32, 2]]
    {
        let error = options(bytes).next().unwrap().unwrap_err();
        assert_eq!(error, OptionError::Value { at: 0, kind: bytes[0], length: bytes.len() });
    }
}

/// Options encode to the bytes of the RFC, in their shortest form.
#[test]
fn options_encode_to_bytes_of_the_rfc() {
    let written = |option: Opt| {
        let mut bytes = Vec::new();
        option.write(&mut bytes);
        bytes
    };
    assert_eq!(written(Opt::ChangeR { feature: 1, value: &[3, 2] }), [34, 5, 1, 3, 2]);
    assert_eq!(written(Opt::ConfirmL { feature: 9, value: &[] }), [33, 3, 9]);
    assert_eq!(written(Opt::NdpCount(0)), [37, 3, 0]);
    assert_eq!(written(Opt::NdpCount(0x1_0000)), [37, 5, 1, 0, 0]);
    assert_eq!(written(Opt::Timestamp(1)), [41, 6, 0, 0, 0, 1]);
    assert_eq!(written(Opt::TimestampEcho { value: 1, elapsed: None }), [42, 6, 0, 0, 0, 1]);
    assert_eq!(written(Opt::TimestampEcho { value: 1, elapsed: Some(0) }), [42, 8, 0, 0, 0, 1, 0, 0]);
    assert_eq!(written(Opt::TimestampEcho { value: 1, elapsed: Some(65_536) })[6..], [0, 1, 0, 0]);
    assert_eq!(written(Opt::ElapsedTime(65_535)), [43, 4, 255, 255]);
    assert_eq!(written(Opt::ElapsedTime(65_536)), [43, 6, 0, 1, 0, 0]);
    assert_eq!(written(Opt::ReceiveRate(0x0102_0304)), [194, 6, 1, 2, 3, 4]);
    assert_eq!(written(Opt::LossRate(u32::MAX)), [195, 6, 255, 255, 255, 255]);
    assert_eq!(written(Opt::InitCookie(&[5; MAX_VALUE])).len(), 255);
}

/// The options allowed on Data packets are those of table 3 in section 5.8.
#[test]
fn options_allowed_on_data_match_table_3() {
    let allowed: Vec<u8> = (0..=255)
        .filter(|&kind| {
            let bytes = [kind, 6, 1, 0, 0, 0];
            options(&bytes).next().unwrap().is_ok_and(|option| option.allowed_on_data())
        })
        .collect();
    assert_eq!(allowed, [0, 2, 37, 41, 42, 44]);
}

/// The checksum follows section 9, computed by hand for a Data packet of 17 bytes from 10.0.0.1 to 10.0.0.2.
#[test]
fn checksum_matches_section_9() {
    let addresses = Addresses { source: [10, 0, 0, 1], destination: [10, 0, 0, 2] };
    let header = Header { source: 5001, destination: 5002, long: false, seq: 0x01_0203, ..Header::new(Kind::Data) };
    let mut packet = encoded(&header, &[], &[0xde, 0xad, 0xbe, 0xef, 0x99]);
    // Pseudo-header: 0a00 + 0001 + 0a00 + 0002 + 33 + 17 = 1435 (0x21 + 0x11 = 0x32).
    // Header: 1389 + 138a + 0300 + 0000 + 0401 + 0203 = 3017. Data: dead + beef + 9900 = 2369c.
    assert_eq!(checksum(Some(addresses), &packet, 0), !fold(0x1435 + 0x3017 + 0x2369c));
    assert_eq!(checksum(None, &packet, 0), !fold(0x3017 + 0x2369c));
    assert_eq!(checksum(Some(addresses), &packet, 1), !fold(0x1435 + 0x3017));
    assert_eq!(checksum(Some(addresses), &packet, 2), !fold(0x1435 + 0x3017 + 0xdead + 0xbeef));
    seal(Some(addresses), &mut packet);
    assert!(verify(Some(addresses), &packet));
    let swapped = Addresses { source: addresses.destination, destination: [10, 0, 1, 1] };
    assert!(!verify(Some(swapped), &packet));
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
