//! Strangers open a hundred thousand flows at a port and use none of them: SYNs, or whatever the allocator's scheme opens a
//! flow with. The memory of every registered allocator stays bounded, and flows that were there keep their rates.

mod flood;

use flood::{Port, RATE};
use narrows_cc::Nanos;
use narrows_net::allocator::ALL;

const FLOWS: u32 = 10;
const STRANGERS: u32 = 100_000;
/// One stranger every 100 us: with 64 to 72 B each, 5 to 6 % of the link.
const GAP: Nanos = Nanos::from_micros(100);
const START: Nanos = Nanos::from_secs(5);

/// Of the share that the bytes of the flood leave it, each flow keeps this much.
const KEEPS: f64 = 0.95;

#[test]
fn a_flood_of_strangers_neither_grows_an_allocator_nor_takes_rates_from_flows() {
    for entry in ALL {
        let name = entry.info.name;
        let mut port = Port::new(entry, FLOWS, 2 * STRANGERS);
        port.run_until(START);
        let before = port.delivered();
        let flooded = START + GAP * u64::from(STRANGERS);
        port.strangers(FLOWS..FLOWS + STRANGERS, START, GAP);
        port.run_until(flooded);
        let after = port.delivered();
        let memory = port.allocator().memory();
        // What the flood leaves, as payload of packets with the longest explicit header.
        let seconds = (flooded - START).as_secs_f64();
        let left = RATE.as_bytes_per_sec() as f64 * seconds - port.flood as f64;
        let fair = left * 1448.0 / 1520.0 / f64::from(FLOWS);
        let shares: Vec<f64> = before.iter().zip(&after).map(|(b, a)| (a - b) as f64 / fair).collect();
        println!("{name}: {memory} B, shares of what {} B of strangers leave: {shares:.3?}", port.flood);
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least >= KEEPS, "{name}: a flow keeps {least:.3} of its share");
        // A hundred thousand others find the tables as large as they can be.
        port.strangers(FLOWS + STRANGERS..FLOWS + 2 * STRANGERS, flooded, GAP);
        port.run_until(flooded + GAP * u64::from(STRANGERS));
        assert_eq!(port.allocator().memory(), memory, "{name} grows with the number of strangers");
    }
}
