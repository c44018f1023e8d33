//! Explicit-rate schemes on random networks: steady goodput, converted to rates on the wire, is compared with the
//! max-min fair rates of the oracle. [`laws`] has an entry per scheme.

use crate::law::run;
use crate::oracle::{Network, Ranges, explicit_rate_schemes, wire};
use narrows_cc::Random;
use narrows_routers::find;

/// Networks of each kind per scheme.
const NETWORKS: u64 = 16;

const RANGES: Ranges =
    Ranges { nodes: (4, 8), flows: (2, 10), rates: (5.0, 100.0), delays: (1.0, 20.0), limited: 0.25, one_way: false };

/// Size of a full packet in kbit.
const PACKET_KBIT: f64 = 12.0;

/// Accepted deviation of a rate from the fair rate, as a fraction of the fair rate; negative if the rate is lower.
/// Where links reserve headroom, there are two fair rates, with and without headroom, and only the distance below the
/// lower or above the higher of the two counts.
type Bounds = std::ops::RangeInclusive<f64>;

/// Factor by which links over-reserve for flows that are limited elsewhere.
fn headroom(scheme: &str) -> f64 {
    let beta = |scheme| find(scheme)?.info.params.iter().find(|param| param.name == "beta").map(|param| param.default);
    if scheme == "brf" { beta("brf").expect("BRF has a beta") } else { 1.0 }
}

/// Distance of `rate` from the range between two other rates, as a fraction of the nearer bound.
fn outside(rate: f64, one: f64, other: f64) -> f64 {
    rate / rate.clamp(one.min(other), one.max(other)) - 1.0
}

/// Runs a scheme on networks that `draw` returns, compares the rates of all flows with the oracle and prints the
/// extremes. As in the oracle, receivers send one ACK per two packets from the start.
#[track_caller]
fn compare(scheme: &str, kind: &str, draw: Kind, bounds: &Bounds) {
    let wire = wire(scheme);
    let mut offs: Vec<f64> = Vec::new();
    let mut failures = String::new();
    let (mut drops, mut below_a_packet) = (0, 0);
    let mut extremes = (0.0_f64, 0.0_f64);
    for seed in 0..NETWORKS {
        let network = draw(&mut Random::stream(seed, kind, 0));
        let fair = network.fair(&wire, 1.0);
        let lacking = match scheme {
            "nodectl" => network.fair_beside_reserves(&wire),
            _ => network.fair(&wire, headroom(scheme)),
        };
        let result = run(&format!(
            "duration = \"24s\"\nwarmup = \"12s\"\n[tcp]\nquick_growth = false\n\
             [network]\nbuffer = \"8bdp\"\nrouter = \"{}\"\n{}",
            wire.router,
            network.tables(scheme)
        ));
        drops += result.links.iter().map(|link| link.drops).sum::<u64>();
        for (f, flow) in result.flows.iter().enumerate() {
            let measured = flow.goodput_mbit_s / wire.payload;
            let off = measured / fair[f] - 1.0;
            let rtt = network.rtt(&network.traffic[f]);
            // Rates below a packet per round trip are too low to be measured.
            if fair[f] * rtt < PACKET_KBIT {
                below_a_packet += 1;
                continue;
            }
            offs.push(off);
            let beyond = outside(measured, fair[f], lacking[f]);
            extremes = (extremes.0.min(beyond), extremes.1.max(beyond));
            if !bounds.contains(&beyond) {
                failures += &format!(
                    "seed {seed}, flow {f} of {rtt:.1} ms: {measured:.3} Mbit/s on the wire, fair is {:.3}, with headroom \
                     {:.3}: {:+.1} %\n",
                    fair[f],
                    lacking[f],
                    beyond * 100.0
                );
            }
        }
    }
    offs.sort_by(f64::total_cmp);
    let mean = offs.iter().map(|off| off.abs()).sum::<f64>() / offs.len() as f64;
    println!(
        "{scheme}, {kind}: {} flows on {NETWORKS} networks, mean gap {:.2} %, from {:+.1} % to {:+.1} %, 5th percentile \
         {:+.1} %, 95th {:+.1} %; {below_a_packet} flows below a packet per round trip left out; {drops} drops; \
         beyond the headroom from {:+.1} % to {:+.1} %",
        offs.len(),
        mean * 100.0,
        offs[0] * 100.0,
        offs[offs.len() - 1] * 100.0,
        offs[offs.len() / 20] * 100.0,
        offs[offs.len() - 1 - offs.len() / 20] * 100.0,
        extremes.0 * 100.0,
        extremes.1 * 100.0,
    );
    if kind != "DATA_BOTH_WAYS" {
        assert_eq!(drops, 0, "{scheme}, {kind}: drops although all flows obey");
    }
    assert!(failures.is_empty(), "{scheme}, {kind}, outside {bounds:?}:\n{failures}");
}

/// A kind of network: the function that draws one.
type Kind = fn(&mut Random) -> Network;

const ONE_BOTTLENECK: Kind = |random| Network::one_bottleneck(random, &RANGES);
const DATA_ONE_WAY: Kind = |random| Network::random(random, &Ranges { one_way: true, ..RANGES });
const DATA_BOTH_WAYS: Kind = |random| Network::random(random, &RANGES);

macro_rules! laws {
    ($($(#[doc = $why:literal])* $scheme:ident { $($test:ident: $kind:ident $bounds:expr;)+ })+) => {$(
        mod $scheme {
            use super::{$($kind),+, compare};

            $(#[test]
            fn $test() {
                compare(stringify!($scheme), stringify!($kind), $kind, &$bounds);
            })+
        }
    )+
        const STATED: &[&str] = &[$(stringify!($scheme)),+];
    };
}

/// Every registered scheme with an explicit-rate protocol has an entry in [`laws`].
#[test]
fn every_explicit_rate_scheme_has_stated_bounds() {
    assert_eq!(
        explicit_rate_schemes().iter().filter(|scheme| !STATED.contains(scheme)).count(),
        0,
        "{:?}",
        explicit_rate_schemes()
    );
}

laws! {
    /// The deficit comes from the queue Q of packets that arrive together by chance: in equilibrium, C - y =
    /// beta/alpha Q/d. Slow links with short round-trip times lose most.
    rcp {
        law_one_bottleneck_rates_match_oracle: ONE_BOTTLENECK -0.05..=0.05;
        law_data_both_ways_rates_match_oracle: DATA_BOTH_WAYS -0.05..=0.05;
    }
    /// One bottleneck: senders send whole packets only, so a flow with a window of four packets may fall short of its
    /// fair share by a fifth, which the other flows get. Several bottlenecks: XCP is not max-min fair. It offers the
    /// bandwidth that it shuffles to all flows, and flows that are limited elsewhere leave their part unused. With
    /// alpha = 0.4 and gamma = 0.1 the utilisation of a link may settle at alpha / (alpha + gamma) = 80 % (Low, Andrew,
    /// Wydrowski, 'Understanding XCP: equilibrium and fairness', INFOCOM 2005), and slightly lower during shuffling.
    xcp {
        law_one_bottleneck_rates_match_oracle: ONE_BOTTLENECK -0.20..=0.10;
        law_data_both_ways_rates_match_oracle: DATA_BOTH_WAYS -0.30..=0.10;
    }
    /// Links reserve beta times the usage of ACKs and of flows that their application or another port limits. In
    /// addition, a measurement may miss one packet, which matters for flows with few packets per period.
    brf {
        law_one_bottleneck_rates_match_oracle: ONE_BOTTLENECK -0.05..=0.01;
        law_data_one_way_rates_match_oracle: DATA_ONE_WAY -0.05..=0.01;
        law_data_both_ways_rates_match_oracle: DATA_BOTH_WAYS -0.05..=0.01;
    }
    /// Flows whose application uses less than the fair share reserve a twentieth more than they send, and at least two
    /// packets per round trip. The reservation for ACKs is a tenth more than they need. Other flows lack these reserves
    /// (the oracle counts them), the bandwidth of control messages, and a measurement error of one packet.
    nodectl {
        law_one_bottleneck_rates_match_oracle: ONE_BOTTLENECK -0.01..=0.005;
        law_data_both_ways_rates_match_oracle: DATA_BOTH_WAYS -0.015..=0.005;
    }
}
