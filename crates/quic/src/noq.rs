//! Schemes as congestion controllers of noq.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use narrows_cc::schemes::Entry;
use narrows_cc::{Bytes, CongestionCause, Control, Driver, Nanos, Phase};
use noq_proto::RttEstimator;
use noq_proto::congestion::{self, ControllerFactory, ControllerMetrics};

use crate::flow::Flow;
use crate::records::{Record, Records};
use crate::{Refused, Scheme, Stack};

pub use crate::noq_controllers::{OWN, own};

/// The argument of `TransportConfig::congestion_controller_factory`.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync + 'static>;

/// The scheme of this name, with default parameters, for `TransportConfig::congestion_controller_factory`.
///
/// # Errors
/// If there is no such scheme, or noq cannot run it; the message lists the schemes that noq can run.
pub fn controller(name: &str) -> Result<Factory, Refused> {
    Ok(factory(Scheme::find(name, Stack::Noq)?))
}

/// A scheme with parameters, for `TransportConfig::congestion_controller_factory`.
pub fn factory(scheme: Scheme) -> Factory {
    Arc::new(Schemes(Arc::new(scheme)))
}

/// Why noq cannot run a scheme; `None` if it can.
pub fn refusal(entry: &Entry) -> Option<&'static str> {
    crate::refusal(entry, Stack::Noq)
}

#[derive(Debug)]
struct Schemes(Arc<Scheme>);

impl ControllerFactory for Schemes {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        Box::new(Controller::new(&self.0, now, current_mtu))
    }
}

/// A scheme on one path of a noq connection.
#[derive(Clone)]
pub struct Controller {
    origin: Instant,
    initial_window: Bytes,
    mtu: u16,
    flow: Flow,
    records: Records,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let control = self.flow.control();
        f.debug_struct("Controller")
            .field("scheme", &self.driver().scheme().info().name)
            .field("phase", &self.flow.phase())
            .field("cwnd", &control.cwnd)
            .field("pacing_rate", &control.pacing_rate)
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// Creates a new instance of a scheme; its clock starts at `now`.
    pub fn new(scheme: &Scheme, now: Instant, mtu: u16) -> Self {
        let size = Bytes::new(mtu.into());
        let flow = Flow::new(scheme.instance(size), scheme.idle_rule(), size);
        Self { origin: now, initial_window: flow.window(), mtu, flow, records: Records::new() }
    }

    /// A copy of the state of a connection's controller, as `Connection::congestion_state` returns it, without
    /// its packet records; `None` if the controller does not belong to this crate.
    pub fn inspect(controller: &dyn congestion::Controller) -> Option<Box<Self>> {
        controller.clone_box().into_any().downcast().ok()
    }

    /// The driver, with the scheme and its telemetry.
    pub fn driver(&self) -> &Driver {
        self.flow.driver()
    }

    /// The scheme's decisions.
    pub fn control(&self) -> &Control {
        self.flow.control()
    }

    /// The phase of loss recovery.
    pub fn phase(&self) -> Phase {
        self.flow.phase()
    }

    /// Smoothed RTT, including the peer's acknowledgement delay; `None` before the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        self.flow.srtt()
    }

    /// Bytes in flight.
    pub fn inflight(&self) -> Bytes {
        self.flow.inflight()
    }

    fn time(&self, at: Instant) -> Nanos {
        crate::flow::since(self.origin, at)
    }
}

impl congestion::Controller for Controller {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let bytes = Bytes::new(bytes.into());
        let at = self.time(now);
        let sent = self.flow.send(at, bytes);
        self.records.insert(Record { number: pn, at, bytes, sent });
    }

    fn on_cwnd_limited(&mut self) {
        self.flow.blocked();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, _app_limited: bool, _: &RttEstimator) {
        let record = self.records.take_acked(pn, self.time(sent));
        let bytes = record.as_ref().map_or(Bytes::new(bytes), |record| record.bytes);
        self.flow.deliver(self.time(now), bytes, record.as_ref().map(|record| &record.sent));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        let gap = largest.is_some_and(|largest| self.records.has_below(largest));
        self.flow.end_ack(self.time(now), Some(Bytes::new(in_flight)), app_limited, gap);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        // Packets without a record were sent on an earlier path, or need no acknowledgement.
        if let Some(record) = self.records.take_lost(pn, Bytes::new(lost_bytes.into())) {
            self.flow.lose(self.time(now), pn, record.bytes, &record.sent);
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        // RFC 9000 section 9.4: packets sent on the old path must not contribute to congestion control for the new one.
        if sent < self.origin {
            return;
        }
        let cause = if is_ecn { CongestionCause::Ecn } else { CongestionCause::Loss };
        let (now, sent) = (self.time(now), self.time(sent));
        self.flow.congestion(now, sent, cause, is_persistent_congestion);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.flow.spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.flow.set_mtu(Bytes::new(new_mtu.into()));
    }

    fn window(&self) -> u64 {
        self.flow.window().as_u64()
    }

    fn metrics(&self) -> ControllerMetrics {
        let control = self.flow.control();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        let ssthresh = self.driver().ssthresh();
        metrics.ssthresh = (ssthresh != Bytes::MAX).then(|| ssthresh.as_u64());
        metrics.pacing_rate = control.pacing_rate.map(|rate| rate.as_bytes_per_sec().max(1));
        metrics.send_quantum = (control.burst != Bytes::MAX && control.pacing_rate.is_some())
            .then(|| control.burst.as_u64().max(self.mtu.into()));
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        // For a new port of the same peer, noq clones the controller, and does not report the old packets to the clone.
        let mut flow = self.flow.clone();
        flow.forget();
        Box::new(Self { flow, records: Records::new(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window.as_u64()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
