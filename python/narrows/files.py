"""Writes result files atomically, one process per folder at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.errors import UsageError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically: it is complete or absent, even after a power failure."""
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


def read_run(path: Path) -> dict[str, Any] | None:
    """Read a saved run; `None` if the file is missing or damaged."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        return engine.ordered(result)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def check_writable(path: Path, *, folder: bool = True, flag: str = "--out", make: bool = True) -> None:
    """Reject an output path before anything runs.

    Args:
        path: The output folder or file.
        folder: Whether `path` is a folder.
        flag: The option that names it.
        make: Whether missing parent folders may be created.

    Raises:
        UsageError: The path is a file instead of a folder or the reverse, or the place is read-only.
    """
    accepted = "accepted: a new or existing folder" if folder else "accepted: a file in a writable folder"
    if path.exists() and path.is_dir() != folder:
        raise UsageError(f"{flag}: {path} is a {'file' if folder else 'folder'}; {accepted}")
    nearest = path if folder else path.parent
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise UsageError(f"{flag}: {nearest} is a file, so {path} cannot be created; {accepted}")
    if not make and not path.parent.is_dir():
        raise UsageError(f"{flag}: there is no folder {path.parent}; {accepted}")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{flag}: the folder {nearest} is not writable; {accepted}")


def make_folder(path: Path, flag: str = "--out") -> None:
    """Create a folder and its parents, unless it exists.

    Raises:
        UsageError: The folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror or type(error).__name__
        raise UsageError(f"{flag}: {path}: {problem}; accepted: a new or existing folder") from None


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Lock a folder of results against other processes, and delete partial files of a killed one.

    Raises:
        UsageError: The folder cannot be created.
        OSError: Another process holds the lock.
    """
    make_folder(out)
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"{out}: another narrows is writing here; wait for it, or choose another -o") from None
        for leftover in (*out.glob("runs/.*.json.*"), *out.glob("traces/.*")):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        yield
