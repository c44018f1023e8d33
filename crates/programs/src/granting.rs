//! The program that follows granted rates, in the kernel.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use narrows_cc::{Params, Rate};
use narrows_host::HostError;
use narrows_host::changing::Changing;

use crate::counters::sums;
use crate::grants::{Grant, GrantCounts};
use crate::libbpf::{failed, loading};
use crate::program::Program;
use crate::{names, pinned};

/// The program in the kernel with the rates of its sockets. A program loaded for this process leaves the kernel when
/// this is dropped.
#[derive(Debug)]
pub struct Grants {
    /// The first field, so that it is dropped before the maps.
    link: Option<Link>,
    _object: Option<Object>,
    name: String,
    grants: MapHandle,
    counters: MapHandle,
    serial: AtomicU64,
}

impl Grants {
    /// Opens the program loaded by `narrows kernel load`, or else loads it for this process under a unique name.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn open(program: &'static Program) -> Result<Self, HostError> {
        // The lock keeps other commands from unloading the program while its maps are opened.
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
            // ELF requires alignment, so the object is copied.
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

    /// Whether the program was loaded for this process.
    pub fn is_private(&self) -> bool {
        self.link.is_some()
    }

    /// Sets the grant of a socket. It takes effect at the next acknowledgement, or when sending begins.
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

    /// Reads the counters of the program.
    ///
    /// # Errors
    /// If the kernel refuses to read them.
    pub fn counts(&self) -> Result<GrantCounts, HostError> {
        let [_, _, acks, _, _, grants, withdrawn, ignored, granted_acks] = sums(&self.counters)?;
        Ok(GrantCounts { acks, grants, withdrawn, ignored, granted_acks })
    }
}
