//! The hook of a port: code at the egress of a link that sees every frame that arrives for its queue and every frame that
//! leaves it.

use narrows_units::{Bytes, Nanos, Random, Rate};

use crate::Frame;
use crate::config::{Limit, Queue};
use crate::queue::Discipline;

/// The classes of a queue, as a hook may use them.
pub trait ClassQueue {
    /// Gives a class another assured rate and ceiling; [`Rate::MAX`] is no ceiling. Queues without classes ignore it.
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate);
    /// Bytes that wait in a class and below it; zero where there are no classes.
    fn class_backlog(&self, class: u8) -> Bytes;
}

/// A port as its hook finds it at an event.
pub struct Port<'a> {
    /// The time.
    pub now: Nanos,
    /// Bytes that wait: without the frame that arrives or leaves, and without the one in transmission.
    pub backlog: Bytes,
    /// The classes of its queue.
    pub classes: &'a mut dyn ClassQueue,
    /// The class that the arriving frame joins, if the queue has classes; `None` leaves the choice to the queue.
    pub class: Option<u8>,
}

/// The fate of an arriving frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It goes on to the queue.
    Forward,
    /// It was meant for the node and ends here.
    Consume,
}

/// Code at the port of a link. It owns no clock: the link calls it and asks when to wake it.
pub trait PortHook<F: Frame> {
    /// A frame arrives; the queue may yet drop it.
    fn on_arrival(&mut self, _port: &mut Port<'_>, _frame: &mut F) -> Admission {
        Admission::Forward
    }
    /// The transmission of a frame begins.
    fn on_departure(&mut self, _port: &mut Port<'_>, _frame: &mut F) {}
    /// The time at which to call [`PortHook::on_wake`]; [`Nanos::MAX`]: not before the next frame.
    fn next_wake(&self) -> Nanos {
        Nanos::MAX
    }
    /// That time has come, or is past in real time.
    fn on_wake(&mut self, _port: &mut Port<'_>) {}
}

/// An empty queue of frames `F` before no link, to test and measure a hook on its own. Its rate is 1 Mbit/s.
pub fn standalone_queue<F: Frame + 'static>(config: &Queue) -> Box<dyn ClassQueue> {
    let random = Random::stream(1, "standalone", 0);
    let rate = Rate::from_bytes_per_sec(125_000);
    Box::new(Discipline::<F>::new(config, rate, Limit::Packets(1000), random))
}

/// No hook.
impl<F: Frame> PortHook<F> for () {}
