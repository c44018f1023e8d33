//! Helpers of the laws of multipath connections: a network of two paths.
#![allow(dead_code)] // every file of laws uses a part of it

pub mod windows;

use narrows_sim::RunResult;

use crate::law;

/// Payload of a full packet as a fraction of its size: the header is 20 bytes longer than without multipath, and the
/// segment 20 bytes shorter.
pub const PAYLOAD: f64 = 1428.0 / 1500.0;

/// A network of two disjoint paths: rates in Mbit/s, one-way delays in ms, and further keys of the first links.
///
/// ```text
///        r1, d1    a
///   s ---------- <   > ---------- d
///        r2, d2    b    1 Gbit/s
/// ```
#[derive(Clone, Debug)]
pub struct TwoPaths {
    pub seconds: f64,
    pub warmup: &'static str,
    pub rates: [f64; 2],
    pub delays: [u32; 2],
    pub more: [String; 2],
    /// Further tables.
    pub network: String,
}

impl Default for TwoPaths {
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

impl TwoPaths {
    pub fn text(&self, flows: &str) -> String {
        let link = |from, to, rate: f64, delay: u32, more: &str| {
            law::link(from, to, &format!("{rate}mbit"), &format!("{delay}ms"), more)
        };
        let [first, second] = &self.more;
        let links = [
            link("s", "a", self.rates[0], self.delays[0], first),
            link("a", "d", 1000.0, 0, ""),
            link("s", "b", self.rates[1], self.delays[1], second),
            link("b", "d", 1000.0, 0, ""),
        ];
        format!(
            "duration = \"{}s\"\nwarmup = \"{}\"\n{}\n{}{flows}",
            self.seconds,
            self.warmup,
            self.network,
            links.concat()
        )
    }
}

/// A `[[flows]]` table of flows over the path through `a` or `b`, with the segment size of subflows.
pub fn single(scheme: &str, via: &str, more: &str) -> String {
    format!(
        "[[flows]]\nscheme = \"{scheme}\"\nroute = [\"s\", \"{via}\", \"d\"]\ntcp = {{ segment_bytes = 1428, header_bytes = 72 }}\n{more}\n"
    )
}

/// A `[[flows]]` table of connections over both paths.
pub fn both(scheme: &str, more: &str) -> String {
    let path = |via: &str| format!("{{ route = [\"s\", \"{via}\", \"d\"] }}");
    format!("[[flows]]\nscheme = \"{scheme}\"\nlabel = \"both\"\nsubflows = [{}, {}]\n{more}\n", path("a"), path("b"))
}

/// Total goodput of all connections.
pub fn goodput(result: &RunResult) -> f64 {
    result.connections.iter().map(|row| row.goodput_mbit_s).sum()
}

/// Total goodput of the flows whose labels begin or end with `part`.
pub fn of_flows(result: &RunResult, part: &str) -> f64 {
    let matches = |label: &str| label.starts_with(part) || label.ends_with(part);
    result.flows.iter().filter(|row| matches(&row.flow)).map(|row| row.goodput_mbit_s).sum()
}
