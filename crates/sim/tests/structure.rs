//! Checks the structure of the source tree in its text: names that each crate must not contain.
//!
//! Tests, benches and comments are exempt: only names in code must be changed for a new scheme or router.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use narrows_cc::schemes;

/// Scheme names that are ordinary English words: they count only as whole string literals.
const ENGLISH: [&str; 3] = ["fixed", "fast", "compound"];

/// The name of CCID 3's control in RFC 4342: a protocol term as well as an alias of a scheme.
const PROTOCOL: [&str; 1] = ["tfrc"];

/// Terms of TCP and DCCP that the crates below the transports must not contain.
const TRANSPORT: [&str; 13] =
    ["tcp", "dccp", "udp", "syn", "sack", "dsack", "rack", "tlp", "prr", "rto", "ccid", "mptcp", "segment"];

/// Crates for frames, quantities and applications, which must not depend on a transport.
const BELOW_TRANSPORTS: [&str; 3] = ["net", "units", "traffic"];

/// Names of TCP's and DCCP's mechanisms. Files above the transports select a transport and count its results; they do
/// not depend on its mechanisms.
const MECHANISMS: [&str; 8] = ["syn", "sack", "dsack", "rack", "tlp", "prr", "rto", "delack"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in crates/").to_owned()
}

/// All Rust sources of a crate's library, with their paths below `crates/`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            if !["tests", "benches", "examples", "target", "bare"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && name != "testing.rs" && !name.trim_end_matches(".rs").ends_with("tests") {
            found.push(path);
        }
    }
}

/// The code of a file, without comments and without the unit tests at its end.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut previous = "";
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if previous.trim() == "#[cfg(test)]" && trimmed.starts_with("mod tests {") {
            break;
        }
        previous = line;
        if trimmed.starts_with("//") {
            continue;
        }
        let end = line.find(" // ").unwrap_or(line.len());
        lines.push((number + 1, line[..end].to_owned()));
    }
    lines
}

/// The lower-case parts of the identifiers in a line: `BbrCore::new_flow` has `bbr`, `core`, `new` and
/// `flow`. A trailing number belongs to its word: `Bbr2Gc` has `bbr2` and `gc`.
fn parts(line: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut part = String::new();
    let mut lower = false;
    for c in line.chars().chain(Some(' ')) {
        let begins_word = c.is_ascii_uppercase() && lower;
        if (!c.is_ascii_alphanumeric() || begins_word) && !part.is_empty() {
            found.insert(std::mem::take(&mut part));
        }
        if c.is_ascii_alphanumeric() {
            part.push(c.to_ascii_lowercase());
        }
        lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    found
}

/// Lines of code, outside the files in `allowed`, that contain one of `words` as part of an identifier or string, or
/// one of `literals` as a whole string.
fn places(within: &[&str], allowed: &[&str], words: &BTreeSet<String>, literals: &BTreeSet<String>) -> Vec<String> {
    let root = crates();
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100, "the tree has more sources than {}", files.len());
    let mut found = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).expect("below crates/").display().to_string();
        let inside = within.is_empty() || within.iter().any(|start| path.starts_with(&format!("{start}/")));
        if !inside || allowed.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        for (number, line) in code(&fs::read_to_string(&file).expect("UTF-8 text")) {
            let named = parts(&line);
            let word = words.iter().find(|word| named.contains(*word));
            // The string is a name alone, or a name with parameters: `"fixed:window=10"`.
            let stated = |name: &&String| ['"', ':'].iter().any(|end| line.contains(&format!("\"{name}{end}")));
            let literal = literals.iter().find(stated);
            if let Some(name) = word.or(literal) {
                found.push(format!("crates/{path}:{number} names {name}: {}", line.trim()));
            }
        }
    }
    found
}

/// All names and aliases of registered schemes.
fn scheme_names() -> BTreeSet<String> {
    let names = schemes::ALL.iter().flat_map(|entry| entry.info.aliases.iter().chain([&entry.info.name]));
    names.map(|&name| name.to_owned()).collect()
}

/// All names of registered router algorithms.
fn router_names() -> BTreeSet<String> {
    narrows_routers::ALL.iter().map(|entry| entry.info.name.to_owned()).collect()
}

/// No crate but `cc` names a scheme in its code. Exceptions: `dccp` maps CCIDs to schemes in one file, the cases
/// of `narrows bench` are scenarios of given schemes, and `routers` names its protocols, which schemes share.
#[test]
fn scheme_names_outside_their_crate_are_refused() {
    let literals = scheme_names();
    let words = literals.iter().filter(|name| !name.contains('-') && !ENGLISH.contains(&name.as_str()));
    let words: BTreeSet<_> = words.filter(|name| !PROTOCOL.contains(&name.as_str())).cloned().collect();
    let allowed = [
        "cc/",
        "routers/",
        "dccp/src/ccid.rs",
        "bench/src/cases.rs",
        // Profiles state the parameter defaults of other implementations.
        "scenario/src/profile.rs",
        // Hosts start with the scheme that every kernel has.
        "host/src/namespace.rs",
        // Kernel programs are named after their counterparts in the registry.
        "programs/",
        // A deployment of one protocol on hosts.
        "brf/",
        "kernel/src/lib.rs",
        "python/src/brf.rs",
        "python/src/brf/",
        "python/src/lib.rs",
        // noq's own controllers have names of schemes.
        "quic/src/noq_controllers.rs",
        "python/build.rs",
        // Packet scripts assume Linux's default scheme.
        "kernel/src/packetdrill/",
        "packetdrill/src/shell/extension.rs",
        // Files may have a `fixed` size.
        "scenario/src/schema/choice.rs",
    ];
    let mut found = places(&[], &allowed, &words, &literals);
    let own = router_names();
    let foreign = |names: &BTreeSet<String>| names.difference(&own).cloned().collect();
    // The descriptions in `protocol.rs` mention the schemes of senders without a router.
    found.extend(places(&["routers"], &["routers/src/protocol.rs"], &foreign(&words), &foreign(&literals)));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Only `routers` names router algorithms in its code. Exceptions: in `cc`, a scheme names the rate protocol
/// that it uses, and deployments on hosts name the router algorithm that they deploy.
#[test]
fn router_names_outside_their_crate_are_refused() {
    let names = router_names();
    let allowed = [
        "routers/",
        "cc/src/schemes/",
        "brf/",
        "kernel/src/lib.rs",
        "programs/",
        "python/src/brf.rs",
        "python/src/brf/",
        "python/src/lib.rs",
        "python/build.rs",
    ];
    let found = places(&[], &allowed, &names, &names);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Links, queues, quantities and applications do not depend on a transport.
#[test]
fn transport_words_below_transports_are_refused() {
    let words = TRANSPORT.iter().map(|&word| word.to_owned()).collect();
    let found = places(&BELOW_TRANSPORTS, &[], &words, &BTreeSet::new());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The contract and the driver name no transport, router or command line.
#[test]
fn transport_words_in_the_contract_are_refused() {
    let words = ["tcp", "dccp", "udp", "syn", "dsack", "ccid", "cli", "stdout", "argv"];
    let words = words.iter().map(|&word| word.to_owned()).collect();
    let contract = ["cc/src/contract", "cc/src/driver"];
    let found: Vec<String> = places(&["cc"], &["cc/src/schemes/"], &words, &BTreeSet::new())
        .into_iter()
        .filter(|place| contract.iter().any(|start| place.starts_with(&format!("crates/{start}"))))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The scan finds parts of identifiers and whole strings, and skips comments.
#[test]
fn search_of_known_text_finds_code_only() {
    assert_eq!(parts("fn on_tcp(x: Bbr2Gc)").into_iter().collect::<Vec<_>>(), ["bbr2", "fn", "gc", "on", "tcp", "x"]);
    let text = "//! tcp\nlet a = 1; // tcp\n/// tcp\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use tcp;\n}\n";
    let lines: Vec<usize> = code(text).into_iter().map(|(number, _)| number).collect();
    assert_eq!(lines, [2, 4, 5]);
    assert!(code(text).iter().all(|(_, line)| !parts(line).contains("tcp")));
}

/// Above the transports, a mechanism of TCP or DCCP is named only where its settings are read, where a DCCP kind gets
/// its TCP counterpart for routers, and where counters and samples are reported.
#[test]
fn transport_mechanisms_above_transports_are_refused() {
    let words = MECHANISMS.iter().map(|&word| word.to_owned()).collect();
    let above =
        ["sim", "scenario", "trace", "routers", "host", "emulation", "negotiation", "quic-backend", "dccp-udp", "perf"];
    let allowed = [
        "scenario/src/tcp.rs",
        "scenario/src/profile.rs",
        "scenario/src/schema.rs",
        "scenario/src/schema/tcp.rs",
        "scenario/src/result.rs",
        "sim/src/datagrams.rs",
        "sim/src/engine/build.rs",
        "sim/src/metrics.rs",
        "sim/src/samples.rs",
        "routers/src/frame.rs",
        "routers/src/endpoint",
        // Acknowledgements in qlog's packet headers.
        "trace/src/qlog/packets.rs",
        // Values shown by the kernel's TCP, and settings that backends compare.
        "negotiation/src/flow.rs",
        "emulation/src/plan.rs",
    ];
    let found = places(&above, &allowed, &words, &BTreeSet::new());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
