//! A scheme defined outside the crate of schemes: a copy of NewReno that uses only the public contract.
#![allow(dead_code, missing_docs)] // each test uses a part of it

use narrows_cc::schemes::Entry;
use narrows_cc::{
    Ack, Bytes, CongestionControl, Control, IdleRestart, Info, Phase, Provenance, RecoveryEntered, RecoveryLeft,
    Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value, record,
};

/// Entry of the scheme, as in the registry.
pub static HALVING: Entry = Entry::of::<Halving>();

/// The window grows by a segment per round trip and is halved on a loss (RFC 5681), in whole segments.
#[derive(Clone, Debug)]
pub struct Halving {
    mss: Bytes,
    cwnd: Bytes,
    ssthresh: Bytes,
    initial_window: Bytes,
    credit: Bytes,
    prior: Option<(Bytes, Bytes)>,
    recovering: bool,
}

impl Halving {
    fn lower_ssthresh(&mut self, flight_size: Bytes) {
        self.prior = Some((self.cwnd, self.ssthresh));
        self.ssthresh = self.whole(flight_size / 2).max(self.mss * 2);
        self.credit = Bytes::ZERO;
    }

    /// Rounds down to segments.
    fn whole(&self, bytes: Bytes) -> Bytes {
        self.mss * (bytes.as_u64() / self.mss.as_u64())
    }
}

impl Scheme for Halving {
    const INFO: Info = record!(Info {
        provenance: Provenance::Tool,
        ..Info::new("halving", "a segment more per round trip, half the window on loss, from outside the registry")
    });

    fn new(setup: &Setup) -> Self {
        Self {
            mss: setup.mss,
            cwnd: setup.initial_window,
            ssthresh: Bytes::MAX,
            initial_window: setup.initial_window,
            credit: Bytes::ZERO,
            prior: None,
            recovering: false,
        }
    }
}

impl CongestionControl for Halving {
    fn on_ack(&mut self, event: &Ack) {
        if event.phase == Phase::Recovery || !event.cwnd_limited {
            return;
        }
        let mut acked = self.whole(event.creditable() + self.mss - Bytes::new(1));
        if self.cwnd < self.ssthresh {
            let growth = acked.min(self.ssthresh - self.cwnd);
            self.cwnd += growth;
            acked -= growth;
        }
        self.credit += acked;
        if !acked.is_zero() && self.credit >= self.cwnd {
            self.credit = (self.credit - self.cwnd).min(self.cwnd);
            self.cwnd += self.mss;
        }
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.recovering = true;
        self.lower_ssthresh(event.flight_size);
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.recovering = false;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.recovering = false;
        if event.consecutive <= 1 {
            self.lower_ssthresh(event.flight_size);
        }
        self.cwnd = self.whole(event.restart_window(self.mss));
        self.credit = Bytes::ZERO;
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.recovering = false;
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.ssthresh = event.threshold(self.cwnd, self.ssthresh);
        self.cwnd = self.whole(event.window(self.cwnd, self.initial_window));
    }

    fn control(&self) -> Control {
        Control::unpaced(self.cwnd)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let state = match (self.recovering, self.cwnd < self.ssthresh) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "avoidance",
        };
        sink("state", Value::State(state));
        if self.ssthresh < Bytes::MAX {
            sink("ssthresh", Value::Bytes(self.ssthresh));
        }
    }
}
