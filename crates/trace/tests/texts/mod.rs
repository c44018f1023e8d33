//! Plans from scenario strings, and the traces of their runs.
#![allow(dead_code)] // each test file uses some of these items

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_sim::{Engine, RunResult};
use narrows_trace::Recorder;

/// The plan of a scenario string with one run.
pub fn plan(text: &str) -> Plan {
    let runs = expand(&Source { name: "trace", text, files: &NoFiles }, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(runs.len(), 1, "one run per text");
    resolve(&runs[0].scenario, runs[0].seed, &NoFiles).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a scenario string with its traces in a fresh folder of this name, and calls `read` with the folder.
pub fn recorded<T>(name: &str, text: &str, read: impl FnOnce(&Path) -> T) -> (RunResult, T) {
    let plan = plan(text);
    let dir: PathBuf = [env!("CARGO_TARGET_TMPDIR"), name].iter().collect();
    fs::create_dir_all(&dir).unwrap();
    let mut recorder = Recorder::new(&plan.trace, &dir).unwrap();
    let result = Engine::observed(plan, &mut recorder).finish();
    recorder.finish().unwrap();
    let found = read(&dir);
    fs::remove_dir_all(&dir).unwrap();
    (result, found)
}

/// The record batches of a file.
pub fn batches(dir: &Path, file: &str) -> impl Iterator<Item = RecordBatch> {
    StreamReader::try_new(File::open(dir.join(file)).unwrap(), None).unwrap().map(Result::unwrap)
}
