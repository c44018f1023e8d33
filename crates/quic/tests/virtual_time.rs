//! Schemes in noq, over a link of `narrows-net` in virtual time.

use crate::support::{Pair, Path};
use narrows_cc::{Nanos, schemes};
use narrows_quic::{Scheme, Stack, controller, noq, refusal};

/// A path with 20 Mbit/s and an RTT of 20 ms.
const PLAIN: Path = Path { mbit: 20.0, delay_ms: 10, buffer: 50, loss: 0.0 };

fn secs(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

fn fixed_rate(mbit: f64) -> noq::Factory {
    let scheme = Scheme::find("fixed", Stack::Noq).expect("registered");
    let scheme = scheme.param("rate", mbit).and_then(|scheme| scheme.param("window", 1e5)).expect("in range");
    noq::factory(scheme)
}

/// If a scheme sets a pacing rate, packets leave at this rate within 3 %; tested at four rates.
#[test]
fn paced_rate_is_kept_within_three_percent() {
    for mbit in [5.0, 20.0, 60.0, 400.0] {
        let path = Path { mbit: 1000.0, delay_ms: 10, buffer: 10_000, loss: 0.0 };
        let mut pair = Pair::new(fixed_rate(mbit), path, 3);
        pair.offered = u64::MAX;
        pair.run_until(secs(1));
        pair.departures.clear();
        pair.run_until(secs(4));
        // The rate counts QUIC packets, without the 28 bytes of IP and UDP headers.
        let bytes: u64 = pair.departures.iter().map(|(_, size)| size - 28).sum();
        let measured = bytes as f64 * 8.0 / 3e6;
        assert!((measured / mbit - 1.0).abs() < 0.03, "{mbit} Mbit/s asked, {measured:.2} sent");
    }
}

/// Every accepted scheme fills a path without losses: within 6 s it reaches at least three quarters of 20 Mbit/s.
#[test]
fn accepted_schemes_fill_a_clean_path() {
    for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()) {
        let scheme = Scheme::of(entry, Stack::Noq).expect("accepted").seed(1, 0);
        // This scheme ignores losses, so choose a window that fits the path.
        let scheme = if entry.info.name == "fixed" { scheme.param("window", 60.0).expect("in range") } else { scheme };
        let mut pair = Pair::new(noq::factory(scheme), PLAIN, 1);
        pair.offered = u64::MAX;
        pair.run_until(secs(1));
        let mbit = pair.mbit_until(secs(6));
        assert!(mbit > 15.0 && mbit < 20.0, "{}: {mbit:.2} Mbit/s", entry.info.name);
    }
}

/// When a fifth of all packets are lost, every scheme continues to send, and the data arrives in order.
#[test]
fn fifth_of_packets_lost_stalls_no_scheme() {
    for entry in schemes::ALL.iter().filter(|entry| refusal(entry, Stack::Noq).is_none()) {
        let scheme = Scheme::of(entry, Stack::Noq).expect("accepted").seed(1, 0);
        let path = Path { loss: 0.2, ..PLAIN };
        let mut pair = Pair::new(noq::factory(scheme), path, 5);
        pair.offered = u64::MAX;
        pair.run_until(secs(10));
        let before = pair.read;
        pair.run_until(secs(20));
        assert!(pair.closed.is_none(), "{}: {:?}", entry.info.name, pair.closed);
        assert!(pair.read > before + 50_000, "{}: {} bytes in 10 s", entry.info.name, pair.read - before);
    }
}

/// Runs with the same seed are identical.
#[test]
fn runs_with_one_seed_are_equal() {
    let run = |seed| {
        let path = Path { mbit: 20.0, delay_ms: 10, buffer: 30, loss: 0.01 };
        let scheme = Scheme::find("bbr", Stack::Noq).expect("registered").seed(seed, 0);
        let mut pair = Pair::new(noq::factory(scheme), path, seed);
        pair.offered = u64::MAX;
        pair.run_until(secs(3));
        (pair.read, pair.departures.len(), pair.answers)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// After ten seconds without data, new data leaves immediately, without a burst larger than the window, and is
/// read soon.
#[test]
fn idle_connection_resumes() {
    for name in ["bbr-gc", "bbr3", "cubic", "newreno", "vegas"] {
        let mut pair = Pair::new(controller(name).expect("registered"), PLAIN, 2);
        pair.offered = 2_000_000;
        pair.run_until(secs(5));
        assert_eq!(pair.read, 2_000_000, "{name}");
        pair.run_until(secs(15));
        pair.offered = 4_000_000;
        pair.departures.clear();
        pair.run_until(Nanos::from_millis(15_020));
        let sent: u64 = pair.departures.iter().map(|(_, size)| size).sum();
        // The path can hold at most the link's bandwidth-delay product plus its buffer.
        assert!(sent > 2400 && sent < 130_000, "{name}: {sent} bytes within a round trip");
        assert!(pair.departures[0].0 < Nanos::from_millis(15_001), "{name}: {:?}", pair.departures[0]);
        pair.run_until(secs(17));
        assert_eq!(pair.read, 4_000_000, "{name}");
    }
}

/// The server sends, and its client moves. If the client's address changes, the server gets a new instance of
/// the scheme; if only the port changes, the server keeps the instance, with nothing in flight. Over the next 5
/// s, the goodput is at least three quarters of the link's rate.
#[test]
fn scheme_is_told_that_its_peer_moved() {
    for name in ["bbr-gc", "bbr3", "cubic"] {
        for (host, port, fresh) in [(2, 4434, false), (3, 4433, true)] {
            let mut pair = Pair::with_client(1, controller(name).expect("registered"), PLAIN, 2);
            pair.offered = u64::MAX;
            pair.run_until(secs(3));
            let (delivered, before) = (pair.controller().driver().delivered(), pair.read);
            pair.rebind_host(1, host, port);
            // Run until the sender has received the first packet from the new address, but no answer yet to
            // packets that it sent there.
            pair.run_until(secs(3) + Nanos::from_millis(15));
            let moved = pair.controller();
            assert_eq!(moved.driver().delivered() < delivered, fresh, "{name}: {moved:?}");
            pair.run_until(secs(8));
            assert!(pair.closed.is_none(), "{name}: {:?}", pair.closed);
            let mbit = (pair.read - before) as f64 * 8.0 / 5e6;
            assert!(mbit > 15.0, "{name}, fresh {fresh}: {mbit:.2} Mbit/s after the move");
        }
    }
}

/// The client sends and moves. noq keeps the client's scheme, because only a new address of the peer begins a
/// new path. Data continues to arrive whether or not the client's endpoint noticed the move.
#[test]
fn scheme_of_a_sender_that_moves_goes_on() {
    for name in ["bbr-gc", "bbr3", "cubic"] {
        for (host, port, notices) in [(1, 5001, false), (3, 5000, false), (1, 5001, true), (3, 5000, true)] {
            let mut pair = Pair::new(controller(name).expect("registered"), PLAIN, 2);
            pair.offered = u64::MAX;
            pair.run_until(secs(3));
            let delivered = pair.controller().driver().delivered();
            match notices {
                true => pair.move_host(0, host, port),
                false => pair.rebind_host(0, host, port),
            }
            let mbit = pair.mbit_until(secs(8));
            assert!(pair.closed.is_none(), "{name}: {:?}", pair.closed);
            assert!(pair.controller().driver().delivered() > delivered, "{name}: the scheme was replaced");
            assert!(mbit > 15.0, "{name}, {host}:{port}, {notices}: {mbit:.2} Mbit/s after the move");
        }
    }
}

/// Marks on every packet, true or only claimed by the receiver, slow down schemes that respond to marks, and
/// stall no scheme.
#[test]
fn marks_on_every_packet_stall_no_scheme() {
    for (name, follows) in [("bbr-gc", false), ("bbr3", false), ("cubic", true), ("newreno", true)] {
        let mut pair = Pair::new(controller(name).expect("registered"), PLAIN, 2);
        pair.offered = u64::MAX;
        pair.mark = true;
        pair.run_until(secs(5));
        let mbit = pair.mbit_until(secs(10));
        let expected = if follows { 0.1..5.0 } else { 15.0..20.0 };
        assert!(expected.contains(&mbit), "{name}: {mbit:.2} Mbit/s");
    }
}
