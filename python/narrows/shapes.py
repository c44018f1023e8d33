"""Checks the shape of results from files, before frames and figures use them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from narrows import engine

ID = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]{0,127}")
"""A run's id, which names its files."""
_TEXTS = ("version", "scenario", "scheme", "link", "connection", "label", "params", "event_hash", "run_hash")
_WHOLE = ("seed", "events", "data_packets", "subflows", *engine.CONNECTION_COUNTS)
_NUMBERS = re.compile(r"\w+_(s|ms|us|bytes|pkt|percent|sent)")
"""Names of other numeric fields: they end in a unit."""
_PLANNED = ("duration_s", "rtt_base_ms")
"""Numbers known from the plan, which every backend reports."""
_GROUPS = ("counters", "host")
_TABLES = {"flows": engine.FLOW_FIELDS, "links": engine.LINK_FIELDS, "connections": engine.CONNECTION_FIELDS}
LARGEST = 1 << 63
"""More than any quantity of a run; figures cannot show numbers near the largest float."""


def check_result(result: Any) -> None:
    """Check the types of a result.

    Raises:
        ValueError: Its shape differs from that of the engine's results.
    """
    if not isinstance(result, Mapping):
        raise ValueError("not a table")
    if not isinstance(result.get("id", ""), str) or ("id" in result and not ID.fullmatch(result["id"])):
        raise ValueError(f"id is {result['id']!r}")
    point = result.get("point", {})
    if not isinstance(point, Mapping):
        raise ValueError("point is no table of values")
    for key, value in point.items():
        if not isinstance(value, str) and not _counts(value):
            raise ValueError(f"point: {key} is {str(value)[:40]!r}")
    traces = result.get("traces", {})
    if not isinstance(traces, Mapping) or not all(ID.fullmatch(key) and isinstance(traces[key], str) for key in traces):
        raise ValueError("traces is no table of checksums")
    _check_row("", result, engine.RUN_FIELDS)
    for table, fields in _TABLES.items():
        rows = result.get(table, [])
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(f"{table} is no list of tables")
        for row in rows:
            _check_row(f"{table}: ", row, fields)


def _counts(value: Any) -> bool:
    """Return whether a value is a number of plausible size."""
    return isinstance(value, int | float) and -LARGEST <= value < LARGEST


def _check_row(place: str, row: Mapping[str, Any], fields: tuple[str, ...]) -> None:
    for key in fields:
        if key not in row:
            raise ValueError(f"{place}{key} is missing")
    for key, value in row.items():
        if key in _TEXTS:
            fits = isinstance(value, str)
        elif key in _WHOLE:
            fits = isinstance(value, int) and not isinstance(value, bool)
        elif key in _GROUPS:
            fits = isinstance(value, Mapping | None)
        elif (key in fields and key not in ("flow", "flows", "links")) or _NUMBERS.fullmatch(key):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            fits = number or (value is None and key not in _PLANNED)
        else:
            fits = isinstance(value, str | int | float | list | Mapping | None)
        if not fits or (isinstance(value, int | float) and not _counts(value)):
            raise ValueError(f"{place}{key} is {str(value)[:40]!r}")
