//! A lock under which only one command at a time changes objects that outlive its process. The lock ends with the
//! process.
//!
//! Without the lock, a command would mistake another command's unfinished work for the remains of a killed command, and
//! remove this work.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::HostError;

/// Folder for files of commands; a restart of the machine empties it.
pub const FOLDER: &str = "/run/narrows";
/// The locked file, which is never removed.
const FILE: &str = "lock";
/// Longest wait for the lock. A command holds the lock for some seconds at most, the time of the verifier on slow
/// machines.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// The lock; dropping it lets the next command change this machine.
#[derive(Debug)]
pub struct Changing {
    _file: File,
}

impl Changing {
    /// Waits until no other command changes anything.
    ///
    /// # Errors
    /// Without rights, or if another command takes more than a minute.
    pub fn begin() -> Result<Self, HostError> {
        Self::at(Path::new(FOLDER), PATIENCE)
    }

    fn at(folder: &Path, patience: Duration) -> Result<Self, HostError> {
        let path = folder.join(FILE);
        let step = |error| HostError::step(&format!("lock {}", path.display()), error);
        fs::create_dir_all(folder).map_err(step)?;
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(false).read(true).write(true).open(&path).map_err(step)?;
        let end = Instant::now() + patience;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(POLL),
                Err(Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = file.read_to_string(&mut holder);
                    let busy = format!("process {} holds it; accepted: wait for it, or end it", holder.trim());
                    return Err(step(io::Error::other(busy)));
                }
                Err(error) => return Err(step(error.into())),
            }
        }
        // Other commands name this process in their error message.
        let noted = file.set_len(0).and_then(|()| file.rewind());
        noted.and_then(|()| write!(file, "{}", std::process::id())).map_err(step)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second command waits for the first command, and its timeout error names the first command's process.
    #[test]
    fn lock_excludes_others_and_names_the_holder() {
        let folder = std::env::temp_dir().join(format!("narrows-lock-{}", std::process::id()));
        let first = Changing::at(&folder, Duration::ZERO).unwrap();
        let refused = Changing::at(&folder, Duration::ZERO).unwrap_err().to_string();
        let expected = format!("process {} holds it", std::process::id());
        assert!(refused.contains(&expected), "{refused}");
        let waiting = {
            let folder = folder.clone();
            std::thread::spawn(move || Changing::at(&folder, PATIENCE).is_ok())
        };
        drop(first);
        assert!(waiting.join().unwrap());
        fs::remove_dir_all(&folder).unwrap();
    }
}
