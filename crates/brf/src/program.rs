//! Loads the object that contains the scheme and the programs of the host (`bpf/brf.bpf.c`): either only the programs
//! of the host, beside a scheme that is already loaded, or everything for one run.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject, ProgramType};
use narrows_host::HostError;
use narrows_programs::Program;
use narrows_programs::attached::ADOPTS;
use narrows_programs::counters::sums;
use narrows_programs::libbpf::failed;
use narrows_programs::names::{NAME, rename};
use narrows_programs::pinned::{self, SHARED};

/// The program that reads and writes the option. [`ADOPTS`] names its variant that also gives new connections our
/// scheme.
const HOST: &str = "brf_host";
const PARAMS: &str = ".rodata.host";

fn open(program: &Program) -> libbpf_rs::Result<OpenObject> {
    // ELF requires alignment, so the object is copied.
    let bytes = program.object.to_vec();
    ObjectBuilder::default().name(program.name)?.open_memory(&bytes)
}

/// `struct host_params` in `bpf/brf_host.h`.
pub(super) struct HostParams<'a> {
    /// Name of the scheme in the kernel.
    pub(super) name: &'a str,
    /// The programs ignore listeners with another scheme.
    pub(super) only_named: bool,
    /// The code that receivers write.
    pub(super) code: u16,
}

impl HostParams<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.name.as_bytes().to_vec();
        bytes.resize(NAME, 0);
        bytes.extend(u32::from(self.only_named).to_ne_bytes());
        bytes.extend(u32::from(self.code).to_ne_bytes());
        bytes
    }
}

/// Attaches one program to a cgroup, [`HOST`] or [`ADOPTS`], with the maps of the loaded scheme.
pub(super) fn attach(
    program: &Program,
    cgroup: &impl AsFd,
    params: &HostParams<'_>,
    adopts: bool,
) -> libbpf_rs::Result<Link> {
    let name = if adopts { ADOPTS } else { HOST };
    let mut object = open(program)?;
    for mut own in object.progs_mut() {
        let wanted = own.name() == OsStr::new(name);
        own.set_autoload(wanted);
    }
    let folder = pinned::folder(program);
    for mut map in object.maps_mut() {
        let shared = SHARED.into_iter().find(|shared| map.name() == OsStr::new(shared));
        if let Some(shared) = shared {
            map.reuse_pinned_map(folder.join(shared))?;
        } else if map.name() == OsStr::new(PARAMS) {
            map.set_initial_value(&params.bytes())?;
        } else if !map.name().to_string_lossy().starts_with('.') {
            map.set_autocreate(false)?;
        }
    }
    link(&object.load()?, name, cgroup)
}

fn link(object: &Object, name: &str, cgroup: &impl AsFd) -> libbpf_rs::Result<Link> {
    let found =
        object.progs_mut().find(|own| own.prog_type() == ProgramType::SockOps && own.name() == OsStr::new(name));
    let program = found.ok_or_else(|| io::Error::other(format!("the object has no program `{name}`")))?;
    program.attach_cgroup(cgroup.as_fd().as_raw_fd())
}

/// The scheme and the programs of the host in the kernel; dropping this removes them.
#[derive(Debug)]
pub(super) struct Whole {
    /// The first field, so that the links are dropped before the maps.
    _links: [Link; 2],
    object: Object,
}

impl Whole {
    /// Loads everything, registers the scheme under this name, and attaches the programs of the host to a cgroup.
    /// `core`: the scheme's parameters.
    pub(super) fn load(
        program: &Program,
        core: &[u8],
        cgroup: &impl AsFd,
        params: &HostParams<'_>,
    ) -> libbpf_rs::Result<Self> {
        let mut object = open(program)?;
        for mut own in object.progs_mut() {
            if own.name() == OsStr::new(ADOPTS) {
                own.set_autoload(false);
            }
        }
        for mut map in object.maps_mut() {
            if map.name() == OsStr::new(PARAMS) {
                map.set_initial_value(&params.bytes())?;
            } else if map.name() == OsStr::new(pinned::CORE) {
                map.set_initial_value(core)?;
            } else if map.name() == OsStr::new(pinned::SCHEME)
                && let Some(ops) = map.initial_value_mut()
            {
                rename(ops, program.name, params.name);
            }
        }
        let mut object = object.load()?;
        let scheme = pinned::map(&mut object, pinned::SCHEME)?.attach_struct_ops()?;
        let host = link(&object, HOST, cgroup)?;
        Ok(Self { _links: [host, scheme], object })
    }

    /// The first `N` numbers of a map of counters.
    pub(super) fn sums<const N: usize>(&mut self, name: &str) -> Result<[u64; N], HostError> {
        let map = pinned::map(&mut self.object, name).map_err(|error| failed("find a BPF map", &error))?;
        sums(&map)
    }
}

/// Opens the folder of a cgroup.
pub(super) fn folder(path: &Path) -> Result<File, HostError> {
    File::open(path).map_err(|error| HostError::step(&format!("open {}", path.display()), error))
}
