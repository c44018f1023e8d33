//! A new scheme is one file and one registry line: no source outside the schemes names one.

use std::fs;
use std::path::{Path, PathBuf};

use narrows_cc::schemes::ALL;

/// Whether a path below `crates` may name schemes: in the scheme and router crates, and in tests.
fn may_name(path: &Path) -> bool {
    // A file `tests.rs` or `some_tests.rs`, or any in a folder `tests`.
    let tests = path.with_extension("").iter().any(|part| part.to_string_lossy().ends_with("tests"));
    tests || path.starts_with("cc") || path.starts_with("routers")
}

/// All Rust sources in the `src` folders of the crates, by path below `crates`.
fn sources() -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(crates).unwrap().to_owned(), text));
            }
        }
    }
    found
}

/// String literals of a source with their lines, without comments and characters.
fn literals(source: &str) -> Vec<(usize, String)> {
    let bytes = source.as_bytes();
    let (mut found, mut line, mut i) = (Vec::new(), 1, 0);
    while i < bytes.len() {
        let rest = &source.as_bytes()[i..];
        let mut step = 1;
        if rest.starts_with(b"//") {
            step = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"'\"'") {
            step = 3;
        } else if rest.starts_with(b"r\"") || rest.starts_with(b"r#\"") {
            let close: &[u8] = if rest[1] == b'#' { b"\"#" } else { b"\"" };
            let begin = close.len() + 1;
            let length =
                rest[begin..].windows(close.len()).position(|w| w == close).unwrap_or(rest.len() - begin);
            found.push((line, String::from_utf8_lossy(&rest[begin..begin + length]).into_owned()));
            step = begin + length + close.len();
        } else if rest[0] == b'"' {
            let mut end = 1;
            while end < rest.len() && rest[end] != b'"' {
                end += if rest[end] == b'\\' { 2 } else { 1 };
            }
            found.push((line, String::from_utf8_lossy(&rest[1..end.min(rest.len())]).into_owned()));
            step = end + 1;
        }
        line += rest[..step.min(rest.len())].iter().filter(|&&b| b == b'\n').count();
        i += step;
    }
    found
}

/// All names and aliases of schemes.
fn names() -> Vec<&'static str> {
    ALL.iter().flat_map(|entry| entry.info.aliases.iter().copied().chain([entry.info.name])).collect()
}

/// The scheme that a literal names, alone or with parameters (`fixed:window=10`).
fn named<'a>(literal: &str, names: &[&'a str]) -> Option<&'a str> {
    let name = literal.split(':').next().unwrap_or_default().trim();
    names.iter().copied().find(|known| *known == name)
}

/// No source outside the scheme and router crates names a scheme.
#[test]
fn sources_outside_schemes_name_none() {
    let (names, sources) = (names(), sources());
    assert!(
        sources.iter().any(|(path, _)| path == Path::new("sim/src/engine.rs")),
        "crates/sim/src/engine.rs not found"
    );
    let mut offences = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !may_name(path)) {
        // Unit tests are at the end of a source file.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (line, literal) in literals(text) {
            if let Some(name) = named(&literal, &names) {
                offences.push(format!("{}:{line} names `{name}`", path.display()));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// The scan finds string literals with their lines and skips comments.
#[test]
fn literals_have_lines_and_comments_are_skipped() {
    let source = "// \"cubic\"\nlet c = '\"'; // one: \"bbr\"\nf(\"vegas\",\n r#\"a \"b\" c\"#, \"x\\\"y\", r\"z\");\n";
    let found = literals(source);
    let expected = [(3, "vegas"), (4, "a \"b\" c"), (4, "x\\\"y"), (4, "z")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(named("cubic:beta=0.8", &names()), Some("cubic"));
    assert_eq!(named("cubic growth", &names()), None);
}
