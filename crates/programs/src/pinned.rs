//! Programs in the kernel, kept by files in the BPF file system.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use narrows_cc::Params;
use narrows_host::changing::Changing;
use narrows_host::{HostError, rights};
use rustix::mount::MountFlags;

use crate::attached::is_unused;
use crate::counters::counters;
use crate::libbpf::{failed, loading};
use crate::parameters;
use crate::program::{PROGRAMS, Program, offered};

/// Mount point of the kernel's BPF file system.
const BPFFS: &str = "/sys/fs/bpf";
/// Type information of the running kernel, which programs need.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// Our folder in that file system.
const FOLDER: &str = "/sys/fs/bpf/narrows";
pub(crate) const LINK: &str = "link";
/// Counters of the scheme.
pub const COUNTERS: &str = "counters";
pub(crate) const SETTINGS: &str = "settings";
/// A folder that marks programs whose loading command also unloads them.
const MARK: &str = "mark";
/// Map of the rates that processes negotiate, in programs that follow such rates.
pub(crate) const GRANTS: &str = "grants";
/// Read-only data: the parameters of the core.
pub const CORE: &str = ".rodata.core";
/// Operations of the scheme.
pub const SCHEME: &str = "scheme";
/// Maps that a program, if it has them, shares with programs loaded later.
pub const SHARED: [&str; 2] = ["advised", HOST];
/// Counters of the programs that read and write options.
pub const HOST: &str = "host_counters";
/// Oldest accepted Linux version: the first in which `cong_control` has four arguments.
const OLDEST: (u32, u32) = (6, 10);
/// Size in bytes of the map entry that holds the parameters as text.
const TEXT: usize = 1024;
/// Longest wait until a scheme is unregistered. The kernel unregisters a scheme shortly after its link is gone.
const UNREGISTERED_WITHIN: Duration = Duration::from_secs(2);

/// The folder of a program.
pub fn folder(program: &Program) -> PathBuf {
    Path::new(FOLDER).join(program.name)
}

/// Whether we loaded this program and it is registered.
pub fn is_loaded(program: &Program) -> bool {
    folder(program).join(LINK).exists()
}

/// Whether the program was loaded with a mark.
pub fn is_marked(program: &Program) -> bool {
    folder(program).join(MARK).exists()
}

/// Loads, registers and pins a program, with a mark if the command that needs it unloads it afterwards. Nothing stays
/// if a step fails.
pub(crate) fn load(
    changing: &Changing,
    program: &Program,
    params: &Params,
    own: &(Vec<u8>, Vec<u8>),
    is_marked: bool,
) -> Result<(), HostError> {
    requirements()?;
    mounted()?;
    clean(changing);
    if !is_loaded(program) {
        // Programs that are still attached would keep using the maps of the scheme that was loaded before.
        is_unused(program)?;
    }
    if program.is_registered() {
        let hint = if is_loaded(program) {
            format!("it is loaded; accepted: `narrows kernel unload {}` first", program.name)
        } else {
            "another program or module has this name".to_owned()
        };
        return Err(unable(format!("the kernel has a scheme `{}` already: {hint}", program.name)));
    }
    let folder = folder(program);
    let created = fs::create_dir_all(if is_marked { folder.join(MARK) } else { folder.clone() });
    created.map_err(|error| HostError::step(&format!("create {}", folder.display()), error))?;
    let text: Vec<String> = parameters::changed(params).iter().map(|(name, value)| format!("{name}={value}")).collect();
    let loaded = loading(&format!("`{}`", program.name), || attach(program, own, &text, &folder));
    if loaded.is_err() {
        remove(&folder);
    }
    loaded
}

fn attach(
    program: &Program,
    (core, own): &(Vec<u8>, Vec<u8>),
    text: &[String],
    folder: &Path,
) -> libbpf_rs::Result<()> {
    // ELF requires alignment, so the object is copied.
    let bytes = program.object.to_vec();
    let mut open = ObjectBuilder::default().name(program.name)?.open_memory(&bytes)?;
    set_parameters(&mut open, core, own)?;
    let mut object = open.load()?;
    if let Ok(mut grants) = map(&mut object, GRANTS) {
        grants.pin(folder.join(GRANTS))?;
    }
    let mut value = text.join(",").into_bytes();
    value.resize(TEXT, 0);
    map(&mut object, SETTINGS)?.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)?;
    for name in [COUNTERS, SETTINGS] {
        map(&mut object, name)?.pin(folder.join(name))?;
    }
    for mut map in object.maps_mut() {
        if let Some(name) = SHARED.into_iter().find(|name| map.name() == OsStr::new(name)) {
            map.pin(folder.join(name))?;
        }
    }
    let mut link: Link = map(&mut object, SCHEME)?.attach_struct_ops()?;
    // Pinning the link is the last step, so that a folder with a link is complete.
    link.pin(folder.join(LINK))
}

/// Sets the parameters of a program before it is loaded.
pub(crate) fn set_parameters(open: &mut OpenObject, core: &[u8], own: &[u8]) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        let value = match map.name().to_str() {
            Some(CORE) => core,
            Some(".rodata.own") => own,
            _ => continue,
        };
        map.set_initial_value(value)?;
    }
    Ok(())
}

/// A map of a program.
///
/// # Errors
/// If there is no map of this name.
pub fn map<'obj>(object: &'obj mut Object, name: &str) -> libbpf_rs::Result<libbpf_rs::MapMut<'obj>> {
    let found = object.maps_mut().find(|map| map.name() == OsStr::new(name));
    found.ok_or_else(|| io::Error::other(format!("the program has no map `{name}`")).into())
}

/// Unregisters the scheme. Returns the number of connections that still use it.
pub fn unload(changing: &Changing, program: &Program) -> Result<u64, HostError> {
    clean(changing);
    if !is_loaded(program) {
        let loaded: Vec<&str> =
            PROGRAMS.iter().filter(|program| is_loaded(program)).map(|program| program.name).collect();
        let accepted = if loaded.is_empty() { "none is".to_owned() } else { loaded.join(", ") };
        return Err(unable(format!("`{}` is not loaded; loaded: {accepted}", program.name)));
    }
    is_unused(program)?;
    let folder = folder(program);
    let sockets = open(program, COUNTERS).and_then(|map| counters(&map)).map_or(0, |own| own.sockets());
    let unlinked = fs::remove_file(folder.join(LINK));
    unlinked.map_err(|error| HostError::step(&format!("remove {}", folder.join(LINK).display()), error))?;
    remove(&folder);
    let end = Instant::now() + UNREGISTERED_WITHIN;
    while program.is_registered() {
        if Instant::now() > end {
            let error = io::Error::other("another process holds its link");
            return Err(HostError::step(&format!("unregister `{}`", program.name), error));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(sockets)
}

/// A pinned map of a loaded program.
pub fn open(program: &Program, name: &str) -> Result<MapHandle, HostError> {
    let path = folder(program).join(name);
    MapHandle::from_pinned_path(&path).map_err(|error| failed(&format!("open {}", path.display()), &error))
}

/// The parameters that were set when the program was loaded.
pub(crate) fn settings(program: &Program) -> Result<Vec<(String, f64)>, HostError> {
    let read = open(program, SETTINGS)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
    let bytes = read.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let pairs = text.trim_end_matches('\0').split(',').filter_map(|pair| pair.split_once('='));
    Ok(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

/// Removes the files left by commands that were killed while they loaded or unloaded a program.
pub fn clean(_: &Changing) {
    let Ok(folders) = fs::read_dir(FOLDER) else { return };
    for folder in folders.flatten().map(|entry| entry.path()) {
        if !folder.join(LINK).exists() {
            remove(&folder);
        }
    }
}

/// Removes the folder of a program without a link, and [`FOLDER`] if it is empty then.
fn remove(folder: &Path) {
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_file(file.path()).or_else(|_| fs::remove_dir(file.path()));
    }
    let _ = fs::remove_dir(folder);
    let _ = fs::remove_dir(FOLDER);
}

fn unable(message: String) -> HostError {
    HostError::Unsupported(message)
}

/// Refuses a `command` if this process lacks the rights for it.
pub fn has_rights(command: &str) -> Result<(), HostError> {
    rights::may_change_programs(command, "it loads, removes or reads programs of the kernel")
}

/// Refuses kernels that lack a requirement, which the message names.
pub fn requirements() -> Result<(), HostError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let has_tcp = !offered().is_empty();
    lacking(&release, Path::new(BTF), has_tcp).map_or(Ok(()), |reason| Err(unable(reason)))
}

/// The message for a requirement that a kernel lacks, with the accepted kernels.
fn lacking(release: &str, btf: &Path, has_tcp: bool) -> Option<String> {
    if !is_recent(release) {
        let (major, minor) = OLDEST;
        return Some(format!("kernel {release} is too old; accepted: Linux {major}.{minor} or later"));
    }
    if !btf.exists() {
        return Some(format!("kernel {release} has no BTF ({BTF}); accepted: kernels with CONFIG_DEBUG_INFO_BTF"));
    }
    let none = "this kernel has no TCP; accepted: kernels with CONFIG_INET";
    (!has_tcp).then(|| none.to_owned())
}

/// Whether a release (`6.10.3-amd64`) is new enough. A release that cannot be read counts as new enough: the kernel may
/// still refuse.
fn is_recent(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= OLDEST,
        _ => true,
    }
}

/// Mounts the BPF file system unless it is mounted.
pub fn mounted() -> Result<(), HostError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_there = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next(), words.next()) == (Some(BPFFS), Some("bpf"))
    });
    if is_there {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("bpf", BPFFS, "bpf", flags, Some(c"mode=700"))
        .map_err(|error| unable(format!("there is no BPF file system, and `mount -t bpf bpf {BPFFS}` fails: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions compare as numbers, and a string that is not a version counts as new enough.
    #[test]
    fn releases_compare_as_numbers() {
        for (release, recent) in
            [("6.10.0", true), ("6.9.12-arch1", false), ("5.15", false), ("7.0-rc1", true), ("custom", true)]
        {
            assert_eq!(is_recent(release), recent, "{release}");
        }
    }

    /// The errors for an old kernel, a kernel without BTF and a kernel without TCP say what is accepted.
    #[test]
    fn lack_of_a_kernel_is_explained() {
        let (there, nowhere) = (Path::new("/"), Path::new("/nowhere"));
        let text = |release, btf, has_tcp| lacking(release, btf, has_tcp).unwrap_or_default();
        assert_eq!(text("6.18.0", there, true), "");
        let old = text("5.15.0-91-generic", nowhere, false);
        assert_eq!(old, "kernel 5.15.0-91-generic is too old; accepted: Linux 6.10 or later");
        assert!(text("6.18.0", nowhere, true).starts_with("kernel 6.18.0 has no BTF (/sys/kernel/btf/vmlinux); "));
        assert!(text("6.18.0", there, false).starts_with("this kernel has no TCP; accepted: "));
    }
}
