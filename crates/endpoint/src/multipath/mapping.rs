//! Which data of the connection the numbers of a subflow stand for.

use std::collections::VecDeque;

/// A run of bytes that is whole in both sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    subflow: u64,
    data: u64,
    len: u64,
}

/// The mappings of one subflow that it has not had acknowledged, in its own order.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings {
    runs: VecDeque<Run>,
}

impl Mappings {
    /// `len` bytes of data are handed over; subflow numbers come in order.
    pub(super) fn push(&mut self, subflow: u64, data: u64, len: u64) {
        if let Some(last) = self.runs.back_mut()
            && last.data + last.len == data
            && last.subflow + last.len == subflow
        {
            last.len += len;
            return;
        }
        self.runs.push_back(Run { subflow, data, len });
    }

    /// The subflow has everything below `subflow` acknowledged.
    pub(super) fn remove_below(&mut self, subflow: u64) {
        while let Some(first) = self.runs.front_mut() {
            let gone = subflow.saturating_sub(first.subflow);
            if gone < first.len {
                *first =
                    Run { subflow: first.subflow + gone, data: first.data + gone, len: first.len - gone };
                return;
            }
            self.runs.pop_front();
        }
    }

    /// The data number of a byte of the subflow.
    pub(super) fn data_of(&self, subflow: u64) -> Option<u64> {
        let after = match self.runs.back() {
            Some(last) if last.subflow <= subflow => self.runs.len(),
            _ => self.runs.partition_point(|run| run.subflow <= subflow),
        };
        let run = self.runs.get(after.checked_sub(1)?)?;
        let inside = subflow - run.subflow;
        (inside < run.len).then_some(run.data + inside)
    }

    /// The data it stands for, as ranges in the order of the subflow.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| (run.data, run.data + run.len))
    }

    /// Where a byte of data first is in the subflow, and where the run of data ends that it belongs to.
    pub(super) fn place_of(&self, data: u64) -> Option<(u64, u64)> {
        let run = self.runs.iter().find(|run| (run.data..run.data + run.len).contains(&data))?;
        Some((run.subflow + (data - run.data), run.data + run.len))
    }

    /// The lowest byte of data from `data` on.
    pub(super) fn next_from(&self, data: u64) -> Option<u64> {
        self.ranges().filter(|&(_, end)| end > data).map(|(start, _)| start.max(data)).min()
    }

    pub(super) fn memory(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mappings_agree_with_a_table_of_bytes(
            pieces in prop::collection::vec((0u64..40, 1u64..6, 0u64..4), 1..40),
        ) {
            let mut mappings = Mappings::default();
            let mut table = BTreeMap::new();
            let (mut next, mut una) = (1, 1);
            for (data, len, acked) in pieces {
                mappings.push(next, data, len);
                table.extend((0..len).map(|i| (next + i, data + i)));
                next += len;
                una = (una + acked).min(next);
                mappings.remove_below(una);
                table.retain(|&subflow, _| subflow >= una);
                for subflow in 0..next + 3 {
                    prop_assert_eq!(mappings.data_of(subflow), table.get(&subflow).copied());
                }
                let held: Vec<u64> = mappings.ranges().flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(&held, &table.values().copied().collect::<Vec<_>>());
                for data in 0..50 {
                    let place = mappings.place_of(data);
                    prop_assert_eq!(place.is_some(), held.contains(&data));
                    prop_assert!(place.is_none_or(|(subflow, _)| table[&subflow] == data));
                    let end = place.map(|(_, end)| end);
                    prop_assert_eq!(mappings.next_from(data), held.iter().copied().filter(|&byte| byte >= data).min());
                    prop_assert!(end.is_none_or(|end| (data..end).all(|byte| held.contains(&byte))));
                }
            }
        }
    }
}
