//! Window-based schemes as congestion controllers of quinn.
//!
//! quinn reports less than noq: bytes per transmission instead of packets, and only the send times of
//! acknowledged packets and of the newest lost packet. Therefore, the adapter finds the state for a sample by
//! send time, and reports all losses of an acknowledgement as one packet.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use narrows_cc::{Bytes, CongestionCause, Driver, Nanos, SentState};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, ControllerFactory, ControllerMetrics};

use crate::flow::Flow;
use crate::{Refused, Scheme, Stack};

/// Maximum number of transmissions whose state is stored.
const MOST: usize = 1 << 15;

/// The argument of `TransportConfig::congestion_controller_factory`.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync + 'static>;

/// The scheme of this name, with default parameters, for `TransportConfig::congestion_controller_factory`.
///
/// # Errors
/// If there is no such scheme, or quinn cannot run it; the message lists the schemes that quinn can run.
pub fn controller(name: &str) -> Result<Factory, Refused> {
    factory(Scheme::find(name, Stack::Quinn)?)
}

/// A scheme with parameters, for `TransportConfig::congestion_controller_factory`.
///
/// # Errors
/// If quinn cannot run the scheme, which was created for another stack.
pub fn factory(scheme: Scheme) -> Result<Factory, Refused> {
    scheme.runs_on(Stack::Quinn)?;
    Ok(Arc::new(Schemes(Arc::new(scheme))))
}

#[derive(Debug)]
struct Schemes(Arc<Scheme>);

impl ControllerFactory for Schemes {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        Box::new(Controller::new(&self.0, now, current_mtu))
    }
}

/// A scheme on one path of a quinn connection.
#[derive(Clone, Debug)]
pub struct Controller {
    origin: Instant,
    initial_window: Bytes,
    mtu: Bytes,
    flow: Flow,
    sent: VecDeque<SentState>,
}

impl Controller {
    /// Creates a new instance of a scheme; its clock starts at `now`.
    pub fn new(scheme: &Scheme, now: Instant, mtu: u16) -> Self {
        let mtu = Bytes::new(mtu.into());
        let flow = Flow::new(scheme.instance(mtu), scheme.idle_rule(), mtu);
        Self { origin: now, initial_window: flow.window(), mtu, flow, sent: VecDeque::with_capacity(64) }
    }

    /// The driver, with the scheme and its telemetry.
    pub fn driver(&self) -> &Driver {
        self.flow.driver()
    }

    fn time(&self, at: Instant) -> Nanos {
        crate::flow::since(self.origin, at)
    }

    /// The state of the transmission sent at `at`. Removes states that are older than that by more than two
    /// smoothed RTTs.
    fn state(&mut self, at: Nanos) -> Option<SentState> {
        let found = self.sent.binary_search_by_key(&at, |sent| sent.sent_at).ok()?;
        let state = self.sent[found];
        let stale = self.flow.srtt().map(|srtt| at - srtt * 2).unwrap_or_default();
        while self.sent.front().is_some_and(|sent| sent.sent_at < stale) {
            self.sent.pop_front();
        }
        Some(state)
    }
}

impl congestion::Controller for Controller {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        let sent = self.flow.send(self.time(now), Bytes::new(bytes));
        // Several transmissions at the same time share a state.
        if self.sent.back().is_none_or(|last| last.sent_at < sent.sent_at) {
            if self.sent.len() == MOST {
                self.sent.pop_front();
            }
            self.sent.push_back(sent);
        }
        if self.flow.inflight() + self.mtu > self.flow.window() {
            self.flow.blocked();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, _: &RttEstimator) {
        let state = self.state(self.time(sent));
        self.flow.deliver(self.time(now), Bytes::new(bytes), state.as_ref());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        self.flow.end_ack(self.time(now), Some(Bytes::new(in_flight)), app_limited, true);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        // RFC 9000 section 9.4: packets sent on the old path must not contribute to congestion control for the new one.
        if sent < self.origin {
            return;
        }
        let (now, sent) = (self.time(now), self.time(sent));
        let cause = if lost_bytes == 0 { CongestionCause::Ecn } else { CongestionCause::Loss };
        if let Some(state) = self.state(sent).filter(|_| lost_bytes > 0) {
            self.flow.lose(now, state.order, Bytes::new(lost_bytes), &state);
        }
        self.flow.congestion(now, sent, cause, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = Bytes::new(new_mtu.into());
        self.flow.set_mtu(self.mtu);
    }

    fn window(&self) -> u64 {
        self.flow.window().as_u64()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        let ssthresh = self.driver().ssthresh();
        metrics.ssthresh = (ssthresh != Bytes::MAX).then(|| ssthresh.as_u64());
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        let mut copy = self.clone();
        copy.sent.clear();
        copy.flow.forget();
        Box::new(copy)
    }

    fn initial_window(&self) -> u64 {
        self.initial_window.as_u64()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
