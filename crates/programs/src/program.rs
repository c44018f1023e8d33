//! The programs, their twins in the registry and their parameters.

use narrows_cc::Params;
use narrows_cc::schemes::{self, Entry};
use narrows_host::HostError;

use crate::parameters;

/// A scheme that the kernel can run as a program.
#[derive(Debug)]
pub struct Program {
    /// The scheme's name in the kernel.
    pub name: &'static str,
    /// The twin in the registry, with the same algorithm and parameters.
    pub scheme: &'static str,
    /// Description of one line.
    pub summary: &'static str,
    #[cfg(feature = "bpf")]
    /// The compiled program.
    pub object: &'static [u8],
    layout: parameters::Layout,
}

macro_rules! programs {
    ($($name:literal, $scheme:literal, $layout:ident, $summary:literal;)+) => {
        /// All programs.
        pub static PROGRAMS: &[Program] = &[$(Program {
            name: $name,
            scheme: $scheme,
            summary: $summary,
            #[cfg(feature = "bpf")]
            object: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")),
            layout: parameters::Layout::$layout,
        },)+];
    };
}
programs! {
    "bbr_gc", "bbr-gc", Gamma, "BBR-GC";
    "bbr_cws", "bbr-cws", Scaling, "BBR-CWS (our reconstruction)";
    "bbr3", "bbr3", V3, "BBR v3 (IETF draft), without a response to marks";
    "bbr_plain", "bbr", Core, "BBR v1 on the same core, to compare with";
    "nodectl", "nodectl", Granted, "Nodectl: at the rate that a process negotiates, or else CUBIC";
    "brf", "brf", Advised, "BRF: the rate that switches write into acknowledgements (`narrows brf attach`)";
}

impl Program {
    /// The program of this name, in the kernel or in the registry.
    ///
    /// # Errors
    /// If there is none; the message lists the names.
    pub fn find(name: &str) -> Result<&'static Self, HostError> {
        PROGRAMS.iter().find(|program| name == program.name || name == program.scheme).ok_or_else(|| {
            let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            HostError::Unsupported(format!(
                "there is no program `{name}` for the kernel; accepted: {}",
                names.join(", ")
            ))
        })
    }

    /// The program whose scheme follows rates that a process negotiates.
    ///
    /// # Panics
    /// If there is none, which a test excludes.
    pub fn negotiating() -> &'static Self {
        Self::with_layout(parameters::Layout::Granted)
    }

    /// The program whose scheme follows the rates in TCP options.
    ///
    /// # Panics
    /// If there is none, which a test excludes.
    pub fn advised() -> &'static Self {
        Self::with_layout(parameters::Layout::Advised)
    }

    fn with_layout(layout: parameters::Layout) -> &'static Self {
        let found = PROGRAMS.iter().find(|program| program.layout == layout);
        found.unwrap_or_else(|| unreachable!("no program follows such rates"))
    }

    /// Whether a scheme of this name in the kernel would be one of our programs.
    pub fn is_named(name: &str) -> bool {
        PROGRAMS.iter().any(|program| program.name == name)
    }

    /// The twin in the registry.
    ///
    /// # Panics
    /// If the registry lacks it, which a test excludes.
    pub fn entry(&self) -> &'static Entry {
        schemes::find(self.scheme).unwrap_or_else(|| unreachable!("no scheme {}", self.scheme))
    }

    /// The parameters encoded for the program: those of the core, and those of the variant.
    ///
    /// # Errors
    /// If the program cannot express a value.
    pub fn parameters(&self, params: &Params) -> Result<(Vec<u8>, Vec<u8>), HostError> {
        parameters::bytes(self.layout, params).map_err(HostError::Unsupported)
    }

    /// Refuses unknown parameters and values out of range. `values`: pairs of name and value.
    ///
    /// # Errors
    /// The first refused parameter.
    pub fn accepts(&self, values: &[(String, String)]) -> Result<(), HostError> {
        self.params(values).and_then(|params| self.parameters(&params)).map(|_| ())
    }

    pub(crate) fn params(&self, values: &[(String, String)]) -> Result<Params, HostError> {
        narrows_scenario::settings(self.entry(), values)
            .map_err(|message| HostError::Unsupported(format!("--set: {message}")))
    }

    /// Whether the kernel offers the program's scheme.
    pub fn is_registered(&self) -> bool {
        offered().iter().any(|name| name == self.name)
    }
}

/// Names of the schemes that the kernel offers.
pub fn offered() -> Vec<String> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every program has a twin in the registry and a name that the kernel accepts.
    #[test]
    fn programs_have_twins_and_short_names() {
        for program in PROGRAMS {
            assert!(schemes::find(program.scheme).is_some(), "{program:?}");
            assert!(program.name.len() < 16 && !program.name.contains('-'), "{}", program.name);
            assert!(std::ptr::eq(Program::find(program.name).unwrap(), program));
            assert!(std::ptr::eq(Program::find(program.scheme).unwrap(), program));
        }
        let refused = Program::find("reno").unwrap_err().to_string();
        assert!(refused.starts_with("there is no program `reno` for the kernel; accepted: bbr_gc"), "{refused}");
    }
}
