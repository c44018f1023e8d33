"""The panels of a figure: their grid, titles, scales and legends."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows import provenance
from narrows.plots.names import VERBATIM, label, pair, value_text
from narrows.plots.rows import Data, ranks
from narrows.plots.style import Drawing, size_of
from narrows.quantities import axis

MANY = 40
"""With more than this many values of x, an axis is linear by default and its curves have no markers."""
WIDE = 20.0
"""The ratio of largest to smallest value above which an axis is logarithmic by default."""


@dataclass(frozen=True)
class Panel:
    """A panel: its values of `panel` and `row`, its rows, its axes, and the edges of the grid that it touches."""

    panel: str
    row: str
    title: str
    ylabel: str
    """The label of its y axis, if that differs between panels."""
    rows: pl.DataFrame
    axes: Axes
    left: bool
    bottom: bool

    def has(self, point: Mapping[str, Any]) -> bool:
        """Whether a printed point belongs to this panel."""
        return bool(point.get("panel", self.panel) == self.panel and point.get("row", self.row) == self.row)


@dataclass(frozen=True)
class Layout:
    """How panels are arranged: the columns that separate them, and options of the figure."""

    panel: str | None = None
    row: str | None = None
    columns: int | None = None
    """Panels side by side; by default the number that suits the size."""
    own_axes: bool = False
    size: str | None = None

    def grid(self, data: Data) -> tuple[Figure, list[Panel]]:
        """Create the figure and its panels: values of `panel` side by side, values of `row` below each other.

        Rows of a query's column `row` show different quantities and have their own y axes.
        """
        size = size_of(self.size)
        if self.panel is None and self.row is None:
            figure = Drawing(size)
            return figure, [Panel("", "", "", "", data.rows, figure.subplots(), left=True, bottom=True)]
        rank = ranks(data.results)
        heads, sides = (
            [None] if column is None else sorted(data.rows[column].unique().to_list(), key=rank)
            for column in (self.panel, self.row)
        )
        cells = [(head, side, self._part(data.rows, head, side)) for side in sides for head in heads]
        verbatim = self.row in VERBATIM
        most = self.columns or size.across
        across = len(heads)
        if not verbatim and self.panel is not None:
            across = min(across, most if self.row is None else max(most, size.in_rows))
        if across < len(heads):
            cells = [cell for cell in cells if len(cell[2])]
        down = -(-len(cells) // across)
        figure = Drawing(size, size.inches(across, down))
        sharey: Any = False if self.own_axes else "row" if verbatim else True
        grid = figure.subplots(down, across, squeeze=False, sharex=not self.own_axes, sharey=sharey).flat
        panels = []
        for i, ((head, side, part), axes) in enumerate(zip(cells, grid, strict=False)):
            left, bottom = self.own_axes or i % across == 0, self.own_axes or i + across >= len(cells)
            axes.tick_params(labelbottom=bottom)
            if part.is_empty():
                axes.set_axis_off()
                continue
            title = self._title(data, head, side, top=i < across)
            ylabel = _text(side) if verbatim else ""
            panels.append(Panel(_text(head), _text(side), title, ylabel, part, axes, left=left, bottom=bottom))
        for axes in grid[len(cells) :]:
            axes.set_axis_off()
        return figure, panels

    def _part(self, rows: pl.DataFrame, head: Any, side: Any) -> pl.DataFrame:
        chosen = [(self.row, side), (self.panel, head)]
        return rows.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in chosen if name is not None))

    def _title(self, data: Data, head: Any, side: Any, *, top: bool) -> str:
        """Return the title of a panel. The text of a query's `row` is the label of the y axis instead."""
        pairs = [(self.panel, head)] if self.row in VERBATIM else [(self.panel, head), (self.row, side)]
        if self.row in VERBATIM and not top:
            return ""
        return ", ".join(pair(name, value, data.results.keys) for name, value in pairs if name is not None)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Places:
    """The positions of values on an axis, and the axis's unit if they are numbers."""

    at: Mapping[str, float]
    unit: str | None
    ticks: Sequence[str] = ()

    @classmethod
    def of(cls, data: Data, column: str, *, numeric: bool = True) -> Places:
        """Place the values of a column: by their numbers if they have a common unit, else evenly.

        Args:
            data: The rows.
            column: The column.
            numeric: Place by numbers if possible.
        """
        rank = ranks(data.results)
        names = sorted((str(value) for value in data.rows[column].unique().to_list()), key=rank)
        found = axis(names)
        if found and numeric and len(set(found[0])) == len(names):
            return cls(dict(zip(names, found[0], strict=True)), found[1])
        swept = column in data.results.keys
        ticks = [value_text(None if name == "None" else name) if swept else provenance.marked(name) for name in names]
        return cls(dict(zip(names, map(float, range(len(names))), strict=True)), None, ticks)

    def find(self, text: str) -> float | None:
        """Return the position of a value; on a numeric axis, any number of the same kind has one."""
        if text in self.at or self.unit is None:
            return self.at.get(text)
        single = axis([text])
        return single[0][0] if single else None

    def scale(self, axes: Axes, logx: bool | None, max_ticks: int) -> None:
        """Set scale and ticks of an x axis.

        A logarithmic axis with a value 0 is linear below the smallest positive value. Up to `max_ticks` values of a
        logarithmic axis get a tick each.

        Args:
            axes: The axes.
            logx: Use a logarithmic scale; by default if values span a factor of `WIDE`.
            max_ticks: The most ticks.
        """
        values = list(self.at.values())
        if self.unit is None:
            long = len(values) >= 9 or sum(map(len, self.ticks)) > 9 * max_ticks
            axes.set_xticks(range(len(values)), list(self.ticks), rotation=60 if long else 0)
            return
        above = [value for value in values if value > 0]
        wide = len(values) <= MANY and bool(above) and min(values) >= 0 and max(above) >= WIDE * min(above)
        if not above or not (wide if logx is None else logx):
            return
        if min(values) > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=min(above), linscale=0.5)
        if len(values) <= max_ticks:
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.minorticks_off()


def set_y(axes: Axes, *, logy: bool) -> None:
    """Set the scale of a y axis: from 0, or logarithmic; linear near 0 if there are values at or below 0."""
    if not logy:
        bottom, top = axes.get_ylim()
        bottom, most = min(0.0, bottom), float(axes.dataLim.y1)
        axes.set_ylim(bottom, max(top, most + 0.03 * (most - bottom)) if most > bottom else top)
        return
    values = [float(value) for line in axes.lines if len(line.get_xdata()) for value in line.get_ydata()]  # type: ignore[arg-type, union-attr]
    values += [float(patch.get_height()) for patch in axes.patches if hasattr(patch, "get_height")]
    above = [value for value in values if value > 0]
    if above and min(values) <= 0:
        axes.set_yscale("symlog", linthresh=min(above), linscale=0.5)
    else:
        axes.set_yscale("log")


def label_panels(panels: Sequence[Panel], x: str, y: str) -> None:
    """Set the titles of panels, and the labels of the axes at the edges of the grid."""
    for part in panels:
        if part.title:
            part.axes.set_title(wrapped(part.title, part.axes))
        if part.bottom:
            part.axes.set_xlabel(wrapped(x, part.axes))
        if part.left:
            part.axes.set_ylabel(part.ylabel or y)


def wrapped(text: str, axes: Axes) -> str:
    """Break a title or label into lines that fit the width of its axes."""
    figure: Any = axes.get_figure()
    width = figure.get_figwidth() / axes.get_gridspec().ncols - 0.35  # type: ignore[union-attr]
    return broken(text, width, 9 if getattr(figure, "resolution", 150) == 150 else 8)


def broken(text: str, inches: float, points: float) -> str:
    """Break a text into lines of a width, at a font size in points; a letter is half as wide as high."""
    return textwrap.fill(text, max(12, int(inches * 72 / (0.5 * points))), break_long_words=False)


def add_legend(figure: Figure, panels: Sequence[Panel]) -> None:
    """Add one legend of all series in the figure, and none if they have no labels."""
    pairs = [found for part in panels for found in zip(*part.axes.get_legend_handles_labels(), strict=True)]
    if not pairs:
        return
    first = {name: handle for handle, name in reversed(pairs)}
    labels = list(dict.fromkeys(name for _, name in pairs))
    place: Any = "outside upper left" if len(panels) == 1 else "outside lower left"  # panels have titles above
    figure.legend([first[name] for name in labels], labels, loc=place, ncols=_legend_columns(labels, figure))


def _legend_columns(labels: Sequence[str], figure: Figure) -> int:
    """Return the number of legend columns that fit the width of a figure."""
    room = int(figure.get_figwidth() * (11.4 if getattr(figure, "resolution", 150) == 150 else 13))
    if sum(len(name) + 6 for name in labels) <= room:
        return len(labels)
    return max(1, room // (max(map(len, labels)) + 6))


def add_title(figure: Figure, panels: Sequence[Panel], title: str | None) -> None:
    """Set the title of a figure: above its only panel, or above all."""
    if not title:
        return
    text = broken(title, figure.get_figwidth() - 0.5, 10)
    if len(panels) == 1:
        panels[0].axes.set_title(text, fontsize="large")
    else:
        figure.suptitle(text)


def axis_label(column: str, places: Places | None = None) -> str:
    """Return the label of an axis."""
    return label(column, (places.unit or "") if places else "")
