//! The prediction F of equation 9: the average rate of earlier flows of the same kind.
//!
//! The paper calls it 'a machine learning model' and describes it as the average bandwidth seen for this kind
//! of 5-tuple. Here it is an online average at four grains: the exact tuple, the service (destination, port
//! and protocol), the two networks (/24 of both addresses), and all flows. The finest known grain gives the
//! prediction. Each grain is a table of bounded size that evicts the average updated longest ago.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::FiveTuple;

/// Memory of an average: once an average has this many flows, each new flow has a weight of 1/`MEMORY`.
const MEMORY: u32 = 32;
/// Prefix length of a network.
const PREFIX: u32 = 24;

/// An online average.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    rate: f64,
    count: u32,
    /// Serial number of its last update.
    taught: u64,
}

/// A table of averages by key.
#[derive(Clone, Debug, Default, PartialEq)]
struct Grain {
    means: BTreeMap<FiveTuple, Mean>,
    /// Keys in order of their last update, oldest first.
    order: BTreeMap<u64, FiveTuple>,
}

impl Grain {
    fn teach(&mut self, key: FiveTuple, rate: f64, now: u64, limit: usize) {
        let mean = self.means.entry(key).or_insert(Mean { rate: 0.0, count: 0, taught: now });
        if mean.count > 0 {
            self.order.remove(&mean.taught);
        }
        mean.count = (mean.count + 1).min(MEMORY);
        mean.rate += (rate - mean.rate) / f64::from(mean.count);
        mean.taught = now;
        self.order.insert(now, key);
        self.evict(limit);
    }

    /// Removes the average updated longest ago if there are more than `limit`.
    fn evict(&mut self, limit: usize) {
        if self.means.len() > limit
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.means.remove(&oldest);
        }
    }

    fn rate(&self, key: &FiveTuple) -> Option<f64> {
        self.means.get(key).map(|mean| mean.rate)
    }
}

/// Names of the grains in the text form, finest first.
const NAMES: [&str; 4] = ["tuple", "service", "network", "all"];

/// Keys of a tuple at each grain, with ignored fields set to zero.
fn keys(tuple: &FiveTuple) -> [FiveTuple; 4] {
    let none = FiveTuple { source: 0, destination: 0, source_port: 0, destination_port: 0, protocol: 0 };
    let network = |address: u32| address & !(u32::MAX >> PREFIX);
    [
        *tuple,
        FiveTuple { source: 0, source_port: 0, ..*tuple },
        FiveTuple { source: network(tuple.source), destination: network(tuple.destination), ..none },
        none,
    ]
}

/// The averages at all grains.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    grains: [Grain; 4],
    taught: u64,
    limit: usize,
}

impl Learned {
    /// An empty model; each grain keeps at most `limit` averages.
    pub fn new(limit: usize) -> Self {
        Self { grains: Default::default(), taught: 0, limit: limit.max(1) }
    }

    /// Adds a flow of this tuple, measured at `rate`.
    pub fn teach(&mut self, tuple: &FiveTuple, rate: f64) {
        if rate.is_finite() && rate >= 0.0 {
            self.taught += 1;
            for (grain, key) in self.grains.iter_mut().zip(keys(tuple)) {
                grain.teach(key, rate, self.taught, self.limit);
            }
        }
    }

    /// Predicted rate of a flow; `None` if the model is empty.
    pub fn predict(&self, tuple: &FiveTuple) -> Option<f64> {
        self.grains.iter().zip(&keys(tuple)).find_map(|(grain, key)| grain.rate(key))
    }

    /// Number of flows added so far.
    pub const fn taught(&self) -> u64 {
        self.taught
    }

    /// Number of averages.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.grains.iter().map(|grain| grain.means.len()).sum()
    }

    /// The model as text, one average per line: grain, the five fields, rate in bytes per second, count,
    /// serial number of the last update.
    pub fn to_text(&self) -> String {
        let mut text = String::from("# brf averages: grain source destination ports protocol B/s count taught\n");
        for (grain, name) in self.grains.iter().zip(NAMES) {
            for (taught, key) in &grain.order {
                let mean = &grain.means[key];
                let FiveTuple { source, destination, source_port, destination_port, protocol } = key;
                // Writing to a `String` never fails.
                let _ = writeln!(
                    text,
                    "{name} {source} {destination} {source_port} {destination_port} {protocol} {} {} {taught}",
                    mean.rate, mean.count
                );
            }
        }
        text
    }

    /// Reads the text of [`Learned::to_text`]. Keeps the last `limit` averages of each grain.
    ///
    /// # Errors
    /// The number of the first invalid line, and the reason.
    pub fn from_text(text: &str, limit: usize) -> Result<Self, String> {
        let mut learned = Self::new(limit);
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let wrong = |reason: &str| format!("line {}: {reason}", i + 1);
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [name, source, destination, source_port, destination_port, protocol, rate, count, taught] = fields[..]
            else {
                return Err(wrong("expected nine fields"));
            };
            let place = NAMES.iter().position(|known| *known == name);
            let place = place.ok_or_else(|| wrong("unknown grain; expected tuple, service, network or all"))?;
            let number = |text: &str, max: u64| match text.parse::<u64>() {
                Ok(value) if value <= max => Ok(value),
                _ => Err(wrong(&format!("'{text}' is not a whole number up to {max}"))),
            };
            let key = FiveTuple {
                source: number(source, u32::MAX.into())? as u32,
                destination: number(destination, u32::MAX.into())? as u32,
                source_port: number(source_port, u16::MAX.into())? as u16,
                destination_port: number(destination_port, u16::MAX.into())? as u16,
                protocol: number(protocol, u8::MAX.into())? as u8,
            };
            let rate = rate.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
            let rate = rate.ok_or_else(|| wrong("the rate is not a number of bytes per second"))?;
            let count = number(count, MEMORY.into())? as u32;
            let taught = number(taught, u64::MAX - 1)?;
            let grain = &mut learned.grains[place];
            if count == 0 || grain.means.contains_key(&key) || grain.order.contains_key(&taught) {
                return Err(wrong("the count is zero or the average is a duplicate"));
            }
            grain.means.insert(key, Mean { rate, count, taught });
            grain.order.insert(taught, key);
            grain.evict(learned.limit);
            learned.taught = learned.taught.max(taught);
        }
        Ok(learned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tuple(source: u32, destination: u32, port: u16) -> FiveTuple {
        FiveTuple { source, destination, source_port: 40_000, destination_port: port, protocol: 6 }
    }

    const A: u32 = 0x0a00_0001;
    const B: u32 = 0x0a00_0002;
    const FAR: u32 = 0x0b00_0001;
    const SERVER: u32 = 0xc0a8_0101;
    const NEIGHBOUR: u32 = 0xc0a8_0102;
    const ELSEWHERE: u32 = 0xc0a9_0101;

    /// Prediction backs off from the tuple to the service, the networks and the overall average.
    #[test]
    fn prediction_backs_off_to_coarser_averages() {
        let mut learned = Learned::new(100);
        assert_eq!(learned.predict(&tuple(A, SERVER, 80)), None);
        learned.teach(&tuple(A, SERVER, 80), 100.0);
        learned.teach(&tuple(B, SERVER, 80), 300.0);
        learned.teach(&tuple(A, NEIGHBOUR, 22), 800.0);
        assert_eq!(learned.predict(&tuple(A, SERVER, 80)), Some(100.0));
        // Another client of the service: the mean of the service's two flows.
        assert_eq!(learned.predict(&tuple(FAR, SERVER, 80)), Some(200.0));
        // Another service between the same networks, then a tuple that shares only the overall average.
        assert_eq!(learned.predict(&tuple(B, SERVER, 443)), Some(400.0));
        assert_eq!(learned.predict(&tuple(FAR, ELSEWHERE, 443)), Some(400.0));
        learned.teach(&tuple(FAR, ELSEWHERE, 443), 2800.0);
        assert_eq!(learned.predict(&tuple(FAR, SERVER, 443)), Some(1000.0));
        // Invalid rates are ignored.
        learned.teach(&tuple(A, SERVER, 80), f64::NAN);
        learned.teach(&tuple(A, SERVER, 80), -1.0);
        assert_eq!((learned.predict(&tuple(A, SERVER, 80)), learned.taught()), (Some(100.0), 4));
    }

    /// An average follows a lasting change, with weight 1/32 per flow.
    #[test]
    fn average_follows_a_lasting_change() {
        let mut learned = Learned::new(10);
        for _ in 0..1000 {
            learned.teach(&tuple(A, SERVER, 80), 100.0);
        }
        for _ in 0..100 {
            learned.teach(&tuple(A, SERVER, 80), 200.0);
        }
        // The rate changes from 100 to 200; after 100 flows, 100 · (31/32)^100 of the difference remains.
        let expected = 200.0 - 100.0 * (31.0f64 / 32.0).powi(100);
        let found = learned.predict(&tuple(A, SERVER, 80)).unwrap();
        assert!((found - expected).abs() < 1e-6, "{found}");
    }

    /// Memory is bounded and keeps the most recently updated averages.
    #[test]
    fn memory_is_bounded_and_keeps_latest_averages() {
        let mut learned = Learned::new(8);
        for client in 0..10_000u32 {
            learned.teach(&tuple(client << 8, client << 8, 80), f64::from(client));
        }
        assert_eq!(learned.len(), 3 * 8 + 1);
        assert_eq!(learned.predict(&tuple(9_999 << 8, 9_999 << 8, 80)), Some(9_999.0));
        assert_eq!(learned.predict(&tuple(9_992 << 8, 9_992 << 8, 80)), Some(9_992.0));
        // An evicted tuple gets only the overall average.
        let all = learned.predict(&tuple(FAR, ELSEWHERE, 1));
        assert_eq!(learned.predict(&tuple(9_991 << 8, 9_991 << 8, 80)), all);
    }

    /// Invalid lines are refused with their number.
    #[test]
    fn invalid_lines_are_refused_with_their_number() {
        for (text, what) in [
            ("tuple 1 2 3", "line 1: expected nine fields"),
            ("# head\nflow 1 2 3 4 6 1.0 1 1", "line 2: unknown grain"),
            ("tuple 1 2 70000 4 6 1.0 1 1", "line 1: '70000'"),
            ("tuple 1 2 3 4 6 nan 1 1", "line 1: the rate"),
            ("tuple 1 2 3 4 6 -1 1 1", "line 1: the rate"),
            ("tuple 1 2 3 4 6 1 0 1", "line 1: the count is zero"),
            ("all 0 0 0 0 0 1 1 1\nall 0 0 0 0 0 1 1 2", "line 2: the count is zero or the average is a duplicate"),
        ] {
            let error = Learned::from_text(text, 8).expect_err(text);
            assert!(error.starts_with(what), "{text}: {error}");
        }
    }

    proptest! {
        /// A model read back from its text equals the original and keeps learning in the same way.
        #[test]
        fn text_form_round_trips_and_keeps_learning(
            lessons in prop::collection::vec((0u32..6, 0u32..6, 0u16..3, 0.0f64..1e10), 0..60),
            limit in 1usize..12,
        ) {
            let mut learned = Learned::new(limit);
            let spread = |n: u32| n << (n % 3 * 4);
            for (source, destination, port, rate) in &lessons {
                learned.teach(&tuple(spread(*source), spread(*destination), *port), *rate);
            }
            let mut read = Learned::from_text(&learned.to_text(), limit).unwrap();
            prop_assert_eq!(&read, &learned);
            for (source, destination, port, rate) in &lessons {
                let tuple = tuple(spread(*destination), spread(*source), *port);
                prop_assert_eq!(read.predict(&tuple), learned.predict(&tuple));
                learned.teach(&tuple, *rate);
                read.teach(&tuple, *rate);
            }
            prop_assert_eq!(read, learned);
        }
    }
}
