//! How the schemes with explicit rates share networks: steady goodput, as rates on the wire, against the max-min fair rates
//! that the oracle computes. One line of [`laws`] per scheme.

mod law;
mod oracle;

use law::run;
use narrows_cc::Random;
use narrows_routers::find;
use oracle::{Network, Ranges, advised, wire};

/// How many networks of each kind a scheme is tried on.
const NETWORKS: u64 = 16;

const RANGES: Ranges = Ranges {
    nodes: (4, 8),
    flows: (2, 10),
    rates: (5.0, 100.0),
    delays: (1.0, 20.0),
    limited: 0.25,
    one_way: false,
};

/// A full packet.
const PACKET_KBIT: f64 = 12.0;

/// How far a rate may lie from the fair one, as parts of that; negative below it. Where links set headroom aside, below the
/// lower and above the higher of the fair rates with and without it.
type Bounds = std::ops::RangeInclusive<f64>;

/// What links set aside for flows that are limited elsewhere, in parts of their rates.
fn headroom(scheme: &str) -> f64 {
    let beta = |scheme| {
        find(scheme)?.info.params.iter().find(|param| param.name == "beta").map(|param| param.default)
    };
    if scheme == "brf" { beta("brf").expect("BRF has a beta") } else { 1.0 }
}

/// How far `rate` lies outside the range between two others, as a part of the nearer one.
fn outside(rate: f64, one: f64, other: f64) -> f64 {
    rate / rate.clamp(one.min(other), one.max(other)) - 1.0
}

/// Runs a scheme on networks drawn by `draw`. Whatever its rates, all flows together are compared with the oracle; the
/// measured extremes are printed.
#[track_caller]
fn compare(scheme: &str, kind: &str, draw: Kind, bounds: &Bounds) {
    let wire = wire(scheme);
    let mut offs: Vec<f64> = Vec::new();
    let mut failures = String::new();
    let (mut drops, mut below_a_packet) = (0, 0);
    let mut extremes = (0.0_f64, 0.0_f64);
    for seed in 0..NETWORKS {
        let network = draw(&mut Random::stream(seed, kind, 0));
        let fair = network.fair(&wire);
        let lacking = match scheme {
            "nodectl" => network.fair_beside_reserves(&wire),
            _ => network.fair_with_headroom(&wire, headroom(scheme)),
        };
        let result = run(&format!(
            "name = \"allocation law\"\nduration = \"24s\"\nwarmup = \"12s\"\n[network]\nbuffer = \"8bdp\"\n\
             router = \"{}\"\n{}",
            wire.router,
            network.tables(scheme)
        ));
        drops += result.links.iter().map(|link| link.drops).sum::<u64>();
        for (f, flow) in result.flows.iter().enumerate() {
            let measured = flow.goodput_mbit_s / wire.payload;
            let off = measured / fair[f] - 1.0;
            let rtt = network.rtt(&network.traffic[f]);
            // Less than a packet per round trip is too little to be measured within one.
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
         {:+.1} %, 95th {:+.1} %; {below_a_packet} flows with less than a packet per round trip left out; {drops} drops; \
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
        assert_eq!(drops, 0, "{scheme}, {kind}: nothing is dropped where all obey");
    }
    assert!(failures.is_empty(), "{scheme}, {kind}, outside {bounds:?}:\n{failures}");
}

/// A kind of networks: how one is drawn.
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

#[test]
fn every_scheme_that_takes_advice_has_its_bounds() {
    assert_eq!(advised().iter().filter(|scheme| !STATED.contains(scheme)).count(), 0, "{:?}", advised());
}

laws! {
    /// What is missing is the queue Q of packets that happen to arrive together: the law comes to rest where
    /// C - y = beta/alpha Q/d, which is most on slow links with short round-trip times.
    rcp {
        law_flows_share_one_bottleneck: ONE_BOTTLENECK -0.05..=0.05;
        law_flows_share_networks_with_data_both_ways: DATA_BOTH_WAYS -0.05..=0.05;
    }
    /// One bottleneck: a window sends whole packets only, so that of a fair share of four packets a fifth may be missing,
    /// which the others have. Several: XCP is not max-min fair. What it takes from everybody to shuffle it offers to
    /// everybody, and flows that are limited elsewhere leave it; with alpha = 0.4 and gamma = 0.1 a link may stand at
    /// alpha / (alpha + gamma) = 80 % (Low, Andrew, Wydrowski, 'Understanding XCP: equilibrium and fairness', INFOCOM 2005),
    /// and a little less while it shuffles.
    xcp {
        law_flows_share_one_bottleneck: ONE_BOTTLENECK -0.20..=0.10;
        law_flows_share_networks_with_data_both_ways: DATA_BOTH_WAYS -0.30..=0.10;
    }
    /// A flow that its application or another port limits is allowed beta times what it uses, and so are acknowledgements:
    /// beyond that, flows of few packets per period lack the packet that a measurement may miss.
    brf {
        law_flows_share_one_bottleneck: ONE_BOTTLENECK -0.05..=0.01;
        law_flows_share_networks_with_data_one_way: DATA_ONE_WAY -0.05..=0.01;
        law_flows_share_networks_with_data_both_ways: DATA_BOTH_WAYS -0.05..=0.01;
    }
    /// Flows whose application has less than their share hold a twentieth more than they send, and two packets per round trip
    /// at least; acknowledgements are given a tenth more than they need. Beside what the others lack for that, the share of
    /// messages and the packet that a look may err by are missing.
    nodectl {
        law_flows_share_one_bottleneck: ONE_BOTTLENECK -0.01..=0.005;
        law_flows_share_networks_with_data_both_ways: DATA_BOTH_WAYS -0.015..=0.005;
    }
}
