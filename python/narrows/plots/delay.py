"""Throughput against delay, with a label at every point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from narrows.frames import ResultFrames
from narrows.plots.names import series_label
from narrows.plots.panels import Layout, add_legend, add_title, label_panels
from narrows.plots.rows import AUTO, Data, Where, clipped, grouped
from narrows.plots.style import NEUTRAL, series_style

OFFSETS = (
    (5, 4, "left", "bottom"), (-5, 4, "right", "bottom"), (5, -4, "left", "top"), (-5, -4, "right", "top"),
    (0, 7, "center", "bottom"), (0, -7, "center", "top"), (8, 12, "left", "bottom"), (-8, 12, "right", "bottom"),
    (8, -12, "left", "top"), (-8, -12, "right", "top"), (0, 18, "center", "bottom"), (0, -18, "center", "top"),
)  # fmt: skip
"""Positions of a label around its point, the best first: distances in printer's points, and alignments."""


@dataclass(frozen=True)
class _Point:
    """A point: delay in ms and throughput in Mbit/s, each as the mean and the ends of its interval."""

    label: str
    colour: str
    delay: tuple[float, float, float]
    throughput: tuple[float, float, float]


def throughput_against_delay(
    results: ResultFrames,
    *,
    by: str | Sequence[str] | None = AUTO,
    panel: str | None = None,
    row: str | None = None,
    where: Where | None = None,
    columns: int | None = None,
    title: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draw throughput against queueing delay (mean minus base RTT); delay decreases to the right.

    The best position is the top right, as is customary. A point is the mean over the flows of a run, then over seeds,
    with its label beside it. A cross shows the 95 % intervals over seeds, clipped at 0; faint marks are the seeds.

    Args:
        results: The data.
        by: The columns that separate points; `auto` is the scheme. A line joins the points that differ in one further
            swept key, in scenario order.
        panel: The column that separates panels side by side; swept keys that are not in `by` get panels.
        row: The column that separates rows of panels.
        where: The values of rows to draw, by key.
        columns: Panels per line without `row`.
        title: The title of the figure.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: A column does not exist, or a swept key would be averaged over.
    """
    rows = results.flows.with_columns((pl.col("rtt_mean_ms") - pl.col("rtt_base_ms")).alias("queueing_ms"))
    data = Data(rows.drop_nulls(["queueing_ms", "throughput_mbit_s"]), results).where(where)
    data.numbers("results", "throughput_mbit_s")
    names = data.schemes() if by == AUTO else data.columns("by", by)
    chosen, panel, row = data.split([], AUTO if by == AUTO else names, panel, row)
    keys = data.series(chosen)
    figure, panels = Layout(panel, row, columns, False, size).grid(data)
    labels = []
    for part in panels:
        points: dict[tuple[Any, ...], _Point] = {}
        for turn, key, group in grouped(part.rows, chosen, keys):
            label = series_label(chosen, key, results.keys)
            first = None if any(key[:1] == other[:1] for other in points) else series_label(chosen[:1], key[:1])
            points[key] = _draw_point(part.axes, group, turn, key, (label, first or None))
        if len(chosen) == 2 and chosen[1] in results.keys:
            _join(part.axes, points)
        labels.append(list(points.values()))
    label_panels(panels, "queueing delay, ms (mean)", "throughput, Mbit/s")
    _set_limits([part.axes for part in panels], [point for some in labels for point in some])
    add_legend(figure, panels)
    add_title(figure, panels, title)
    figure.draw_without_rendering()  # positions of labels depend on the layout
    for part, some in zip(panels, labels, strict=True):
        _place_labels(part.axes, some)
    return figure


def _draw_point(
    axes: Axes, rows: pl.DataFrame, turn: int, key: Sequence[Any], labels: tuple[str, str | None]
) -> _Point:
    """Draw a point. `labels` are its label and, for the first point of a scheme, the label in the legend."""
    per_seed = rows.group_by("seed", maintain_order=True).agg(pl.col("queueing_ms", "throughput_mbit_s").mean())
    style = series_style(str(rows["spec"][0]), turn, key[:1])
    delays, rates = per_seed["queueing_ms"].to_list(), per_seed["throughput_mbit_s"].to_list()
    least = min([0.0, *delays])  # rounding may put the mean RTT slightly below the base RTT
    point = _Point(labels[0], style["color"], clipped(delays, (least, inf)), clipped(rates, (0.0, inf)))
    if len(delays) > 1:
        axes.plot(delays, rates, alpha=0.3, **{**style, "linestyle": "", "markersize": 2.5})
    errors = [[[mean - low], [high - mean]] for mean, low, high in (point.delay, point.throughput)]
    axes.errorbar(
        point.delay[0], point.throughput[0], xerr=errors[0], yerr=errors[1], capsize=2, label=labels[1],
        **{**style, "linestyle": "", "markersize": 1.4 * mpl.rcParams["lines.markersize"]},
    )  # fmt: skip
    return point


def _join(axes: Axes, points: dict[tuple[Any, ...], _Point]) -> None:
    """Join the points of each scheme."""
    for first in dict.fromkeys(key[0] for key in points):
        some = [point for key, point in points.items() if key[0] == first]
        xs, ys = [point.delay[0] for point in some], [point.throughput[0] for point in some]
        axes.plot(xs, ys, linewidth=0.9, color=some[0].colour, alpha=0.6, zorder=1)


def _set_limits(panels: Sequence[Axes], points: Sequence[_Point]) -> None:
    """Set common scales from 0; the delay decreases to the right."""
    most = max([1e-9, *(point.delay[2] for point in points)])
    least = min([0.0, *(point.delay[1] for point in points)])
    for axes in panels:
        axes.set_xlim(1.15 * most, least - 0.04 * most)
        axes.set_ylim(0, 1.15 * max([1e-9, *(point.throughput[2] for point in points)]))
        axes.text(
            0.99, 0.985, "better ↗", transform=axes.transAxes, ha="right", va="top", fontsize="x-small", color=NEUTRAL
        )


def _place_labels(axes: Axes, points: Sequence[_Point]) -> None:
    """Write each point's label beside the point, if possible without covering points or other labels."""
    figure: Any = axes.get_figure()
    frame = axes.get_window_extent()
    reach = figure.dpi * 4 / 72
    taken = [text.get_window_extent() for text in axes.texts]
    for point in points:
        x, y = axes.transData.transform((point.delay[0], point.throughput[0]))
        taken.append(Bbox.from_extents(x - reach, y - reach, x + reach, y + reach))
    for point in points:
        best: tuple[float, Any, Any] | None = None
        for right, up, across, along in OFFSETS:
            text = axes.annotate(
                point.label, (point.delay[0], point.throughput[0]), (right, up), textcoords="offset points",
                ha=across, va=along, fontsize="small", color=point.colour, zorder=6,
            )  # fmt: skip
            extent = text.get_window_extent()
            covered = sum(_overlap(extent, other) for other in taken)
            covered += extent.width * extent.height - _overlap(extent, frame)
            if best is not None and covered >= best[0]:
                text.remove()
                continue
            if best is not None:
                best[1].remove()
            best = covered, text, extent
            if covered < 1:
                break
        if best is not None:
            taken.append(best[2])


def _overlap(first: Bbox, second: Bbox) -> float:
    """Return the area that two boxes share, in square pixels."""
    common = Bbox.intersection(first, second)
    return 0.0 if common is None else float(common.width * common.height)
