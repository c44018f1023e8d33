//! The programs for the time of one run of the kernel backend.
//!
//! The scheme has a name of its own, and the programs of the host serve only sockets whose scheme has this name, listeners
//! included. So other connections of the machine, and other runs, are left alone. Nothing is pinned: the kernel removes
//! everything when the process ends in any way.

#[cfg(feature = "bpf")]
pub(crate) use with::Run;
#[cfg(not(feature = "bpf"))]
pub(crate) use without::Run;

#[cfg(feature = "bpf")]
mod with {
    use narrows_cc::Params;
    use narrows_scenario::Plan;
    use narrows_scenario::result::{Host, HostRates};

    use super::super::program::{HostParams, Whole, folder};
    use super::super::{NO_LIMIT, root};
    use crate::kernel::KernelError;
    use crate::kernel::libbpf::loading;
    use crate::kernel::programs::{Program, pinned};
    use crate::kernel::shim::unique;

    /// The programs of a run; dropping it removes them.
    #[derive(Debug)]
    pub(crate) struct Run {
        name: String,
        scheme: &'static str,
        whole: Whole,
    }

    impl Run {
        /// Loads the programs if there is a flow for them, with its parameters of the scheme.
        pub(crate) fn start(
            plan: &Plan,
            serves: impl Fn(usize) -> bool,
        ) -> Result<Option<Self>, KernelError> {
            let first = (0..plan.flows.len()).find(|flow| serves(*flow));
            first.map(|flow| Self::load(&plan.flows[flow].params)).transpose()
        }

        fn load(params: &Params) -> Result<Self, KernelError> {
            let program = Program::advised();
            let (core, _) = program.parameters(params)?;
            let root = root()?;
            let cgroup = folder(&root)
                .map_err(|error| KernelError::step(&format!("open {}", root.display()), error))?;
            let name = unique();
            let host = HostParams { name: &name, only_named: true, code: NO_LIMIT };
            let whole =
                loading(&format!("`{}`", program.name), || Whole::load(program, &core, &cgroup, &host))?;
            Ok(Self { name, scheme: program.name, whole })
        }

        /// Name of the scheme in the kernel.
        pub(crate) fn name(&self) -> &str {
            &self.name
        }

        /// Removes the programs, and adds what they did to a result.
        pub(crate) fn finish(mut self, host: &mut Host) -> Result<(), KernelError> {
            let [_, _, acks, _, refused, advised, invalid, fallbacks] = self.whole.sums(pinned::COUNTERS)?;
            let [offered, accepted, written, read, unlimited, stale, _, errors] =
                self.whole.sums(pinned::HOST)?;
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
    use narrows_scenario::Plan;
    use narrows_scenario::result::Host;

    use crate::kernel::KernelError;
    use crate::kernel::programs::missing;

    /// Without BPF: plans that need it were refused.
    #[derive(Debug)]
    pub(crate) enum Run {}

    impl Run {
        pub(crate) fn start(
            plan: &Plan,
            serves: impl Fn(usize) -> bool,
        ) -> Result<Option<Self>, KernelError> {
            if (0..plan.flows.len()).any(serves) { Err(missing(0)) } else { Ok(None) }
        }

        pub(crate) fn name(&self) -> &str {
            match *self {}
        }

        pub(crate) fn finish(self, _: &mut Host) -> Result<(), KernelError> {
            match self {}
        }
    }
}
