//! BRF's header on this host, for every process of a cgroup, until it is detached or the machine restarts.
//!
//! ```text
//! connections of the cgroup <── sockops ──> TCP option 253 (ExID 0x4272, 16-bit rate)
//!                                  │ SK_STORAGE `advised`
//! scheme `brf` of the kernel  <────┘
//!
//! /sys/fs/bpf/narrows/brf/            the scheme and the maps (as after `narrows kernel load brf`)
//! /sys/fs/bpf/narrows/brf-host/ID/link    an attachment; ID is the cgroup's number
//! /sys/fs/bpf/narrows/brf/mark/       the scheme was loaded by `attach`: the last `detach` unloads it
//! ```
//! `attach` creates the mark before it loads the scheme, and both are removed together; an attachment is one file. So
//! the next command recognises and removes the remains of a killed command. Commands take turns
//! ([`narrows_host::changing`]). An attachment uses the maps of the loaded scheme, so the scheme is neither unloaded
//! nor loaded again while an attachment exists.

use std::path::{Path, PathBuf};

use narrows_cc::Rate;
use narrows_host::HostError;
use narrows_programs::{Attachment, Program};
use serde::Serialize;

/// The result of `attach`, or its plan.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    /// The cgroup's folder.
    pub cgroup: PathBuf,
    /// The pinned link.
    pub link: PathBuf,
    /// The scheme in the kernel.
    pub scheme: String,
    /// Whether the scheme is loaded for this attachment.
    pub loads: bool,
    /// Connections that begin in the cgroup get the scheme.
    pub adopts: bool,
}

/// Attachments, and the counters of their programs and of the scheme since the scheme was loaded; zeros unless it is
/// loaded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The scheme is loaded.
    pub loaded: bool,
    /// The attachments.
    pub attachments: Vec<Attachment>,
    /// Connections that use the scheme now.
    pub sockets: u64,
    /// Connections that have used the scheme.
    pub opened: u64,
    /// Acknowledgements that the scheme processed.
    pub acks: u64,
    /// Rates that it followed.
    pub advised: u64,
    /// Ignored rates: zero, above the line rate, or more than the path carries.
    pub invalid: u64,
    /// Fallbacks to CUBIC, because no rates arrived or the path did not carry them.
    pub fallbacks: u64,
    /// SYNs that offered to obey.
    pub offered: u64,
    /// Connections that receivers accepted and whose SYN offered to obey.
    pub accepted: u64,
    /// SYN-ACKs and acknowledgements with the option.
    pub written: u64,
    /// Rates that were read.
    pub read: u64,
    /// Options that were read and whose rate no switch had lowered.
    pub unlimited: u64,
    /// Options on acknowledgements that were reordered or acknowledge unsent data.
    pub stale: u64,
    /// Connections that the programs switched to the scheme.
    pub adopted: u64,
    /// Steps that the kernel refused, plus connections for which the programs found no state.
    pub errors: u64,
}

/// Options of `attach`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The cgroup's folder; `None`: the root, with all processes.
    pub cgroup: Option<PathBuf>,
    /// Every new connection of the cgroup uses the scheme; otherwise only those that select it. Receivers answer offers
    /// in both cases.
    pub adopts: bool,
    /// Highest rate that receivers request, headers included; `None`: no limit.
    pub limit: Option<Rate>,
    /// Parameters of the scheme, as pairs of name and value.
    pub values: Vec<(String, String)>,
    /// Only check, without changing anything.
    pub dry: bool,
}

/// Attaches the programs of the host to a cgroup, and loads the scheme unless it is loaded.
///
/// # Errors
/// Without rights, if `cgroup` is no cgroup or has an attachment, or if the kernel refuses a step. In these cases
/// nothing new stays.
pub fn attach(options: &Options) -> Result<Attached, HostError> {
    let program = Program::advised();
    #[cfg(feature = "bpf")]
    return linked::attach(program, options);
    #[cfg(not(feature = "bpf"))]
    Err(unable(program, options))
}

/// Detaches from a cgroup (`None`: from all), and unloads the scheme with the last attachment if `attach` loaded it.
/// Returns a line per removal.
///
/// # Errors
/// Without rights, or if there is no such attachment.
pub fn detach(cgroup: Option<&Path>) -> Result<Vec<String>, HostError> {
    let program = Program::advised();
    #[cfg(feature = "bpf")]
    return linked::detach(program, cgroup);
    #[cfg(not(feature = "bpf"))]
    Err(unable(program, cgroup))
}

/// The attachments and their counters.
///
/// # Errors
/// Without rights, or if the kernel refuses a step.
pub fn status() -> Result<Status, HostError> {
    let program = Program::advised();
    #[cfg(feature = "bpf")]
    return linked::status(program);
    #[cfg(not(feature = "bpf"))]
    Err(unable(program, ()))
}

#[cfg(not(feature = "bpf"))]
fn unable<T>(_: &Program, _: T) -> HostError {
    narrows_programs::missing(0)
}

#[cfg(feature = "bpf")]
mod linked {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use narrows_host::changing::Changing;
    use narrows_programs::attached::{FOLDER, LINK, attachments, is_unused, named, place, read, root};
    use narrows_programs::counters::sums;
    use narrows_programs::libbpf::loading;
    use narrows_programs::pinned::{self, COUNTERS};
    use narrows_routers::RateCode;

    use super::{Attached, HostError, Options, Path, PathBuf, Program, Status};
    use crate::program::{self, HostParams};
    use crate::wire::NO_LIMIT;

    fn unable(message: String) -> HostError {
        HostError::Unsupported(message)
    }

    /// The folder and the number of a cgroup.
    fn cgroup(path: Option<&Path>) -> Result<(PathBuf, u64), HostError> {
        let root = root()?;
        let path = path.map_or_else(|| root.clone(), Path::to_owned);
        let whole = path.canonicalize().map_err(|error| unable(format!("--cgroup {}: {error}", path.display())))?;
        let number = fs::metadata(&whole).map_err(|error| unable(format!("--cgroup {}: {error}", path.display())))?;
        if !whole.starts_with(&root) {
            return Err(unable(format!(
                "--cgroup {}: not a cgroup of version 2; accepted: a folder below {}",
                path.display(),
                root.display()
            )));
        }
        Ok((whole, number.ino()))
    }

    /// Removes the remains of killed commands: folders without a link, and a scheme that `attach` loaded but no
    /// attachment uses. Returns the number of connections that keep the scheme; `None` if it was not unloaded.
    fn clean(changing: &Changing, program: &Program) -> Result<Option<u64>, HostError> {
        for folder in fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if !folder.join(LINK).exists() {
                let _ = fs::remove_dir(folder);
            }
        }
        pinned::clean(changing);
        let is_over = attachments().is_empty() && pinned::is_marked(program);
        let left = if is_over { Some(pinned::unload(changing, program)?) } else { None };
        let _ = fs::remove_dir(FOLDER);
        if let Some(above) = Path::new(FOLDER).parent() {
            let _ = fs::remove_dir(above);
        }
        Ok(left)
    }

    pub(super) fn attach(program: &Program, options: &Options) -> Result<Attached, HostError> {
        let Options { cgroup: path, adopts, values, dry, .. } = options;
        pinned::has_rights("narrows brf attach")?;
        pinned::requirements()?;
        let (folder, id) = cgroup(path.as_deref())?;
        let changing = Changing::begin()?;
        clean(&changing, program)?;
        let place = place(id);
        let loads = !pinned::is_loaded(program);
        let attached = Attached {
            cgroup: folder.clone(),
            link: place.join(LINK),
            scheme: program.name.to_owned(),
            loads,
            adopts: *adopts,
        };
        if attached.link.exists() {
            return Err(unable(format!(
                "{} has an attachment; accepted: `narrows brf detach` first",
                folder.display()
            )));
        }
        if !loads && !values.is_empty() {
            return Err(unable(format!(
                "--set: `{0}` is loaded with its parameters; accepted: `narrows kernel unload {0}` first",
                program.name
            )));
        }
        if loads {
            is_unused(program)?;
        }
        if loads && program.is_registered() {
            return Err(unable(format!(
                "the kernel has a scheme `{}` that is not ours; accepted: kernels without it",
                program.name
            )));
        }
        if *dry {
            program.accepts(values)?;
            return Ok(attached);
        }
        let done = complete(&changing, program, &attached, options);
        if done.is_err() {
            let _ = fs::remove_file(&attached.link);
            let _ = clean(&changing, program);
        }
        done.map(|()| attached)
    }

    fn complete(
        changing: &Changing,
        program: &Program,
        attached: &Attached,
        options: &Options,
    ) -> Result<(), HostError> {
        pinned::mounted()?;
        if attached.loads {
            program.load_within(changing, &options.values, true)?;
        }
        if let Some(folder) = attached.link.parent() {
            fs::create_dir_all(folder)
                .map_err(|error| HostError::step(&format!("create {}", folder.display()), error))?;
        }
        let cgroup = program::folder(&attached.cgroup)?;
        let params = HostParams {
            name: program.name,
            only_named: false,
            code: options.limit.map_or(NO_LIMIT, |rate| RateCode::encode(rate).0),
        };
        loading(&format!("the programs of the host of `{}`", program.name), || {
            let mut link = program::attach(program, &cgroup, &params, attached.adopts)?;
            link.pin(&attached.link)
        })
    }

    pub(super) fn detach(program: &Program, path: Option<&Path>) -> Result<Vec<String>, HostError> {
        pinned::has_rights("narrows brf detach")?;
        let changing = Changing::begin()?;
        let found = attachments();
        let chosen = match path {
            None => found,
            Some(path) => {
                let (folder, id) = cgroup(Some(path))?;
                if !found.contains(&id) {
                    return Err(unable(format!(
                        "{} has no attachment; `narrows brf status` lists them",
                        folder.display()
                    )));
                }
                vec![id]
            }
        };
        let mut lines = Vec::new();
        for id in chosen {
            let attachment = read(id);
            let link = place(id).join(LINK);
            fs::remove_file(&link).map_err(|error| HostError::step(&format!("remove {}", link.display()), error))?;
            let name = attachment.ok().and_then(|own| own.cgroup);
            lines.push(format!("detached from {}", named(name.as_deref(), id)));
        }
        if let Some(sockets) = clean(&changing, program)? {
            let left = if sockets > 0 { format!("; {sockets} connections keep it to the end") } else { String::new() };
            lines.push(format!("unloaded `{}`{left}", program.name));
        }
        Ok(lines)
    }

    pub(super) fn status(program: &Program) -> Result<Status, HostError> {
        pinned::has_rights("narrows brf status")?;
        let changing = Changing::begin()?;
        clean(&changing, program)?;
        let attachments = attachments().into_iter().map(read).collect::<Result<_, _>>()?;
        let status = Status { loaded: pinned::is_loaded(program), attachments, ..Status::default() };
        if !status.loaded {
            return Ok(status);
        }
        let own = pinned::open(program, COUNTERS)?;
        let [opened, closed, acks, _, errors, advised, invalid, fallbacks] = sums(&own)?;
        let host = pinned::open(program, pinned::HOST)?;
        let [offered, accepted, written, read, unlimited, stale, adopted, refused] = sums(&host)?;
        Ok(Status {
            sockets: opened.saturating_sub(closed),
            opened,
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
            adopted,
            errors: errors + refused,
            ..status
        })
    }
}
