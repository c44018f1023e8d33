"""Columns against each other: lines and bars with 95 % intervals over seeds, in one panel or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.errors import OptionError, UsageError
from narrows.frames import ResultFrames
from narrows.plots.names import series_label
from narrows.plots.panels import MANY, Layout, Places, add_legend, add_title, axis_label, label_panels, set_y
from narrows.plots.rows import AUTO, Data, Means, Where, grouped, means, queried, table
from narrows.plots.style import HATCHES, NEUTRAL, series_name, series_style

DEFAULT_Y = {"links": "utilization", "connections": "goodput_mbit_s", "runs": "jain"}
"""The column that plots of a table show by default."""


def share(
    results: ResultFrames, *, x: str = "network.buffer", by: str | Sequence[str] | None = None, **options: Any
) -> Figure:
    """Draw each scheme's share of the total goodput of its run in percent, against the buffer or another swept key.

    Args:
        results: The data.
        x: The swept key.
        by: The columns that separate series: by default the scheme, and the base RTT if all flows of a run have the
            same scheme.
        **options: As for `chart`.
    """
    every = Data(results.flows, results)
    if by is None:
        mixed = results.flows.group_by("id").agg(pl.col("spec").n_unique())["spec"].max() != 1
        columns = ["spec"] if mixed else ["spec", "rtt_base_ms"]
    else:
        columns = every.columns("by", by)
    total = pl.col("goodput_mbit_s").sum().over("id")
    keys = list(dict.fromkeys(["id", "seed", *results.keys, *columns, every.column("x", x)]))
    rows = (
        results.flows.with_columns((pl.col("goodput_mbit_s") / total * 100).alias("share_percent"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("share_percent").sum())
    )
    options = {"ylabel": "share of goodput, %", **options}
    return chart(Data(rows, results), x=x, y="share_percent", series=columns, **options)


def against_loss(
    results: ResultFrames, *, x: str = "network.loss", y: str = "goodput_mbit_s", **options: Any
) -> Figure:
    """Draw goodput against random loss. Options as for `chart`."""
    return chart(Data(results.flows, results), x=x, y=y, **options)


def line(results: ResultFrames, *, table: str | None = None, sql: str | None = None, **options: Any) -> Figure:
    """Draw a column against a swept key, a line per series.

    Args:
        results: The data.
        table: The frame of `results` to draw: `flows` by default.
        sql: A query over the frames, instead of a table; its columns `x`, `y`, `series`, `panel` and `row` are drawn.
            The query states what it averages; swept keys that it returns are drawn or selected, as those of tables.
        **options: As for `chart`.
    """
    data, options = _select(results, table, sql, options)
    return chart(data, **options)


def bar(results: ResultFrames, *, table: str | None = None, sql: str | None = None, **options: Any) -> Figure:
    """Draw a column against a swept key as bars. Options as for `line`."""
    data, options = _select(results, table, sql, options)
    return chart(data, bars=True, **options)


def _select(
    results: ResultFrames, name: str | None, sql: str | None, options: dict[str, Any]
) -> tuple[Data, dict[str, Any]]:
    """Return the rows to draw, and the options with defaults that suit those rows."""
    if sql is not None:
        if name is not None:
            raise UsageError("table, sql: both name the rows; accepted: one of them")
        data = queried(results, sql)
        named: dict[str, Any] = {key: key for key in ("x", "y", "series", "panel", "row") if key in data.rows.columns}
        return data, {"series": [], "xlabel": "", "ylabel": "", **named, **options}
    name = name or "flows"
    if name in DEFAULT_Y:
        options.setdefault("y", DEFAULT_Y[name])
    return table(results, name), options


@dataclass
class _Drawn:
    """The colours of the series, and the offsets of their bars from the positions on the axis."""

    data: Data
    by: Sequence[str]
    colours: dict[str, str] = field(default_factory=dict)
    shifts: dict[str, float] = field(default_factory=dict)

    def style(self, key: tuple[Any, ...], turn: int) -> tuple[str, str | None, dict[str, Any]]:
        """Return name, label and style of a series, and remember its colour."""
        name = series_name(key)
        style = series_style(str(key[0]) if key else "", turn, key)
        self.colours[name] = style["color"]
        return name, series_label(self.by, key, self.data.results.keys) or None, style


def chart(
    data: Data,
    *,
    x: str | None = None,
    y: str = "goodput_mbit_s",
    series: str | Sequence[str] | None = AUTO,
    panel: str | None = None,
    row: str | None = None,
    where: Where | None = None,
    columns: int | None = None,
    own_axes: bool = False,
    logx: bool | None = None,
    logy: bool = False,
    bars: bool = False,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    points: Sequence[Mapping[str, Any]] = (),
    size: str | None = None,
) -> Figure:
    """Draw means with 95 % intervals over seeds.

    Intervals are clipped to possible values. Swept keys that are not drawn otherwise get panels and rows of panels.

    Args:
        data: The rows, one per value; a column `seed` groups them.
        x: The column of the x axis; by default the first swept key other than the scheme.
        y: The column of the y axis.
        series: The columns that separate series; `auto` is the scheme, with the base RTT if flows of one scheme and run
            differ in it.
        panel: The column that separates panels side by side.
        row: The column that separates rows of panels.
        where: The values of rows to draw, by key.
        columns: Panels per line without `row`.
        own_axes: Give each panel its own scales.
        logx: Use a logarithmic x axis; by default for numbers that span a factor of 20.
        logy: Use a logarithmic y axis.
        bars: Draw bars instead of lines.
        title: The title of the figure.
        xlabel: The label of the x axis.
        ylabel: The label of the y axis.
        points: Values that a paper prints: `x`, `y`, and optionally `series`, `panel` and `row`.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: A column does not exist or holds no numbers, a swept key would be averaged over, or a point is not
            on the axis.
    """
    data = data.where(where)
    if x is None:
        x = next((key for key in data.results.keys if key != "flows.scheme"), "spec")
    x, y = data.place("x", x), data.numbers("y", y)
    if x == y:
        raise OptionError("y", f"{y} is on the other axis; accepted: another column")
    by, panel, row = data.split([x], series, panel, row)
    limits = data.limits(y)
    places = Places.of(data, x, numeric=not bars)
    keys = data.series(by)
    neighbours = data.rows.select(*dict.fromkeys((x, *by))).unique().group_by(x).len()["len"].max()
    drawn = _Drawn(data, by)
    figure, panels = Layout(panel, row, columns, own_axes, size).grid(data)
    for part in panels:
        for turn, key, rows in grouped(part.rows, by, keys):
            found = means(rows, x, y, limits)
            if bars:
                width = 0.6 if neighbours == 1 else 0.8 / len(keys)
                drawn.shifts[series_name(key)] = 0.0 if neighbours == 1 else (turn - (len(keys) - 1) / 2) * width
                _draw_bars(part.axes, key, turn, found, places, width, drawn)
            else:
                _draw_curve(part.axes, key, turn, found, places, drawn)
    for part in panels:  # shared axes know their range only after all panels are drawn
        _draw_printed(part.axes, [point for point in points if part.has(point)], places, drawn)
        places.scale(part.axes, logx, 10 if len(panels) == 1 else 6)
        set_y(part.axes, logy=logy)
    label_panels(
        panels, axis_label(x, places) if xlabel is None else xlabel, axis_label(y) if ylabel is None else ylabel
    )
    add_legend(figure, panels)
    add_title(figure, panels, title)
    return figure


def _draw_bars(
    axes: Axes, key: tuple[Any, ...], turn: int, found: Means, places: Places, width: float, drawn: _Drawn
) -> None:
    name, label, style = drawn.style(key, turn)
    hatch = HATCHES[turn % len(HATCHES)] if ":" in name else None
    axes.bar(
        [places.at[place] + drawn.shifts[name] for place in found.places], found.means, width, yerr=found.errors,
        color=style["color"], hatch=hatch, edgecolor="white", linewidth=0, label=label, error_kw={"linewidth": 0.8},
    )  # fmt: skip


def _draw_curve(axes: Axes, key: tuple[Any, ...], turn: int, found: Means, places: Places, drawn: _Drawn) -> None:
    _, label, style = drawn.style(key, turn)
    at = [places.at[place] for place in found.places]
    order = np.argsort(at)
    xs, ys, errors = np.asarray(at)[order], np.asarray(found.means)[order], np.asarray(found.errors)[:, order]
    capsize = 2.0
    if len(at) > MANY:
        capsize, style = 0.0, style | {"marker": "", "linewidth": 0.9}
    axes.errorbar(xs, ys, yerr=errors, capsize=capsize, label=label, **style)


def _draw_printed(axes: Axes, points: Sequence[Mapping[str, Any]], places: Places, drawn: _Drawn) -> None:
    """Draw the values that a paper prints as hollow diamonds."""
    for i, point in enumerate(points):
        place = places.find(str(point["x"]))
        if place is None:
            raise UsageError(f"plot: the point x = {point['x']!r} is not on the axis; accepted: {', '.join(places.at)}")
        series = str(point.get("series", ""))
        place += drawn.shifts.get(series, 0.0)
        edge = "#222222" if drawn.shifts else drawn.colours.get(series, NEUTRAL)
        axes.plot(
            [place], [float(point["y"])], marker="D", markersize=7,
            markerfacecolor="white" if drawn.shifts else "none", markeredgecolor=edge,
            linestyle="", label="printed in the paper" if i == 0 else None, zorder=5,
        )  # fmt: skip
