//! Arbitrary rate headers, as a broken or hostile endpoint writes them.

use proptest::prelude::*;

use super::RateHeader;

/// Any header, with arbitrary bits in its fields.
pub fn rate_headers() -> impl Strategy<Value = RateHeader> {
    let field = || prop_oneof![any::<u32>().prop_map(f32::from_bits), Just(0.0f32), Just(-0.0f32), -1e9..1e9f32];
    prop_oneof![
        Just(RateHeader::None),
        (field(), any::<u32>()).prop_map(|(rate, rtt_us)| RateHeader::RcpRequest { rate, rtt_us }),
        field().prop_map(|rate| RateHeader::RcpReply { rate }),
        (any::<u32>(), field(), field()).prop_map(|(rtt_us, spacing, delta)| RateHeader::XcpRequest {
            rtt_us,
            spacing,
            delta
        }),
        field().prop_map(|delta| RateHeader::XcpReply { delta }),
        Just(RateHeader::BrfOffer),
        any::<u16>().prop_map(|code| RateHeader::BrfRate { code }),
    ]
}
