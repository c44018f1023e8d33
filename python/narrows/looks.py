"""Colours, lines and files of figures: a scheme looks the same in all of them, by its place in the registry."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from narrows import engine

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart with any colour vision; without their yellow, which white paper swallows."""
DARKER = ("#00466E", "#853A00", "#006248", "#7F4B68", "#8F6300", "#357090", "#808080")
LIGHTER = ("#66AAD1", "#E69E66", "#66C5AB", "#E0AFCA", "#F0C566", "#9AD2F2", "#B3B3B3")
TONES = (*COLOURS, *DARKER, *LIGHTER)
"""Colours of schemes: the seven, then darker and lighter tones of them, which have other lines and markers too."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
UNITS = ("mbit_s", "percent", "bytes", "pkt", "ms", "s")
SPELLED = {"mbit_s": "Mbit/s", "percent": "%", "pkt": "packets"}
"""Units at the end of a column's name, and how those are written that are written otherwise."""

RC: Any = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "lines.linewidth": 1.2, "legend.frameon": False, "svg.hashsalt": "narrows",
}  # fmt: skip


class Drawing(Figure):
    """A matplotlib figure that notebooks show without a backend."""

    def _repr_png_(self) -> bytes:
        return image(self, "png")


def colour(scheme: str) -> str:
    """The colour of a scheme."""
    return TONES[engine.scheme_order().get(scheme, 0) % len(TONES)]


def style(scheme: str) -> dict[str, Any]:
    """Colour, line and marker of a scheme."""
    place = engine.scheme_order().get(scheme, 0)
    turn = place // len(COLOURS)
    return {
        "color": colour(scheme),
        "linestyle": STYLES[turn % len(STYLES)],
        "marker": MARKERS[turn % len(MARKERS)],
    }


def name(key: Sequence[Any]) -> str:
    """The name of a series: the parts of its key."""
    return ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)


def look(first: str, turn: int, key: Sequence[Any]) -> dict[str, Any]:
    """Colour, line and marker of a series: those of the scheme that its key begins with, else by its turn."""
    if first.partition(":")[0] in engine.scheme_order():
        chosen = style(first.partition(":")[0])
        if ":" in first:  # beside the scheme as it is, which has a line of its own
            return chosen | {"linestyle": STYLES[1 + turn % (len(STYLES) - 1)]}
        return chosen if len(key) == 1 else chosen | {"linestyle": STYLES[turn % len(STYLES)]}
    return {
        "color": COLOURS[turn % len(COLOURS)],
        "linestyle": STYLES[turn // len(COLOURS) % len(STYLES)],
        "marker": MARKERS[turn // len(COLOURS) % len(MARKERS)],
    }


def image(figure: Figure, form: str = "png", dpi: int = 150) -> bytes:
    """The figure's file as bytes, the same every time."""
    buffer = io.BytesIO()
    with mpl.rc_context(RC):
        metadata: dict[str, Any] = {"Software": None} if form == "png" else {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=dpi, metadata=metadata)
    return buffer.getvalue()
