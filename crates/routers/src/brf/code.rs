//! The 16-bit code of a rate: a decimal mantissa of four digits and an exponent of one digit.
//!
//! `code = mantissa · 10 + exponent`, `rate = mantissa · 10^exponent` in bytes per second on the wire (section 3.2,
//! step 5). The paper's example, 120 MB/s = 12005, contains a misprint: 12005 is 1200 · 10^5 = 120,000,000 B/s, where
//! the paper prints 12,000,000. A 16-bit field ends at 65535, so the mantissa ends at 6552 to allow every exponent.
//! Decoders also accept the six codes above 65529.

use narrows_cc::Rate;

/// Largest mantissa valid with every exponent.
const MANTISSA_MAX: u64 = 6552;
/// Largest code that encoders emit: 6552 · 10^9 B/s.
const CODE_MAX: u16 = 65_529;

/// An encoded rate.
///
/// The code occupies the two bytes that pad TCP's timestamp option. Without a rate these bytes are two no-operation
/// options, 0x0101, which would decode to 25 · 10^7 B/s. Encoders write that rate as 2500 · 10^5, so they never emit
/// the padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateCode(pub u16);

impl RateCode {
    /// The largest code whose rate does not exceed `rate`, with as many digits as fit. Exact up to 6552 B/s;
    /// up to 6552 · 10^9 B/s the error is at most 1/657. Higher rates saturate.
    pub fn encode(rate: Rate) -> Self {
        let rate = rate.as_bytes_per_sec();
        let (mut scale, mut exponent) = (1u64, 0u16);
        // Rates of 6553 to 6559 times `scale` keep the exponent: mantissa 6552 is nearer than 655 · 10.
        while exponent < 9 && rate / scale > MANTISSA_MAX + 7 {
            scale *= 10;
            exponent += 1;
        }
        let mantissa = (rate / scale).min(MANTISSA_MAX) as u16;
        Self((mantissa * 10 + exponent).min(CODE_MAX))
    }

    /// The rate of this code; every code is valid.
    pub const fn decode(self) -> Rate {
        let (mantissa, exponent) = (self.0 as u64 / 10, self.0 as u32 % 10);
        Rate::from_bytes_per_sec(mantissa * 10u64.pow(exponent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(rate: u64) -> u16 {
        RateCode::encode(Rate::from_bytes_per_sec(rate)).0
    }

    fn decode(code: u16) -> u64 {
        RateCode(code).decode().as_bytes_per_sec()
    }

    /// The paper's examples decode by the paper's rule.
    #[test]
    fn paper_examples_decode_by_the_stated_rule() {
        assert_eq!((encode(120_000_000), decode(12_005)), (12_005, 120_000_000));
        assert_eq!(decode(CODE_MAX), 6_552_000_000_000);
        assert_eq!((encode(0), encode(1), encode(6_552)), (0, 10, 65_520));
        assert_eq!((encode(6_559), encode(6_560), encode(12_500_000)), (65_520, 6_561, 12_504));
        assert_eq!((encode(u64::MAX), decode(u16::MAX)), (CODE_MAX, 655_300_000));
    }

    /// Every code decodes, and encoding the result gives one canonical form with the same value.
    #[test]
    fn every_code_decodes_and_has_one_canonical_form() {
        for code in 0..=u16::MAX {
            let rate = decode(code);
            assert_eq!(rate, u64::from(code / 10) * 10u64.pow(u32::from(code % 10)));
            let form = encode(rate);
            assert!(form <= CODE_MAX, "{code} is written as {form}");
            assert_eq!(encode(decode(form)), form, "{code}");
            if code <= CODE_MAX {
                assert_eq!(decode(form), rate, "{code} changes its value");
                // The canonical form has as many digits as fit: with the next lower exponent the mantissa would be too
                // large.
                assert!(form.is_multiple_of(10) || u64::from(form / 10) * 10 > MANTISSA_MAX, "{code} as {form}");
            }
            assert_ne!(form, 0x0101, "two no-operations");
        }
    }

    /// Generates rates of every magnitude.
    fn rates() -> impl Strategy<Value = u64> {
        (0u32..43, 0.5f64..1.0).prop_map(|(bits, part)| (part * (1u64 << bits) as f64) as u64)
    }

    proptest! {
        /// Encoding rounds down by less than one part in 657 and keeps the order of rates.
        #[test]
        fn encoding_rounds_down_below_1_657th_and_keeps_order(a in rates(), b in rates()) {
            let decoded = decode(encode(a));
            let top = decode(CODE_MAX);
            prop_assert!(decoded <= a);
            if a <= top {
                prop_assert!(a * 656 <= decoded * 657, "{a} becomes {decoded}");
            } else {
                prop_assert_eq!(decoded, top);
            }
            prop_assert!(a > 6_552 || decoded == a);
            prop_assert!((a <= b) == (decoded <= decode(encode(b))) || decoded == decode(encode(b)));
        }
    }

    /// The error bound is tight.
    #[test]
    fn encoding_error_bound_is_tight() {
        // Just below 657 · 10^9: no smaller error bound holds.
        let rate = 656_999_999_999;
        assert_eq!(decode(encode(rate)), 656_000_000_000);
        assert!((rate - 656_000_000_000) as f64 / rate as f64 > 0.999_999 / 657.0);
    }
}
