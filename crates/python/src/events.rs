//! Reports to a Python function. Its first exception ends the work and is raised to the caller.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use crate::Shared;

/// A Python function that receives reports, and the stop requests of its handle.
pub(crate) struct Events {
    shared: Arc<Shared>,
    function: Py<PyAny>,
    /// The first exception of the function, after which it receives no further reports.
    raised: Mutex<Option<PyErr>>,
}

impl Events {
    pub(crate) fn new(shared: &Arc<Shared>, function: Py<PyAny>) -> Self {
        Self { shared: Arc::clone(shared), function, raised: Mutex::new(None) }
    }

    /// Calls the function with these arguments, unless a call has raised an exception before.
    pub(crate) fn report(&self, arguments: impl for<'py> PyCallArgs<'py>) {
        if self.has_raised() {
            return;
        }
        Python::attach(|py| {
            if let Err(error) = self.function.call1(py, arguments) {
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
    }

    /// Number of stop requests; an exception of the function counts as one.
    pub(crate) fn stops(&self) -> u32 {
        self.shared.cancelled.load(Ordering::Relaxed).saturating_add(self.has_raised().into())
    }

    fn has_raised(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The outcome of the work, or the exception if the function raised one.
    ///
    /// # Errors
    /// The exception, or the failure of the work.
    pub(crate) fn conclude<T>(&self, outcome: PyResult<T>) -> PyResult<T> {
        match self.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => outcome,
        }
    }
}
