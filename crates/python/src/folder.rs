//! The files that a scenario names.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use narrows_scenario::{FileError, Files};

/// Greatest size of a file: an hour of a capacity trace at 1 Gbit/s has 3 million lines of up to 8 bytes.
const MOST_BYTES: u64 = 64 << 20;

/// Reads files relative to the scenario's folder or, without one, to the current folder.
///
/// Scenarios are untrusted: only regular files of bounded size are opened.
pub(crate) struct Folder<'a> {
    /// The scenario's folder.
    pub(crate) root: Option<&'a Path>,
    /// Names of files that may lie outside the folder; `None` permits all files.
    pub(crate) outside: Option<&'a [String]>,
}

impl<'a> Folder<'a> {
    pub(crate) fn new(root: Option<&'a str>, outside: Option<&'a [String]>) -> Self {
        Self { root: root.map(Path::new), outside }
    }

    fn open(&self, name: &str, path: &Path) -> io::Result<String> {
        let refused = |problem: String| Err(io::Error::other(problem));
        if let (Some(root), Some(permitted)) = (self.root, self.outside)
            && !permitted.iter().any(|permitted| permitted == name)
            && !path.canonicalize()?.starts_with(root.canonicalize()?)
        {
            return refused("it lies outside the scenario's folder; --allow-outside permits that".into());
        }
        let kind = path.metadata()?;
        if !kind.is_file() {
            return refused("it is not a regular file".into());
        }
        // Some regular files, as in /proc, report a length of zero, so also bound the bytes read.
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_BYTES {
            return refused(format!("it has more than {} MiB", MOST_BYTES >> 20));
        }
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
    }
}

impl Files for Folder<'_> {
    fn read(&self, name: &str) -> Result<String, FileError> {
        let path = self.root.map_or_else(|| Path::new(name).to_owned(), |folder| folder.join(name));
        self.open(name, &path).map_err(|error| FileError { place: path.display().to_string(), error })
    }
}
