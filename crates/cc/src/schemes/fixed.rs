//! # Fixed window or rate
//!
//! No control at all: a constant cwnd and, optionally, a constant pacing rate. It ignores loss and marks. It
//! serves as a reference in tests of transports and networks, and as a model of constant-bit-rate traffic.
//!
//! ## Control law
//! cwnd = `window` segments; pacing rate = `rate` (0: none).
//!
//! ## Known weaknesses
//! Fixed causes congestion collapse in a shared network. Never deploy it.

use crate::{
    Ack, CongestionControl, Control, Info, Param, Provenance, Rate, RecoveryEntered, RecoveryStyle, Scheme, Setup,
    Timeout,
};

/// A constant cwnd and, optionally, a constant pacing rate.
#[derive(Clone, Debug)]
pub struct Fixed {
    control: Control,
}

impl Scheme for Fixed {
    const INFO: Info = Info {
        name: "fixed",
        aliases: &[],
        summary: "constant cwnd or rate that ignores congestion; a tool for tests",
        provenance: Provenance::Tool,
        recovery: RecoveryStyle::Own,
        params: &[
            Param::number("window", 10.0, (1.0, 1e9), "pkt", "constant cwnd in segments"),
            Param::number("rate", 0.0, (0.0, 1e6), "mbit", "constant pacing rate; 0: no pacing"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let rate = setup.params.number("rate");
        Self {
            control: Control {
                cwnd: setup.mss.mul_f64(setup.params.number("window")),
                pacing_rate: (rate > 0.0).then(|| Rate::from_mbit_per_sec(rate)),
                burst: setup.mss,
            },
        }
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _event: &Ack) {}
    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {}
    fn on_timeout(&mut self, _event: &Timeout) {}

    fn control(&self) -> Control {
        self.control
    }
}
