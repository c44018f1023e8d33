//! Schemes of ours as programs of the kernel (`bpf/*.bpf.c`), without a part in user space: loaded once, they stay
//! until they are unloaded or the machine restarts, and any program uses them by name.
//!
//! ```text
//! narrows kernel load bbr-gc ──> parameters (.rodata) ──> verifier ──> tcp_congestion_ops `bbr_gc`
//!                                                                        │ link, pinned
//! /sys/fs/bpf/narrows/bbr_gc/counters, link   <──────────────────────────┘
//! ```
//! The pinned link keeps the scheme registered; removing it unregisters the scheme, and connections that use it keep
//! it until they end. The link is pinned last: a folder without one is what a killed command left, and the next one
//! removes it. One command at a time does so (`kernel/changing.rs`).

mod grants;
mod parameters;
#[cfg(feature = "bpf")]
pub(crate) mod pinned;
#[cfg(feature = "bpf")]
pub(crate) mod status;

use narrows_cc::Params;
use narrows_cc::schemes::{self, Entry};
use serde::Serialize;

pub(crate) use grants::{Grant, Grants};

use super::KernelError;
#[cfg(feature = "bpf")]
use super::changing::Changing;

/// A scheme that the kernel can run as a program.
#[derive(Debug)]
pub struct Program {
    /// Its name in the kernel.
    pub name: &'static str,
    /// The twin in the registry, with the same algorithm and parameters.
    pub scheme: &'static str,
    /// One line.
    pub summary: &'static str,
    #[cfg(feature = "bpf")]
    pub(crate) object: &'static [u8],
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

/// What a loaded program does.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Its name in the kernel.
    pub name: String,
    /// The twin in the registry.
    pub scheme: String,
    /// Connections that use it now, in all network namespaces.
    pub sockets: u64,
    /// Connections that ever used it.
    pub opened: u64,
    /// Acknowledgements that it processed.
    pub acks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Connections without state, for lack of memory.
    pub errors: u64,
    /// Calls of all its functions in the observed time.
    pub calls: u64,
    /// Mean duration of a call of any of its functions, in the observed time; `None`: there was none.
    pub ns_per_call: Option<f64>,
    /// Mean duration of a call that processes an acknowledgement, in the observed time; `None`: there was none.
    pub ns_per_ack: Option<f64>,
    /// Share of one processor that it used in the observed time.
    pub cpu_percent: f64,
    /// The observed time.
    pub observed_s: f64,
    /// Parameters that differ from their defaults.
    pub parameters: Vec<(String, f64)>,
}

impl Program {
    /// The program of this name, in the kernel or in the registry.
    ///
    /// # Errors
    /// If there is none: the names.
    pub fn find(name: &str) -> Result<&'static Self, KernelError> {
        PROGRAMS.iter().find(|program| name == program.name || name == program.scheme).ok_or_else(|| {
            let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
            KernelError::Unsupported(format!(
                "there is no program `{name}` for the kernel; accepted: {}",
                names.join(", ")
            ))
        })
    }

    /// The program whose scheme follows rates that a process negotiates.
    ///
    /// # Panics
    /// If there is none, which a test excludes.
    pub(crate) fn negotiating() -> &'static Self {
        Self::with_layout(|layout| matches!(layout, parameters::Layout::Granted))
    }

    /// The program whose scheme follows the rates in TCP options.
    ///
    /// # Panics
    /// If there is none, which a test excludes.
    pub(crate) fn advised() -> &'static Self {
        Self::with_layout(|layout| matches!(layout, parameters::Layout::Advised))
    }

    fn with_layout(fits: impl Fn(&parameters::Layout) -> bool) -> &'static Self {
        let found = PROGRAMS.iter().find(|program| fits(&program.layout));
        found.unwrap_or_else(|| unreachable!("no program follows such rates"))
    }

    /// Whether the kernel's scheme of this name is a program of ours, if it is loaded.
    pub(crate) fn is_named(name: &str) -> bool {
        PROGRAMS.iter().any(|program| program.name == name)
    }

    /// Its twin.
    ///
    /// # Panics
    /// If the registry lacks it, which a test excludes.
    pub fn entry(&self) -> &'static Entry {
        schemes::find(self.scheme).unwrap_or_else(|| unreachable!("no scheme {}", self.scheme))
    }

    /// The parameters in the program's own form: those of the core, and those of the variant.
    ///
    /// # Errors
    /// If a value has no form there.
    pub fn parameters(&self, params: &Params) -> Result<(Vec<u8>, Vec<u8>), KernelError> {
        parameters::bytes(self.layout, params).map_err(KernelError::Unsupported)
    }

    /// Loads the program with these parameters, as texts by name, and registers its scheme until it is unloaded.
    ///
    /// # Errors
    /// If a parameter is refused, or the kernel refuses the program. Nothing stays in the kernel then.
    pub fn load(&self, values: &[(String, String)]) -> Result<(), KernelError> {
        self.accepts(values)?;
        #[cfg(feature = "bpf")]
        return pinned::has_rights("narrows kernel load")
            .and_then(|()| self.load_within(&Changing::begin()?, values, false));
        #[cfg(not(feature = "bpf"))]
        Err(missing(values.len()))
    }

    /// As `load`, as a part of a larger change; `is_marked` as in [`pinned::load`].
    #[cfg(feature = "bpf")]
    pub(crate) fn load_within(
        &self,
        changing: &Changing,
        values: &[(String, String)],
        is_marked: bool,
    ) -> Result<(), KernelError> {
        let params = self.params(values)?;
        pinned::load(changing, self, &params, &self.parameters(&params)?, is_marked)
    }

    /// Refuses parameters that it does not have, or values out of range; texts by name.
    ///
    /// # Errors
    /// The first one.
    pub fn accepts(&self, values: &[(String, String)]) -> Result<(), KernelError> {
        self.params(values).and_then(|params| self.parameters(&params)).map(|_| ())
    }

    fn params(&self, values: &[(String, String)]) -> Result<Params, KernelError> {
        narrows_scenario::settings(self.entry(), values)
            .map_err(|message| KernelError::Unsupported(format!("--set: {message}")))
    }

    /// Unregisters the scheme. Returns the number of connections that use it, until they end.
    ///
    /// # Errors
    /// If it is not loaded, if `narrows brf attach` uses it, or without rights.
    pub fn unload(&self) -> Result<u64, KernelError> {
        #[cfg(feature = "bpf")]
        return pinned::has_rights("narrows kernel unload")
            .and_then(|()| pinned::unload(&Changing::begin()?, self));
        #[cfg(not(feature = "bpf"))]
        Err(missing(0))
    }

    /// Whether the kernel offers its scheme.
    pub fn is_registered(&self) -> bool {
        super::support::offered().iter().any(|name| name == self.name)
    }
}

/// The programs that are loaded, observed for this time, or until `is_cancelled`.
///
/// # Errors
/// Without rights, or if the kernel refuses a step.
pub fn status(seconds: f64, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Status>, KernelError> {
    #[cfg(feature = "bpf")]
    return status::read(seconds, is_cancelled);
    #[cfg(not(feature = "bpf"))]
    {
        let _ = is_cancelled;
        Err(missing(seconds as usize))
    }
}

#[cfg(not(feature = "bpf"))]
pub(crate) fn missing(_: usize) -> KernelError {
    KernelError::Unsupported(
        "this build has no programs for the kernel (apt install clang libelf-dev zlib1g-dev, then `make setup`)"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every program has a twin in the registry and a name that the kernel takes.
    #[test]
    fn programs_have_twins_and_short_names() {
        for program in PROGRAMS {
            assert!(schemes::find(program.scheme).is_some(), "{program:?}");
            assert!(program.name.len() < 16 && !program.name.contains('-'), "{}", program.name);
            assert!(std::ptr::eq(Program::find(program.name).unwrap(), program));
            assert!(std::ptr::eq(Program::find(program.scheme).unwrap(), program));
        }
        let refused = Program::find("reno").unwrap_err().to_string();
        assert!(
            refused.starts_with("there is no program `reno` for the kernel; accepted: bbr_gc"),
            "{refused}"
        );
    }
}
