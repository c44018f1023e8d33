//! Runs on the kernel: conversions and reports to the caller.

use std::sync::atomic::Ordering;

use narrows_live::kernel::{self, KernelError, Options, Watch};
use narrows_pcap::Capture;
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_trace::Recorder;
use pyo3::prelude::*;

use crate::{KernelFailed, KernelUnable, Outputs, Shared, file_error};

impl Watch for Shared {
    fn progress(&self, fraction: f64) {
        self.progress.store(fraction.to_bits(), Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) > 0
    }
}

/// The error as Python sees it.
pub(crate) fn raised(error: &KernelError) -> PyErr {
    match error {
        KernelError::Unsupported(_) | KernelError::NotRoot => KernelUnable::new_err(error.to_string()),
        KernelError::Step { .. } => KernelFailed::new_err(error.to_string()),
    }
}

/// The options of a place.
pub(crate) fn options(on: &str) -> Options {
    Options { shim: on == "shim", ..Options::default() }
}

/// Runs a plan on the kernel and writes the files in `outputs`; `None` if cancelled.
pub(crate) fn record(
    plan: &Plan,
    options: Options,
    outputs: &Outputs<'_>,
    shared: &Shared,
) -> PyResult<Option<RunResult>> {
    let file = outputs.capture.map(|(file, _)| file);
    let observer = || {
        let recorder = outputs.traces.map(|folder| Recorder::new(&plan.trace, folder)).transpose()?;
        let capture = outputs
            .capture
            .map(|(file, contents)| Capture::create(plan, std::path::Path::new(file), contents));
        Ok((recorder, capture.transpose()?))
    };
    let Some((result, (recorder, capture))) =
        kernel::run(plan, &options, observer, shared).map_err(|error| raised(&error))?
    else {
        return Ok(None);
    };
    if let Some(capture) = capture {
        capture.finish().map_err(|error| file_error(file, &error))?;
    }
    if let Some(recorder) = recorder {
        recorder.finish().map_err(|error| file_error(None, &error))?;
    }
    Ok(Some(result))
}
