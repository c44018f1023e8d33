//! Times of mode changes: a binary heap with at most one entry per class. The time of an entry may change.

use narrows_units::Nanos;

/// Maximum number of classes, the link included.
const SIZE: usize = 64;
const NOWHERE: u8 = u8::MAX;

#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// Class numbers in heap order.
    heap: Vec<u8>,
    times: [Nanos; SIZE],
    places: [u8; SIZE],
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self { heap: Vec::with_capacity(SIZE), times: [Nanos::MAX; SIZE], places: [NOWHERE; SIZE] }
    }

    /// The earliest entry; among equal times, the class with the lowest number.
    #[inline]
    pub(super) fn first(&self) -> Option<(Nanos, usize)> {
        self.heap.first().map(|&class| (self.times[usize::from(class)], usize::from(class)))
    }

    /// Sets the time of a class; inserts the class if necessary.
    pub(super) fn set(&mut self, class: usize, at: Nanos) {
        let before = std::mem::replace(&mut self.times[class], at);
        let place = match self.places[class] {
            NOWHERE => {
                self.heap.push(class as u8);
                self.heap.len() - 1
            }
            _ if at == before => return,
            place => usize::from(place),
        };
        let place = self.rise(place);
        self.sink(place);
    }

    /// Removes a class.
    pub(super) fn remove(&mut self, class: usize) {
        let place = usize::from(std::mem::replace(&mut self.places[class], NOWHERE));
        if place >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    fn key(&self, place: usize) -> (Nanos, u8) {
        let class = self.heap[place];
        (self.times[usize::from(class)], class)
    }

    fn settle(&mut self, place: usize) {
        self.places[usize::from(self.heap[place])] = place as u8;
    }

    fn rise(&mut self, mut place: usize) -> usize {
        while place > 0 && self.key(place) < self.key((place - 1) / 2) {
            self.heap.swap(place, (place - 1) / 2);
            self.settle(place);
            place = (place - 1) / 2;
        }
        self.settle(place);
        place
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = (2 * place + 1..self.heap.len()).take(2).min_by_key(|&below| self.key(below));
            match below {
                Some(below) if self.key(below) < self.key(place) => {
                    self.heap.swap(place, below);
                    self.settle(place);
                    place = below;
                }
                _ => break,
            }
        }
        self.settle(place);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The first entry equals the result of a linear search.
        #[test]
        fn first_matches_a_linear_search(
            steps in prop::collection::vec((0usize..SIZE, prop::option::of(0u64..40)), 1..400),
        ) {
            let mut agenda = Agenda::new();
            let mut plain: Vec<Option<u64>> = vec![None; SIZE];
            for (class, at) in steps {
                plain[class] = at;
                match at {
                    Some(at) => agenda.set(class, Nanos::from_nanos(at)),
                    None => agenda.remove(class),
                }
                let least = (0..SIZE).filter_map(|class| plain[class].map(|at| (Nanos::from_nanos(at), class))).min();
                prop_assert_eq!(agenda.first(), least);
            }
        }
    }
}
