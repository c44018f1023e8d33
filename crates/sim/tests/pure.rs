//! The simulator and all crates that it depends on run without an operating system: outside tests they use no file,
//! socket, thread or clock.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that run in a browser. Crates without a folder are skipped, except those in [`KNOWN`].
const CRATES: &[&str] = &["units", "cc", "net", "packet", "routers", "tcp", "dccp", "traffic", "scenario", "sim"];
const KNOWN: &[&str] = &["cc", "net", "tcp", "dccp", "scenario", "sim"];

/// Forbidden modules of `std`. Addresses are in `core::net`.
const FORBIDDEN: &[&str] = &["fs", "net", "thread", "env", "process", "os", "time::Instant", "time::SystemTime"];

/// The Rust files below a folder, except tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.with_extension("");
        if name.file_name().unwrap().to_string_lossy().ends_with("tests") {
        } else if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Strips comments, the contents of plain strings, and the tests at the end of the file.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let without_comment = |line: &str| {
        let mut quoted = false;
        let mut kept = String::new();
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' if quoted => _ = chars.next(),
                '"' => quoted = !quoted,
                '/' if !quoted && chars.peek() == Some(&'/') => break,
                c if !quoted => kept.push(c),
                _ => {}
            }
        }
        kept
    };
    source.lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// The paths in `std` that the code names, with braces expanded: `std::{fs, time::Instant}` names two paths.
fn paths(code: &str) -> Vec<String> {
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::") {
        // `core::` and `alloc::` have no such modules, and no other crate's name ends in `std`.
        let before = code[..at].chars().next_back();
        if before.is_none_or(|c| !c.is_alphanumeric() && c != '_') || code[..at].ends_with("use") {
            expand(&code[at + 5..], "", &mut found);
        }
    }
    found
}

/// Appends the paths at the start of `rest` to `found` and returns the text after them.
fn expand<'a>(rest: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let Some(mut inner) = rest.strip_prefix('{') else {
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, rest) = rest.split_at(length);
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}::{name}") };
        return match rest.strip_prefix("::") {
            Some(rest) => expand(rest, &path, found),
            None => {
                found.push(path);
                rest
            }
        };
    };
    loop {
        inner = expand(inner, prefix, found);
        match inner.strip_prefix(',') {
            Some(next) => inner = next,
            None => return inner.strip_prefix('}').unwrap_or(inner),
        }
    }
}

fn is_forbidden(path: &str) -> bool {
    FORBIDDEN
        .iter()
        .any(|forbidden| path.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")))
}

/// No crate that runs in a browser uses files, sockets, threads, clocks, the environment or processes outside
/// its tests.
#[test]
fn crates_up_to_sim_use_no_operating_system() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut offences = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        sources(&crates.join(name).join("src"), &mut files);
        assert!(!files.is_empty() || !KNOWN.contains(name), "{name} has no sources");
        for file in files {
            let used = paths(&code(&fs::read_to_string(&file).unwrap()));
            let wrong = used.into_iter().filter(|path| is_forbidden(path));
            offences.extend(wrong.map(|path| format!("{}: std::{path}", file.display())));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// The scan finds paths in every form, but not in comments, strings and tests.
#[test]
fn paths_of_std_are_found_in_every_form() {
    let source = "use std::{fmt, time::{Duration, Instant}};\n// std::fs\nlet a = \"std::env\"; // std::net\n\
                  let b = ::std::thread::spawn;\nuse std::collections::\n    BTreeMap;\nuse core::net::IpAddr;\n\
                  #[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
    let found = paths(&code(source));
    assert_eq!(found, ["fmt", "time::Duration", "time::Instant", "thread::spawn", "collections::BTreeMap"]);
    let forbidden: Vec<_> = found.iter().filter(|path| is_forbidden(path)).collect();
    assert_eq!(forbidden, ["time::Instant", "thread::spawn"]);
}
