//! Adding a scheme is one file and one line: outside the schemes themselves nothing names one.

use std::fs;
use std::path::{Path, PathBuf};

use narrows_cc::schemes::ALL;

/// The files of `crates` that may name schemes: the crates of the schemes and of the routers, tests.
fn may_name(path: &Path) -> bool {
    // A file `tests.rs`, `some_tests.rs`, or any in a folder `tests`.
    let tests = path.with_extension("").iter().any(|part| part.to_string_lossy().ends_with("tests"));
    tests || path.starts_with("cc") || path.starts_with("routers")
}

/// All Rust sources below the `src` folders of the crates, with their paths below `crates`.
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

/// The string literals of a source, with their lines. Comments and characters are passed over.
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

/// Every name a scheme can be called by.
fn names() -> Vec<&'static str> {
    ALL.iter().flat_map(|entry| entry.info.aliases.iter().copied().chain([entry.info.name])).collect()
}

/// The scheme a literal names, alone or with parameters (`fixed:window=10`).
fn named<'a>(literal: &str, names: &[&'a str]) -> Option<&'a str> {
    let name = literal.split(':').next().unwrap_or_default().trim();
    names.iter().copied().find(|known| *known == name)
}

#[test]
fn no_source_outside_the_schemes_names_one() {
    let (names, sources) = (names(), sources());
    assert!(
        sources.iter().any(|(path, _)| path == Path::new("sim/src/engine.rs")),
        "the sources are not there"
    );
    let mut offences = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !may_name(path)) {
        // Tests inside a source file stand at its end.
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (line, literal) in literals(text) {
            if let Some(name) = named(&literal, &names) {
                offences.push(format!("{}:{line} names `{name}`", path.display()));
            }
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn literals_are_found_with_their_lines_and_comments_are_not() {
    let source = "// \"cubic\"\nlet c = '\"'; // one: \"bbr\"\nf(\"vegas\",\n r#\"a \"b\" c\"#, \"x\\\"y\", r\"z\");\n";
    let found = literals(source);
    let expected = [(3, "vegas"), (4, "a \"b\" c"), (4, "x\\\"y"), (4, "z")];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!(named("cubic:beta=0.8", &names()), Some("cubic"));
    assert_eq!(named("cubic growth", &names()), None);
}
