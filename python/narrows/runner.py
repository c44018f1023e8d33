"""Runs what was planned on all cores, and keeps every finished run.

A folder of results holds `runs/<id>.json`, each written whole or not at all, so whatever ends a sweep (Ctrl-C, an
error, a kill) the next one with the same scenario takes up the finished runs and does the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from narrows import engine
from narrows.engine import Handle, Planned

POLL_S = 0.1
PROGRESS_AFTER_S = 2.0
LINE_EVERY_S = 30.0
"""How often progress is a line of text where there is no terminal for a bar."""


class RunFailed(RuntimeError):  # noqa: N818 (as the engine's own names)
    """A run ended with an error of the engine."""


class Interrupted(Exception):  # noqa: N818 (it is what the user asked for, not an error)
    """The person stopped it. Finished runs are kept where there is a folder."""

    def __init__(self, finished: int, total: int, out: Path | None) -> None:
        self.finished, self.total, self.out = finished, total, out
        super().__init__(f"stopped after {finished} of {total} runs")


class Listener(Protocol):
    """Who is told how far the runs are; called from one thread."""

    def reused(self, reused: int, total: int) -> None:
        """So many of the runs were found finished."""

    def progress(self, share: float, finished: int, total: int) -> None:
        """The share of the work that is done."""

    def result(self, planned: Planned, result: Mapping[str, Any]) -> None:
        """The next run, in the order of the plan, is finished."""


class Silent:
    """A listener that tells nobody."""

    def reused(self, reused: int, total: int) -> None:
        """Nothing."""

    def progress(self, share: float, finished: int, total: int) -> None:
        """Nothing."""

    def result(self, planned: Planned, result: Mapping[str, Any]) -> None:
        """Nothing."""


Execute = Callable[[Planned, Path | None, Handle, threading.Event], dict[str, Any]]
"""Does one run: what, where its trace goes, how to stop it, and whether to stop."""


def here(planned: Planned, traces: Path | None, handle: Handle, stop: threading.Event) -> dict[str, Any]:
    """Do a run in this thread."""
    if stop.is_set():
        raise engine.Cancelled
    return engine.run(planned, traces, handle)


@dataclass
class Runner:
    """How runs are executed.

    Attributes:
        out: The folder of results; without one nothing is written.
        jobs: Runs at a time; all cores by default.
        listener: Who is told how far it is.
        execute: What does one run.
    """

    out: Path | None = None
    jobs: int | None = None
    listener: Listener = field(default_factory=Silent)
    execute: Execute = here

    def run(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        """Run everything that is not finished yet and return all results in the order of the plan.

        Raises:
            Interrupted: Ctrl-C.
            RunFailed: The engine failed; other finished runs are kept.
            OSError: A result cannot be written.
        """
        with contextlib.ExitStack() as stack:
            if self.out is not None:
                stack.enter_context(locked(self.out))
            return self._run(planned)

    def _run(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        total = len(planned)
        results: list[dict[str, Any] | None] = [self.saved(item) for item in planned]
        todo = [i for i, result in enumerate(results) if result is None]
        if len(todo) < total:
            self.listener.reused(total - len(todo), total)
        workers = max(1, min(self.jobs or os.cpu_count() or 1, len(todo)))
        pool = ThreadPoolExecutor(workers, thread_name_prefix="narrows")
        stop = threading.Event()
        coming = iter(todo)
        active: dict[Future[dict[str, Any]], tuple[int, Handle]] = {}
        ended: list[Future[dict[str, Any]]] = []
        interrupted, shown = False, 0
        try:
            while not stop.is_set():
                shown = self._tell(planned, results, shown)
                while len(active) < 2 * workers and (i := next(coming, None)) is not None:
                    handle = Handle()
                    active[pool.submit(self._one, planned[i], handle, stop)] = (i, handle)
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
        finally:  # also when a listener failed, for example because its pipe closed
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

    def _one(self, planned: Planned, handle: Handle, stop: threading.Event) -> dict[str, Any]:
        if self.out is None:
            return self.execute(planned, None, handle, stop)
        if not planned.trace:
            result = self.execute(planned, None, handle, stop)
        else:
            from narrows import traces

            work = self.out / "traces" / f".{planned.id}.{os.getpid()}"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            try:
                result = self.execute(planned, work, handle, stop)
                traces.convert(work)
                final = self.out / "traces" / planned.id
                shutil.rmtree(final, ignore_errors=True)
                work.replace(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        write_atomic(self.out / "runs" / f"{planned.id}.json", engine.dump(result | {"build": engine.build()}) + "\n")
        return result

    def saved(self, planned: Planned) -> dict[str, Any] | None:
        """The finished run of that id, if this build of the engine made it and nothing of it is missing."""
        if self.out is None:
            return None
        if planned.trace and not (self.out / "traces" / planned.id / "samples.parquet").is_file():
            return None
        result = read_run(self.out / "runs" / f"{planned.id}.json")
        if result is None or result.get("id") != planned.id:
            return None
        if result["version"] != engine.version() or result.pop("build", None) != engine.build():
            return None
        return result

    def _tell(self, planned: Sequence[Planned], results: Sequence[dict[str, Any] | None], shown: int) -> int:
        while shown < len(results) and (result := results[shown]) is not None:
            self.listener.result(planned[shown], result)
            shown += 1
        return shown


def _raise_first(errors: Iterable[BaseException | None]) -> None:
    """Raise the first error that is not the stopping of the others."""
    for error in errors:
        if isinstance(error, engine.ScenarioError | OSError):
            raise error
        if error is not None and not isinstance(error, engine.Cancelled):
            raise RunFailed(str(error) or type(error).__name__) from error


def read_run(path: Path) -> dict[str, Any] | None:
    """A saved run, or nothing if there is none or it is damaged."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        return engine.ordered(result)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, also if the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def writable(path: Path, *, folder: bool = True, flag: str = "--out", make: bool = True) -> None:
    """Refuse a place of results that cannot be one, before anything is run.

    Args:
        path: The place.
        folder: Whether it is a folder, or else a file.
        flag: The option that names it.
        make: Whether folders on the way may be new.

    Raises:
        Misuse: It is a file where a folder is needed or the other way round, or nothing can be written there.
    """
    from narrows.scenario import Misuse

    accepted = "accepted: a folder, there or new" if folder else "accepted: a file in a folder that can be written"
    if path.exists() and path.is_dir() != folder:
        raise Misuse(f"{flag}: {path} is a {'file' if folder else 'folder'}; {accepted}")
    nearest = path if folder else path.parent
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise Misuse(f"{flag}: {nearest} is a file, so {path} cannot be made; {accepted}")
    if not make and not path.parent.is_dir():
        raise Misuse(f"{flag}: there is no folder {path.parent}; {accepted}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Misuse(f"{flag}: nothing can be written in {nearest}; {accepted}")


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep a second process from writing to the same folder, and remove what a killed one left half-written.

    Raises:
        OSError: Another process writes there, or the folder cannot be made.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"{out} is being written by another narrows; wait for it or give another -o") from None
        for leftover in (*out.glob("runs/.*.json.*"), *out.glob("traces/.*")):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        yield


def ray_execute(address: str) -> Execute:
    """An executor that sends each run to a Ray cluster.

    Raises:
        Misuse: Ray is not installed.
    """
    from narrows.scenario import Misuse

    try:
        import ray
    except ImportError:
        raise Misuse(
            "--ray needs the ray package, which is not installed; accepted: pip install 'narrows[ray]'"
        ) from None
    ray.init(address=address, log_to_driver=False)

    def remote_run(planned: Planned) -> dict[str, Any]:
        return engine.run(planned, None, None)

    task = ray.remote(remote_run)

    def execute(planned: Planned, traces: Path | None, handle: Handle, stop: threading.Event) -> dict[str, Any]:
        del traces, handle  # both belong to this machine
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


class Terminal:
    """A listener that shows a bar on a terminal, once there is something to wait for."""

    def __init__(self, say: Callable[[str], None], bar: bool, each: Callable[[dict[str, Any]], None] | None) -> None:
        self._say, self._bar, self._each = say, bar, each
        self._begin = self._line = time.monotonic()
        self._first: float | None = None
        self._progress: Any = None
        self._task: Any = None

    def reused(self, reused: int, total: int) -> None:
        """Say so."""
        self._say(f"reused {reused} of {total} runs")

    def progress(self, share: float, finished: int, total: int) -> None:
        """Move the bar; it appears after two seconds. Without a terminal: a line now and then."""
        if not self._bar:
            self._tell(share, finished, total)
            return
        if self._progress is None:
            if time.monotonic() - self._begin < PROGRESS_AFTER_S:
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("", total=1.0)
        self._progress.update(self._task, completed=share, description=f"{finished} of {total} runs")

    def _tell(self, share: float, finished: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._begin = share, now  # what was reused took no time
        if now - self._line < LINE_EVERY_S or share <= self._first:
            return
        self._line = now
        left = (now - self._begin) / (share - self._first) * (1 - share)
        self._say(f"{finished} of {total} runs, about {left / 60:.0f} min left" if left >= 90 else
                  f"{finished} of {total} runs, about {left:.0f} s left")  # fmt: skip

    def result(self, planned: Planned, result: Mapping[str, Any]) -> None:
        """Hand the result on."""
        if self._each is not None:
            self._each(dict(result))

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
