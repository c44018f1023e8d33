//! The program that follows granted rates, in the kernel.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use narrows_cc::{Params, Rate};
use narrows_host::HostError;
use narrows_host::changing::Changing;

use crate::grants::{Grant, GrantCounts};
use crate::libbpf::{failed, loading};
use crate::program::Program;
use crate::{names, pinned};

/// The program in the kernel with the rates of its sockets. One that was loaded for this process leaves the kernel with
/// it.
#[derive(Debug)]
pub struct Grants {
    /// First: it must go before the maps.
    link: Option<Link>,
    _object: Option<Object>,
    name: String,
    grants: MapHandle,
    counters: MapHandle,
    serial: AtomicU64,
}

impl Grants {
    /// The program that `narrows kernel load` has loaded, or else one for this process under a name of its own.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn open(program: &'static Program) -> Result<Self, HostError> {
        // Nobody unloads it while its maps are opened.
        let changing = pinned::has_rights("narrows nodectl server").and_then(|()| Changing::begin())?;
        if pinned::is_loaded(program) {
            let name = program.name.to_owned();
            return Ok(Self {
                link: None,
                _object: None,
                name,
                grants: pinned::open(program, pinned::GRANTS)?,
                counters: pinned::open(program, pinned::COUNTERS)?,
                serial: AtomicU64::new(0),
            });
        }
        drop(changing);
        Self::load(program, &Params::defaults(program.entry().info.params))
    }

    /// Loads the program for this process.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn load(program: &'static Program, params: &Params) -> Result<Self, HostError> {
        pinned::has_rights("narrows nodectl server")?;
        pinned::requirements()?;
        let (core, own) = program.parameters(params)?;
        let name = names::unique();
        loading(&format!("`{}`", program.name), || {
            // Aligned as ELF wants it.
            let bytes = program.object.to_vec();
            let mut open = ObjectBuilder::default().name(program.name)?.open_memory(&bytes)?;
            pinned::set_parameters(&mut open, &core, &own)?;
            for mut map in open.maps_mut().filter(|map| map.name() == OsStr::new("scheme")) {
                if let Some(ops) = map.initial_value_mut() {
                    names::rename(ops, program.name, &name);
                }
            }
            let mut object = open.load()?;
            let link = pinned::map(&mut object, "scheme")?.attach_struct_ops()?;
            let grants = MapHandle::try_from(&pinned::map(&mut object, pinned::GRANTS)?)?;
            let counters = MapHandle::try_from(&pinned::map(&mut object, pinned::COUNTERS)?)?;
            let serial = AtomicU64::new(0);
            Ok(Self { link: Some(link), _object: Some(object), name, grants, counters, serial })
        })
    }

    /// Name of the scheme in the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it was loaded for this process.
    pub fn is_private(&self) -> bool {
        self.link.is_some()
    }

    /// Sets what a socket may send from its next acknowledgement on, or from when sending begins.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set(&self, socket: BorrowedFd<'_>, grant: Grant) -> Result<(), HostError> {
        let bytes = |rate: Option<Rate>| rate.map_or(0, Rate::as_bytes_per_sec).to_ne_bytes();
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        let value = [bytes(grant.rate), bytes(grant.limit), serial.to_ne_bytes()].concat();
        let key = socket.as_raw_fd().to_ne_bytes();
        let set = self.grants.update(&key, &value, MapFlags::ANY);
        set.map_err(|error| failed("set the rate of a socket", &error))
    }

    /// What the program has counted.
    ///
    /// # Errors
    /// If the kernel refuses to tell.
    pub fn counts(&self) -> Result<GrantCounts, HostError> {
        let values = self.counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let values = values.map_err(|error| failed("read the counters", &error))?.unwrap_or_default();
        let mut sum = [0u64; 9];
        for bytes in &values {
            for (total, own) in sum.iter_mut().zip(bytes.chunks_exact(8)) {
                *total += own.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        let [_, _, acks, _, _, grants, withdrawn, ignored, granted_acks] = sum;
        Ok(GrantCounts { acks, grants, withdrawn, ignored, granted_acks })
    }
}
