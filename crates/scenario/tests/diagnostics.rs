//! Every refusal names the file, the line, the key, the value found and the accepted values.

use crate::texts::Folder;
use narrows_cc::schemes::{ALL, Entry};
use narrows_scenario::{ScenarioError, Source, expand};

fn refuse(text: &str, overrides: &[(String, String)]) -> ScenarioError {
    let source = Source { name: "bad.toml", text, files: &Folder("tests/fixtures") };
    match expand(&source, overrides) {
        Ok(planned) => panic!("accepted as {} runs:\n{text}", planned.len()),
        Err(error) => error,
    }
}

/// Tables that many scenario texts in the fixture contain.
const TABLES: [(&str, &str); 4] = [
    ("<network>", "[network]\nrate = \"10mbit\""),
    ("<flow>", "[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\""),
    ("<cubic flow>", "[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\""),
    ("<ccid2 flow>", "[[flows]]\nrtt = \"40ms\"\nscheme = \"ccid2\""),
];

/// A case of the fixture: a line `=== name`, any number of lines `set key=value`, then the scenario's text and
/// the message, each after a line `---`. The text may contain the names in [`TABLES`].
struct Case<'a> {
    name: &'a str,
    overrides: Vec<(String, String)>,
    text: String,
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
        let text = TABLES.iter().fold(text.to_owned(), |text, (name, table)| text.replace(name, table));
        Case { name, overrides: head.map(set).collect(), text, message: message.trim_end() }
    };
    fixture.split("=== ").skip(1).map(case).collect()
}

macro_rules! names {
    ($($(#[$about:meta])* $module:ident::$Kind:ident($Config:ty) $name:literal,)*) => { ["droptail", $($name),*] };
}

/// Every refusal has the wording recorded in the fixture.
#[test]
fn every_refusal_has_the_recorded_words() {
    let cases = cases(include_str!("fixtures/scenario-refusals.txt"));
    assert!(cases.len() > 100, "{} cases", cases.len());
    // Lists of schemes in messages depend on the registry.
    let aliased = |e: &'static Entry| std::iter::once(e.info.name).chain(e.info.aliases.iter().copied());
    let carried = ALL.iter().filter(|e| e.rate_protocol.is_none() && !e.coupled);
    let lists = [
        ("<names>", ALL.iter().map(|e| e.info.name).collect::<Vec<_>>()),
        ("<names and aliases>", ALL.iter().flat_map(aliased).collect()),
        ("<datagram names>", carried.flat_map(aliased).collect()),
        ("<routers>", narrows_routers::ALL.iter().map(|e| e.info.name).collect()),
        ("<queues>", narrows_net::queue_disciplines!(names).to_vec()),
    ];
    let differs = |case: &Case<'_>| {
        let found = refuse(&case.text, &case.overrides).to_string();
        let listed = |text: String, (name, list): &(&str, Vec<&str>)| text.replace(name, &list.join(", "));
        let message = lists.iter().fold(case.message.to_owned(), listed);
        (found != message).then(|| format!("@@{}\n{found}\n", case.name))
    };
    let wrong: Vec<String> = cases.iter().filter_map(differs).collect();
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
