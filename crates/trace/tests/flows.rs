//! Series of flows under the names of `ss -ti`.

mod texts;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_ipc::reader::StreamReader;
use narrows_sim::Engine;
use narrows_trace::Recorder;

/// Totals never decrease and end as the counters of the run; the smoothed RTT lies between the extremes of the
/// newest samples.
#[test]
fn totals_of_a_flow_end_as_the_counters_of_the_run() {
    let plan = texts::plan(
        "duration = \"4s\"\nwarmup = \"0s\"\n[trace]\nsamples = \"10ms\"\n[network]\nrate = \"20mbit\"\nbuffer = \"20pkt\"\n\
         [[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\nsize = \"1MB\"\n",
    );
    let dir: PathBuf = [env!("CARGO_TARGET_TMPDIR"), "flow-series"].iter().collect();
    fs::create_dir_all(&dir).unwrap();
    let mut recorder = Recorder::new(&plan.trace, &dir).unwrap();
    let result = Engine::observed(plan, &mut recorder).finish();
    recorder.finish().unwrap();
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for batch in StreamReader::try_new(File::open(dir.join("samples.arrow")).unwrap(), None).unwrap() {
        let batch = batch.unwrap();
        let column = |name| batch.column_by_name(name).unwrap();
        let (kinds, names) = (column("kind").as_string::<i32>(), column("series").as_string::<i32>());
        let values = column("value").as_primitive::<Float64Type>();
        for row in (0..batch.num_rows()).filter(|&row| kinds.value(row) == "flow") {
            all.entry(names.value(row).to_owned()).or_default().push(values.value(row));
        }
    }
    fs::remove_dir_all(&dir).unwrap();
    let last = |series: &str| {
        assert!(all[series].is_sorted(), "{series}");
        all[series][all[series].len() - 1]
    };
    let counters = &result.counters;
    assert!(counters.retransmits > 0 && result.flows[0].completion_s.is_some());
    assert_eq!(last("data_segs_out"), counters.data_packets_sent as f64);
    assert_eq!(last("retrans_total"), counters.retransmits as f64);
    assert_eq!(last("bytes_sent") - last("bytes_retrans"), 1e6);
    let (newest, smoothed) = (&all["rtt_sample_ms"], &all["rtt_ms"]);
    let bounds = newest.iter().fold((f64::MAX, 0f64), |(low, high), &x| (low.min(x), high.max(x)));
    assert!(bounds.0 < bounds.1 && newest != smoothed);
    // Samples between two rows may lie outside the rows' range, by less than the queue of 12 ms.
    assert!(smoothed.iter().all(|&x| x > 40.0 && x < bounds.1 + 12.0), "{bounds:?}");
}
