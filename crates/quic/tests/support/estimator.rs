//! An RTT estimator of noq, which only a connection can create.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use narrows_cc::Nanos;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory};

use super::{Pair, Path};

/// A controller that stores the RTT estimator that it receives.
#[derive(Debug)]
struct Capture(Arc<Mutex<Option<RttEstimator>>>);

impl ControllerFactory for Capture {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl Controller for Capture {
    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: u64, _: bool, rtt: &RttEstimator) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(*rtt);
        }
    }
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}
    fn on_mtu_update(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        20_000
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(Arc::clone(&self.0)))
    }
    fn initial_window(&self) -> u64 {
        20_000
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The RTT estimator of a connection after some acknowledgements.
pub fn estimator() -> RttEstimator {
    let kept = Arc::new(Mutex::new(None));
    let path = Path { mbit: 100.0, delay_ms: 5, buffer: 100, loss: 0.0 };
    let mut pair = Pair::new(Arc::new(Capture(Arc::clone(&kept))), path, 1);
    pair.offered = 100_000;
    pair.run_until(Nanos::from_millis(200));
    let found = kept.lock().expect("no panic").take();
    found.expect("an acknowledgement arrived")
}
