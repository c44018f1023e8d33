//! Every example in `scenarios/` expands, resolves and runs.

use std::fs;
use std::path::{Path, PathBuf};

use narrows_scenario::{FileError, Files, Run, Source, expand, resolve};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Files in the examples' folder.
struct Beside;

impl Files for Beside {
    fn read(&self, name: &str) -> Result<String, FileError> {
        let path = folder().join(name);
        fs::read_to_string(&path).map_err(|error| FileError { place: path.display().to_string(), error })
    }
}

fn examples() -> Vec<(String, String)> {
    let mut examples: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    examples.sort();
    examples
}

fn planned(name: &str, text: &str, overrides: &[(&str, &str)]) -> Vec<Run> {
    let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    expand(&Source { name, text, files: &Beside }, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// Every example is valid and expands to the stated number of runs.
#[test]
fn examples_expand_to_stated_runs() {
    let runs: Vec<_> = examples().iter().map(|(name, text)| (name.clone(), planned(name, text, &[]).len())).collect();
    let expected = [
        ("5g-mobile.toml", 3 * 2),
        ("5g.toml", 3),
        ("aqm.toml", 6 * 3),
        ("bbr-vs-cubic.toml", 7 * 3),
        ("cellular.toml", 3),
        ("dccp.toml", 3),
        ("htb.toml", 2 * 3),
        ("multipath.toml", 5),
        ("parking-lot.toml", 3),
        ("poisson-files.toml", 3 * 3),
        ("two-rtts.toml", 3 * 4 * 3),
    ];
    assert_eq!(runs, expected.map(|(name, count)| (name.to_owned(), count)));
}

/// Every example states its purpose and draws its topology in the head comment.
#[test]
fn examples_have_head_comment_with_topology() {
    for (name, text) in examples() {
        let head: Vec<_> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.len() >= 6, "{name}: the head comment has {} lines, expected 6", head.len());
        assert!(head.iter().any(|line| line.contains("══")), "{name}: no drawing of the bottleneck (══)");
    }
}

/// At the first and the last point of its sweep, every example uses more than half of its first link's rate.
#[test]
fn examples_first_and_last_point_run() {
    for (name, text) in examples() {
        let runs = planned(&name, &text, &[("duration", "8s"), ("warmup", "1s"), ("repeat", "1")]);
        for run in [&runs[0], &runs[runs.len() - 1]] {
            let spec = resolve(&run.scenario, run.seed, &Beside).unwrap();
            let result = narrows_sim::run(spec);
            // Every scheme reaches half of the link's rate with every queue.
            assert!(result.links[0].utilization > 0.5, "{name} {:?}: {}", run.point, result.links[0].utilization);
        }
    }
}
