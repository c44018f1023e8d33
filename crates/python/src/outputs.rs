//! Files that a run writes.

use std::io;
use std::path::Path;

use narrows_pcap::{Capture, Contents, Ends};
use narrows_scenario::Plan;
use narrows_trace::Recorder;
use narrows_trace::qlog::Log;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// The observers that write the files of a run.
pub(crate) type Files = (Option<Recorder>, (Option<Capture>, Option<Log>));

/// Files that a run writes.
pub(crate) struct Outputs<'a> {
    /// Folder for the trace.
    pub(crate) traces: Option<&'a Path>,
    /// Packet capture: its file and its contents.
    pub(crate) capture: Option<(&'a str, Contents)>,
    /// Path of the qlog file.
    pub(crate) qlog: Option<&'a str>,
    /// The transport of all flows; `None` selects the plan's.
    pub(crate) transport: Option<&'static str>,
}

/// An error, and the file that its message must name; a trace error already names its file.
pub(crate) type Named<'a> = (Option<&'a str>, io::Error);

impl<'a> Outputs<'a> {
    /// Whether a run writes any file.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.traces.is_some() || self.capture.is_some() || self.qlog.is_some()
    }

    /// Creates the files.
    pub(crate) fn create(&self, plan: &Plan) -> Result<Files, Named<'a>> {
        let recorder = self.traces.map(|folder| Recorder::new(&plan.trace, folder)).transpose();
        let recorder = recorder.map_err(|error| (None, error))?;
        let capture = self.capture.map(|(file, contents)| {
            Capture::create(plan, Path::new(file), contents).map_err(|error| (Some(file), error))
        });
        let qlog = self
            .qlog
            .map(|file| Log::create(plan, self.transport, Path::new(file)).map_err(|error| (Some(file), error)));
        Ok((recorder, (capture.transpose()?, qlog.transpose()?)))
    }

    /// Finishes the files. After a cancellation, finishes capture and qlog, but finishes a trace only if one of
    /// its writes has failed.
    pub(crate) fn close(&self, (recorder, (capture, qlog)): Files, ended: bool) -> PyResult<()> {
        let file = self.capture.map(|(file, _)| file);
        capture.map_or(Ok(()), Capture::finish).map_err(|error| file_error(file, &error))?;
        qlog.map_or(Ok(()), Log::finish).map_err(|error| file_error(self.qlog, &error))?;
        let recorder = recorder.filter(|recorder| ended || recorder.has_failed());
        recorder.map_or(Ok(()), Recorder::finish).map_err(|error| file_error(None, &error))
    }
}

/// Whether a write has failed.
pub(crate) fn have_failed((recorder, (capture, qlog)): &Files) -> bool {
    recorder.as_ref().is_some_and(Recorder::has_failed)
        || capture.as_ref().is_some_and(Capture::has_failed)
        || qlog.as_ref().is_some_and(Log::has_failed)
}

/// Contents of a packet capture at the hosts `ends`, with at most `snap` bytes of each packet.
pub(crate) fn contents(ends: &str, snap: Option<u32>) -> PyResult<Contents> {
    let ends = match ends {
        "both" => Ends::Both,
        "senders" => Ends::Senders,
        "receivers" => Ends::Receivers,
        _ => return Err(PyValueError::new_err(format!("no ends `{ends}`"))),
    };
    Ok(Contents { ends, snap })
}

/// Converts a file error to a Python exception; an error of a capture or qlog names the file.
pub(crate) fn file_error(file: Option<&str>, error: &io::Error) -> PyErr {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or_default().to_owned();
    match (file, error.raw_os_error()) {
        (Some(file), Some(code)) => PyOSError::new_err((code, plain, file.to_owned())),
        (Some(file), None) => PyOSError::new_err(format!("{file}: {text}")),
        (None, _) => PyOSError::new_err(text),
    }
}
