"""Columns against each other: lines and bars with 95 % intervals over seeds, in one panel or several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows import provenance
from narrows.errors import OptionError, UsageError
from narrows.frames import ResultFrames, query
from narrows.plots.style import SPELLED, UNITS, Drawing, series_name, series_style
from narrows.quantities import axis
from narrows.stats import interval

MANY = 40
"""With more values of x than this, an axis is linear by default and its curves have no markers."""
HATCHES = ("//", "..", "xx", "--")


def share(
    results: ResultFrames, *, x: str = "network.buffer", by: str | Sequence[str] | None = None, **options: Any
) -> Figure:
    """Draw each scheme's share of the total goodput, against the buffer or another swept key.

    Args:
        results: The data.
        x: The swept key.
        by: The columns that separate series: by default the scheme, and the base RTT if all flows of a run have the
            same scheme.
        **options: As for `chart`.
    """
    if by is None:
        mixed = results.flows.group_by("id").agg(pl.col("spec").n_unique())["spec"].max() != 1
        by = ["spec"] if mixed else ["spec", "rtt_base_ms"]
    columns = [by] if isinstance(by, str) else list(by)
    total = pl.col("goodput_mbit_s").sum().over("id")
    keys = [key for key in dict.fromkeys(["id", "seed", *results.keys, *columns]) if key in results.flows.columns]
    rows = (
        results.flows.with_columns((pl.col("goodput_mbit_s") / total * 100).alias("share_percent"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("share_percent").sum())
    )
    options = {"ylabel": "share of goodput, %", **options}
    return chart(rows, results, x=x, y="share_percent", series=columns, **options)


def against_loss(
    results: ResultFrames, *, x: str = "network.loss", y: str = "goodput_mbit_s", **options: Any
) -> Figure:
    """Draw goodput against random loss. Options as for `chart`."""
    return chart(results.flows, results, x=x, y=y, **options)


def line(results: ResultFrames, *, table: str = "flows", sql: str | None = None, **options: Any) -> Figure:
    """Draw a column against a swept key, a line per series.

    Args:
        results: The data.
        table: The frame of `results` to draw.
        sql: A query over the frames, instead of a table; its columns `x`, `y`, `series`, `panel` and `row` are drawn.
        **options: As for `chart`.
    """
    rows, options = _select(results, table, sql, options)
    return chart(rows, results, **options)


def bar(results: ResultFrames, *, table: str = "flows", sql: str | None = None, **options: Any) -> Figure:
    """Draw a column against a swept key as bars. Options as for `line`."""
    rows, options = _select(results, table, sql, options)
    return chart(rows, results, bars=True, **options)


def _select(
    results: ResultFrames, table: str, sql: str | None, options: dict[str, Any]
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the rows to draw, and the options with defaults that suit those rows."""
    frames = results.frames()
    if sql is not None:
        rows = query(results, sql)
        named: dict[str, Any] = {key: key for key in ("x", "y", "series", "panel", "row") if key in rows.columns}
        return rows, {"series": None, "xlabel": "", "ylabel": "", **named, **options}
    if table not in frames:
        raise UsageError(f"plot: there is no table {table!r}; accepted: {', '.join(frames)}")
    if table != "flows":
        options.setdefault("series", "flows.scheme" if "flows.scheme" in results.keys else None)
        options.setdefault("y", {"links": "utilization", "connections": "goodput_mbit_s"}.get(table, "jain"))
    return frames[table], options


@dataclass(frozen=True)
class _Places:
    """The positions of the values of x on the axis, and the axis's unit if they are numbers."""

    at: Mapping[str, float]
    unit: str | None


@dataclass(frozen=True)
class _Panel:
    """A panel: its values of `panel` and `row`, its rows, its axes, and the edges of the grid that it touches."""

    panel: str
    row: str
    rows: pl.DataFrame
    axes: Axes
    top: bool
    left: bool
    bottom: bool

    def has(self, point: Mapping[str, Any]) -> bool:
        """Whether a printed point belongs to this panel."""
        return bool(point.get("panel", self.panel) == self.panel and point.get("row", self.row) == self.row)


@dataclass
class _Drawn:
    """The colours of the series, and the offsets of their bars from the places on the axis."""

    colours: dict[str, str] = field(default_factory=dict)
    shifts: dict[str, float] = field(default_factory=dict)

    def style(self, key: tuple[Any, ...], turn: int) -> tuple[str, dict[str, Any]]:
        """Return name and style of a series, and remember its colour."""
        name = series_name(key)
        style = series_style(str(key[0]) if key else "", turn, key)
        self.colours[name] = style["color"]
        return name, style


_Means = tuple[list[str], list[float], list[float]]
"""Places on the axis, with means and half-widths."""


def chart(
    rows: pl.DataFrame,
    results: ResultFrames,
    *,
    x: str | None = None,
    y: str = "goodput_mbit_s",
    series: str | Sequence[str] | None = "spec",
    panel: str | None = None,
    row: str | None = None,
    columns: int = 2,
    own_axes: bool = False,
    logx: bool | None = None,
    logy: bool = False,
    bars: bool = False,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    points: Sequence[Mapping[str, Any]] = (),
) -> Figure:
    """Draw means with 95 % intervals over seeds.

    Args:
        rows: The data, one row per value; a column `seed` groups them.
        results: The results that the rows come from; they determine the order of names.
        x: The column of the x axis; by default the first swept key other than the scheme.
        y: The column of the y axis.
        series: The columns that separate series.
        panel: The column that separates panels side by side.
        row: The column that separates rows of panels.
        columns: Panels per line without `row`.
        own_axes: Give each panel its own scales.
        logx: Use a logarithmic x axis; by default for numbers that span a factor of 20.
        logy: Use a logarithmic y axis.
        bars: Draw bars instead of lines.
        title: The title of the figure.
        xlabel: The label of the x axis.
        ylabel: The label of the y axis.
        points: Values that a paper prints: `x`, `y`, and optionally `series`, `panel` and `row`.

    Raises:
        UsageError: A column does not exist, or a point is not on the axis.
    """
    if x is None:
        free = [key for key in results.keys if key != "flows.scheme"]
        x = free[0] if free else "spec"
    by = [] if series is None else [series] if isinstance(series, str) else list(series)
    named = [("x", x), ("y", y), *(("series", name) for name in by), ("panel", panel), ("row", row)]
    for option, column in named:
        if column is not None and column not in rows.columns:
            raise OptionError(option, f"there is no column {column!r}; accepted: {', '.join(rows.columns)}")
    rank = _ranks(results)
    names = sorted((str(value) for value in rows[x].unique().to_list()), key=rank)
    numeric = None if bars else axis(names)
    places = _Places(
        dict(zip(names, numeric[0] if numeric else [float(i) for i in range(len(names))], strict=True)),
        numeric[1] if numeric else None,
    )
    keys = sorted(rows.select(by).unique().rows(), key=lambda key: [rank(part) for part in key]) if by else [()]
    neighbours = rows.select(*dict.fromkeys((x, *by))).unique().group_by(x).len()["len"].max()
    drawn = _Drawn()
    figure, panels = _panels(rows, rank, panel, row, columns, own_axes)
    for part in panels:
        groups = dict(part.rows.group_by(by)) if by else {(): part.rows}
        for turn, key in enumerate(keys):
            if key in groups:
                means = _means(groups[key], x, y)
                if bars:
                    width = 0.6 if neighbours == 1 else 0.8 / len(keys)
                    drawn.shifts[series_name(key)] = 0.0 if neighbours == 1 else (turn - (len(keys) - 1) / 2) * width
                    _draw_bars(part.axes, key, turn, means, places, width, drawn)
                else:
                    _draw_curve(part.axes, key, turn, means, places, drawn)
    for part in panels:  # shared axes know their range only after all panels are drawn
        printed = [point for point in points if part.has(point)]
        _draw_printed(part.axes, printed, places, drawn)
        _scale(part.axes, places, logx, logy, 10 if len(panels) == 1 else 6)
        if part.top and part.panel:
            part.axes.set_title(provenance.marked(part.panel), fontsize=9)
        if part.bottom:
            part.axes.set_xlabel(_label(x, places.unit or "") if xlabel is None else xlabel)
        if part.left:
            part.axes.set_ylabel(part.row or (_label(y, "") if ylabel is None else ylabel))
    pairs = [pair for part in panels for pair in zip(*part.axes.get_legend_handles_labels(), strict=True)]
    if pairs:
        first = {label: handle for handle, label in reversed(pairs)}
        labels = list(dict.fromkeys(label for _, label in pairs))
        place: Any = "outside upper left" if len(panels) == 1 else "outside lower left"  # panels have titles above
        figure.legend([first[label] for label in labels], labels, loc=place, ncols=_legend_columns(labels))
    if title and len(panels) == 1:
        panels[0].axes.set_title(title)
    elif title:
        figure.suptitle(title, fontsize=10)
    return figure


def _panels(
    rows: pl.DataFrame, rank: _Rank, panel: str | None, row: str | None, columns: int, own_axes: bool
) -> tuple[Figure, list[_Panel]]:
    """Create the figure and its panels: values of `panel` side by side, values of `row` below each other."""
    if panel is None and row is None:
        figure = Drawing(figsize=(5.6, 3.6), layout="constrained")
        return figure, [_Panel("", "", rows, figure.subplots(), top=True, left=True, bottom=True)]
    heads, sides = (
        [None] if column is None else sorted(rows[column].unique().to_list(), key=rank) for column in (panel, row)
    )
    cells = [(side, head) for side in sides for head in heads]
    across = min(columns, len(heads)) if row is None else len(heads)
    down = -(-len(cells) // across)
    figure = Drawing(figsize=(0.6 + (2.5 if across > 2 else 3.4) * across, 0.9 + 1.9 * down), layout="constrained")
    sharey: Any = False if own_axes else "row" if row is not None else True
    grid = figure.subplots(down, across, squeeze=False, sharex=not own_axes, sharey=sharey).flat
    panels = []
    for i, ((side, head), axes) in enumerate(zip(cells, grid, strict=False)):
        part = rows.filter(*(pl.col(name) == value for name, value in ((row, side), (panel, head)) if name is not None))
        left, bottom = own_axes or i % across == 0, own_axes or i + across >= len(cells)
        axes.tick_params(labelbottom=bottom)
        top = row is None or i < across
        panels.append(_Panel(_text(head), _text(side), part, axes, top=top, left=left, bottom=bottom))
    for axes in grid[len(cells) :]:
        axes.set_axis_off()
    return figure, panels


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _draw_bars(
    axes: Axes, key: tuple[Any, ...], turn: int, means: _Means, places: _Places, width: float, drawn: _Drawn
) -> None:
    name, style = drawn.style(key, turn)
    hatch = HATCHES[turn % len(HATCHES)] if ":" in name else None
    xs, heights, halves = means
    axes.bar(
        [places.at[place] + drawn.shifts[name] for place in xs], heights, width, yerr=halves, color=style["color"],
        hatch=hatch, edgecolor="white", linewidth=0, label=provenance.marked(name) or None,
        error_kw={"linewidth": 0.8},
    )  # fmt: skip


def _draw_curve(axes: Axes, key: tuple[Any, ...], turn: int, means: _Means, places: _Places, drawn: _Drawn) -> None:
    name, style = drawn.style(key, turn)
    at = [places.at[place] for place in means[0]]
    order = np.argsort(at) if places.unit is not None else np.arange(len(at))
    ordered = [np.asarray(column)[order] for column in (at, *means[1:])]
    capsize = 2.0
    if len(at) > MANY:
        capsize, style = 0.0, style | {"marker": "", "linewidth": 0.9}
    label = provenance.marked(name) or None
    axes.errorbar(ordered[0], ordered[1], yerr=ordered[2], markersize=4, capsize=capsize, label=label, **style)


def _scale(axes: Axes, places: _Places, logx: bool | None, logy: bool, max_ticks: int) -> None:
    """Set ticks and scales. Up to `max_ticks` values of a logarithmic axis get a tick each."""
    values = list(places.at.values())
    if places.unit is None:
        axes.set_xticks(
            range(len(values)), [provenance.marked(name) for name in places.at], rotation=0 if len(values) < 9 else 60
        )
    least, most = min(values, default=0.0), max(values, default=0.0)
    wide = len(values) <= MANY and most >= 20 * least if logx is None else logx
    if places.unit is not None and least > 0 and wide:
        axes.set_xscale("log")
        if len(values) <= max_ticks:
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.minorticks_off()
    if logy:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


_Rank = Callable[[Any], tuple[int, list[Any]]]
"""A sort key for the values on an axis or in a legend."""


def _ranks(results: ResultFrames) -> _Rank:
    """Return a sort key: scenario order first, then numbers by size, then text."""
    order: dict[str, int] = {}
    for name in [*results.keys, "spec", "scheme", "label"]:
        for value in results.flows[name].unique(maintain_order=True).to_list():
            order.setdefault(str(value), len(order))

    def rank(value: Any) -> tuple[int, list[Any]]:
        parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
        natural: list[Any] = [(float(part), "") if i % 2 else (0.0, part) for i, part in enumerate(parts)]
        first = str(value).partition(",")[0]
        return order.get(str(value), order.get(first, len(order))), natural

    return rank


def _legend_columns(labels: Sequence[str]) -> int:
    """Return the number of legend columns that fit the width of a figure."""
    return len(labels) if sum(len(label) + 6 for label in labels) <= 64 else max(1, 64 // (max(map(len, labels)) + 6))


def _means(rows: pl.DataFrame, x: str, y: str) -> _Means:
    """Average within each seed, then over seeds, at each place on the axis."""
    by = [x, "seed"] if "seed" in rows.columns else [x]
    per_seed = rows.drop_nulls(y).group_by(by, maintain_order=True).agg(pl.col(y).cast(pl.Float64).mean())
    names, means, halves = [], [], []
    for (name,), part in per_seed.group_by([x], maintain_order=True):
        found = interval(part[y].to_list())
        names.append(str(name))
        means.append(found.mean)
        halves.append(found.half or 0.0)
    return names, means, halves


def _draw_printed(axes: Axes, points: Sequence[Mapping[str, Any]], places: _Places, drawn: _Drawn) -> None:
    """Draw the values that a paper prints as hollow diamonds."""
    for i, point in enumerate(points):
        place = places.at.get(str(point["x"]))
        if place is None and places.unit is not None:
            single = axis([str(point["x"])])
            place = single[0][0] if single else None
        if place is None:
            raise UsageError(f"plot: the point x = {point['x']!r} is not on the axis; accepted: {', '.join(places.at)}")
        series = str(point.get("series", ""))
        place += drawn.shifts.get(series, 0.0)
        edge = "#222222" if drawn.shifts else drawn.colours.get(series, "#444444")
        axes.plot(
            [place], [float(point["y"])], marker="D", markersize=7,
            markerfacecolor="white" if drawn.shifts else "none", markeredgecolor=edge,
            linestyle="", label="printed in the paper" if i == 0 else None, zorder=5,
        )  # fmt: skip


def _label(column: str, unit: str) -> str:
    """Return the axis label of a column: its name and unit."""
    if unit:
        return f"{column.rpartition('.')[2]}, {unit}"
    for ending in UNITS:
        if column.endswith(f"_{ending}"):
            name = column.removesuffix(f"_{ending}").replace("_", " ")
            return f"{re.sub(r'^rtt', 'RTT', name)}, {SPELLED.get(ending, ending)}"
    return "scheme" if column == "spec" else column.rpartition(".")[2].replace("_", " ")
