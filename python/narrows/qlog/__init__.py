"""Reads qlog files of this and other stacks as results that can be plotted.

`reading` yields the events of a file in any form, `events` maps their names and values to one meaning, `samples` builds
the frames. Files are untrusted: errors name the line. Limits on sizes and counts bound the memory: one event as objects
at a time, the text of a file with one object, and the values drawn.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from narrows.arguments import check_arguments
from narrows.errors import UsageError
from narrows.qlog.events import Connection, Reader
from narrows.qlog.reading import accepts, traces
from narrows.qlog.samples import Logged
from narrows.qlog.walk import ACCEPTED

__all__ = ["Logged", "accepts", "load"]


def load(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Logged:
    """Load qlog files: one run, whose flows are the connections of all files. Times begin at each trace's first event.

    Args:
        paths: One file, or several.

    Raises:
        UsageError: A file cannot be read, is no qlog, or has neither metrics nor packets.
    """
    check_arguments(paths=paths)
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    files: list[tuple[Path, list[Connection]]] = []
    for path in map(Path, named):
        reader = Reader(path)
        try:
            for trace in traces(path):
                reader.read(trace)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UsageError(f"{path}: this is no whole gzip file ({error}); {ACCEPTED}") from None
        connections = reader.connections()
        if not connections:
            raise UsageError(
                f"{path}: the file has neither metrics nor packets; accepted: a qlog with events of QUIC, such as"
                " quic:recovery_metrics_updated or quic:packet_sent"
            )
        files.append((path, connections))
    return Logged(files)
