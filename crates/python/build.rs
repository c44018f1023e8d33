//! Fingerprints of the sources that a run depends on, as `sources.json` in the output folder.
//!
//! `core` covers everything that every run uses: the crates of the simulator without the files of schemes, the
//! locked dependencies and the compiler. `emulator` covers what joins the network to real hosts, `quic` what joins it to
//! ends of QUIC. `schemes` has one fingerprint per scheme: its file, its folder, and the files of the schemes that it
//! uses. So a change of one scheme leaves the runs of others valid.

#![allow(clippy::disallowed_methods, reason = "a build script reads its environment")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Crates whose code decides the result of a run.
const CRATES: &[&str] =
    &["units", "cc", "packet", "net", "routers", "tcp", "dccp", "traffic", "scenario", "sim", "trace"];
/// What decides a run on the kernel: the network, its engine and metrics, the applications, and what joins them to hosts.
const EMULATOR: &[&str] = &[
    "host/src",
    "programs/src",
    "emulation/src",
    "negotiation/src",
    "brf/src",
    "kernel/src",
    "packet/src",
    "net/src",
    "traffic/src",
    "sim/src",
    "scenario/src",
    "../bpf",
];
/// What decides a run on QUIC beyond that.
const QUIC: &[&str] = &["quic-backend/src", "quic/src"];

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let folder = crates.join("cc/src/schemes");
    let mut files = BTreeMap::new();
    for name in CRATES {
        let home = crates.join(name);
        println!("cargo:rerun-if-changed={}", home.display());
        read(&home.join("src"), &mut files)?;
        read(&home.join("Cargo.toml"), &mut files)?;
    }
    for name in ["../Cargo.lock", "../Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", crates.join(name).display());
        read(&crates.join(name), &mut files)?;
    }

    let fingerprint = |names: &[&str]| -> io::Result<u64> {
        let mut texts = BTreeMap::new();
        for name in names {
            println!("cargo:rerun-if-changed={}", crates.join(name).display());
            read(&crates.join(name), &mut texts)?;
        }
        let texts: Vec<_> =
            texts.iter().map(|(path, text)| (path.strip_prefix(&crates).unwrap_or(path), text)).collect();
        Ok(hash(&texts))
    };
    let (emulator, quic) = (fingerprint(EMULATOR)?, fingerprint(QUIC)?);

    let registry = files.get(&folder.join("mod.rs")).cloned().unwrap_or_default();
    let types = types(&registry);
    let (mut core, mut own) = (Vec::new(), BTreeMap::<&str, String>::new());
    for (path, text) in &files {
        let scheme = path.strip_prefix(&folder).ok().and_then(|rest| {
            let first = rest.components().next()?.as_os_str().to_str()?;
            types.keys().copied().find(|module| *module == first.trim_end_matches(".rs"))
        });
        match scheme {
            Some(module) => own.entry(module).or_default().push_str(text),
            None => core.push((path.strip_prefix(&crates).unwrap_or(path), text)),
        }
    }
    let compiler = env::var("RUSTC").map(|rustc| version(&rustc)).unwrap_or_default();
    let mut out = format!(
        "{{\"core\": \"{:016x}\", \"emulator\": \"{emulator:016x}\", \"quic\": \"{quic:016x}\", \"schemes\": {{",
        hash(&(&core, compiler))
    );
    for (place, module) in own.keys().enumerate() {
        let texts: Vec<_> = closure(module, &own, &types).into_iter().map(|name| &own[name]).collect();
        let comma = if place > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}\"{}\": \"{:016x}\"", module.replace('_', "-"), hash(&texts));
    }
    out.push_str("}}");
    fs::write(PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("sources.json"), out)
}

/// The modules of the registry, with the type of each.
fn types(registry: &str) -> BTreeMap<&str, &str> {
    let list = registry.rsplit("registry! {").next().and_then(|rest| rest.split('}').next()).unwrap_or("");
    list.split(',')
        .filter_map(|entry| entry.trim().split_once("::"))
        .map(|(m, t)| (m.trim(), t.trim()))
        .collect()
}

/// A scheme and those that its code uses, directly or through others.
fn closure<'a>(
    module: &'a str,
    own: &BTreeMap<&'a str, String>,
    types: &BTreeMap<&'a str, &'a str>,
) -> BTreeSet<&'a str> {
    let (mut found, mut todo) = (BTreeSet::new(), vec![module]);
    while let Some(module) = todo.pop() {
        if !found.insert(module) {
            continue;
        }
        let text = &own[module];
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words: BTreeSet<&str> = code
            .filter(|line| line.contains("super::") || line.contains("schemes::"))
            .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
            .collect();
        let used = own.keys().copied().filter(|name| words.contains(name) || words.contains(types[name]));
        todo.extend(used);
    }
    found
}

/// The texts of a file, or of all sources below a folder.
fn read(path: &Path, files: &mut BTreeMap<PathBuf, String>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            read(&entry?.path(), files)?;
        }
    } else {
        files.insert(path.to_path_buf(), String::from_utf8_lossy(&fs::read(path)?).into_owned());
    }
    Ok(())
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn version(rustc: &str) -> String {
    let output = std::process::Command::new(rustc).arg("-vV").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
