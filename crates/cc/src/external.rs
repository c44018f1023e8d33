//! Schemes from outside the registry: any [`CongestionControl`] behind a pointer.
//!
//! [`Entry::of`](crate::schemes::Entry::of) builds an entry for such a scheme, usable wherever a registry
//! entry is.

use alloc::boxed::Box;
use core::fmt::Debug;

use crate::{
    Ack, CongestionControl, Control, IdleRestart, Info, Lost, Paths, Rate, RateAdvice, ReceiverFeedback,
    RecoveryEntered, RecoveryLeft, Sent, SpuriousLoss, Telemetry, Timeout,
};

/// The object-safe part of [`CongestionControl`]: no constants, no constructor. Implemented for every scheme
/// that can be cloned and sent to another thread.
pub trait DynCongestionControl: Debug + Send + Sync {
    /// See [`CongestionControl::on_sent`].
    fn on_sent(&mut self, event: &Sent);
    /// See [`CongestionControl::on_ack`].
    fn on_ack(&mut self, event: &Ack);
    /// See [`CongestionControl::on_lost`].
    fn on_lost(&mut self, event: &Lost);
    /// See [`CongestionControl::on_recovery_entered`].
    fn on_recovery_entered(&mut self, event: &RecoveryEntered);
    /// See [`CongestionControl::on_recovery_left`].
    fn on_recovery_left(&mut self, event: &RecoveryLeft);
    /// See [`CongestionControl::on_timeout`].
    fn on_timeout(&mut self, event: &Timeout);
    /// See [`CongestionControl::on_spurious_loss`].
    fn on_spurious_loss(&mut self, event: &SpuriousLoss);
    /// See [`CongestionControl::on_rate_advice`].
    fn on_rate_advice(&mut self, event: &RateAdvice);
    /// See [`CongestionControl::on_receiver_feedback`].
    fn on_receiver_feedback(&mut self, event: &ReceiverFeedback);
    /// See [`CongestionControl::on_paths`].
    fn on_paths(&mut self, paths: &Paths);
    /// See [`CongestionControl::on_idle_restart`].
    fn on_idle_restart(&mut self, event: &IdleRestart);
    /// See [`CongestionControl::line_rate`].
    fn line_rate(&self) -> Option<Rate>;
    /// See [`CongestionControl::control`].
    fn control(&self) -> Control;
    /// See [`CongestionControl::telemetry`].
    fn telemetry(&self, sink: Telemetry<'_>);
    /// See [`CongestionControl::INFO`].
    fn info(&self) -> &'static Info;
    /// See [`CongestionControl::RATE_PROTOCOL`].
    fn rate_protocol(&self) -> Option<&'static str>;
    /// A copy in the same state.
    fn boxed_clone(&self) -> Box<dyn DynCongestionControl>;
}

/// Gives a scheme's [`Info`] a static address.
pub(crate) struct Facts<S>(core::marker::PhantomData<S>);

impl<S: CongestionControl> Facts<S> {
    pub(crate) const INFO: &'static Info = &S::INFO;
}

impl<S: CongestionControl + Clone + Debug + Send + Sync + 'static> DynCongestionControl for S {
    fn on_sent(&mut self, event: &Sent) {
        CongestionControl::on_sent(self, event);
    }
    fn on_ack(&mut self, event: &Ack) {
        CongestionControl::on_ack(self, event);
    }
    fn on_lost(&mut self, event: &Lost) {
        CongestionControl::on_lost(self, event);
    }
    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        CongestionControl::on_recovery_entered(self, event);
    }
    fn on_recovery_left(&mut self, event: &RecoveryLeft) {
        CongestionControl::on_recovery_left(self, event);
    }
    fn on_timeout(&mut self, event: &Timeout) {
        CongestionControl::on_timeout(self, event);
    }
    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        CongestionControl::on_spurious_loss(self, event);
    }
    fn on_rate_advice(&mut self, event: &RateAdvice) {
        CongestionControl::on_rate_advice(self, event);
    }
    fn on_receiver_feedback(&mut self, event: &ReceiverFeedback) {
        CongestionControl::on_receiver_feedback(self, event);
    }
    fn on_paths(&mut self, paths: &Paths) {
        CongestionControl::on_paths(self, paths);
    }
    fn on_idle_restart(&mut self, event: &IdleRestart) {
        CongestionControl::on_idle_restart(self, event);
    }
    fn line_rate(&self) -> Option<Rate> {
        CongestionControl::line_rate(self)
    }
    fn control(&self) -> Control {
        CongestionControl::control(self)
    }
    fn telemetry(&self, sink: Telemetry<'_>) {
        CongestionControl::telemetry(self, sink);
    }
    fn info(&self) -> &'static Info {
        Facts::<S>::INFO
    }
    fn rate_protocol(&self) -> Option<&'static str> {
        S::RATE_PROTOCOL
    }
    fn boxed_clone(&self) -> Box<dyn DynCongestionControl> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn DynCongestionControl> {
    fn clone(&self) -> Self {
        // Clones the scheme, not the box, which would recurse.
        (**self).boxed_clone()
    }
}
