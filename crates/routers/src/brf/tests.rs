//! A BRF switch, packet by packet. Rates are in bytes per second; the port carries 10 MB/s.

use std::sync::Arc;

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::{Flags, Packet};

use super::{Brf, RateCode};
use crate::{
    Congestion, FiveTuple, RateHeader, Reading, Router, RouterFrame, RouterSetup, Signal, TestPort, telemetry,
};

mod announcements;

const MB: f64 = 1e6;

/// A switch with one port, and the clock.
struct Switch {
    brf: Brf,
    port: TestPort,
    now: Nanos,
}

fn setup(overrides: &[(&str, f64)]) -> RouterSetup {
    let mut params = Params::defaults(Brf::INFO.params);
    for (name, value) in overrides {
        params.set(name, *value).expect("a parameter within its range");
    }
    // Flow 9 is UDP, all other flows are TCP; each has a different client and the same service.
    let tuple = |flow: u32| FiveTuple {
        source: flow << 8,
        destination: 1,
        source_port: 40_000,
        destination_port: 80,
        protocol: if flow == 9 { FiveTuple::UDP } else { FiveTuple::TCP },
    };
    RouterSetup {
        capacity: Rate::from_bytes_per_sec(10_000_000),
        params,
        flows: (0..20_000).map(tuple).collect::<Vec<_>>().into(),
        learned: None,
    }
}

impl Switch {
    fn new(overrides: &[(&str, f64)]) -> Self {
        Self { brf: Brf::new(&setup(overrides)), port: TestPort::default(), now: Nanos::from_millis(1) }
    }

    /// A switch with the queue that BRF supplies.
    fn with_classes() -> Self {
        let setup = setup(&[]);
        let queue = Brf::queue(&setup).expect("its own queue");
        Self { port: TestPort::new(&queue), ..Self::new(&[]) }
    }

    fn at(&mut self, ms: u64) -> &mut Self {
        let until = Nanos::from_millis(ms);
        while self.brf.next_wake() <= until {
            let at = self.brf.next_wake();
            self.brf.on_wake(&mut self.port.at(at, 0));
            assert!(self.brf.next_wake() > at, "time advances");
        }
        self.now = until;
        self
    }

    /// Passes a packet from the sender; returns the class to which the switch steers the packet.
    fn forth(&mut self, flow: u32, flags: Flags, payload: u16, extension: RateHeader) -> Option<u8> {
        let mut packet = Packet::new(flow);
        packet.flags = flags;
        packet.payload = payload;
        packet.set_rate_header(extension);
        let mut port = self.port.at(self.now, 0);
        if flags.has(Flags::SYN) {
            self.brf.on_open(&mut port, &packet);
        }
        if flags.has(Flags::FIN) {
            self.brf.on_close(&mut port, &packet);
        }
        self.brf.on_arrival(&mut port, &mut packet);
        port.steered()
    }

    fn syn(&mut self, flow: u32) -> &mut Self {
        self.forth(flow, Flags::SYN, 0, RateHeader::BrfOffer);
        self
    }

    /// Passes a full packet of data: 1500 bytes.
    fn data(&mut self, flow: u32) -> Option<u8> {
        self.forth(flow, Flags::ACK, 1448, RateHeader::None)
    }

    /// Passes a packet with `extension` to the sender; returns its rate header after the switch.
    fn back_with(&mut self, flow: u32, flags: Flags, extension: RateHeader) -> RateHeader {
        let mut packet = Packet::new(flow);
        packet.flags = flags.with(Flags::ACK).with(Flags::REVERSE);
        packet.set_rate_header(extension);
        self.brf.on_return(&mut self.port.at(self.now, 0), &mut packet);
        packet.rate_header()
    }

    /// The rate written into an ACK, in MB/s; zero if the switch wrote none.
    fn ack(&mut self, flow: u32) -> f64 {
        rate(self.back_with(flow, Flags::NONE, RateHeader::None))
    }

    /// Opens a flow with an RTT of `rtt_ms` at a switch next to the sender. Returns the flow's first rate.
    fn open(&mut self, flow: u32, rtt_ms: u64) -> f64 {
        let ms = self.now.as_nanos() / 1_000_000;
        self.syn(flow);
        self.at(ms + rtt_ms);
        let first = rate(self.back_with(flow, Flags::SYN, RateHeader::None));
        self.data(flow);
        first
    }

    /// Sends seven full packets, about the data of a millisecond at the port's full rate.
    fn flood(&mut self, flow: u32) {
        for _ in 0..7 {
            self.data(flow);
        }
    }

    /// Until `ms`, flows send full packets at these rates (MB/s) and receive an ACK once per millisecond.
    /// Returns the latest rates written.
    fn send(&mut self, ms: u64, flows: &[(u32, f64)]) -> Vec<f64> {
        let mut advised = vec![0.0; flows.len()];
        let mut credit = vec![0.0; flows.len()];
        for now in self.now.as_nanos() / 1_000_000 + 1..=ms {
            self.at(now);
            for (i, &(flow, rate)) in flows.iter().enumerate() {
                credit[i] += rate * 1e3;
                while credit[i] >= 1500.0 {
                    credit[i] -= 1500.0;
                    self.data(flow);
                }
                let received = self.ack(flow);
                advised[i] = if received > 0.0 { received } else { advised[i] };
            }
        }
        advised
    }

    fn state(&self) -> &'static str {
        match telemetry::find(|sink| self.brf.telemetry(sink), "state") {
            Some(Reading::State(name)) => name,
            other => panic!("{other:?}"),
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.brf.on_signal(&mut self.port.at(self.now, 0), &signal);
    }

    fn reading(&self, name: &str) -> f64 {
        let reading = telemetry::find(|sink| self.brf.telemetry(sink), name);
        reading.and_then(Reading::number).expect("a number with this name")
    }
}

fn rate(extension: RateHeader) -> f64 {
    match extension {
        RateHeader::BrfRate { code } => RateCode(code).decode().as_bytes_per_sec() as f64 / MB,
        _ => 0.0,
    }
}

fn code(mb: f64) -> RateHeader {
    RateHeader::BrfRate { code: RateCode::encode(Rate::from_bytes_per_sec((mb * MB) as u64)).0 }
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance * expected, "{value}, not {expected}");
}

/// The first rate arrives with the SYN-ACK, then one per round trip.
#[test]
fn rate_comes_with_syn_ack_then_once_per_round_trip() {
    let mut switch = Switch::new(&[]);
    assert_eq!(switch.open(1, 40), 10.0);
    // The RTT is now known: the next ACK may carry a rate, and for the 40 ms after it no ACK does.
    assert_eq!(switch.ack(1), 10.0);
    let mut carried = Vec::new();
    for ms in 42..242 {
        switch.at(ms).flood(1);
        if switch.ack(1) > 0.0 {
            carried.push(ms);
        }
    }
    assert_eq!(carried, [81, 121, 161, 201, 241]);
    // Flows that do not offer to obey and flows without a handshake receive no rate.
    switch.forth(2, Flags::SYN, 0, RateHeader::None);
    assert_eq!(switch.back_with(2, Flags::SYN, RateHeader::None), RateHeader::None);
    assert_eq!(switch.ack(77), 0.0);
}

/// A switch only lowers the rate in an ACK, and writes at the pace of another switch that already writes.
#[test]
fn switch_only_lowers_the_carried_rate() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 40);
    assert_eq!(switch.back_with(1, Flags::NONE, code(3.0)), code(3.0));
    assert_eq!(switch.back_with(1, Flags::NONE, code(30.0)), code(10.0));
    // Headers of other protocols and ACKs of unknown flows stay unchanged.
    let other = RateHeader::RcpReply { rate: 5.0 };
    assert_eq!(switch.back_with(1, Flags::NONE, other), other);
    assert_eq!(switch.back_with(5, Flags::NONE, code(30.0)), code(30.0));
    // While another switch writes, that switch sets the pace; this switch takes over two round trips after the last
    // rate.
    let mut carried = Vec::new();
    for ms in 42..=200 {
        switch.at(ms).flood(1);
        if ms < 90 && ms % 40 == 0 {
            assert_eq!(switch.back_with(1, Flags::NONE, code(3.0)), code(3.0));
        } else if switch.ack(1) > 0.0 {
            carried.push(ms);
        }
    }
    assert_eq!(carried, [160, 200]);
}

/// Flows join with equal shares. A share that has fallen is written into the next ACK, or with `urgent = false` one
/// round trip after the last written share.
#[test]
fn joining_flows_share_equally_and_cuts_are_written_at_once() {
    for urgent in [1.0, 0.0] {
        let mut switch = Switch::new(&[("urgent", urgent)]);
        switch.open(1, 40);
        assert_eq!(switch.ack(1), 10.0);
        // The first flow receives a share every 40 ms, the last at 81 ms. The SYN-ACK of the second flow passes 9 ms
        // later.
        switch.send(51, &[(1, 10.0)]);
        switch.syn(2);
        switch.send(90, &[(1, 10.0)]);
        assert_eq!(rate(switch.back_with(2, Flags::SYN, RateHeader::None)), 5.0);
        let mut advised = Vec::new();
        for ms in 91..=140 {
            switch.at(ms).flood(1);
            if switch.ack(1) == 5.0 {
                advised.push(ms);
            }
        }
        assert_eq!(advised, if urgent > 0.0 { vec![91, 131] } else { vec![121] });
    }
}

/// A fallen share is not written while another switch's share is lower.
#[test]
fn fallen_share_above_another_switch_is_not_written() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 40);
    switch.send(50, &[(1, 10.0)]);
    switch.syn(2);
    switch.send(90, &[(1, 10.0)]);
    switch.back_with(2, Flags::SYN, RateHeader::None);
    // The first flow has 5 MB/s here, and 2 MB/s at another switch.
    assert_eq!(switch.back_with(1, Flags::NONE, code(2.0)), code(2.0));
    switch.syn(3).at(100);
    assert_eq!(switch.back_with(1, Flags::NONE, code(2.0)), code(2.0));
    switch.back_with(3, Flags::SYN, RateHeader::None);
    switch.flood(1);
    assert_eq!(switch.ack(1), 0.0);
    // Another switch allows more than this switch.
    assert_eq!(switch.back_with(1, Flags::NONE, code(9.0)), code(3.333));
    switch.syn(4).at(110);
    switch.back_with(4, Flags::SYN, RateHeader::None);
    near(switch.ack(1), 2.5, 0.001);
}

/// Flows whose handshakes overlap get equal shares.
#[test]
fn simultaneous_handshakes_share_equally() {
    let mut switch = Switch::new(&[]);
    switch.syn(1).syn(2).syn(3).at(41);
    let first: Vec<f64> = (1..=3).map(|flow| rate(switch.back_with(flow, Flags::SYN, RateHeader::None))).collect();
    assert_eq!(first, [3.333, 3.333, 3.333]);
}

/// A limited flow gets its usage plus a tenth, and the other flow gets the rest. Once the limited flow can use more,
/// shares become equal.
#[test]
fn limited_flow_gets_usage_plus_a_tenth_others_the_rest() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 20);
    switch.open(2, 20);
    // Flow 1 sends at its advised rate, flow 2 at 2 MB/s.
    let mut rates = [5.0, 2.0];
    for ms in (41..1_000).step_by(20) {
        rates[0] = switch.send(ms + 20, &[(1, rates[0]), (2, 2.0)])[0].max(0.1);
    }
    // Tolerance: one packet more or less in 20 ms is 4 % of 2 MB/s.
    near(rates[0], 10.0 - 1.1 * 2.0, 0.015);
    near(switch.reading("used"), rates[0] * MB + 2.0 * MB, 0.015);
    // Flow 2 can now use any share, so the shares become equal.
    rates[1] = 2.2;
    for ms in (1_001..3_000).step_by(20) {
        let advised = switch.send(ms + 20, &[(1, rates[0]), (2, rates[1])]);
        rates = [advised[0].max(0.1), advised[1].max(0.1)];
    }
    assert_eq!(rates, [5.0, 5.0]);
}

/// A flow whose share has just risen does not count as limited.
#[test]
fn flow_with_raised_share_is_not_taken_for_limited() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 100);
    switch.open(2, 20);
    let mut rates = [5.0, 5.0];
    for ms in (220..600).step_by(10) {
        let advised = switch.send(ms, &[(1, rates[0]), (2, rates[1])]);
        for (rate, advised) in rates.iter_mut().zip(advised) {
            *rate = if advised > 0.0 { advised } else { *rate };
        }
    }
    near(rates[0], 5.0, 0.01);
    switch.forth(2, Flags::FIN.with(Flags::ACK), 0, RateHeader::None);
    assert_eq!(switch.reading("brf_flows"), 1.0);
    // Flow 1 is advised the whole link within two periods, and sends at that rate one RTT of 100 ms later. Meanwhile it
    // uses half of its share without counting as limited.
    let mut received = vec![5.0; 10];
    for ms in (600..2_000).step_by(10) {
        let advised = switch.send(ms, &[(1, received[received.len() - 10])])[0];
        received.push(if advised > 0.0 { advised } else { *received.last().unwrap() });
    }
    let first = received.iter().position(|rate| *rate == 10.0).expect("advice of the whole link");
    assert!(first <= 10 + 20, "{first}");
    assert!(received[first..].iter().all(|rate| *rate == 10.0), "{received:?}");
}

/// A silent flow loses its share, and the port sleeps until a flow sends again.
#[test]
fn silent_flow_loses_share_and_idle_port_sleeps() {
    let mut switch = Switch::new(&[("prediction", 0.0)]);
    switch.open(1, 20);
    switch.open(2, 20);
    switch.send(400, &[(1, 5.0), (2, 5.0)]);
    switch.send(800, &[(1, 10.0)]);
    assert_eq!(switch.reading("brf_flows"), 1.0);
    near(switch.reading("allocated"), 10.0 * MB, 0.001);
    switch.at(5_000);
    assert_eq!((switch.reading("brf_flows"), switch.brf.next_wake()), (0.0, Nanos::MAX));
    // Both flows still have entries and join with their next packet.
    assert_eq!(switch.reading("table"), 2.0);
    switch.data(1);
    assert_eq!(switch.ack(1), 10.0);
    assert!(switch.brf.next_wake() <= switch.now + Nanos::from_millis(100));
    // After the idle time an entry is removed.
    switch.send(40_000, &[(1, 0.1)]);
    assert_eq!(switch.reading("table"), 1.0);
}

/// A forged SYN does not affect a flow, and a FIN frees its share.
#[test]
fn forged_syn_changes_nothing_and_fin_frees_the_share() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 20);
    switch.send(200, &[(1, 10.0)]);
    switch.syn(1);
    switch.forth(1, Flags::SYN, 0, RateHeader::None);
    assert_eq!((switch.reading("brf_flows"), switch.reading("half_open")), (1.0, 0.0));
    switch.forth(1, Flags::FIN.with(Flags::ACK), 0, RateHeader::None);
    assert_eq!((switch.reading("brf_flows"), switch.reading("table")), (0.0, 1.0));
    // Retransmissions still join the class; the receiver's FIN removes the entry and frees the flow number.
    assert_eq!(switch.data(1), Some(super::FIRST_LAYER + 2));
    switch.back_with(1, Flags::FIN, RateHeader::None);
    assert_eq!(switch.reading("table"), 0.0);
    assert_eq!(switch.data(1), Some(super::OTHERS));
    near(switch.open(1, 20), 10.0, 0.01);
}

/// A flood of SYNs is bounded and counted, and hardly affects established flows.
#[test]
fn syn_flood_is_bounded_and_counted() {
    let mut switch = Switch::new(&[("flows", 1000.0)]);
    switch.open(1, 20);
    switch.send(100, &[(1, 10.0)]);
    let memory = switch.reading("table_memory");
    for flow in 100..20_000 {
        if flow % 100 == 0 {
            let ms = switch.now.as_nanos() / 1_000_000;
            switch.send(ms + 1, &[(1, 1.0)]);
        }
        switch.syn(flow);
        switch.back_with(flow, Flags::SYN, RateHeader::None);
    }
    // Half of the table is for half-open flows. At most eight of them have a share.
    assert_eq!((switch.reading("half_open"), switch.reading("table")), (500.0, 501.0));
    assert_eq!(switch.reading("refused"), 19_900.0 - 500.0);
    assert_eq!(switch.reading("table_memory"), memory);
    assert!(switch.reading("brf_flows") <= 9.0);
    // After one second the half-open flows have no share; after three seconds they are removed, and a new flow is
    // accepted.
    switch.send(1_500, &[(1, 10.0)]);
    assert_eq!(switch.reading("brf_flows"), 1.0);
    switch.send(4_000, &[(1, 10.0)]);
    assert_eq!((switch.reading("half_open"), switch.reading("expired")), (0.0, 500.0));
    assert_eq!(switch.open(2, 20), 5.0);
}

/// A congestion signal cuts shares once, for gamma, until the next full allocation.
#[test]
fn congestion_signal_cuts_shares_once_for_gamma() {
    let mut switch = Switch::new(&[("gamma", 2.0)]);
    switch.open(1, 50);
    switch.send(300, &[(1, 10.0)]);
    let queue = Signal::Congested(Congestion::Queue { packets: 200 });
    // The controller counted 200 packets, 300 kB. Draining them within 100 ms takes 3 MB/s.
    switch.brf.on_signal(&mut switch.port.at(switch.now, 300_000), &queue);
    near(switch.reading("allocated"), 7.0 * MB, 1e-9);
    assert_eq!(switch.state(), "congestion_reduction");
    // A repeated signal changes nothing.
    switch.brf.on_signal(&mut switch.port.at(switch.now, 300_000), &queue);
    near(switch.reading("allocated"), 7.0 * MB, 1e-9);
    assert_eq!(switch.brf.next_wake(), switch.now + Nanos::from_millis(100));
    switch.send(401, &[(1, 7.0)]);
    near(switch.reading("allocated"), 10.0 * MB, 1e-9);
    // Load: 10 MB/s are measured on the link of 10 MB/s, and 98 % are allowed.
    switch.send(700, &[(1, 10.0)]);
    switch.signal(Signal::Congested(Congestion::Load));
    near(switch.reading("allocated"), 9.8 * MB, 0.005);
    // Without flows there is nothing to cut.
    let mut empty = Switch::new(&[]);
    empty.signal(queue);
    assert_eq!((empty.state(), empty.reading("reductions")), ("flow_table", 0.0));
}

/// The rate of ACKs of the other direction is deducted from the capacity.
#[test]
fn reverse_direction_acks_are_deducted() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 20);
    // 19 ACKs of 52 bytes per millisecond are 988 kB/s.
    for ms in 22..400 {
        switch.at(ms).flood(1);
        switch.ack(1);
        for _ in 0..19 {
            switch.forth(5, Flags::ACK.with(Flags::REVERSE), 0, RateHeader::None);
        }
    }
    near(switch.reading("c_brf"), (10.0 - 1.1 * 0.988) * MB, 0.005);
    // After the ACKs have ended, the deduction halves every period.
    switch.send(600, &[(1, 9.0)]);
    near(switch.reading("c_brf"), 10.0 * MB, 0.001);
}

/// Classes divide the link by numbers of flows, and packets join the layer of their flow.
#[test]
fn classes_divide_by_flows_and_packets_join_layers() {
    let mut switch = Switch::with_classes();
    switch.open(1, 20);
    assert_eq!(switch.reading("c_brf"), 10.0 * MB);
    switch.forth(2, Flags::SYN, 0, RateHeader::None);
    // A flow that has sent only a SYN does not count in equation 8.
    assert_eq!(switch.reading("c_brf"), 10.0 * MB);
    assert_eq!(switch.data(2), Some(super::OTHERS));
    assert_eq!(switch.reading("c_brf"), 5.0 * MB);
    assert_eq!(switch.data(9), Some(super::UDP));
    near(switch.reading("c_brf"), 4.75 * MB, 1e-9);
    // A flow is a mouse up to 100 kB, then an elephant; a flow that uses less than its share is limited.
    assert_eq!(switch.data(1), Some(super::FIRST_LAYER));
    switch.send(100, &[(1, 4.75), (2, 4.75)]);
    assert_eq!(switch.data(1), Some(super::FIRST_LAYER + 2));
    switch.send(400, &[(1, 1.0), (2, 8.75)]);
    assert_eq!(switch.data(1), Some(super::FIRST_LAYER + 1));
    // UDP has been silent for more than two seconds, and the flow of the other class for longer than its threshold:
    // neither gets a share.
    switch.send(3_000, &[(1, 4.0)]);
    assert_eq!((switch.reading("c_brf"), switch.reading("other_flows")), (10.0 * MB, 0.0));
    switch.data(2);
    assert_eq!(switch.reading("c_brf"), 5.0 * MB);
}

/// A new flow starts at the rate measured for flows of its kind, even in a later run.
#[test]
fn new_flow_starts_at_its_kinds_measured_rate() {
    let mut switch = Switch::new(&[]);
    switch.open(1, 20);
    switch.send(500, &[(1, 2.0)]);
    switch.forth(1, Flags::FIN.with(Flags::ACK), 0, RateHeader::None);
    // Another client of the same service gets 2 MB/s plus the margin of a tenth.
    near(switch.open(2, 20), 2.2, 0.02);
    let text = switch.brf.learned().expect("it learns");
    let made = |learned: &str, prediction| {
        let mut setup = setup(&[("prediction", prediction)]);
        setup.learned = Some(Arc::from(learned));
        let mut next = Switch { brf: Brf::new(&setup), ..Switch::new(&[]) };
        next.open(3, 20)
    };
    // Another run starts with the learned text; an invalid text has no effect.
    near(made(&text, 1.0), 2.2, 0.02);
    assert_eq!(made(&text, 0.0), 10.0);
    assert_eq!(made("tuple of nonsense", 1.0), 10.0);
}
