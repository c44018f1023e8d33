//! Files of a scenario: capacity, loss and delay traces, and learned router state. The caller reads the files,
//! so that this crate needs no file system.

use std::collections::BTreeMap;
use std::io;

/// Reads the files that scenarios name.
pub trait Files {
    /// Reads the file `name`, as written in the scenario.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn read(&self, name: &str) -> Result<String, FileError>;
}

/// A file could not be read.
#[derive(Debug)]
pub struct FileError {
    /// Path of the file for error messages.
    pub place: String,
    /// The cause.
    pub error: io::Error,
}

impl FileError {
    /// Whether the file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    fn missing(name: &str) -> Self {
        Self { place: name.to_owned(), error: io::ErrorKind::NotFound.into() }
    }
}

/// No files, for scenarios that name none.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, name: &str) -> Result<String, FileError> {
        Err(FileError::missing(name))
    }
}

/// Files in memory: names and contents.
impl Files for BTreeMap<String, String> {
    fn read(&self, name: &str) -> Result<String, FileError> {
        self.get(name).cloned().ok_or_else(|| FileError::missing(name))
    }
}
