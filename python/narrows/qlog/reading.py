"""The forms of qlog files: one JSON object with traces, or a sequence of JSON texts, a header and then events.

| form | versions |
|---|---|
| object with `traces` | `qlog_version` draft-00 to 0.4, or `file_schema` `urn:ietf:params:qlog:file:contained` |
| sequence (RFC 7464, or an object per line) | `qlog_version` 0.3 and 0.4, or `file_schema` `…:file:sequential` |

Old events are lists whose columns the trace names in `event_fields`.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from narrows.arguments import shown
from narrows.errors import UsageError
from narrows.files import regular
from narrows.qlog import walk as walking
from narrows.qlog.walk import ACCEPTED, SHORTER, Walk, refuse

ENDINGS = (".qlog", ".sqlog", ".qlog.gz", ".sqlog.gz")
MOST_BYTES = 64 << 20
"""The largest file with one object, which memory holds as text."""
MOST_TRACES = 1_000
"""The most traces of a file."""
MOST_EVENTS = 20_000_000
"""The most events of a file."""
SCHEMAS = "urn:ietf:params:qlog:file:"
_SEPARATOR = b"\x1e"
_VERSION = re.compile(r"(draft-0\d|0\.[0-4])(\D.*)?")
_HEAD = frozenset(("file_schema", "qlog_version", "title"))
"""Members of a file that the reader uses."""
_TRACE_HEAD = frozenset(("title", "common_fields", "configuration", "event_fields", "vantage_point"))
"""Members of a trace, besides its events, that the reader uses."""


@dataclass(frozen=True)
class Trace:
    """A trace of a file."""

    place: str
    """The file and line where it begins."""
    head: Mapping[str, Any]
    """Its members without the events."""
    title: str
    """The title of the file, or of the trace."""
    events: Iterator[tuple[int, Any]]
    """The line of each event, and the event."""


def accepts(path: Path) -> bool:
    """Return whether the name of a file is that of a qlog."""
    return path.name.lower().endswith(ENDINGS)


def traces(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file. Read the events of one before requesting the next.

    Raises:
        UsageError: The file cannot be read, or is no qlog.
    """
    try:
        with _opened(path) as file:
            if _is_sequence(file):
                yield _sequence(path, file)
            else:
                yield from _contained(path, file)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file; {ACCEPTED}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: this is a folder; {ACCEPTED}") from None
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise
        raise UsageError(f"{path}: {error.strerror}; {ACCEPTED}") from None


def _opened(path: Path) -> BinaryIO:
    """Open a regular file of any size, compressed or not."""
    try:
        file = regular(path, sys.maxsize)
    except ValueError as error:
        raise UsageError(f"{path} {error}") from None
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if path.suffix.lower() == ".gz" else file


def _is_sequence(file: BinaryIO) -> bool:
    """Return whether a file begins with a separator, or with the header of a sequence in a line of its own.

    Leaves the file behind a byte order mark.
    """
    begin = len(codecs.BOM_UTF8) if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0
    file.seek(begin)
    line = file.readline(walking.MOST_RECORD_BYTES)
    file.seek(begin)
    if line.startswith(_SEPARATOR):
        return True
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and "traces" not in head


def decode(path: Path, line: int, text: bytes) -> Any:
    """Parse a JSON text that begins in this line.

    Raises:
        UsageError: It is not valid.
    """
    try:
        return json.loads(text.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        line += text.count(b"\n", 0, error.start)
        refuse(path, line, f"the byte 0x{text[error.start]:02x} is not UTF-8")
    except json.JSONDecodeError as error:
        refuse(path, line + error.lineno - 1, f"this is no JSON: {error.msg}")
    except RecursionError:
        refuse(path, line, "the JSON is nested too deeply")
    except ValueError as error:
        refuse(path, line, f"this is no JSON: {str(error).partition(';')[0]}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _records(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the texts of a sequence with their first lines: from separator to separator, or line by line.

    A last text without a newline that is no JSON comes from a killed writer and is dropped.
    """
    separated = file.peek(1)[:1] == _SEPARATOR  # type: ignore[attr-defined]
    number, begin, pending = 0, 1, bytearray()
    while line := file.readline(walking.MOST_RECORD_BYTES + 1):
        number += 1
        first, *others = line.split(_SEPARATOR) if separated else [line]
        pending.extend(first)
        for text in others:
            if pending.strip():
                yield begin, bytes(pending)
            begin, pending = number, bytearray(text)
        if len(pending) > walking.MOST_RECORD_BYTES:
            refuse(path, begin, f"a text has more than {walking.MOST_RECORD_BYTES >> 20} MiB", SHORTER)
        if not separated and line.endswith(b"\n"):
            if line.strip():
                yield begin, bytes(pending)
            begin, pending = number + 1, bytearray()
    whole = pending.endswith(b"\n") or begin == 1 or _is_json(pending)  # a truncated header is an error
    if whole and pending.strip():
        yield begin, bytes(pending)


def _is_json(text: bytes | bytearray) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _sequence(path: Path, file: BinaryIO) -> Trace:
    """Return the trace of a sequence."""
    records = _records(path, file)
    line, text = next(records, (1, b""))
    head = decode(path, line, text)
    _check_head(path, line, head)
    trace = head.get("trace", {})
    if not isinstance(trace, dict):
        refuse(path, line, "`trace` is no object")

    def events() -> Iterator[tuple[int, Any]]:
        for line, text in _counted(path, records):
            yield line, decode(path, line, text)

    return Trace(f"{path}:{line}", trace, _title(head, trace), events())


def _counted(path: Path, records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    for count, (line, record) in enumerate(records):
        if count == MOST_EVENTS:
            refuse(path, line, f"the file has more than {MOST_EVENTS:,} events", "accepted: a shorter log")
        yield line, record


def _check_head(path: Path, line: int, head: Any) -> None:
    """Reject a head that is not of a qlog."""
    if not isinstance(head, dict) or not {"qlog_version", "file_schema"} & set(head):
        refuse(path, line, "this is no qlog: it has neither `file_schema` nor `qlog_version`")
    schema, version = head.get("file_schema"), head.get("qlog_version")
    if schema is not None and not str(schema).startswith(SCHEMAS):
        refuse(path, line, f"unknown file_schema {shown(schema, 60)}")
    if schema is None and not _VERSION.fullmatch(str(version)):
        refuse(path, line, f"unknown qlog_version {shown(version, 60)}")


def _title(head: Mapping[str, Any], trace: Mapping[str, Any]) -> str:
    return next((title for title in (trace.get("title"), head.get("title")) if isinstance(title, str)), "")


def _contained(path: Path, file: BinaryIO) -> Iterator[Trace]:
    """Yield the traces of an object. It stays text; events become objects one by one."""
    size = MOST_BYTES if isinstance(file, gzip.GzipFile) else min(os.fstat(file.fileno()).st_size, MOST_BYTES)
    data = file.read(size + 1)  # a buffer of this size is made first
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB; accepted: a smaller file, or JSON-SEQ")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        refuse(path, line, f"the byte 0x{data[error.start]:02x} is not UTF-8")
    del data
    walk = Walk(path, text, _no_constant)
    head: dict[str, Any] = {}
    places: list[tuple[int, dict[str, Any], int | None]] = []
    if not walk.opens("{"):
        walk.refuse("this is no qlog")
    for key in walk.members():
        if key != "traces":
            _take(walk, head, key, _HEAD)
            continue
        if not walk.opens("["):
            walk.refuse("`traces` is no list")
        for _ in walk.items("]"):
            if len(places) == MOST_TRACES:
                refuse(path, walk.line(), f"the file has more than {MOST_TRACES:,} traces", "accepted: fewer traces")
            places.append(_place_of(walk))
    walk.end()
    _check_head(path, 1, head)
    if not places:
        refuse(path, 1, "the qlog has no trace")
    for line, trace, start in places:
        yield Trace(f"{path}:{line}", trace, _title(head, trace), _counted(path, walk.events(start)))


def _take(walk: Walk, head: dict[str, Any], key: str, read: frozenset[str]) -> None:
    """Parse a member in `read`, and skip others. All heads together are at most as long as an event."""
    begin = walk.at
    if key not in read:
        walk.skip()
        return
    head[key] = walk.value()
    walk.taken += walk.at - begin
    if walk.taken > walking.MOST_RECORD_BYTES:
        walk.refuse(f"the heads have more than {walking.MOST_RECORD_BYTES >> 20} MiB", SHORTER)


def _place_of(walk: Walk) -> tuple[int, dict[str, Any], int | None]:
    """Return the line of a trace, its members, and the position of its first event."""
    line, trace, start = walk.line(), dict[str, Any](), None
    if not walk.opens("{"):
        walk.refuse("a trace is no object")
    for key in walk.members():
        if key != "events":
            _take(walk, trace, key, _TRACE_HEAD)
            continue
        if not walk.opens("["):
            walk.refuse("`events` is no list")
        start = walk.at
        for _ in walk.items("]"):
            walk.value()
    return line, trace, start
