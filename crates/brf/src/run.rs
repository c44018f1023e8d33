//! The programs for the time of one run of the kernel backend.
//!
//! The scheme has a unique name, and the programs of the host serve only sockets whose scheme has this name, listeners
//! included. So they do not affect other connections and runs on this machine. Nothing is pinned: the kernel removes
//! everything when the process ends, however it ends.

#[cfg(feature = "bpf")]
pub use with::Run;
#[cfg(not(feature = "bpf"))]
pub use without::Run;

#[cfg(feature = "bpf")]
mod with {
    use narrows_cc::Params;
    use narrows_host::HostError;
    use narrows_programs::attached::root;
    use narrows_programs::libbpf::loading;
    use narrows_programs::names::unique;
    use narrows_programs::{Program, pinned};
    use narrows_scenario::Plan;
    use narrows_scenario::result::{Host, HostRates};

    use crate::program::{HostParams, Whole, folder};
    use crate::wire::NO_LIMIT;

    /// The programs of a run; dropping it removes them.
    #[derive(Debug)]
    pub struct Run {
        name: String,
        scheme: &'static str,
        whole: Whole,
    }

    impl Run {
        /// Loads the programs if `serves` selects a flow, with the scheme parameters of the first such flow.
        ///
        /// # Errors
        /// If the kernel refuses them.
        pub fn start(plan: &Plan, serves: impl Fn(usize) -> bool) -> Result<Option<Self>, HostError> {
            let first = (0..plan.flows.len()).find(|flow| serves(*flow));
            first.map(|flow| Self::load(&plan.flows[flow].params)).transpose()
        }

        fn load(params: &Params) -> Result<Self, HostError> {
            let program = Program::advised();
            let (core, _) = program.parameters(params)?;
            let cgroup = folder(&root()?)?;
            let name = unique();
            let host = HostParams { name: &name, only_named: true, code: NO_LIMIT };
            let whole = loading(&format!("`{}`", program.name), || Whole::load(program, &core, &cgroup, &host))?;
            Ok(Self { name, scheme: program.name, whole })
        }

        /// Name of the scheme in the kernel.
        pub fn name(&self) -> &str {
            &self.name
        }

        /// Removes the programs, and adds their counters to the result in `host`.
        ///
        /// # Errors
        /// If the counters cannot be read.
        pub fn finish(mut self, host: &mut Host) -> Result<(), HostError> {
            let [_, _, acks, _, refused, advised, invalid, fallbacks] = self.whole.sums(pinned::COUNTERS)?;
            let [offered, accepted, written, read, unlimited, stale, _, errors] = self.whole.sums(pinned::HOST)?;
            let own = host.schemes.iter_mut().filter(|scheme| **scheme == self.name);
            own.for_each(|scheme| self.scheme.clone_into(scheme));
            host.rates = Some(HostRates {
                scheme: self.scheme.to_owned(),
                acks,
                advised,
                invalid,
                fallbacks,
                offered,
                accepted,
                written,
                read,
                unlimited,
                stale,
                errors: errors + refused,
            });
            Ok(())
        }
    }
}

#[cfg(not(feature = "bpf"))]
mod without {
    use narrows_host::HostError;
    use narrows_programs::missing;
    use narrows_scenario::Plan;
    use narrows_scenario::result::Host;

    /// A run in builds without BPF, which refuse plans that need it.
    #[derive(Debug)]
    pub enum Run {}

    #[allow(missing_docs, reason = "as in builds with BPF")]
    impl Run {
        pub fn start(plan: &Plan, serves: impl Fn(usize) -> bool) -> Result<Option<Self>, HostError> {
            if (0..plan.flows.len()).any(serves) { Err(missing(0)) } else { Ok(None) }
        }

        pub fn name(&self) -> &str {
            match *self {}
        }

        pub fn finish(self, _: &mut Host) -> Result<(), HostError> {
            match self {}
        }
    }
}
