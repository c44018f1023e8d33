//! Fingerprints of the sources that a run depends on, as `sources.json` in the output folder.
//!
//! `build` covers the locked dependencies and the compiler. `backends` has one fingerprint per backend. It
//! covers the sources of the crate that implements the backend and of all workspace crates on which that crate
//! depends, without the files of schemes. `schemes` has one fingerprint per scheme: it covers the scheme's file
//! and folder, and the files of the schemes that it uses. So a change to one scheme leaves the saved runs of
//! other schemes valid, and a change to a crate invalidates only the runs that it can affect.

#![allow(clippy::disallowed_methods, reason = "a build script reads its environment")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The root crates of each backend: the crate of the backend, and the crate that writes saved traces.
const BACKENDS: &[(&str, &[&str])] = &[
    ("sim", &["narrows-sim", "narrows-trace"]),
    ("kernel", &["narrows-kernel", "narrows-trace"]),
    ("quic", &["narrows-quic-backend", "narrows-trace"]),
];

type Texts = BTreeMap<PathBuf, String>;

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let workspace = workspace(&crates)?;
    let mut texts = BTreeMap::new();
    for name in BACKENDS.iter().flat_map(|(_, roots)| dependencies(roots, &workspace)) {
        if !texts.contains_key(name) {
            texts.insert(name, sources(&crates, &workspace[name].folder)?);
        }
    }

    let schemes = Path::new("cc/src/schemes");
    let registry = fs::read_to_string(crates.join(schemes).join("mod.rs"))?;
    let types = types(&registry);
    let mut own = BTreeMap::<&str, String>::new();
    for files in texts.values_mut() {
        files.retain(|path, text| {
            let scheme = path.strip_prefix(schemes).ok().and_then(|rest| {
                let first = rest.components().next()?.as_os_str().to_str()?;
                types.keys().copied().find(|module| *module == first.trim_end_matches(".rs"))
            });
            scheme.map(|module| own.entry(module).or_default().push_str(text)).is_none()
        });
    }

    let mut build = Texts::new();
    for name in ["../Cargo.lock", "../Cargo.toml"] {
        read(&crates, Path::new(name), &mut build)?;
    }
    let compiler = env::var("RUSTC").map(|rustc| version(&rustc)).unwrap_or_default();
    let backends = BACKENDS.iter().map(|(backend, roots)| {
        let names = dependencies(roots, &workspace);
        (*backend, hash(&names.into_iter().map(|name| (name, &texts[name])).collect::<Vec<_>>()))
    });
    let schemes = own.keys().map(|module| {
        let used = closure(module, &own, &types);
        (module.replace('_', "-"), hash(&used.into_iter().map(|name| &own[name]).collect::<Vec<_>>()))
    });
    let out = format!(
        "{{\"build\": \"{:016x}\", \"backends\": {}, \"schemes\": {}}}",
        hash(&(build, compiler)),
        object(backends),
        object(schemes)
    );
    fs::write(PathBuf::from(env::var("OUT_DIR").unwrap_or_default()).join("sources.json"), out)
}

/// A crate of the workspace.
struct Package {
    /// Name of the crate's folder.
    folder: PathBuf,
    /// Names of the crate's dependencies, without those of its tests.
    dependencies: Vec<String>,
}

/// The crates of the workspace by name, from their manifests.
fn workspace(crates: &Path) -> io::Result<BTreeMap<String, Package>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates)? {
        let folder = entry?.file_name();
        let Ok(manifest) = fs::read_to_string(crates.join(&folder).join("Cargo.toml")) else { continue };
        let (mut section, mut name, mut dependencies) = ("", String::new(), Vec::new());
        for line in manifest.lines().map(str::trim) {
            if let Some(head) = line.strip_prefix('[') {
                section = head.trim_end_matches(']');
                if let Some((kind, key)) = section.rsplit_once('.').filter(|_| !section.contains("dev-dep"))
                    && kind.ends_with("dependencies")
                {
                    dependencies.push(key.to_owned());
                }
            }
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if section == "package" && key == "name" {
                name = line.split('"').nth(1).unwrap_or_default().to_owned();
            } else if section.ends_with("dependencies") && !section.contains("dev-dep") {
                dependencies.push(key.to_owned());
            }
        }
        found.insert(name, Package { folder: folder.into(), dependencies });
    }
    Ok(found)
}

/// These crates and all workspace crates on which they depend.
fn dependencies<'a>(roots: &[&str], workspace: &'a BTreeMap<String, Package>) -> BTreeSet<&'a str> {
    let (mut found, mut todo) = (BTreeSet::new(), Vec::new());
    for root in roots {
        todo.push(workspace.get_key_value(*root).unwrap_or_else(|| panic!("there is no crate {root}")));
    }
    while let Some((name, package)) = todo.pop() {
        if found.insert(name.as_str()) {
            todo.extend(package.dependencies.iter().filter_map(|name| workspace.get_key_value(name)));
        }
    }
    found
}

/// The sources of a crate, and of the folders outside the crate that its build script names.
fn sources(crates: &Path, folder: &Path) -> io::Result<Texts> {
    let mut files = Texts::new();
    for name in ["Cargo.toml", "src", "build.rs"] {
        if crates.join(folder).join(name).exists() {
            read(crates, &folder.join(name), &mut files)?;
        }
    }
    let script = files.get(&folder.join("build.rs")).cloned().unwrap_or_default();
    for outside in script.split('"').filter(|text| text.starts_with("../")) {
        read(crates, &folder.join(outside), &mut files)?;
    }
    Ok(files)
}

/// The modules of the registry, with the scheme type of each module.
fn types(registry: &str) -> BTreeMap<&str, &str> {
    let list = registry.rsplit("registry! {").next().and_then(|rest| rest.split('}').next()).unwrap_or("");
    list.split(',').filter_map(|entry| entry.trim().split_once("::")).map(|(m, t)| (m.trim(), t.trim())).collect()
}

/// A scheme and all schemes that its code uses, directly or through other schemes.
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

/// Reads a file, or all sources below a folder. Cargo reruns the build script if any of them changes.
fn read(crates: &Path, name: &Path, files: &mut Texts) -> io::Result<()> {
    println!("cargo:rerun-if-changed={}", crates.join(name).display());
    let mut todo = vec![name.to_owned()];
    while let Some(name) = todo.pop() {
        let path = crates.join(&name);
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                todo.push(name.join(entry?.file_name()));
            }
        } else {
            files.insert(name, String::from_utf8_lossy(&fs::read(path)?).into_owned());
        }
    }
    Ok(())
}

/// A JSON object with a fingerprint per name.
fn object<N: AsRef<str>>(rows: impl Iterator<Item = (N, u64)>) -> String {
    let mut out = String::new();
    for (name, value) in rows {
        let comma = if out.is_empty() { "" } else { ", " };
        let _ = write!(out, "{comma}\"{}\": \"{value:016x}\"", name.as_ref());
    }
    format!("{{{out}}}")
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
