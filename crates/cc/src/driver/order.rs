//! Assertions on the contract's order of calls, in debug builds only.

/// Progress of the current acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(not(debug_assertions), allow(dead_code))]
pub(super) enum Step {
    /// No acknowledgement is in progress.
    #[default]
    Outside,
    /// Deliveries and receiver feedback.
    Delivered,
    /// Losses and phase changes. Several changes may follow one another, each after its losses.
    Settling,
}

/// The step that the last call reached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    #[cfg(debug_assertions)]
    step: Step,
}

#[cfg(debug_assertions)]
impl Order {
    pub(super) fn begin_ack(&mut self) {
        assert_eq!(self.step, Step::Outside, "an acknowledgement begins inside another");
        self.step = Step::Delivered;
    }

    /// Asserts that the current acknowledgement is in `step`.
    pub(super) fn within_ack(&mut self, step: Step) {
        assert_eq!(self.step, step, "out of order within an acknowledgement");
    }

    pub(super) fn feedback(&mut self) {
        assert!(self.step <= Step::Delivered, "receiver feedback after the losses of its acknowledgement");
    }

    pub(super) fn lost(&mut self) {
        if self.step == Step::Delivered {
            self.step = Step::Settling;
        }
    }

    pub(super) fn phase(&mut self) {
        self.lost();
    }

    pub(super) fn finish_ack(&mut self) {
        assert_ne!(self.step, Step::Outside, "an acknowledgement ends that has not begun");
        self.step = Step::Outside;
    }

    pub(super) fn outside_ack(&mut self) {
        assert_eq!(self.step, Step::Outside, "an event of its own inside an acknowledgement");
    }
}

#[cfg(not(debug_assertions))]
#[allow(clippy::unused_self)] // the same calls as above
impl Order {
    #[inline]
    pub(super) fn begin_ack(&mut self) {}
    #[inline]
    pub(super) fn within_ack(&mut self, _step: Step) {}
    #[inline]
    pub(super) fn feedback(&mut self) {}
    #[inline]
    pub(super) fn lost(&mut self) {}
    #[inline]
    pub(super) fn phase(&mut self) {}
    #[inline]
    pub(super) fn finish_ack(&mut self) {}
    #[inline]
    pub(super) fn outside_ack(&mut self) {}
}
