//! Cost of an acknowledgement in each scheme; the schemes are measured in turns.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use narrows_cc::schemes::{self, Entry};
use serde_json::{Value, json};

use crate::{acks, median, unknown};

/// Measures one turn of a scheme, in nanoseconds per acknowledgement. A turn is one connection and takes about a
/// millisecond. This is short compared with the time slices of a busy machine, so few turns are interrupted and medians
/// are stable.
fn turn_of(entry: &Entry, events: &[acks::Event]) -> f64 {
    let started = Instant::now();
    black_box(acks::replay(entry, 1, black_box(events)));
    started.elapsed().as_secs_f64() * 1e9 / acks::ACKS as f64
}

/// Returns a row per scheme (all, or those in `names`): medians over `repeats` rounds, in which every scheme takes a
/// turn, and the median ratio to the first registered scheme, which always runs.
///
/// # Errors
/// If a name is unknown.
pub fn measure(repeats: usize, names: &[String]) -> Result<Value, String> {
    let mut chosen = vec![&schemes::ALL[0]];
    for name in names {
        let refused = || unknown("scheme", name, schemes::ALL.iter().map(|entry| entry.info.name));
        chosen.push(schemes::find(name).ok_or_else(refused)?);
    }
    if names.is_empty() {
        chosen.extend(schemes::ALL);
    }
    let mut seen = BTreeSet::new();
    chosen.retain(|entry| seen.insert(entry.info.name));
    let events = acks::events();
    let round = || chosen.iter().map(|entry| turn_of(entry, &events)).collect();
    let rounds: Vec<Vec<f64>> = (0..repeats.max(1)).map(|_| round()).collect();
    let row = |(i, entry): (usize, &&Entry)| {
        json!({
            "scheme": entry.info.name,
            "ns_per_ack": median(rounds.iter().map(|round| round[i])),
            "ratio": median(rounds.iter().map(|round| round[i] / round[0])),
            "reference": chosen[0].info.name,
            "acks": acks::ACKS,
            "ns_all": rounds.iter().map(|round| round[i]).collect::<Vec<_>>(),
        })
    };
    Ok(Value::from_iter(chosen.iter().enumerate().map(row)))
}
