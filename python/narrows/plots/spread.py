"""Distributions: cumulative, and as boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows.frames import ResultFrames
from narrows.plots import rows as tables
from narrows.plots.charts import DEFAULT_Y
from narrows.plots.names import series_label
from narrows.plots.panels import Layout, Places, add_legend, add_title, axis_label, label_panels, set_y
from narrows.plots.rows import AUTO, Data, Where, clipped, grouped
from narrows.plots.style import series_style

FEW = 20
"""The most values of a box that also shows them as points."""
BAND = 10
"""The fewest values per seed for which a distribution has an interval."""
SAMPLED = "rtt_sample_ms"
"""The series of samples that is drawn by default."""


def cdf(
    results: ResultFrames,
    *,
    table: str = "flows",
    x: str | None = None,
    series: str | Sequence[str] | None = AUTO,
    panel: str | None = None,
    row: str | None = None,
    where: Where | None = None,
    columns: int | None = None,
    logx: bool = False,
    title: str | None = None,
    xlabel: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draw cumulative distributions of a column over flows, or of a series over its samples.

    A curve is the mean of the distributions of the seeds. With several seeds of ten or more values each, a band shows
    its 95 % interval at every value.

    Args:
        results: The data.
        table: A frame of `results`, or `samples` of a trace after the warm-up.
        x: The column; of samples, the series.
        series: The columns that separate curves; `auto` is the scheme.
        panel: The column that separates panels side by side.
        row: The column that separates rows of panels.
        where: The values of rows to draw, by key.
        columns: Panels per line without `row`.
        logx: Use a logarithmic x axis.
        title: The title of the figure.
        xlabel: The label of the x axis.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: A column does not exist or holds no numbers, or different values of a swept key would be mixed.
    """
    data, x = _rows(results, table, x, where)
    x = data.numbers("x", x)
    by, panel, row = data.split([], series, panel, row)
    keys = data.series(by)
    figure, panels = Layout(panel, row, columns, False, size).grid(data)
    for part in panels:
        for turn, key, rows in grouped(part.rows.drop_nulls(x), by, keys):
            style = series_style(str(key[0]) if key else "", turn, key) | {"marker": ""}
            label = series_label(by, key, results.keys) or None
            _draw_steps(part.axes, _per_seed(rows, x), label, style)
    for part in panels:
        if logx:
            part.axes.set_xscale("log" if min(data.rows[x].drop_nulls()) > 0 else "symlog")
        part.axes.set_ylim(0, 1.02)
    what = "share of samples" if table == "samples" else f"share of {table}"
    label_panels(panels, axis_label(x) if xlabel is None else xlabel, what)
    add_legend(figure, panels)
    add_title(figure, panels, title)
    return figure


def box(
    results: ResultFrames,
    *,
    table: str = "flows",
    x: str | None = None,
    y: str | None = None,
    series: str | Sequence[str] | None = AUTO,
    panel: str | None = None,
    row: str | None = None,
    where: Where | None = None,
    columns: int | None = None,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draw boxes of a column's values over flows and seeds, or of a series' samples, against a swept key.

    A box has the median and the quartiles. Whiskers reach the last value within 1.5 interquartile ranges, and circles
    are values beyond them. A box of up to 20 values also shows them as points.

    Args:
        results: The data.
        table: A frame of `results`, or `samples` of a trace after the warm-up.
        x: The swept key; by default the first one other than the scheme.
        y: The column; of samples, the series.
        series: The columns that separate boxes at a value of `x`; `auto` is the scheme.
        panel: The column that separates panels side by side.
        row: The column that separates rows of panels.
        where: The values of rows to draw, by key.
        columns: Panels per line without `row`.
        title: The title of the figure.
        xlabel: The label of the x axis.
        ylabel: The label of the y axis.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: A column does not exist or holds no numbers, or different values of a swept key would be mixed.
    """
    data, y = _rows(results, table, y, where)
    y = data.numbers("y", y)
    if x is None:
        x = next((key for key in results.keys if key != "flows.scheme"), (data.schemes() or ["seed"])[0])
    x = data.column("x", x)
    by, panel, row = data.split([x], series, panel, row)
    places, keys = Places.of(data, x, numeric=False), data.series(by)
    alone = data.rows.select(*dict.fromkeys((x, *by))).unique().group_by(x).len()["len"].max() == 1
    width = 0.6 if alone else 0.8 / len(keys)
    figure, panels = Layout(panel, row, columns, False, size).grid(data)
    for part in panels:
        for turn, key, rows in grouped(part.rows.drop_nulls(y), by, keys):
            shift = 0.0 if alone else (turn - (len(keys) - 1) / 2) * width
            at = {name: place + shift for name, place in places.at.items()}
            style = series_style(str(key[0]) if key else "", turn, key)
            label = series_label(by, key, results.keys) or None
            _draw_boxes(part.axes, rows, (x, y), at, width, label, style["color"])
    for part in panels:
        places.scale(part.axes, None, 10 if len(panels) == 1 else 6)
        part.axes.set_xlim(-0.6, len(places.at) - 0.4)
        set_y(part.axes, logy=False)
    label_panels(panels, axis_label(x) if xlabel is None else xlabel, axis_label(y) if ylabel is None else ylabel)
    add_legend(figure, panels)
    add_title(figure, panels, title)
    return figure


def _rows(results: ResultFrames, table: str, column: str | None, where: Where | None) -> tuple[Data, str]:
    """Return the rows of a table, and the column to draw."""
    if column is None:
        column = SAMPLED if table == "samples" else DEFAULT_Y.get(table, "goodput_mbit_s")
    return tables.table(results, table, column).where(where), column


def _per_seed(rows: pl.DataFrame, column: str) -> list[np.ndarray[Any, Any]]:
    """Return the sorted values of each seed."""
    parts = rows.partition_by("seed", maintain_order=True) if "seed" in rows.columns else [rows]
    return [np.sort(part[column].cast(pl.Float64).to_numpy()) for part in parts]


def _draw_steps(axes: Axes, seeds: Sequence[np.ndarray[Any, Any]], label: str | None, style: dict[str, Any]) -> None:
    """Draw the mean distribution of the seeds, and its interval."""
    xs = np.unique(np.concatenate(seeds))
    shares = np.array([np.searchsorted(values, xs, side="right") / len(values) for values in seeds])
    axes.step(np.insert(xs, 0, xs[0]), np.insert(shares.mean(axis=0), 0, 0.0), where="post", label=label, **style)
    if len(seeds) > 1 and min(map(len, seeds)) >= BAND:
        kept = np.unique(np.linspace(0, len(xs) - 1, 200).astype(int))
        ends = np.array([clipped(shares[:, i].tolist(), (0.0, 1.0)) for i in kept])
        axes.fill_between(xs[kept], ends[:, 1], ends[:, 2], step="post", color=style["color"], alpha=0.15, linewidth=0)


def _draw_boxes(
    axes: Axes,
    rows: pl.DataFrame,
    names: tuple[str, str],
    at: dict[str, float],
    width: float,
    label: str | None,
    colour: str,
) -> None:
    x, y = names
    found = [(at[str(name)], part[y].cast(pl.Float64).to_list()) for (name,), part in rows.group_by([x])]
    found.sort()
    line = {"color": colour, "linewidth": 0.9}
    axes.boxplot(
        [values for _, values in found], positions=[place for place, _ in found], widths=0.8 * width,
        patch_artist=True, label=label, manage_ticks=False, whiskerprops=line, capprops=line,
        boxprops={"facecolor": f"{colour}40", "edgecolor": colour, "linewidth": 0.9},
        medianprops={"color": colour, "linewidth": 1.8}, showfliers=any(len(values) > FEW for _, values in found),
        flierprops={"marker": "o", "markersize": 2, "markeredgecolor": colour, "markerfacecolor": "none"},
    )  # fmt: skip
    for place, values in found:
        if len(values) <= FEW:
            aside = place + 0.5 * width * (np.arange(len(values)) / max(1, len(values) - 1) - 0.5)
            axes.plot(aside, values, linestyle="", marker="o", markersize=2, color=colour, alpha=0.6)
