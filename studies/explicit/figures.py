"""The figures of the study, one function each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from contestants import ALL, Contestant
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from narrows import plots
from narrows.plots import style

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
DPI = 115
"""The resolution at which the widest figure fits a page."""
Table = Mapping[str, Mapping[str, float | None]]
"""Values by contestant and column."""


def drawn(name: str, draw: Callable[[], Figure]) -> None:
    """Draw and save a figure in the common style."""
    with mpl.rc_context(style.RC):
        figure = draw()
        plots.save(figure, IMAGES / f"explicit-{name}.png", DPI)
        plt.close(figure)


def line_style(contestant: Contestant) -> dict[str, Any]:
    """Return line and marker of a contestant: dashed unless routers assign its rate."""
    place = ALL.index(contestant)
    return {
        "color": (*style.COLOURS, "#999999")[place],
        "marker": style.MARKERS[place % len(style.MARKERS)],
        "linestyle": "-" if contestant.explicit else "--",
        "markersize": 4,
    }


def heat(table: Table, title: str, *, logarithmic: bool) -> Figure:
    """Draw contestants against situations; light cells are good."""
    names, columns = list(table), list(next(iter(table.values())))
    figure, panel = plt.subplots(figsize=(10.5, 1.6 + 0.34 * len(names)), layout="constrained")
    values = np.array([[math.nan if (x := table[name][key]) is None else x for key in columns] for name in names])
    norm = LogNorm(1, 300) if logarithmic else Normalize(0, 60)
    shades = plt.get_cmap("YlOrBr", 12)
    panel.imshow(np.clip(values, norm.vmin, norm.vmax), norm=norm, cmap=shades, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            text = "–" if math.isnan(value) else f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"
            dark = not math.isnan(value) and norm(min(max(value, norm.vmin), norm.vmax)) > 0.6
            panel.text(x, y, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    panel.set_xticks(range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(names)), names)
    panel.grid(visible=False)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)
    panel.set_title(title, loc="left")
    return figure


def lives(runs: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]], marks: Sequence[float]) -> Figure:
    """Draw the throughput of every flow over time, a panel per contestant."""
    columns = 2 if len(runs) <= 4 else 4
    rows = math.ceil(len(runs) / columns)
    size = (10.5, 0.6 + 1.75 * rows)
    figure, panels = plt.subplots(
        rows, columns, figsize=size, layout="constrained", sharex=True, sharey=True, squeeze=False
    )
    for panel, (name, (times, series)) in zip(panels.flat, runs.items(), strict=False):
        for index, values in enumerate(series):
            panel.plot(times, values, linewidth=0.9, color=style.COLOURS[index], label=f"flow {index + 1}")
        for time in marks:
            panel.axvline(time, color="#888888", linewidth=0.8, linestyle=":")
        panel.set_title(name, loc="left")
        panel.set_ylim(0, 110)
    for panel in panels.flat[len(runs) :]:
        panel.set_visible(False)
    for panel in panels[-1]:
        panel.set_xlabel("time, s")
    for panel in panels[:, 0]:
        panel.set_ylabel("Mbit/s")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    return figure


def curves(contestants: Sequence[Contestant], panels: Mapping[str, Table], *, value: str) -> Figure:
    """Draw a line per contestant over the swept values, evenly spaced; a panel per table, named by its axis."""
    size = (0.5 + 4.4 * len(panels), 3.2)
    figure, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for panel, (axis, table) in zip(axes.flat, panels.items(), strict=True):
        for who in contestants:
            panel.plot(list(table[who.name]), list(table[who.name].values()), label=who.name, **line_style(who))
        panel.set_xlabel(axis)
        panel.set_ylim(bottom=0)
    axes[0, 0].set_ylabel(value)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center")
    return figure


BINS = (3, 10, 30, 100, 300, 1000, 3000)
"""Bounds of sizes, in kB."""


def slowdowns(contestants: Sequence[Contestant], files: Mapping[str, pl.DataFrame], case: str) -> Figure:
    """Draw the mean slowdown of files over their size."""
    figure, panel = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    for who in contestants:
        frame = files[who.name].filter((pl.col("case") == case) & pl.col("slowdown").is_not_null())
        xs, ys = [], []
        for low, high in zip((0, *BINS), (*BINS, math.inf), strict=True):
            part = frame.filter((pl.col("kB") >= low) & (pl.col("kB") < high))
            if part.height >= 10:
                xs.append(math.exp(float(np.log(part["kB"].to_numpy()).mean())))
                ys.append(float(part["slowdown"].to_numpy().mean()))
        panel.plot(xs, ys, label=who.name, **line_style(who))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
    panel.set_xlabel("size, kB")
    panel.set_ylabel("completion over the least possible")
    figure.legend(loc="outside right center")
    return figure


def shares(panels: Mapping[str, tuple[Table, float]]) -> Figure:
    """Draw stacked bars of goodputs, with a line at the fair share of the first group."""
    figure, axes = plt.subplots(1, len(panels), figsize=(10.5, 3.2), layout="constrained", sharey=True, squeeze=False)
    fills = (style.COLOURS[0], style.COLOURS[4])
    for panel, (title, (table, fair)) in zip(axes.flat, panels.items(), strict=True):
        places = range(len(table))
        left = np.zeros(len(table))
        for key, fill in zip(next(iter(table.values())), fills, strict=True):
            widths = np.array([float(row[key] or 0.0) for row in table.values()])
            panel.barh(places, widths, left=left, color=fill, label=key, height=0.7)
            left += widths
        panel.axvline(fair, color="black", linewidth=1, linestyle="--")
        panel.set_yticks(places, list(table))
        panel.set_xlim(0, 100)
        panel.set_xlabel("Mbit/s of payload")
        panel.set_title(title, loc="left")
        panel.grid(axis="y", visible=False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    axes[0, 0].invert_yaxis()
    return figure
