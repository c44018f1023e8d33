//! Every refusal names the file, the line, the key, the value found and the accepted values.

use crate::texts::Folder;
use narrows_cc::schemes::ALL;
use narrows_scenario::{ScenarioError, Source, expand};

fn refuse(text: &str, overrides: &[(String, String)]) -> ScenarioError {
    let source = Source { name: "bad.toml", text, files: &Folder("tests/fixtures") };
    match expand(&source, overrides) {
        Ok(planned) => panic!("accepted as {} runs:\n{text}", planned.len()),
        Err(error) => error,
    }
}

/// A case of the fixture: `=== name`, any number of `set key=value`, then text and message, each after a line
/// `---`.
struct Case<'a> {
    name: &'a str,
    overrides: Vec<(String, String)>,
    text: &'a str,
    message: &'a str,
}

fn cases(fixture: &str) -> Vec<Case<'_>> {
    let case = |block| {
        let [head, text, message] = str::split(block, "\n---\n").collect::<Vec<_>>()[..] else {
            panic!("not a case: {block}")
        };
        let mut head = head.lines();
        let name = head.next().unwrap();
        let set = |line: &str| {
            let (key, value) = line.strip_prefix("set ").unwrap().split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        Case { name, overrides: head.map(set).collect(), text, message: message.trim_end() }
    };
    fixture.split("=== ").skip(1).map(case).collect()
}

macro_rules! names {
    ($($(#[$about:meta])* $module:ident::$Kind:ident($Config:ty) $name:literal,)*) => { ["droptail", $($name),*] };
}

/// Every refusal has the wording of the fixture.
#[test]
fn every_refusal_has_the_recorded_words() {
    let cases = cases(include_str!("fixtures/scenario-refusals.txt"));
    assert!(cases.len() > 100, "{} cases", cases.len());
    // Lists of schemes depend on the registry.
    let names = ALL.iter().map(|entry| entry.info.name).collect::<Vec<_>>().join(", ");
    let with_aliases = ALL.iter().flat_map(|e| std::iter::once(&e.info.name).chain(e.info.aliases));
    let all = with_aliases.copied().collect::<Vec<_>>().join(", ");
    let carried = ALL.iter().filter(|e| e.rate_protocol.is_none() && !e.coupled);
    let datagrams = carried.flat_map(|e| std::iter::once(&e.info.name).chain(e.info.aliases));
    let datagrams = datagrams.copied().collect::<Vec<_>>().join(", ");
    let routers = narrows_routers::ALL.iter().map(|entry| entry.info.name).collect::<Vec<_>>().join(", ");
    let queues = narrows_net::queue_disciplines!(names).join(", ");
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let found = refuse(case.text, &case.overrides).to_string();
            let message = case.message.replace("<names>", &names).replace("<names and aliases>", &all);
            let message = message.replace("<routers>", &routers).replace("<datagram names>", &datagrams);
            let message = message.replace("<queues>", &queues);
            (found != message).then(|| format!("@@{}\n{found}\n", case.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
