//! Parameters of BBR v3: `struct core_params` in `bpf/bbr3_model.h`.

use narrows_cc::Params;
use narrows_cc::bbr_v2_v3::PARAMS;

use super::{Writer, refuse_quantum};

impl Writer {
    /// A share with 40 fractional bits, rounded up: with a share rounded down, a product that is a whole number would
    /// come out one too low.
    fn share(&mut self, value: f64) -> &mut Self {
        let share = (value * f64::from(1 << 20) * f64::from(1 << 20)).ceil() as u64;
        self.long(share)
    }
}

/// Prefix of the parameters of the response to marks. The response is off by default, and the program does not have it.
const MARKS: &str = "ecn";

pub(crate) fn core(params: &Params) -> Result<Vec<u8>, String> {
    let number = |name| params.number_or_default(name, PARAMS);
    refuse_quantum(number("quantum"))?;
    if let Some((spec, _)) = params.changed().find(|(spec, _)| spec.name.starts_with(MARKS)) {
        return Err(format!(
            "--set: the program has no `{}`: the kernel does not know the share of marked packets; accepted: ecn=0",
            spec.name
        ));
    }
    let mut out = Writer::default();
    for name in ["probe_wait", "probe_wait_random", "min_rtt_window", "probe_rtt_interval"] {
        out.micros(number(name));
    }
    for name in ["probe_rtt_duration", "extra_acked_cap"] {
        out.micros(number(name) / 1e3);
    }
    let thresh = number("loss_thresh") / 100.0;
    let growth = number("full_bw_growth") - 1.0;
    for share in [thresh, thresh / (1.0 - thresh), number("beta"), number("headroom"), growth] {
        out.share(share);
    }
    let gains = "startup_gain startup_cwnd_gain drain_gain up_gain down_gain cwnd_gain up_cwnd_gain probe_rtt_gain";
    for name in gains.split(' ') {
        out.ratio(number(name));
    }
    out.ratio(1.0 - number("pacing_margin") / 100.0).ratio(number("offload_quanta"));
    let counts = "full_bw_rounds startup_losses drain_rounds probe_rounds probe_rounds_random extra_acked_window";
    for name in counts.split(' ').chain(["extra_acked", "precaution", "undo"]) {
        out.word(number(name) as u32);
    }
    out.word(0);
    Ok(out.0)
}

#[cfg(test)]
mod tests {
    use narrows_cc::schemes::find;

    use super::*;

    fn defaults() -> Params {
        Params::defaults(find("bbr3").expect("registered").info.params)
    }

    /// Values arrive in the units of the program.
    #[test]
    fn v3_arrives_in_units_of_the_program() {
        let bytes = core(&defaults()).unwrap();
        assert_eq!(bytes.len(), 168);
        let long = |n: usize| u64::from_ne_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
        let word = |n: usize| u32::from_ne_bytes(bytes[n * 4..n * 4 + 4].try_into().expect("four bytes"));
        let times: Vec<u64> = (0..6).map(long).collect();
        assert_eq!(times, [2_000_000, 1_000_000, 10_000_000, 5_000_000, 200_000, 0], "us");
        // 2 %, 2/98, 0.7, 0.15 and 0.25 in units of 2^-40, rounded up.
        let shares: Vec<u64> = (6..11).map(long).collect();
        assert_eq!(shares, [21_990_232_556, 22_439_012_812, 769_658_139_444, 164_926_744_167, 1 << 38]);
        assert_eq!((word(22), word(24), word(29)), (2_904_556, 1 << 19, 1 << 19), "2.77, 0.5 and 0.5 in 2^-20");
        let counts: Vec<u32> = (32..42).map(word).collect();
        assert_eq!(counts, [3, 6, 3, 63, 1, 10, 1, 1, 1, 0]);
    }

    /// Parameters that the program does not have are refused by name.
    #[test]
    fn v3_refuses_marks_and_fixed_quantum() {
        for (name, value, accepted) in
            [("ecn", 1.0, "ecn=0"), ("ecn_factor", 0.5, "`ecn_factor`"), ("quantum", 2.0, "quantum=0")]
        {
            let mut params = defaults();
            params.set(name, value).unwrap();
            let refused = core(&params).unwrap_err();
            assert!(refused.contains(accepted), "{refused}");
        }
    }
}
