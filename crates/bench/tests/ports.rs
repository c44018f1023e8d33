//! The link of the router benchmark.

use narrows_bench::ports::Lane;

/// With every router algorithm, flows open, their packets cross the link, and the algorithm allocates memory.
#[test]
fn bench_ports_every_router_opens_and_carries_flows() {
    let clock = std::cell::Cell::new(0.0);
    // A clock that advances by one per reading.
    let tick = || {
        clock.set(clock.get() + 1.0);
        clock.get()
    };
    let plain = Lane::new(None, 100);
    assert_eq!((plain.opened(), plain.memory()), (100, 0));
    for entry in narrows_routers::ALL {
        let name = entry.info.name;
        let mut lane = Lane::new(Some(entry), 100);
        assert_eq!(lane.opened(), 100, "{name}");
        assert!(lane.memory() > 0, "{name}");
        let round = lane.round(10_000, &tick);
        assert!(round.packets >= 10_000, "{name}: {round:?}");
        // Time advances only with clock readings, which the measurement subtracts.
        assert_eq!((round.packets_took, round.wakes_took), (0.0, 0.0), "{name}");
    }
}
