//! What the laws of connections of several subflows share: a network of two ways.
#![allow(dead_code)] // every file of laws uses a part of it

pub mod windows;

use narrows_sim::RunResult;

/// The share of payload in a full packet: its header has 20 bytes more, and its segment as many less.
pub const PAYLOAD: f64 = 1428.0 / 1500.0;

/// Two disjoint ways of stated rates in Mbit/s and one-way delays in ms; what more their first links say.
///
/// ```text
///        r1, d1    a
///   s ---------- <   > ---------- d
///        r2, d2    b    1 Gbit/s
/// ```
#[derive(Clone, Debug)]
pub struct Ways {
    pub seconds: f64,
    pub warmup: &'static str,
    pub rates: [f64; 2],
    pub delays: [u32; 2],
    pub more: [String; 2],
    /// Further tables.
    pub network: String,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            seconds: 60.0,
            warmup: "10%",
            rates: [10.0, 10.0],
            delays: [20, 20],
            more: [String::new(), String::new()],
            network: String::new(),
        }
    }
}

impl Ways {
    pub fn text(&self, flows: &str) -> String {
        let link = |from: &str, to: &str, rate: f64, delay: u32, more: &str| {
            format!(
                "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n{more}\n"
            )
        };
        let [first, second] = &self.more;
        let links = [
            link("s", "a", self.rates[0], self.delays[0], first),
            link("a", "d", 1000.0, 0, ""),
            link("s", "b", self.rates[1], self.delays[1], second),
            link("b", "d", 1000.0, 0, ""),
        ];
        format!(
            "name = \"multipath\"\nduration = \"{}s\"\nwarmup = \"{}\"\n{}\n{}{flows}",
            self.seconds,
            self.warmup,
            self.network,
            links.concat()
        )
    }
}

/// Flows over the way by `a` or `b`, with segments as subflows have them.
pub fn single(scheme: &str, via: &str, more: &str) -> String {
    format!(
        "[[flows]]\nscheme = \"{scheme}\"\nroute = [\"s\", \"{via}\", \"d\"]\ntcp = {{ segment_bytes = 1428, header_bytes = 72 }}\n{more}\n"
    )
}

/// Connections over both.
pub fn both(scheme: &str, more: &str) -> String {
    let way = |via: &str| format!("{{ route = [\"s\", \"{via}\", \"d\"] }}");
    format!(
        "[[flows]]\nscheme = \"{scheme}\"\nlabel = \"both\"\nsubflows = [{}, {}]\n{more}\n",
        way("a"),
        way("b")
    )
}

/// The goodput of all connections together.
pub fn goodput(result: &RunResult) -> f64 {
    result.connections.iter().map(|row| row.goodput_mbit_s).sum()
}

/// That of the flows whose labels have this beginning or end.
pub fn of_flows(result: &RunResult, part: &str) -> f64 {
    let has = |label: &str| label.starts_with(part) || label.ends_with(part);
    result.flows.iter().filter(|row| has(&row.flow)).map(|row| row.goodput_mbit_s).sum()
}
