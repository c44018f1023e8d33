//! Strangers open a hundred thousand flows at a port and use none of them: SYNs, or whatever the router's scheme opens a
//! flow with. The memory of every registered router stays bounded, and flows that were there keep their rates.

mod flood;

use flood::{Port, RATE};
use narrows_cc::Nanos;
use narrows_routers::ALL;

const FLOWS: u32 = 10;
const STRANGERS: u32 = 100_000;
/// One stranger every 100 us: with 64 to 72 B each, 5 to 6 % of the link.
const GAP: Nanos = Nanos::from_micros(100);
const START: Nanos = Nanos::from_secs(5);

/// Of the share that the bytes of the flood leave it, each flow has this much while it lasts. Nodectl sets a share aside for
/// whoever asks: the strangers in its table have as much as the flows, and ten flows of a thousand have a hundredth at least.
const DURING: f64 = 0.95;
const DURING_NODECTL: f64 = 0.01;
/// And this much when it is over and forgotten, after [`FORGOTTEN`].
const AFTER: f64 = 0.90;
const FORGOTTEN: Nanos = Nanos::from_secs(15);
/// Of the memory that a router takes, whatever comes.
const MEMORY: usize = 8 << 20;

#[test]
fn a_flood_of_strangers_neither_grows_a_router_nor_takes_rates_from_flows() {
    for entry in ALL {
        let name = entry.info.name;
        let mut port = Port::new(entry, FLOWS, 2 * STRANGERS);
        port.run_until(START);
        let flooded = START + GAP * u64::from(STRANGERS);
        let ends = [
            (FLOWS, START, flooded, if name == "nodectl" { DURING_NODECTL } else { DURING }),
            // A hundred thousand others find the tables as large as they can be.
            (FLOWS + STRANGERS, flooded, flooded + GAP * u64::from(STRANGERS), 0.0),
        ];
        let mut memory = 0;
        for (first, from, until, keeps) in ends {
            let (before, bytes) = (port.delivered(), port.flood);
            port.strangers(first..first + STRANGERS, from, GAP);
            port.run_until(until);
            let least = least_share(&before, &port, from, port.flood - bytes);
            println!("{name}: {} B, the least share during the flood {least:.3}", port.router().memory());
            assert!(least >= keeps, "{name}: a flow has {least:.3} of its share");
            memory = port.router().memory().max(memory);
            assert!(memory <= MEMORY, "{name} takes {memory} B");
        }
        assert_eq!(port.router().memory(), memory, "{name}");
        let calm = port.now + FORGOTTEN;
        port.run_until(calm);
        let before = port.delivered();
        port.run_until(calm + Nanos::from_secs(5));
        let least = least_share(&before, &port, calm, 0);
        println!("{name}: the least share when it is forgotten {least:.3}");
        assert!(least >= AFTER, "{name}: a flow has {least:.3} of its share");
    }
}

/// The least of what flows delivered since `from`, as part of an equal share of what `flood` left of the link, as payload of
/// packets with the longest explicit header.
fn least_share(before: &[u64], port: &Port, from: Nanos, flood: u64) -> f64 {
    let left = RATE.as_bytes_per_sec() as f64 * (port.now - from).as_secs_f64() - flood as f64;
    let fair = left * 1448.0 / 1520.0 / before.len() as f64;
    let shares = before.iter().zip(port.delivered()).map(|(before, after)| (after - before) as f64 / fair);
    shares.fold(f64::INFINITY, f64::min)
}
