"""Parses texts with units, for axes and options. Scenarios are validated by the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence

from narrows.errors import UsageError

MOST_MBIT_S, MOST_MS = 1e6, 1e12
"""The greatest rate and time of options."""
_SCALES: dict[str, tuple[float, str]] = {
    "bit": (1e-6, "Mbit/s"), "kbit": (1e-3, "Mbit/s"), "mbit": (1.0, "Mbit/s"), "gbit": (1e3, "Mbit/s"),
    "ns": (1e-6, "ms"), "us": (1e-3, "ms"), "µs": (1e-3, "ms"), "ms": (1.0, "ms"), "s": (1e3, "ms"),
    "b": (1e-3, "kB"), "byte": (1e-3, "kB"), "bytes": (1e-3, "kB"), "kb": (1.0, "kB"), "mb": (1e3, "kB"),
    "gb": (1e6, "kB"), "kib": (1.024, "kB"), "mib": (1048.576, "kB"),
    "bdp": (1.0, "BDP"), "pkt": (1.0, "packets"), "%": (1.0, "%"), "": (1.0, ""),
}  # fmt: skip
_SHAPE = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ%]*)(?:/s)?\s*(?:@.*)?")


def quantity(text: str) -> tuple[float, str] | None:
    """Return value and unit: (5.0, "Mbit/s") for "5mbit", (0.1, "BDP") for "0.1bdp@10ms", `None` for a word."""
    match = _SHAPE.fullmatch(str(text))
    if match is None:
        return None
    scale = _SCALES.get(match[2].lower())
    return None if scale is None else (float(match[1]) * scale[0], scale[1])


def rate(text: str, flag: str) -> float:
    """Parse a rate. Returns Mbit/s.

    Raises:
        UsageError: The text is not a rate above zero.
    """
    found = quantity(text)
    if found is None or found[1] != "Mbit/s" or not 0 < found[0] <= MOST_MBIT_S:
        raise UsageError(f"{flag}: {text!r} is not a rate above zero; accepted: a number with a unit, 100mbit or 2gbit")
    return found[0]


def seconds(text: str, flag: str) -> float:
    """Parse a duration. Returns seconds.

    Raises:
        UsageError: The text is not a duration above zero.
    """
    found = quantity(text)
    if found is None or found[1] != "ms" or not 0 < found[0] < MOST_MS:
        raise UsageError(f"{flag}: {text!r} is not a time above zero; accepted: a number with a unit, 10s or 500ms")
    return found[0] / 1e3


def axis(texts: Sequence[str]) -> tuple[list[float], str] | None:
    """Return all values in their common unit; `None` if the units differ. A bare zero fits any unit."""
    found = [quantity(text) for text in texts]
    present = [pair for pair in found if pair is not None]
    if len(present) < len(found) or not present:
        return None
    units = {unit for value, unit in present if not (value == 0 and unit == "")}
    if len(units) > 1:
        return None
    return [value for value, _ in present], next(iter(units), "")
