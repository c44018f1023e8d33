"""Reads regular files of bounded size, writes files atomically, and locks a folder for one process at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from narrows.errors import UsageError

TEXT_BYTES = 16 << 20
"""The largest scenario, claims file or other text."""
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{16}\.part")
"""Names of the temporary files of `write_atomic`."""
_STREAMS = ("/dev/", "/proc/")
"""Folders whose links are streams of the process: `--pcap /dev/stdout`."""
_held = threading.local()


def contents(path: Path, most_bytes: int, *, stream: bool = False) -> bytes:
    """Read a regular file.

    Args:
        path: The file.
        most_bytes: The largest accepted size.
        stream: Also accept pipes and devices.

    Raises:
        ValueError: The file is not regular, or is too large. The message states the problem and what is accepted.
        OSError: The file cannot be read.
    """
    with regular(path, most_bytes, stream=stream) as opened:
        data = opened.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _too_large(most_bytes)
    return data


def regular(path: Path, most_bytes: int, *, stream: bool = False) -> io.BufferedReader:
    """Open a regular file, or with `stream` also a pipe or a device.

    Raises:
        ValueError: The file is not regular, or is larger than `most_bytes`; the message states what is accepted.
        OSError: The file cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if stream else os.O_NONBLOCK))
    try:
        status = os.fstat(file)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if stat.S_ISREG(status.st_mode):
            if status.st_size > most_bytes:
                raise _too_large(most_bytes)
        elif not stream:
            raise ValueError("is not a regular file; accepted: a file that is no pipe and no device")
    except BaseException:
        os.close(file)
        raise
    return open(file, "rb")  # noqa: PTH123 (a descriptor; the caller closes it)


def _too_large(most_bytes: int) -> ValueError:
    return ValueError(f"is larger than {most_bytes >> 20} MiB; accepted: a smaller file")


def read_text(path: Path, accepted: str, *, stream: bool = False) -> str:
    """Read a text file.

    Args:
        path: The file.
        accepted: The accepted files, as errors state them: "a TOML file in UTF-8".
        stream: Also accept pipes and devices.

    Raises:
        UsageError: The file cannot be read, is not UTF-8, is not regular, or is too large.
    """
    try:
        data = contents(path, TEXT_BYTES, stream=stream)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file; accepted: {accepted}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: this is a folder; accepted: {accepted}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; accepted: {accepted}") from None
    except ValueError as error:
        raise UsageError(
            f"{path}: {error}" if "accepted" in str(error) else f"{path}: {error}; accepted: {accepted}"
        ) from None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = data[error.start]
        raise UsageError(f"{path}:{line}: the byte 0x{byte:02x} is not UTF-8; accepted: {accepted}") from None


def inside(folder: Path, name: str, place: str, *, anywhere: bool = False) -> Path:
    """Return the path of a file that a document names relative to its folder.

    Args:
        folder: The folder.
        name: The name in the document.
        place: The document and key, for errors.
        anywhere: Whether the path may leave the folder.

    Raises:
        UsageError: The path leaves the folder, also by a symbolic link.
    """
    path = folder / name
    try:
        within = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a NUL in it, or a loop of links
        raise UsageError(f"{place}: {name!r} is no path; accepted: a file in {folder}") from None
    if not within and not anywhere:
        raise UsageError(f"{place}: {name!r} lies outside {folder}; accepted: a file in it, or --allow-outside")
    return path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically: it is complete or absent, even after a power failure.

    Raises:
        UsageError: The path is a symbolic link.
        OSError: The file cannot be written; the error names it.
    """
    refuse_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with named(path):
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            with open(file, "wb") as opened:  # noqa: PTH123 (a descriptor)
                opened.write(content.encode() if isinstance(content, str) else content)
                opened.flush()
                os.fsync(file)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Name a file in errors that name no file (such as a full disk) or a temporary file beside it."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)).parent != path.parent:
            raise
        if error.errno is None:
            text = str(error)
            raise OSError(text if str(path) in text else f"{path}: {text}") from error
        raise OSError(error.errno, error.strerror or os.strerror(error.errno), str(path)) from error


def refuse_link(path: Path, flag: str = "") -> None:
    """Reject an output path that is a symbolic link: its target would be overwritten, or the link replaced.

    Raises:
        UsageError: The path is a symbolic link.
    """
    if path.is_symlink() and not str(path.absolute()).startswith(_STREAMS):
        place = f"{flag}: " if flag else ""
        raise UsageError(
            f"{place}{path} is a symbolic link; accepted: a path without one at its end, such as its target"
        )


def check_writable(path: Path, *, folder: bool = True, flag: str = "--out", make: bool = True) -> None:
    """Reject an output path before anything runs.

    Args:
        path: The output folder or file.
        folder: Whether `path` is a folder.
        flag: The option that names it.
        make: Whether missing parent folders may be created.

    Raises:
        UsageError: The path is a file instead of a folder or the reverse, a symbolic link, or not writable.
    """
    accepted = "accepted: a new or existing folder" if folder else "accepted: a file in a writable folder"
    try:
        refuse_link(path, flag)
        if path.exists() and path.is_dir() != folder:
            raise UsageError(f"{flag}: {path} is a {'file' if folder else 'folder'}; {accepted}")
        nearest = path if folder else path.parent
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        if not nearest.is_dir():
            raise UsageError(f"{flag}: {nearest} is a file, so {path} cannot be created; {accepted}")
        if not make and not path.parent.is_dir():
            raise UsageError(f"{flag}: there is no folder {path.parent}; {accepted}")
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        raise UsageError(f"{flag}: {path}: {error.strerror}; {accepted}") from None
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
    """Lock a folder of results against other processes and threads, and delete partial files of a killed process.

    A thread that has locked a folder may lock it again.

    Raises:
        UsageError: The folder cannot be created, or it or one of its folders is a symbolic link.
        OSError: Another process or thread has the lock.
    """
    held: set[Path] = _held.__dict__.setdefault("folders", set())
    refuse_link(out, "--out")
    make_folder(out)
    home = out.resolve()
    if home in held:
        yield
        return
    for name in ("runs", "traces", ".lock", "scenario.toml", "results.jsonl", "SHA256SUMS"):
        refuse_link(out / name)
    with named(out / ".lock"):
        lock = os.open(out / ".lock", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"{out}: another narrows is writing here; wait for it, or choose another -o") from None
        found = {*out.glob(".*.part"), *out.glob("*/.*.part")}
        partial = {path for path in found if _PARTIAL.fullmatch(path.name)}
        for leftover in {*partial, *out.glob("runs/.*.json.*"), *out.glob("traces/.*")}:
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
        held.add(home)
        yield
    finally:
        held.discard(home)
        os.close(lock)
