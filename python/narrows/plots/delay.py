"""Throughput against delay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from narrows import provenance
from narrows.errors import OptionError
from narrows.frames import ResultFrames
from narrows.plots.style import Drawing, series_name, series_style


def throughput_against_delay(
    results: ResultFrames, *, by: Sequence[str] = ("spec",), title: str | None = None
) -> Figure:
    """Draw throughput against queueing delay; the best place is at the top right.

    A point is the mean over flows and seeds. With three or more of them, an ellipse shows one standard deviation.
    A line joins the points of a sweep in scenario order.

    Args:
        results: The data.
        by: The columns that separate series.
        title: The title of the figure.

    Raises:
        UsageError: A column does not exist.
    """
    by = [by] if isinstance(by, str) else list(by)
    for name in by:
        if name not in results.flows.columns:
            raise OptionError("by", f"there is no column {name!r}; accepted: {', '.join(results.flows.columns)}")
    figure = Drawing(figsize=(5.2, 4.0), layout="constrained")
    panel = figure.subplots()
    rows = results.flows.with_columns((pl.col("rtt_mean_ms") - pl.col("rtt_base_ms")).alias("added_ms"))
    rows = rows.drop_nulls(["added_ms", "throughput_mbit_s"])
    swept = [key for key in results.keys if key not in (*by, "flows.scheme")]
    for turn, (key, group) in enumerate(rows.group_by(by, maintain_order=True)):
        style = series_style(str(group["spec"][0]), turn, key[:1])
        centres = []
        for _, part in group.group_by(swept, maintain_order=True) if swept else [((), group)]:
            points = part.select("added_ms", "throughput_mbit_s").to_numpy()
            centres.append(points.mean(axis=0))
            panel.plot(*points.T, alpha=0.35, markersize=3, **{**style, "linestyle": ""})
            if len(points) >= 3:
                values, vectors = np.linalg.eigh(np.cov(points.T))
                width, height = 2 * np.sqrt(np.maximum(values, 0))
                angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
                panel.add_patch(Ellipse(centres[-1], width, height, angle=angle, color=style["color"], alpha=0.15))
        label = provenance.marked(series_name(key))
        panel.plot(*np.array(centres).T, markersize=7, linewidth=0.9, label=label, **style)
    panel.set_xlabel("delay added by queues, ms (mean)")
    panel.set_ylabel("throughput, Mbit/s")
    most = [max([1e-9, *rows[name].drop_nulls().to_list()]) for name in ("throughput_mbit_s", "added_ms")]
    panel.set_ylim(0, 1.1 * most[0])
    panel.set_xlim(1.1 * most[1], -0.02 * most[1])
    figure.legend(loc="outside upper left", ncols=4)
    if title:
        panel.set_title(title)
    return figure
