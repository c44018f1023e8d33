//! Measurements of a flow, which its endpoints take and the emulator reads.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Value};
use narrows_quic::noq::{Controller as Ours, Factory};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::packets::Packets;

/// Maximum number of RTT samples that wait for the emulator.
const SAMPLES: usize = 4096;
const NEVER: u64 = u64::MAX;

/// Measurements of one flow.
#[derive(Debug)]
pub(super) struct Meter {
    /// Bytes of QUIC packets in flight.
    pub(super) inflight: AtomicU64,
    window: AtomicU64,
    /// Pacing rate in bytes per second; 0: none.
    pacing: AtomicU64,
    /// Smoothed RTT in nanoseconds; `NEVER` before the first sample.
    srtt: AtomicU64,
    completed: AtomicU64,
    /// Payload bytes that the receiving application has read in order.
    pub(super) read: AtomicU64,
    rtts: Mutex<VecDeque<Nanos>>,
    packets: Mutex<Packets>,
    pub(super) telemetry: Mutex<Vec<(&'static str, Value)>>,
}

impl Meter {
    pub(super) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            inflight: zero(),
            window: zero(),
            pacing: zero(),
            srtt: AtomicU64::new(NEVER),
            completed: AtomicU64::new(NEVER),
            read: zero(),
            rtts: Mutex::default(),
            packets: Mutex::default(),
            telemetry: Mutex::default(),
        }
    }

    /// The congestion window, once the connection exists.
    pub(super) fn window(&self) -> Option<u64> {
        Some(self.window.load(Relaxed)).filter(|window| *window > 0)
    }

    pub(super) fn pacing(&self) -> Option<u64> {
        Some(self.pacing.load(Relaxed)).filter(|rate| *rate > 0)
    }

    pub(super) fn srtt(&self) -> Option<Nanos> {
        Some(self.srtt.load(Relaxed)).filter(|srtt| *srtt < NEVER).map(Nanos::from_nanos)
    }

    pub(super) fn completed(&self) -> Option<Nanos> {
        Some(self.completed.load(Relaxed)).filter(|at| *at < NEVER).map(Nanos::from_nanos)
    }

    pub(super) fn complete(&self, now: Nanos) {
        self.completed.fetch_min(now.as_nanos(), Relaxed);
    }

    /// Removes and returns the oldest RTT sample.
    pub(super) fn take_rtt(&self) -> Option<Nanos> {
        self.rtts.lock().ok()?.pop_front()
    }

    /// The packet records, unless a thread panicked while it used them.
    pub(super) fn packets(&self) -> Option<MutexGuard<'_, Packets>> {
        self.packets.lock().ok()
    }

    fn sample(&self, rtt: Duration) {
        let rtt = Nanos::from_nanos(rtt.as_nanos() as u64);
        let smoothed = self.srtt.load(Relaxed);
        let next = if smoothed == NEVER { rtt.as_nanos() } else { smoothed / 8 * 7 + rtt.as_nanos() / 8 };
        self.srtt.store(next, Relaxed);
        if let Ok(mut rtts) = self.rtts.lock()
            && rtts.len() < SAMPLES
        {
            rtts.push_back(rtt);
        }
    }
}

/// Factory of controllers that publish their measurements.
#[derive(Debug)]
pub(super) struct Metered {
    inner: Inner,
    meter: Arc<Meter>,
}

struct Inner(Factory);

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Factory")
    }
}

impl Metered {
    pub(super) fn factory(inner: Factory, meter: Arc<Meter>) -> Factory {
        Arc::new(Self { inner: Inner(inner), meter })
    }
}

impl ControllerFactory for Metered {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = Arc::clone(&self.inner.0).build(now, current_mtu);
        let probe = Probe { inner, meter: Arc::clone(&self.meter), newest: None, latest: None };
        probe.publish();
        Box::new(probe)
    }
}

/// A controller that publishes its measurements.
#[derive(Debug)]
pub(super) struct Probe {
    inner: Box<dyn Controller>,
    meter: Arc<Meter>,
    /// Send times of the newest packet in the current acknowledgement, and of the newest packet acknowledged before.
    newest: Option<Instant>,
    latest: Option<Instant>,
}

impl Probe {
    /// A copy of the scheme in a connection's controller; `None` if the controller belongs to the noq library.
    pub(super) fn scheme(controller: &dyn Controller) -> Option<Box<Ours>> {
        let probe: Box<Self> = controller.clone_box().into_any().downcast().ok()?;
        probe.inner.into_any().downcast().ok()
    }

    fn publish(&self) {
        let metrics = self.inner.metrics();
        self.meter.window.store(metrics.congestion_window, Relaxed);
        self.meter.pacing.store(metrics.pacing_rate.unwrap_or(0), Relaxed);
    }
}

impl Controller for Probe {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.meter.inflight.fetch_add(bytes.into(), Relaxed);
        if let Some(mut packets) = self.meter.packets() {
            packets.send(now, pn, bytes);
        }
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool, rtt: &RttEstimator) {
        self.newest = self.newest.max(Some(sent));
        if let Some(mut packets) = self.meter.packets() {
            packets.acknowledge(pn, sent);
        }
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
        self.meter.inflight.store(in_flight, Relaxed);
        // An acknowledgement that arrives out of order gives no RTT sample.
        if let Some(sent) = self.newest.take().filter(|sent| self.latest.is_none_or(|latest| *sent >= latest)) {
            self.latest = Some(sent);
            self.meter.sample(now.saturating_duration_since(sent));
        }
        self.publish();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, is_ecn, lost_bytes, largest_lost_pn);
        self.publish();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        // Packets that need no acknowledgement are not in flight.
        if self.meter.packets().is_some_and(|mut packets| packets.lose(pn, lost_bytes)) {
            let inflight = &self.meter.inflight;
            let _ = inflight.fetch_update(Relaxed, Relaxed, |bytes| Some(bytes.saturating_sub(lost_bytes.into())));
        }
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, requested_max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(ack_eliciting_threshold, requested_max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            meter: Arc::clone(&self.meter),
            newest: None,
            latest: self.latest,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
