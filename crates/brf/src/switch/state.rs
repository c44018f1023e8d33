//! Records of running switches on disk: the next command finds and removes the remains of a killed switch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use narrows_host::HostError;
use narrows_host::changing::Changing;
use narrows_host::netlink::Netlink;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::tc;

/// Folder for files of running switches. A restart of the machine removes them with everything that they describe.
const FOLDER: &str = "/run/narrows/brf-switch";
/// Attempts to lock a record while another command reads it.
const LOOK: u32 = 50;

/// A port on which programs are attached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AttachedPort {
    pub(super) name: String,
    pub(super) index: i32,
    /// Whether the switch creates the queue of this port.
    pub(super) bottleneck: bool,
    /// Side on which acknowledgements get their rates, if any.
    pub(super) acks: Option<tc::Side>,
    /// Whether the switch created the hook for programs.
    pub(super) hook: bool,
}

/// Everything that a switch has created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) process: u32,
    /// The network namespace, as the number of its file.
    pub(super) namespace: u64,
    pub(super) ports: Vec<AttachedPort>,
}

/// The network namespace of the calling thread.
pub(super) fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// The record of a running switch; dropping it removes everything that it lists.
#[derive(Debug)]
pub(super) struct State {
    /// Locked as long as the process lives.
    file: File,
    path: PathBuf,
    pub(super) record: Record,
    /// Keeps other commands out while the switch creates the objects that the record lists.
    changing: Option<Changing>,
}

impl State {
    /// Begins a record for these ports before anything is created, and keeps other commands out until [`complete`].
    ///
    /// [`complete`]: State::complete
    ///
    /// # Errors
    /// If one of the ports belongs to a running switch.
    pub(super) fn begin(changing: Changing, ports: Vec<AttachedPort>) -> Result<Self, HostError> {
        let step = |error| HostError::step(&format!("write to {FOLDER}"), error);
        let namespace = namespace().map_err(step)?;
        fs::create_dir_all(FOLDER).map_err(step)?;
        for (path, record) in records() {
            let taken = ports.iter().find(|port| record.ports.iter().any(|other| other.index == port.index));
            if let (true, Some(port)) = (record.namespace == namespace, taken) {
                return Err(HostError::Unsupported(format!(
                    "`{}` belongs to the switch of process {} ({}); accepted: end that one first",
                    port.name,
                    record.process,
                    path.display()
                )));
            }
        }
        let bottleneck = ports.iter().find(|port| port.bottleneck).map_or(0, |port| port.index);
        let path = Path::new(FOLDER).join(format!("{namespace}-{bottleneck}.json"));
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(step)?;
        lock(&file).map_err(step)?;
        let record = Record { process: std::process::id(), namespace, ports };
        let mut state = Self { file, path, record, changing: Some(changing) };
        state.save().map_err(step)?;
        Ok(state)
    }

    /// Lets other commands continue; call it once everything is created.
    pub(super) fn complete(&mut self) {
        self.changing = None;
    }

    /// Writes the record again.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.record).map_err(io::Error::other)?;
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)?;
        self.file.write_all(&text)
    }

    /// Replaces the report that `status` reads.
    pub(super) fn report(&self, report: &impl Serialize) -> io::Result<()> {
        let path = self.path.with_extension("status");
        let new = self.path.with_extension("new");
        fs::write(&new, serde_json::to_vec(report).map_err(io::Error::other)?)?;
        fs::rename(new, path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Without the lock, a command that begins now may find remains, and refuse the port.
        let _changing = self.changing.take().or_else(|| Changing::begin().ok());
        undo(&self.record);
        forget(&self.path);
    }
}

/// Locks a record for the life of the process. Repeats the attempt, because a command that checks the record locks it
/// briefly.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOOK {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            done => return Ok(done?),
        }
    }
    Err(io::Error::other("another switch holds the record of this port"))
}

/// Removes what a record lists from the calling thread's namespace.
fn undo(record: &Record) {
    let Ok(mut netlink) = Netlink::route() else { return };
    for port in &record.ports {
        // Another interface may have taken the port's number since.
        if tc::interface(&port.name).is_ok_and(|(index, _)| index == port.index) {
            tc::detach(&mut netlink, port.index, port.hook);
            if port.bottleneck {
                tc::remove(&mut netlink, port.index);
            }
        }
    }
}

fn forget(path: &Path) {
    for path in [path.with_extension("status"), path.with_extension("new"), path.to_owned()] {
        let _ = fs::remove_file(path);
    }
    let _ = fs::remove_dir(FOLDER);
}

/// All records.
fn records() -> Vec<(PathBuf, Record)> {
    let files = fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    files
        .filter_map(|path| {
            let record = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            Some((path, record))
        })
        .collect()
}

/// Whether no running switch has locked a record. The lock that tests this is shared, because several commands may
/// check at the same time.
fn is_abandoned(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

/// Whether a killed switch left remains in this network namespace.
pub(super) fn is_any_abandoned() -> bool {
    let Ok(namespace) = namespace() else { return false };
    records().iter().any(|(path, record)| record.namespace == namespace && is_abandoned(path))
}

/// Removes the remains of killed switches from this namespace. Returns the names of their ports.
pub(super) fn clean(_: &Changing) -> Vec<String> {
    let Ok(namespace) = namespace() else { return Vec::new() };
    let mut cleaned = Vec::new();
    for (path, record) in records() {
        if record.namespace == namespace && is_abandoned(&path) {
            undo(&record);
            forget(&path);
            // A removed namespace took its ports along, and its number may be reused.
            let is_here = |port: &&AttachedPort| tc::interface(&port.name).is_ok_and(|(index, _)| index == port.index);
            cleaned.extend(record.ports.iter().filter(is_here).map(|port| port.name.clone()));
        }
    }
    cleaned
}

/// The latest reports of the switches of this namespace, and whether they run.
pub(super) fn reports() -> Vec<(Record, bool, Option<serde_json::Value>)> {
    let Ok(namespace) = namespace() else { return Vec::new() };
    let own = records().into_iter().filter(|(_, record)| record.namespace == namespace);
    own.map(|(path, record)| {
        let report = fs::read(path.with_extension("status")).ok();
        let report = report.and_then(|text| serde_json::from_slice(&text).ok());
        (record, !is_abandoned(&path), report)
    })
    .collect()
}
