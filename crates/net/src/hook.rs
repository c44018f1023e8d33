//! The hook of a port: code at the egress of a link that sees every frame before it enters the queue and when
//! its transmission begins.

use narrows_units::{Bytes, Nanos, Rate};

use crate::Frame;

/// Class control of a queue, for hooks.
pub trait ClassQueue {
    /// Sets assured rate and ceiling of a class; [`Rate::MAX`] means no ceiling. Has no effect on queues without
    /// classes.
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate);
    /// Backlog of a class and its descendants in bytes; zero for queues without classes.
    fn class_backlog(&self, class: u8) -> Bytes;
}

/// The port at an event of its hook.
pub struct Port<'a> {
    /// The current time.
    pub now: Nanos,
    /// Backlog in bytes, without the arriving or departing frame and without the frame in transmission.
    pub backlog: Bytes,
    /// The classes of the port's queue.
    pub classes: &'a mut dyn ClassQueue,
    /// Class of the arriving frame, for queues with classes. The hook may set this field; `None` leaves the choice of
    /// the class to the queue.
    pub class: Option<u8>,
}

/// Fate of an arriving frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The frame enters the queue, unless the queue drops it.
    Forward,
    /// The frame was addressed to the node and ends here.
    Consume,
}

/// Code at the port of a link. A hook owns no clock: the link calls the hook at its events and at the time of its next
/// wake.
pub trait PortHook<F: Frame> {
    /// Processes the arrival of a frame, which the queue may still drop.
    fn on_arrival(&mut self, _port: &mut Port<'_>, _frame: &mut F) -> Admission {
        Admission::Forward
    }
    /// Processes the departure of a frame, whose transmission begins.
    fn on_departure(&mut self, _port: &mut Port<'_>, _frame: &mut F) {}
    /// Time of the next [`PortHook::on_wake`]; [`Nanos::MAX`] if none is due before the next frame.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// Runs the work due at [`PortHook::next_wake`]. In real time the call may be late.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
}

/// The hook that does nothing.
impl<F: Frame> PortHook<F> for () {}
