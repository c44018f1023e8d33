"""Colours, lines and file formats of figures. A scheme looks the same in all of them, by its place in the registry."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from narrows import engine

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, distinct with any colour vision; without their yellow, which is invisible on white paper."""
DARKER = ("#00466E", "#853A00", "#006248", "#7F4B68", "#8F6300", "#357090", "#808080")
LIGHTER = ("#66AAD1", "#E69E66", "#66C5AB", "#E0AFCA", "#F0C566", "#9AD2F2", "#B3B3B3")
TONES = (*COLOURS, *DARKER, *LIGHTER)
"""Colours of schemes, in registry order. Darker and lighter tones come with other lines and markers."""
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
UNITS = ("mbit_s", "percent", "bytes", "pkt", "ms", "s")
"""Units at the end of column names."""
SPELLED = {"mbit_s": "Mbit/s", "percent": "%", "pkt": "packets"}
"""Units whose spelling in labels differs from that in column names."""

RC: Any = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "lines.linewidth": 1.2, "legend.frameon": False, "svg.hashsalt": "narrows",
}  # fmt: skip
"""Matplotlib's settings for all figures."""


class Drawing(Figure):
    """A matplotlib figure that notebooks display without a backend."""

    def _repr_png_(self) -> bytes:
        return image(self, "png")


def scheme_colour(scheme: str) -> str:
    """Return the colour of a scheme."""
    return TONES[engine.scheme_order().get(scheme, 0) % len(TONES)]


def scheme_style(scheme: str) -> dict[str, Any]:
    """Return colour, line and marker of a scheme."""
    turn = engine.scheme_order().get(scheme, 0) // len(COLOURS)
    return {
        "color": scheme_colour(scheme),
        "linestyle": LINES[turn % len(LINES)],
        "marker": MARKERS[turn % len(MARKERS)],
    }


def series_style(first: str, turn: int, key: Sequence[Any]) -> dict[str, Any]:
    """Return colour, line and marker of a series.

    Args:
        first: The first part of the key. If it is a scheme, the series has that scheme's style.
        turn: The position of the series; selects the style of any other series.
        key: All parts of the key.
    """
    name, colon, _ = first.partition(":")
    if name in engine.scheme_order():
        chosen = scheme_style(name)
        if colon:  # the scheme without parameters keeps the first line
            return chosen | {"linestyle": LINES[1 + turn % (len(LINES) - 1)]}
        return chosen if len(key) == 1 else chosen | {"linestyle": LINES[turn % len(LINES)]}
    return {
        "color": COLOURS[turn % len(COLOURS)],
        "linestyle": LINES[turn // len(COLOURS) % len(LINES)],
        "marker": MARKERS[turn // len(COLOURS) % len(MARKERS)],
    }


def series_name(key: Sequence[Any]) -> str:
    """Return the name of a series: the parts of its key."""
    return ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)


def image(figure: Figure, form: str = "png", dpi: int = 150) -> bytes:
    """Return the figure as the bytes of a file; equal figures give equal bytes."""
    buffer = io.BytesIO()
    with mpl.rc_context(RC):
        metadata: dict[str, Any] = {"Software": None} if form == "png" else {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
