//! Any scenario text is either planned or refused with a message of at most two lines, never with a panic.

use narrows_scenario::quantity::{Amount, Buffer, Frequency, Period, Rate, Share, Size, Time, Warmup};
use narrows_scenario::{NoFiles, Source, expand};
use proptest::prelude::*;

const TEXT: &str = r#"name = "x"
duration = "2s"
warmup = "10%"
seed = 3
repeat = 2
[network]
kind = "graph"
rate = "10mbit"
buffer = "2bdp"
queue = { kind = "red", min = "5pkt", max = "20pkt", weight = 0.1, ecn = true }
loss = { kind = "gilbert-elliott", to_bad = "1%", to_good = "10%" }
jitter = { max = "1ms", reorder = true }
reorder = { probability = "1%", delay = "2ms" }
policer = { rate = "5mbit", burst = "10kB" }
access_rate = "1gbit"
access_delay = "1ms"
[[links]]
from = "a"
to = "b"
delay = "5ms"
[[links]]
from = "b"
to = "c"
rate = "20mbit"
delay = "6ms"
duplex = true
[tcp]
initial_window = 4
max_burst = "2pkt"
min_rto = "300ms"
[[flows]]
scheme = "fixed:window=20"
from = "a"
to = "c"
count = 3
spread = "1s"
app = { kind = "on-off", on = "1s", off = "2s" }
[[flows]]
scheme = "newreno"
params = { abc = false }
route = ["a", "b"]
rtt = "50ms"
arrivals = { rate = "10/s", size = { kind = "pareto", mean = "10kB", shape = 1.5 } }
[trace]
samples = "10ms"
[sweep]
"network.rate" = ["10mbit", "20mbit"]
cases = [{ label = "y", "flows.1.rtt" = "60ms" }]
"#;

/// Values and text fragments that are invalid for some keys.
const FRAGMENTS: &[&str] = &[
    "",
    "0",
    "-1",
    "1",
    "1e300",
    "18446744073709551616",
    "inf",
    "true",
    "\"\"",
    "\"0ms\"",
    "\"9999999s\"",
    "\"0%\"",
    "\"100%\"",
    "\"1bdp@0s\"",
    "\"99999999999gbit\"",
    "\"18446744073GB\"",
    "\"fixed:\"",
    "\"a\"",
    "\"c\"",
    "[]",
    "[[]]",
    "{}",
    "[\"a\"]",
    "{ kind = \"pie\" }",
    "\"off\"",
    "\"graph\"",
    "\"dumbbell\"",
    "\"parking-lot\"",
    "#",
    "\"\u{fc}\u{1f600}\"",
    "4294967295",
    ".",
    "=",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A scenario with random values is planned or refused, without a panic.
    #[test]
    fn scenario_with_random_values_is_planned_or_refused(
        changes in prop::collection::vec((0..TEXT.lines().count(), 0..FRAGMENTS.len()), 1..4),
    ) {
        let mut lines: Vec<String> = TEXT.lines().map(str::to_owned).collect();
        for (line, fragment) in changes {
            let key = lines[line].split(" = ").next().unwrap_or_default().to_owned();
            lines[line] = format!("{key} = {}", FRAGMENTS[fragment]);
        }
        let text = lines.join("\n");
        if let Err(error) = expand(&Source { name: "fuzz.toml", text: &text, files: &NoFiles }, &[]) {
            let shown = error.to_string();
            prop_assert!(shown.starts_with("fuzz.toml:"), "{}", shown);
            prop_assert!(shown.lines().count() <= 2 && shown.len() < 600, "{}", shown);
        }
    }

    /// A text with a random part replaced is planned or refused, without a panic.
    #[test]
    fn text_cut_and_patched_is_planned_or_refused(from in 0..TEXT.len(), length in 0..40usize, patch in ".{0,12}") {
        let to = (from + length).min(TEXT.len());
        let text = format!("{}{patch}{}", &TEXT[..from], &TEXT[to..]);
        let _ = expand(&Source { name: "fuzz.toml", text: &text, files: &NoFiles }, &[]);
    }

    /// Overrides with any key and value are applied or refused, without a panic.
    #[test]
    fn random_overrides_are_applied_or_refused(key in "[a-z.0-9]{0,20}", value in ".{0,20}") {
        let _ = expand(&Source { name: "fuzz.toml", text: TEXT, files: &NoFiles }, &[(key, value)]);
    }

    /// A quantity displays the accepted string as written, and parses the displayed string to the same quantity.
    #[test]
    fn quantity_shows_text_as_written_and_reads_it_back(number in "-?[0-9]{0,22}[.]?[0-9]{0,3}", unit in "( )?(bit|mbit|gbit|ns|ms|min|B|GiB|bdp|bdp@1ms|pkt|%|/s|/min|x)?") {
        let text = format!("{number}{unit}");
        macro_rules! check {
            ($($Quantity:ident)*) => {$(
                if let Ok(quantity) = text.parse::<$Quantity>() {
                    prop_assert_eq!(quantity.to_string(), text.as_str());
                    let json = serde_json::to_string(&quantity).unwrap();
                    prop_assert_eq!(serde_json::from_str::<$Quantity>(&json).unwrap(), quantity);
                }
            )*};
        }
        check!(Amount Buffer Frequency Period Rate Share Size Time Warmup);
    }
}

/// The scenario that these tests vary is valid.
#[test]
fn varied_text_itself_is_sound() {
    assert_eq!(expand(&Source { name: "fuzz.toml", text: TEXT, files: &NoFiles }, &[]).unwrap().len(), 4);
}
