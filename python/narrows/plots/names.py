"""Words of figures: labels of axes, titles of panels, names of series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from narrows import provenance

UNITS = ("mbit_s", "percent", "bytes", "pkt", "ms", "s")
"""Units at the end of column names."""
SPELLED = {"mbit_s": "Mbit/s", "percent": "%", "pkt": "packets"}
"""Units whose spelling in labels differs from that in column names."""
NAMED = {
    "spec": "scheme",
    "rtt_base_ms": "base RTT, ms",
    "rtt_min_ms": "min RTT, ms",
    "rtt_mean_ms": "mean RTT, ms",
    "jain": "Jain's index",
}
"""Labels of columns whose names do not give them."""
VALUE_UNITS = {
    "bit": "bit/s", "kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "ns": "ns", "us": "µs", "µs": "µs",
    "ms": "ms", "s": "s", "b": "B", "byte": "B", "bytes": "B", "kb": "kB", "mb": "MB", "gb": "GB", "kib": "KiB",
    "mib": "MiB", "bdp": "BDP", "pkt": "packets", "%": "%",
}  # fmt: skip
"""Units of values in scenarios, as labels spell them."""
PLAIN = frozenset({"spec", "scheme", "flows.scheme", "label", "flow", "link", "connection", "series", "x"})
"""Columns whose values need no key in a legend."""
VERBATIM = frozenset({"panel", "row"})
"""Columns of queries whose values are the titles themselves."""
_VALUE = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ%]+)(?:/s)?\s*(?:@\s*(.*))?")


def label(column: str, unit: str = "") -> str:
    """Return the axis label of a column: its name and unit.

    Args:
        column: The column.
        unit: The unit of a swept key; names of other columns end with their unit.
    """
    if unit:
        return f"{column.rpartition('.')[2]}, {unit}"
    if column in NAMED:
        return NAMED[column]
    for ending in UNITS:
        if column.endswith(f"_{ending}"):
            name = column.removesuffix(f"_{ending}").replace("_", " ")
            return f"{re.sub(r'^rtt', 'RTT', name)}, {SPELLED.get(ending, ending)}"
    return column.rpartition(".")[2].replace("_", " ")


def value_text(value: Any, column: str = "") -> str:
    """Return a value with its unit: "2 BDP" for "2bdp", "40 ms" for 40.0 of a column in ms, "unset" for null."""
    if value is None:
        return "unset"
    if isinstance(value, float):
        unit = label(column).rpartition(", ")[2] if ", " in label(column) else ""
        return f"{value:g} {unit}".strip()
    match = _VALUE.fullmatch(str(value))
    if match is None or match[2].lower() not in VALUE_UNITS:
        return str(value)
    text = f"{float(match[1]):g} {VALUE_UNITS[match[2].lower()]}"
    return f"{text} at {value_text(match[3])}" if match[3] else text


def pair(column: str, value: Any, columns: Sequence[str] = ()) -> str:
    """Return key, value and unit: "rtt = 40 ms".

    Args:
        column: The column. Values of `panel` and `row` of a query stand alone.
        value: Its value.
        columns: All keys. If another key has the same last part, the text has the whole key.
    """
    if column in VERBATIM:
        return provenance.marked(str(value))
    alike = {name for name in columns if name.rpartition(".")[2] == column.rpartition(".")[2]} - {column}
    name = column if alike else label(column).partition(", ")[0]
    return f"{name} = {provenance.marked(value_text(value, column))}"


def series_label(by: Sequence[str], key: Sequence[Any], columns: Sequence[str] = ()) -> str:
    """Return the name of a series in a legend: "NAME, base RTT = 40 ms".

    Args:
        by: The columns that separate series.
        key: Their values.
        columns: All keys; see `pair`.
    """
    return ", ".join(
        provenance.marked(f"{value:g}" if isinstance(value, float) else str(value))
        if name in PLAIN
        else pair(name, value, columns)
        for name, value in zip(by, key, strict=True)
    )
