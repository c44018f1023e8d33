"""Sizes, fonts, colours, lines and file formats of figures.

A scheme has the same style in all figures; its position in the registry selects it.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from narrows import engine
from narrows.arguments import shown
from narrows.errors import OptionError, UsageError

_OF_PROGRAMS = ("backend", "backend_fallback", "date.epoch", "interactive", "savefig.directory", "toolbar")
DEFAULTS: Any = {key: value for key, value in mpl.rcParamsDefault.items() if key not in _OF_PROGRAMS} | {
    "text.parse_math": False
}
"""matplotlib's own settings, except that a dollar sign in a text starts no mathematics.

A settings file could start a program: `text.usetex` starts LaTeX.
"""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, distinct with any colour vision; without their yellow, which is invisible on white paper."""
DARKER = ("#00466E", "#853A00", "#006248", "#7F4B68", "#8F6300", "#357090", "#808080")
LIGHTER = ("#66AAD1", "#E69E66", "#66C5AB", "#E0AFCA", "#F0C566", "#9AD2F2", "#B3B3B3")
TONES = (*COLOURS, *DARKER, *LIGHTER)
"""Colours of schemes, in registry order. Darker and lighter tones come with other lines and markers."""
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
HATCHES = ("//", "..", "xx", "--")
"""Hatches of the bars of schemes with parameters."""
COLOUR_MAP = "cividis"
"""Colours of heatmaps: even steps of lightness, with any colour vision and in print without colour."""
NEUTRAL = "#444444"
"""The colour of series without a scheme."""

RC: Any = {
    "font.size": 9, "axes.titlesize": "medium", "figure.titlesize": "large", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "grid.linewidth": 0.6, "lines.linewidth": 1.2,
    "lines.markersize": 4, "legend.frameon": False, "svg.hashsalt": "narrows",
}  # fmt: skip
"""Matplotlib's settings for all figures."""


@dataclass(frozen=True)
class Size:
    """The size of a figure: lengths in inches, resolution of bitmaps in dots per inch."""

    width: float | None = None
    """The width; `None` derives it from the number of panels."""
    single: tuple[float, float] = (5.6, 3.6)
    """Width and height of a figure with one panel."""
    panel: tuple[float, float] = (3.4, 1.9)
    """Width and height of each of several panels."""
    narrow: float = 2.5
    """Width of each of more than two panels side by side."""
    across: int = 2
    """Panels side by side."""
    in_rows: int = 4
    """Panels side by side if there are rows of them."""
    dpi: int = 150
    look: Any = field(default_factory=lambda: RC)
    """Matplotlib's settings."""

    def inches(self, across: int, down: int) -> tuple[float, float]:
        """Return width and height of a figure of `across` × `down` panels."""
        if across * down == 1:
            return self.single
        each = self.narrow if across > 2 else self.panel[0]
        return self.width or 0.6 + each * across, 0.9 + self.panel[1] * down


SIZES: Mapping[str, Size] = {
    "column": Size(
        3.5, (3.5, 2.5), (1.6, 1.3), 1.1, 2, 2, 300,
        RC | {
            "font.size": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7,
            "figure.titlesize": "medium", "lines.linewidth": 1.0, "lines.markersize": 3, "axes.labelpad": 2.0,
            "legend.columnspacing": 1.0, "legend.handletextpad": 0.5,
        },
    ),
    "page": Size(7.16, (7.16, 3.8), (2.3, 1.7), 2.3, 3, 4, 300, RC | {"legend.fontsize": 8}),
}  # fmt: skip
"""Figures for papers of two columns (IEEE: 3.5 and 7.16 inches), whose fonts keep their size in print."""


def size_of(name: str | None) -> Size:
    """Return a size of `SIZES`, or that of figures on screens.

    Raises:
        OptionError: There is no such size.
    """
    if name is None:
        return Size()
    if name not in SIZES:
        raise OptionError("size", f"there is no size {name!r}; accepted: {', '.join(SIZES)}")
    return SIZES[name]


class Drawing(Figure):
    """A matplotlib figure that notebooks display without a backend, with the fonts of its size."""

    def __init__(self, size: Size | None = None, inches: tuple[float, float] | None = None) -> None:
        size = size or Size()
        super().__init__(figsize=inches or size.single, layout="constrained")
        self.look: Any = size.look
        self.resolution = size.dpi

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
        turn: The position of the series; selects its style otherwise.
        key: All parts of the key.
    """
    name, colon, _ = first.partition(":")
    if name in engine.scheme_order():
        chosen = scheme_style(name)
        if colon:  # only a scheme without parameters has the first line style
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


class PowerFormatter(LogFormatterSciNotation):
    """Labels logarithmic ticks with plain characters (10²) instead of matplotlib's mathematics."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick."""
        text = re.sub(r"\$\\mathdefault\{(.*)\}\$", r"\1", super().__call__(x, pos)).replace(r"\times", "×")
        return re.sub(r"\^\{(-?\d+)\}", lambda power: power[1].translate(_RAISED), text)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def without_mathematics(figure: Figure) -> Figure:
    """Label the logarithmic axes of a figure with plain characters."""
    for axis in [axis for panel in figure.axes for axis in (panel.xaxis, panel.yaxis)]:
        if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
            axis.set_major_formatter(PowerFormatter())
        if isinstance(axis.get_minor_formatter(), LogFormatterSciNotation):
            axis.set_minor_formatter(PowerFormatter(labelOnlyBase=False))
    return figure


@contextlib.contextmanager
def boxes_for_glyphs() -> Iterator[None]:
    """Draw characters that the font lacks as boxes, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def image(figure: Figure, form: str = "png", dpi: int | None = None) -> bytes:
    """Return the figure as the bytes of a file; equal figures give equal bytes.

    Args:
        figure: The figure.
        form: `png`, `svg` or `pdf`.
        dpi: The resolution of bitmaps in dots per inch; by default that of the figure's size.

    Raises:
        UsageError: The argument is no figure.
    """
    if not isinstance(figure, Figure):
        raise UsageError(f"figure: {shown(figure)} does not fit; accepted: a figure, such as plot returns")
    buffer = io.BytesIO()
    size = Size()
    if dpi is None:
        dpi = getattr(figure, "resolution", size.dpi)
    look: Any = getattr(figure, "look", size.look)
    with mpl.rc_context({**DEFAULTS, **look}), boxes_for_glyphs():
        metadata: dict[str, Any] = {"Software": None} if form == "png" else {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=dpi, metadata=metadata)
    if form == "svg":  # its comments repeat labels, and XML allows no control characters
        return re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", lambda found: b"\\x%02x" % found[0][0], buffer.getvalue())
    return buffer.getvalue()
