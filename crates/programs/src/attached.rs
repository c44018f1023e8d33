//! Programs that accompany a scheme, attached to cgroups. Each uses the maps of the scheme as loaded when the program
//! was attached.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::Link;
use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter};
use narrows_host::HostError;

use crate::libbpf::failed;
use crate::program::Program;
use crate::status::Attachment;

/// Parent folder of the attachments' folders; each of these is named after the number of its cgroup.
pub const FOLDER: &str = "/sys/fs/bpf/narrows/brf-host";
/// Name of the pinned link in an attachment's folder.
pub const LINK: &str = "link";
/// Name of the program variant that also gives new connections our scheme.
pub const ADOPTS: &str = "brf_host_adopts";

/// The mount point of cgroups of version 2.
///
/// # Errors
/// If they are not mounted.
pub fn root() -> Result<PathBuf, HostError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next() == Some("cgroup2")).then(|| place.into())
    });
    found.ok_or_else(|| {
        HostError::Unsupported(
            "cgroups of version 2 are not mounted; accepted: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
        )
    })
}

/// The folder of the attachment to cgroup number `id`. The folder need not exist.
pub fn place(id: u64) -> PathBuf {
    Path::new(FOLDER).join(id.to_string())
}

/// The numbers of the cgroups with an attachment, in ascending order.
pub fn attachments() -> Vec<u64> {
    let folders = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut found: Vec<u64> = folders
        .filter(|entry| entry.path().join(LINK).exists())
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// Refuses to load or to unload the scheme while attached programs use its maps.
///
/// # Errors
/// If there are such programs; the message names their cgroup and what is accepted.
pub fn is_unused(program: &Program) -> Result<(), HostError> {
    if !std::ptr::eq(program, Program::advised()) {
        return Ok(());
    }
    let Some(id) = attachments().into_iter().next() else { return Ok(()) };
    let cgroup = read(id).ok().and_then(|own| own.cgroup);
    Err(HostError::Unsupported(format!(
        "programs of `{}` are attached to {}; accepted: `narrows brf detach` first",
        program.name,
        named(cgroup.as_deref(), id)
    )))
}

/// The folder of a cgroup as text, or its number if the cgroup was removed.
pub fn named(path: Option<&Path>, id: u64) -> String {
    path.map_or_else(|| format!("cgroup {id}, which was removed"), |path| path.display().to_string())
}

/// Searches for the cgroup with number `id` at or below a folder.
fn search(folder: &Path, id: u64) -> Option<PathBuf> {
    if fs::metadata(folder).ok()?.ino() == id {
        return Some(folder.to_owned());
    }
    let inner = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    inner.filter(|path| path.is_dir()).find_map(|path| search(&path, id))
}

/// Inspects an attachment.
///
/// # Errors
/// If the kernel refuses to.
pub fn read(id: u64) -> Result<Attachment, HostError> {
    let path = place(id).join(LINK);
    let info = Link::open(&path).and_then(|link| link.info());
    let info = info.map_err(|error| failed(&format!("inspect {}", path.display()), &error))?;
    // The cgroup number in the link is zero once the cgroup is gone.
    let alive = matches!(&info.info, LinkTypeInfo::Cgroup(own) if own.cgroup_id == id);
    let adopts = ProgInfoIter::default().any(|own| own.id == info.prog_id && own.name == *ADOPTS);
    let cgroup = if alive { search(&root()?, id) } else { None };
    Ok(Attachment { id, cgroup, adopts })
}
