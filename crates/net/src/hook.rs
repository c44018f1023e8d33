//! The hook of a port: code at the egress of a link that sees every frame before it enters the queue and when
//! its transmission begins.

use narrows_units::{Bytes, Nanos, Rate};

use crate::Frame;

/// The classes of a queue, as a hook controls them.
pub trait ClassQueue {
    /// Sets the assured rate and the ceiling of a class; [`Rate::MAX`] is no ceiling. Queues without classes
    /// ignore it.
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate);
    /// The backlog of a class and its descendants, in bytes; zero for queues without classes.
    fn class_backlog(&self, class: u8) -> Bytes;
}

/// The port at an event of its hook.
pub struct Port<'a> {
    /// The time.
    pub now: Nanos,
    /// The backlog in bytes, without the frame that arrives or leaves and without the one in transmission.
    pub backlog: Bytes,
    /// The classes of its queue.
    pub classes: &'a mut dyn ClassQueue,
    /// The class that the arriving frame joins, for queues with classes; `None` leaves the choice to the
    /// queue.
    pub class: Option<u8>,
}

/// The fate of an arriving frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It enters the queue, unless that drops it.
    Forward,
    /// It was addressed to the node and ends here.
    Consume,
}

/// Code at the port of a link. It owns no clock: the link calls it, and reads when to wake it.
pub trait PortHook<F: Frame> {
    /// A frame arrives; the queue may still drop it.
    fn on_arrival(&mut self, _port: &mut Port<'_>, _frame: &mut F) -> Admission {
        Admission::Forward
    }
    /// The transmission of a frame begins.
    fn on_departure(&mut self, _port: &mut Port<'_>, _frame: &mut F) {}
    /// The time of the next [`PortHook::on_wake`]; [`Nanos::MAX`]: not before the next frame.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// The time of [`PortHook::next_wake`] has come; in real time it may be past.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
}

/// The hook that does nothing.
impl<F: Frame> PortHook<F> for () {}
