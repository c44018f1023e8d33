//! Parameters of a scheme, encoded for its program: `struct core_params` in `bpf/bbr_core.h` with `struct own_params`
//! in the variant's file, or `struct core_params` in `bpf/bbr3_model.h`, `bpf/nodectl.bpf.c` and `bpf/brf.bpf.c`. Gains
//! and ratios have 20 fractional bits, times are microseconds.

mod v3;

use narrows_cc::bbr_v1::{PARAMS, Policy};
use narrows_cc::{LITERAL, Params, Rate};

/// The layout of the parameters, by program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `bpf/bbr_plain.bpf.c`.
    Core,
    /// `bpf/bbr_gc.bpf.c`.
    Gamma,
    /// `bpf/bbr_cws.bpf.c`.
    Scaling,
    /// `bpf/bbr3.bpf.c`.
    V3,
    /// `bpf/nodectl.bpf.c`.
    Granted,
    /// `bpf/brf.bpf.c`.
    Advised,
}

/// Longest window in seconds: less than half the range of `bbr_core.h`'s 32-bit clock, which counts microseconds.
const LONGEST_WINDOW_S: f64 = 2000.0;

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn ratio(&mut self, value: f64) -> &mut Self {
        // The ranges of these parameters end below 2^12.
        self.word((value * f64::from(1 << 20)).round() as u32)
    }

    /// A ratio that a quotient of small numbers must exceed. The ratio is rounded up, so that a quotient equal to it
    /// does not exceed it.
    fn bound(&mut self, value: f64) -> &mut Self {
        self.word((value * f64::from(1 << 20)).ceil() as u32)
    }

    /// A growth in segments per cubic second or per round trip, with 24 fractional bits. The ranges of these parameters
    /// end below 2^7.
    fn growth(&mut self, value: f64) -> &mut Self {
        self.word((value * f64::from(1 << 24)).round() as u32)
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn micros(&mut self, seconds: f64) -> &mut Self {
        self.long((seconds * 1e6).round() as u64)
    }
}

/// Encodes the parameters of the core, and those of the variant.
pub(crate) fn bytes(layout: Layout, params: &Params) -> Result<(Vec<u8>, Vec<u8>), String> {
    let params = &params.as_printed(match layout {
        Layout::Core | Layout::V3 | Layout::Granted | Layout::Advised => &[],
        Layout::Gamma => <narrows_cc::schemes::BbrGc as Printed>::PRINTED,
        Layout::Scaling => <narrows_cc::schemes::BbrCws as Printed>::PRINTED,
    });
    Ok(match layout {
        Layout::Core => (core(params)?, Vec::new()),
        Layout::Gamma => (core(params)?, gamma(params)?),
        Layout::Scaling => (core(params)?, scaling(params)),
        Layout::V3 => (v3::core(params)?, Vec::new()),
        Layout::Granted => (granted(params), Vec::new()),
        Layout::Advised => (advised(params), Vec::new()),
    })
}

/// The values that the parameter `literal` sets.
trait Printed {
    const PRINTED: &'static [(&'static str, f64)];
}

impl<P: Policy> Printed for narrows_cc::bbr_v1::BbrCore<P> {
    const PRINTED: &'static [(&'static str, f64)] = P::PRINTED;
}

fn core(params: &Params) -> Result<Vec<u8>, String> {
    let number = |name| params.number_or_default(name, PARAMS);
    refuse_quantum(number("quantum"))?;
    let mut out = Writer::default();
    out.micros(window("min_rtt_window", number("min_rtt_window"))?).micros(number("probe_rtt_duration") / 1e3);
    out.ratio(number("high_gain")).ratio(1.0 / number("high_gain"));
    for name in ["cwnd_gain", "probe_up", "probe_down"] {
        out.ratio(number(name));
    }
    out.ratio(1.0 - number("pacing_margin") / 100.0);
    for name in ["bw_window", "lt_bw", "extra_acked"] {
        out.word(number(name) as u32);
    }
    out.word(0);
    Ok(out.0)
}

fn refuse_quantum(quantum: f64) -> Result<(), String> {
    if quantum == 0.0 {
        return Ok(());
    }
    Err("--set: the kernel sizes bursts by the rate; accepted: quantum=0".to_owned())
}

/// Refuses a window, in seconds, that is too long for the ages of `bbr_core.h`, which wrap after 71 minutes.
fn window(name: &str, seconds: f64) -> Result<f64, String> {
    if seconds <= LONGEST_WINDOW_S {
        return Ok(seconds);
    }
    Err(format!("--set: the clock of the program wraps after 71 minutes; accepted: {name} up to {LONGEST_WINDOW_S}"))
}

fn gamma(params: &Params) -> Result<Vec<u8>, String> {
    let mut out = Writer::default();
    out.micros(window("rtt_max_window", params.number("rtt_max_window"))?);
    for name in ["up_gamma", "down_gamma", "up_amplitude", "down_amplitude", "down_at"] {
        out.ratio(params.number(name));
    }
    for name in ["between", "early_down", "quanta", "rtt"] {
        out.word(params.number(name) as u32);
    }
    out.word(0);
    Ok(out.0)
}

fn scaling(params: &Params) -> Vec<u8> {
    let mut out = Writer::default();
    let cut = params.number("cut");
    out.ratio(cut).growth(params.number("speed"));
    // RFC 9438 section 4.3.
    out.growth(params.number("friendly") * 3.0 * (1.0 - cut) / (1.0 + cut));
    for name in ["first", "scale_min", "scale_max"] {
        out.ratio(params.number(name));
    }
    // Times are whole microseconds. A time equal to the threshold `queue` does not exceed it; a time equal to the
    // threshold `congested` has reached it.
    let bits = |name| params.number(name) * f64::from(1 << 20);
    out.word(bits("queue").ceil() as u32).word(bits("congested").floor() as u32);
    out.ratio(params.number("push"));
    for name in ["drain_rounds", "converge"] {
        out.word(params.number(name) as u32);
    }
    out.word(0);
    out.0
}

fn granted(params: &Params) -> Vec<u8> {
    let mut out = Writer::default();
    out.long(Rate::from_mbit_per_sec(params.number("line_rate")).as_bytes_per_sec());
    out.ratio(params.number("min_rate")).ratio(params.number("window_gain"));
    out.0
}

fn advised(params: &Params) -> Vec<u8> {
    let mut out = Writer::default();
    let line_rate = Rate::from_mbit_per_sec(params.number("line_rate"));
    out.micros(params.number("timeout")).long(line_rate.as_bytes_per_sec());
    for name in ["window_gain", "timeout_rtts", "min_rate"] {
        out.ratio(params.number(name));
    }
    out.bound(params.number("overrun"));
    out.0
}

/// The parameters that differ from their defaults, as `narrows kernel status` shows them.
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
pub(crate) fn changed(params: &Params) -> Vec<(String, f64)> {
    let own = params.changed().filter(|(spec, _)| spec.name != LITERAL.name);
    own.map(|(spec, value)| (spec.name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use narrows_cc::schemes::find;

    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes"))).collect()
    }

    /// Values arrive in the units of the program, and `literal` sets the values printed in the paper.
    #[test]
    fn parameters_arrive_in_units_of_the_program() {
        let entry = find("bbr-gc").unwrap();
        let mut params = Params::defaults(entry.info.params);
        let (core, own) = bytes(Layout::Gamma, &params).unwrap();
        assert_eq!((core.len(), own.len()), (56, 48));
        let core = words(&core);
        assert_eq!((core[0], core[2]), (10_000_000, 200_000), "us");
        assert_eq!(core[4..6], [3_025_142, 363_458], "2.885 and its inverse in 2^-20");
        assert_eq!(core[9..13], [1_038_090, 10, 1, 1], "0.99 in 2^-20, rounds, flags");
        let one = 1 << 20;
        assert_eq!(words(&own)[2..7], [one / 4, 4 * one, one / 2, one / 2, one + one / 4]);
        for (name, value) in [("literal", 1.0), ("up_gamma", 0.5)] {
            params.set(name, value).unwrap();
        }
        let (core, own) = bytes(Layout::Gamma, &params).unwrap();
        assert_eq!((words(&core)[9], words(&own)[2]), (one, one / 2), "no margin; what was set stays");
    }

    /// Windows longer than the program's 32-bit clock can measure are refused, and shorter windows are accepted.
    #[test]
    fn windows_end_before_the_clock_wraps() {
        for name in ["min_rtt_window", "rtt_max_window"] {
            let mut params = Params::defaults(find("bbr-gc").unwrap().info.params);
            params.set(name, 2000.0).unwrap();
            assert!(bytes(Layout::Gamma, &params).is_ok());
            params.set(name, 2001.0).unwrap();
            let refusal = bytes(Layout::Gamma, &params).unwrap_err();
            assert!(refusal.ends_with(&format!("accepted: {name} up to 2000")), "{refusal}");
        }
    }

    /// BBR-CWS's values arrive in the units of its program.
    #[test]
    fn scaling_arrives_in_units_of_the_program() {
        let params = Params::defaults(find("bbr-cws").unwrap().info.params);
        let (_, own) = bytes(Layout::Scaling, &params).unwrap();
        let one = 1 << 20;
        // The growth parameters 0.32 and 3/7 in units of 2^-24. Among the ratios, `congested` is 0.8 in units of 2^-20,
        // rounded down.
        let growth = [5_368_709, 7_190_235];
        let ratios = [one / 8, one / 4, 8 * one, 2 * one + one / 4, 838_860, one + one / 4];
        assert_eq!(words(&own), [&[one / 4 * 3], &growth[..], &ratios, &[4, 1, 0]].concat());
    }

    /// The bounds of granted rates arrive in the units of the program.
    #[test]
    fn granted_bounds_arrive_in_units_of_the_program() {
        let mut params = Params::defaults(find("nodectl").unwrap().info.params);
        params.set("line_rate", 80.0).unwrap();
        let (core, own) = bytes(Layout::Granted, &params).unwrap();
        assert_eq!(core[..8], 10_000_000_u64.to_ne_bytes(), "bytes per second");
        assert_eq!(words(&core)[2..], [1 << 20, 2 << 20], "packets per second and gain in 2^-20");
        assert!(own.is_empty());
    }

    /// BRF's values arrive in the units of its program.
    #[test]
    fn advised_arrives_in_units_of_the_program() {
        let mut params = Params::defaults(find("brf").unwrap().info.params);
        params.set("timeout_rtts", 4.5).unwrap();
        let (core, own) = bytes(Layout::Advised, &params).unwrap();
        let one = 1 << 20;
        // The line rate, 100 Gbit/s in bytes per second, as the low and the high word: 2^32 · 2 + the rest.
        let line = [(12_500_000_000_u64 & u64::from(u32::MAX)) as u32, (12_500_000_000_u64 >> 32) as u32];
        assert_eq!(
            words(&core),
            // 1 s in microseconds; the line rate; 2, 4.5 and 1 in units of 2^-20; 0.2 in units of 2^-20, rounded up.
            [&[1_000_000, 0], &line[..], &[2 * one, 4 * one + one / 2, one, 209_716]].concat()
        );
        assert!(own.is_empty());
    }

    /// A fixed send quantum, which the program cannot express, is refused.
    #[test]
    fn fixed_quantum_is_refused() {
        let mut params = Params::defaults(find("bbr-gc").unwrap().info.params);
        params.set("quantum", 2.0).unwrap();
        assert!(bytes(Layout::Gamma, &params).unwrap_err().contains("accepted: quantum=0"));
    }
}
