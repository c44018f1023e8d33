//! Mapping from subflow sequence numbers to data sequence numbers.

use std::collections::VecDeque;

/// A run of bytes that is contiguous in subflow and data sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    subflow: u64,
    data: u64,
    len: u64,
}

/// The unacknowledged mappings of one subflow, in subflow order.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings {
    runs: VecDeque<Run>,
    /// Number of runs whose data begins before the end of the previous run's data (data sent again). If it is zero,
    /// runs are in data order too.
    descents: usize,
}

impl Mappings {
    /// Maps `len` bytes. Calls must be in subflow order.
    pub(super) fn push(&mut self, subflow: u64, data: u64, len: u64) {
        if let Some(last) = self.runs.back_mut()
            && last.data + last.len == data
            && last.subflow + last.len == subflow
        {
            last.len += len;
            return;
        }
        self.descents += usize::from(self.runs.back().is_some_and(|last| data < last.data + last.len));
        self.runs.push_back(Run { subflow, data, len });
    }

    /// Removes mappings below `subflow`, the subflow's cumulative acknowledgement.
    pub(super) fn remove_below(&mut self, subflow: u64) {
        while let Some(first) = self.runs.front_mut() {
            let gone = subflow.saturating_sub(first.subflow);
            if gone < first.len {
                *first = Run { subflow: first.subflow + gone, data: first.data + gone, len: first.len - gone };
                return;
            }
            let end = first.data + first.len;
            self.runs.pop_front();
            self.descents -= usize::from(self.runs.front().is_some_and(|next| next.data < end));
        }
    }

    /// Index of the first run that may contain data at or above `data`; found by binary search if runs are in data
    /// order.
    fn skip_below(&self, data: u64) -> usize {
        if self.descents > 0 { 0 } else { self.runs.partition_point(|run| run.data + run.len <= data) }
    }

    /// Data sequence number that corresponds to a subflow sequence number.
    pub(super) fn data_of(&self, subflow: u64) -> Option<u64> {
        let after = match self.runs.back() {
            Some(last) if last.subflow <= subflow => self.runs.len(),
            _ => self.runs.partition_point(|run| run.subflow <= subflow),
        };
        let run = self.runs.get(after.checked_sub(1)?)?;
        let inside = subflow - run.subflow;
        (inside < run.len).then_some(run.data + inside)
    }

    /// The mapped data as ranges, in subflow order.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|run| (run.data, run.data + run.len))
    }

    /// Lowest subflow sequence number of a data byte, and the end of its run in data sequence numbers.
    pub(super) fn place_of(&self, data: u64) -> Option<(u64, u64)> {
        let mut runs = self.runs.range(self.skip_below(data)..);
        let run = if self.descents > 0 {
            runs.find(|run| (run.data..run.data + run.len).contains(&data))?
        } else {
            runs.next().filter(|run| run.data <= data)?
        };
        Some((run.subflow + (data - run.data), run.data + run.len))
    }

    /// The lowest mapped data byte at or above `data`.
    pub(super) fn next_from(&self, data: u64) -> Option<u64> {
        let mut runs = self.runs.range(self.skip_below(data)..);
        if self.descents == 0 {
            return runs.next().map(|run| run.data.max(data));
        }
        runs.filter(|run| run.data + run.len > data).map(|run| run.data.max(data)).min()
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
        /// Mappings agree with a table of single bytes.
        #[test]
        fn mappings_agree_with_a_table_of_bytes(
            pieces in prop::collection::vec((0u64..40, 1u64..6, 0u64..4), 1..40),
            in_order: bool,
        ) {
            let mut pieces = pieces;
            if in_order {
                // No data is sent again: each piece begins at the end of the previous piece or, occasionally, later.
                let mut end = 0;
                for (data, len, _) in &mut pieces {
                    *data = end + data.saturating_sub(35);
                    end = *data + *len;
                }
            }
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
                for data in 0..400 {
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
