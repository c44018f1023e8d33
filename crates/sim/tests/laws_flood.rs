//! Flood: untracked senders open a hundred thousand flows at a port, by SYN or by the opening message of the scheme,
//! and use none of them. The memory of every registered router stays bounded, and existing flows keep their rates.

use crate::flood::{Port, RATE};
use narrows_cc::Nanos;
use narrows_routers::ALL;

const FLOWS: u32 = 10;
const FLOODERS: u32 = 100_000;
/// One flow opens every 100 us: with 64 to 72 B per opening, this takes 5 to 6 % of the link.
const GAP: Nanos = Nanos::from_micros(100);
const START: Nanos = Nanos::from_secs(5);

/// Minimum fraction of its fair share that each flow keeps during the flood; the fair share is computed without the
/// flood's bytes. Nodectl reserves an equal share for every requester in its table, including the flood's flows: with
/// a thousand entries, each of the ten flows keeps at least a hundredth.
const DURING: f64 = 0.95;
const DURING_NODECTL: f64 = 0.01;
/// Minimum fraction after the flood's entries have expired, [`FORGOTTEN`] after the flood.
const AFTER: f64 = 0.90;
const FORGOTTEN: Nanos = Nanos::from_secs(15);
/// Memory limit of a router.
const MEMORY: usize = 8 << 20;

/// A flood of unused flows neither increases a router's memory beyond its bound nor reduces the rates of other flows.
#[test]
#[ignore = "seconds: `make test`"]
fn router_flood_of_flows_bounds_memory_and_keeps_rates() {
    for entry in ALL {
        let name = entry.info.name;
        let mut port = Port::new(entry, FLOWS, 2 * FLOODERS);
        port.run_until(START);
        let flooded = START + GAP * u64::from(FLOODERS);
        let ends = [
            (FLOWS, START, flooded, if name == "nodectl" { DURING_NODECTL } else { DURING }),
            // A second flood of a hundred thousand flows starts when tables have their maximum size.
            (FLOWS + FLOODERS, flooded, flooded + GAP * u64::from(FLOODERS), 0.0),
        ];
        let mut memory = 0;
        for (first, from, until, keeps) in ends {
            let (before, bytes) = (port.delivered(), port.flood);
            port.open_flood(first..first + FLOODERS, from, GAP);
            port.run_until(until);
            let least = least_share(&before, &port, from, port.flood - bytes);
            assert!(least >= keeps, "{name}: a flow keeps {least:.3} of its share");
            memory = port.router().memory().max(memory);
            assert!(memory <= MEMORY, "{name} takes {memory} B");
        }
        assert_eq!(port.router().memory(), memory, "{name}");
        let calm = port.now + FORGOTTEN;
        port.run_until(calm);
        let before = port.delivered();
        port.run_until(calm + Nanos::from_secs(5));
        let least = least_share(&before, &port, calm, 0);
        assert!(least >= AFTER, "{name}: a flow keeps {least:.3} of its share");
    }
}

/// Lowest delivery of any flow since `from`, relative to an equal share of the link without the bytes of
/// `flood`, as payload of packets with the longest explicit header.
fn least_share(before: &[u64], port: &Port, from: Nanos, flood: u64) -> f64 {
    let left = RATE.as_bytes_per_sec() as f64 * (port.now - from).as_secs_f64() - flood as f64;
    let fair = left * 1448.0 / 1520.0 / before.len() as f64;
    let shares = before.iter().zip(port.delivered()).map(|(before, after)| (after - before) as f64 / fair);
    shares.fold(f64::INFINITY, f64::min)
}
