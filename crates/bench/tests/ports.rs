//! The link at which router algorithms are measured.

use narrows_bench::ports::Lane;

#[test]
fn every_router_lets_flows_open_carries_their_packets_and_takes_memory() {
    let clock = std::cell::Cell::new(0.0);
    // A clock that moves on by one whenever it is read.
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
        // Readings take all the time there is, and are taken off.
        assert_eq!((round.packets_took, round.wakes_took), (0.0, 0.0), "{name}");
    }
}
