"""Checksums of saved results. They reveal damage, not forgery: write access to a folder includes its checksums.

A saved run is a line of JSON whose last key is `checksum`: the SHA-256 of the line without that key. Its key `traces`
holds the checksums of the trace files, so that a trace belongs to one run. The file `SHA256SUMS` of a folder lists the
files that the command writes last, in the format of `sha256sum -c`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.errors import DamagedError, UsageError
from narrows.files import contents, regular, write_atomic
from narrows.shapes import check_result

SUMS, RESULTS, PLAN = "SHA256SUMS", "results.jsonl", ".plan"
TRACES = "traces"
"""The key of a saved run for the checksums of its trace files, by name."""
_END = re.compile(rb', "checksum": "sha256:([0-9a-f]{64})"\}\n?\Z')
_SUM = re.compile(r"([0-9a-f]{64}) [ *](.+)")
MOST_BYTES = 1 << 30
"""The largest saved run, and the largest file of `SHA256SUMS`."""
MOST_SUMMED = 4 << 30
"""The largest total size of the files in `SHA256SUMS`, which may name one file many times."""
MOST_TRACE = 16 << 30
"""The largest trace file. Traces may exceed memory."""
CHANGED = "does not match its checksum"
NONE = "has no checksum, as of an earlier version"


def with_checksum(result: Mapping[str, Any]) -> str:
    """Format a result as the line of a saved run, without a line break."""
    line = engine.json_line(result)
    return f'{line[:-1]}, "checksum": "sha256:{hashlib.sha256(line.encode()).hexdigest()}"}}'


def read_run(path: Path) -> dict[str, Any] | None:
    """Read a saved run, `runs/ID.json` of a folder of results; `None` if there is none.

    Raises:
        DamagedError: The file is damaged, unreadable, no run, without a checksum, or outside the folder.
    """
    check_inside(path.parents[1], path)
    try:
        data = contents(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise DamagedError(path, _problem(error)) from None
    end = _END.search(data)
    if end is None:
        raise _without_checksum(path, data)
    content = data[: end.start()] + b"}"
    if hashlib.sha256(content).hexdigest().encode() != end[1]:
        raise DamagedError(path, CHANGED)
    return parse(path, content)


def parse(path: Path, content: bytes, place: str = "") -> dict[str, Any]:
    """Parse a result and check its shape.

    Raises:
        DamagedError: The content is no result.
    """
    try:
        result = json.loads(content)
        check_result(result)
        return engine.ordered(result)
    except RecursionError:
        problem = "is nested too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"is no result: {error}"
    raise DamagedError(path, f"{place}{problem}")


def _problem(error: ValueError | OSError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error).partition(";")[0]


def _without_checksum(path: Path, data: bytes) -> DamagedError:
    try:
        whole = isinstance(json.loads(data), dict) and b'"checksum"' not in data
    except (ValueError, RecursionError):
        whole = False
    return DamagedError(path, NONE, old=True) if whole else DamagedError(path, "is cut or changed")


def check_inside(folder: Path, path: Path) -> None:
    """Reject a file that a symbolic link moves out of a folder of results; the folder itself may be a link.

    Raises:
        DamagedError: The file lies outside the folder.
    """
    try:
        within = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        within = False
    if not within:
        raise DamagedError(path, f"is a symbolic link that leads out of {folder}")


def digest(path: Path, most_bytes: int) -> tuple[str, int]:
    """Return the SHA-256 of a regular file, and its size.

    Raises:
        ValueError: The file is not regular, or is too large.
        OSError: The file cannot be read.
    """
    with regular(path, most_bytes) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), os.fstat(file.fileno()).st_size


def trace_sums(folder: Path) -> dict[str, str]:
    """Return the checksums of the trace files of a run.

    Raises:
        UsageError: A file exceeds the largest size that is read.
    """
    try:
        return {path.name: digest(path, MOST_TRACE)[0] for path in sorted(folder.glob("*.parquet"))}
    except ValueError as error:
        accepted = "a longer interval of `trace.samples`, or a trace without packets"
        raise UsageError(f"the trace {_problem(error)}; accepted: {accepted}") from None


def check_file(path: Path, expected: str | None, where: str = "", most_bytes: int = MOST_TRACE) -> int:
    """Compare a file with its checksum, and return its size. Errors say `where` the checksum is.

    Raises:
        DamagedError: The file is missing, changed, not regular or too large, or has no checksum.
    """
    if expected is None:
        raise DamagedError(path, NONE, old=True)
    try:
        found, size = digest(path, most_bytes)
    except FileNotFoundError:
        raise DamagedError(path, f"is missing, and has a checksum{where}") from None
    except (ValueError, OSError) as error:
        raise DamagedError(path, _problem(error)) from None
    if found != expected:
        raise DamagedError(path, CHANGED + where)
    return size


def traces_of(out: Path, run: str) -> dict[str, Path]:
    """Return the trace files of a run by name; none if it has no trace.

    Raises:
        DamagedError: A trace file or the run is damaged or missing.
    """
    folder = out / TRACES / run
    saved = out / "runs" / f"{run}.json"
    result = read_run(saved)
    if result is None:
        if folder.is_dir():
            raise DamagedError(saved, "is missing, so its trace cannot be checked")
        return {}
    found = {name: folder / name for name in result.get(TRACES, {})}
    for name, path in found.items():
        check_inside(out, path)
        check_file(path, result[TRACES][name])
    return found


def write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of finished work, and their checksums last."""
    (folder / SUMS).unlink(missing_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    write_atomic(folder / SUMS, "".join(sums))


def saved_results(folder: Path) -> list[dict[str, Any]] | None:
    """Read the results of a finished command; `None` if it did not finish, or only its runs are left.

    Raises:
        DamagedError: A file is damaged, or the results have neither checksum nor runs.
    """
    sums, table = read_sums(folder), folder / RESULTS
    if sums is None:
        if table.is_file() and not any((folder / "runs").glob("*.json")):
            raise DamagedError(table, NONE, old=True)
        return None
    left = MOST_SUMMED
    for name in (RESULTS, *sums):
        check_inside(folder, folder / name)
    for name, expected in sums.items():
        left -= check_file(folder / name, expected, f" in {SUMS}", min(left, MOST_BYTES))
    if RESULTS not in sums:
        raise DamagedError(folder / SUMS, f"has no checksum of {RESULTS}")
    try:
        lines = contents(table, MOST_BYTES).splitlines()
    except (ValueError, OSError) as error:
        raise DamagedError(table, _problem(error)) from None
    return [parse(table, line, f"line {at} ") for at, line in enumerate(lines, 1) if line.strip()]


def write_plan(folder: Path, runs: Iterable[str]) -> None:
    """Write the ids of the runs of the command that fills a folder of results."""
    write_atomic(folder / PLAN, "".join(f"{run}\n" for run in runs))


def read_plan(folder: Path) -> set[str] | None:
    """Read the ids of the runs of the last command; `None` if an earlier version wrote the folder.

    Raises:
        DamagedError: The file cannot be read, or lies outside the folder.
    """
    path = folder / PLAN
    check_inside(folder, path)
    try:
        return set(contents(path, MOST_BYTES).decode().split())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise DamagedError(path, _problem(error) if isinstance(error, OSError) else "is no list of runs") from None


def saved_runs(folder: Path) -> list[dict[str, Any]]:
    """Read the saved runs of the last command in a folder `runs`, in the order of their names.

    Runs of earlier commands stay in the folder for reuse, but are not among the results.

    Raises:
        DamagedError: A run is damaged, has no checksum, or has the name of another run.
    """
    found, plan = [], read_plan(folder.parent)
    for path in sorted(folder.glob("*.json")):
        if plan is not None and path.stem not in plan:
            continue
        result = read_run(path)
        if result is None:
            continue
        if result.get("id") != path.stem:
            raise DamagedError(path, f"holds the run {result.get('id')!r}")
        result.pop(TRACES, None)
        found.append(result)
    return found


def read_sums(folder: Path) -> dict[str, str] | None:
    """Read the checksums of a folder; `None` if there are none.

    Raises:
        DamagedError: The file is damaged.
    """
    path = folder / SUMS
    check_inside(folder, path)
    try:
        lines = contents(path, 1 << 20).decode().splitlines()
    except FileNotFoundError:
        return None
    except (ValueError, OSError):
        raise DamagedError(path, "is no list of checksums") from None
    found = [_SUM.fullmatch(line) for line in lines]
    if not found or not all(match is not None and not {"/", "\0"} & set(match[2]) for match in found):
        raise DamagedError(path, "is no list of checksums")
    return {match[2]: match[1] for match in found if match is not None}
