"""Executes planned runs on all cores and saves every finished run.

A folder of results holds `runs/<id>.json`, each written atomically with a checksum, and `.plan`, a list of the runs of
the last command. After any interruption (Ctrl-C, an error, a kill) the same command reuses the finished runs, and
executes the other runs and those with damaged files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows import checksums, engine
from narrows.engine import Handle, Planned
from narrows.errors import DamagedError, UsageError
from narrows.files import locked, named, write_atomic
from narrows.progress import Listener, Silent

POLL_S = 0.1


class RunError(RuntimeError):
    """The engine failed during a run."""


class Interrupted(Exception):  # noqa: N818 (requested by the user)
    """The user pressed Ctrl-C. Finished runs stay in `out`, if there is such a folder."""

    def __init__(self, finished: int, total: int, out: Path | None) -> None:
        self.finished, self.total, self.out = finished, total, out
        super().__init__(f"stopped after {finished} of {total} runs")


Execute = Callable[[Planned, Path | None, Handle, threading.Event], dict[str, Any]]
"""Executes one run, given the run, the folder for its trace, its handle, and an event that cancels it when set."""


def recording(capture: engine.Capture | None, qlog: Path | None) -> Execute:
    """Return an executor that runs in the caller's thread and also writes a run's packets or qlog to files."""

    def execute(planned: Planned, traces: Path | None, handle: Handle, stop: threading.Event) -> dict[str, Any]:
        if stop.is_set():
            raise engine.Cancelled
        return engine.run(planned, traces, handle, capture, qlog)

    return execute


execute_locally = recording(None, None)
"""Executes a run in the caller's thread."""


@dataclass
class Runner:
    """Executes runs in parallel.

    Attributes:
        out: The folder of results; `None` writes nothing.
        jobs: Simultaneous runs; all cores by default, but one for runs in real time, which disturb each other.
        listener: Receives the progress.
        execute: Executes one run.
        reuse: Take finished runs from `out` instead of executing them again.
    """

    out: Path | None = None
    jobs: int | None = None
    listener: Listener = field(default_factory=Silent)
    execute: Execute = execute_locally
    reuse: bool = True
    damages: dict[Path, DamagedError] = field(default_factory=dict)
    """Damaged files of saved runs that have not been reported yet."""

    def run(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        """Execute the unfinished runs and return all results in the order of the plan.

        Raises:
            Interrupted: The user pressed Ctrl-C.
            RunError: The engine failed; other finished runs are kept.
            OSError: A result cannot be written.
        """
        with contextlib.ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(locked(self.out))
                checksums.write_plan(self.out, (item.id for item in planned))
            return self._run(planned)

    def _run(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        total = len(planned)
        results: list[dict[str, Any] | None] = [self.saved(item) for item in planned]
        todo = [i for i, result in enumerate(results) if result is None]
        if self.damages:
            self.listener.damaged([*self.damages.values()])
            self.damages.clear()
        if len(todo) < total:
            self.listener.reused(total - len(todo), total)
        cores = 1 if any(item.on != engine.SIM for item in planned) else os.cpu_count() or 1
        workers = max(1, min(self.jobs or cores, len(todo)))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="narrows")
        stop = threading.Event()
        coming = iter(todo)
        active: dict[Future[dict[str, Any]], tuple[int, Handle]] = {}
        ended: list[Future[dict[str, Any]]] = []
        interrupted, reported = False, 0
        try:
            while not stop.is_set():
                reported = self._report(planned, results, reported)
                while len(active) < 2 * workers and (i := next(coming, None)) is not None:
                    handle = Handle()
                    active[pool.submit(self._run_one, planned[i], handle, stop)] = (i, handle)
                if not active:
                    break
                done, _ = wait(active, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    ended.append(future)
                    i, _ = active.pop(future)
                    if future.exception() is not None:
                        stop.set()
                    else:
                        results[i] = future.result()
                finished = total - len(todo) + len(ended)
                running = sum(handle.progress() for _, handle in active.values())
                self.listener.progress((finished + running) / total, finished, total)
        except KeyboardInterrupt:
            interrupted = True
        finally:  # a listener may fail too, for example when its pipe closes
            stop.set()
            for _, handle in active.values():
                handle.cancel()
            pool.shutdown(wait=True, cancel_futures=True)
        for future, (i, _) in active.items():
            if not future.cancelled() and future.exception() is None:
                results[i] = future.result()
        if interrupted:
            raise Interrupted(sum(result is not None for result in results), total, self.out)
        _raise_first(future.exception() for future in [*ended, *active] if not future.cancelled())
        return [result for result in results if result is not None]

    def _run_one(self, planned: Planned, handle: Handle, stop: threading.Event) -> dict[str, Any]:
        if self.out is None:
            return self.execute(planned, None, handle, stop)
        marks: dict[str, Any] = {"build": engine.fingerprint(planned)}
        if not planned.trace:
            result = self.execute(planned, None, handle, stop)
        else:
            from narrows import traces

            final = self.out / "traces" / planned.id
            work = final.with_name(f".{planned.id}.{os.getpid()}")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            try:
                with named(final):
                    result = self.execute(planned, work, handle, stop)
                    traces.convert(work)
                    marks[checksums.TRACES] = checksums.trace_sums(work)
                    shutil.rmtree(final, ignore_errors=True)
                    work.replace(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        if planned.on != engine.SIM:
            marks["emulator"] = engine.emulator()
        write_atomic(self.out / "runs" / f"{planned.id}.json", checksums.with_checksum(result | marks) + "\n")
        return result

    def saved(self, planned: Planned) -> dict[str, Any] | None:
        """Return the saved result of a run if it is complete and undamaged, and its sources are unchanged."""
        if not self.reuse:
            return None
        result = self.kept(planned)
        if result is None:
            return None
        result.pop("emulator", None)
        if result["version"] != engine.version() or result.pop("build", None) != engine.fingerprint(planned):
            return None
        return result

    def kept(self, planned: Planned) -> dict[str, Any] | None:
        """Return the saved result of a run if it is undamaged, even if its sources changed; record damaged files."""
        if self.out is None:
            return None
        path = self.out / "runs" / f"{planned.id}.json"
        try:
            result = checksums.read_run(path)
            if result is None:
                return None
            if result.get("id") != planned.id:
                raise DamagedError(path, f"holds the run {result.get('id')!r}")
            sums = result.pop(checksums.TRACES, {})
            if planned.trace:
                if "samples.parquet" not in sums:  # the run has no trace
                    return None
                for name, expected in sums.items():
                    trace = self.out / "traces" / planned.id / name
                    checksums.check_inside(self.out, trace)
                    checksums.check_file(trace, expected)
        except DamagedError as damage:
            self.damages[damage.path] = damage
            return None
        return result

    def _report(self, planned: Sequence[Planned], results: Sequence[dict[str, Any] | None], reported: int) -> int:
        """Pass the next results of the plan to the listener; return the number passed so far."""
        while reported < len(results) and (result := results[reported]) is not None:
            self.listener.result(planned[reported], result)
            reported += 1
        return reported


def _raise_first(errors: Iterable[BaseException | None]) -> None:
    """Raise the first error that is not a cancellation."""
    for error in errors:
        if isinstance(error, engine.ScenarioError | engine.HostUnable | UsageError | OSError):
            raise error
        if error is not None and not isinstance(error, engine.Cancelled):
            raise RunError(str(error) or type(error).__name__) from error


def ray_executor(address: str) -> Execute:
    """Return an executor that sends each run to a Ray cluster.

    Raises:
        UsageError: Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise UsageError("--ray: the package ray is not installed; accepted: pip install 'narrows[ray]'") from None
    ray.init(address=address, log_to_driver=False)

    def remote_run(planned: Planned) -> dict[str, Any]:
        return engine.run(planned, None, None)

    task = ray.remote(remote_run)

    def execute(planned: Planned, traces: Path | None, handle: Handle, stop: threading.Event) -> dict[str, Any]:
        del traces, handle  # they exist on this machine only
        folder = None if planned.directory is None else planned.directory.resolve()
        reference = task.remote(dataclasses.replace(planned, directory=folder))
        while True:
            ready, _ = ray.wait([reference], timeout=POLL_S)
            if ready:
                return dict(ray.get(reference))
            if stop.is_set():
                ray.cancel(reference)
                raise engine.Cancelled

    return execute
