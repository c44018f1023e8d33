//! Ctrl-C in calls that run without the GIL.

use std::sync::Mutex;

use pyo3::prelude::*;

/// Calls `run` without the GIL. `run` must often call its argument, which checks for signals.
///
/// # Errors
/// The exception of a signal handler, such as `KeyboardInterrupt`.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    run: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> T + Send,
) -> PyResult<T> {
    let raised = Mutex::new(None);
    let is_cancelled = || {
        let signal = Python::attach(|py| py.check_signals()).err();
        let Ok(mut raised) = raised.lock() else { return true };
        *raised = raised.take().or(signal);
        raised.is_some()
    };
    let ran = py.detach(|| run(&is_cancelled));
    raised.into_inner().ok().flatten().map_or(Ok(ran), Err)
}
