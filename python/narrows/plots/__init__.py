"""Figures of results.

`plot` draws a kind of figure, `save` writes it. `time` draws panels over time, `charts` lines and bars against a swept
key, `spread` distributions, `heatmap` two swept keys, `delay` throughput against delay. `rows` chooses the rows and
finds the keys that vary between them, `panels` arranges panels, `names` words labels, `style` sets sizes and fonts and
gives a scheme the same colour in all figures.
"""

from __future__ import annotations

from narrows.plots import settings  # noqa: F401 (before matplotlib)

# isort: split

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from narrows import provenance
from narrows.arguments import shown
from narrows.errors import OptionError, UsageError
from narrows.files import write_atomic
from narrows.frames import ResultFrames
from narrows.plots.charts import against_loss, bar, chart, line, share
from narrows.plots.checks import check_options
from narrows.plots.delay import throughput_against_delay
from narrows.plots.heatmap import heatmap
from narrows.plots.rows import UndrawnError
from narrows.plots.spread import box, cdf
from narrows.plots.style import DEFAULTS, boxes_for_glyphs, image, size_of, without_mathematics
from narrows.plots.time import over_time

__all__ = ["KINDS", "UndrawnError", "default_kind", "image", "options_of", "plot", "save"]

KINDS: Mapping[str, Callable[..., Figure]] = {
    "time": over_time,
    "share": share,
    "loss": against_loss,
    "delay": throughput_against_delay,
    "line": line,
    "bar": bar,
    "cdf": cdf,
    "box": box,
    "heatmap": heatmap,
}
"""The function of each kind of figure; its keyword arguments are the options of the kind."""
FIXED: Mapping[str, frozenset[str]] = {
    "share": frozenset({"y", "series", "bars"}),
    "loss": frozenset({"bars"}),
    "line": frozenset({"bars"}),
    "bar": frozenset({"bars", "logx"}),
}
"""The options of `chart` that a kind sets itself."""


def plot(results: ResultFrames, kind: str | None = None, **options: Any) -> Figure:
    """Draw a figure.

    No figure averages over a swept key: keys that are not drawn otherwise get panels.

    Args:
        results: The data.
        kind: One of `KINDS`; by default the one that suits the results.
        **options: The options of that kind's function in `KINDS`.

    Raises:
        UsageError: There is no such kind or option, the results lack its data, or more keys vary than panels can show.
    """
    _check(results)
    kind = default_kind(results) if kind is None else kind
    accepted = options_of(kind)
    for name in options:
        if name not in accepted:
            raise OptionError(name, f"plots of kind {kind!r} lack this option; accepted: {', '.join(accepted)}")
    check_options(options)
    with mpl.rc_context({**DEFAULTS, **size_of(options.get("size")).look}), boxes_for_glyphs():
        return _explained(without_mathematics(KINDS[kind](results, **options)), str(options.get("sql", "")))


def _check(results: Any) -> None:
    if not isinstance(results, ResultFrames):
        raise UsageError(f"results: {shown(results)} does not fit; accepted: what run, compare, sweep or load returns")


def options_of(kind: str) -> list[str]:
    """Return the names of a kind's options.

    Raises:
        UsageError: There is no such kind.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise OptionError("kind", f"there is no kind {shown(kind)}; accepted: {', '.join(KINDS)}")
    return [name for name in _options(KINDS[kind]) if name not in FIXED.get(kind, ())]


def _options(function: Callable[..., Figure]) -> list[str]:
    """Return the names of a function's options, and of those that it passes to `chart`."""
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        names += _options(chart)
    return list(dict.fromkeys(names))


def default_kind(results: ResultFrames) -> str:
    """Return the kind of figure that suits the results.

    Raises:
        UsageError: These are no results.
    """
    _check(results)
    if results.traced:
        return "time"
    rivals = results.flows.group_by("id").agg(pl.col("spec").n_unique())["spec"].max()
    if "network.buffer" in results.keys and rivals != 1:
        return "share"
    if "network.loss" in results.keys:
        return "loss"
    return "line" if [key for key in results.keys if key != "flows.scheme"] else "delay"


def save(figure: Figure, path: Path, dpi: int | None = None) -> None:
    """Write a figure to a file.

    Args:
        figure: The figure.
        path: The file; its ending selects the format.
        dpi: The resolution of PNG files, and of bitmaps in others, in dots per inch; by default that of the figure's
            size.

    Raises:
        UsageError: The ending is not supported.
    """
    form = path.suffix.removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise UsageError(f"{path}: the ending {path.suffix!r} names no supported format; accepted: .png, .svg or .pdf")
    write_atomic(path, image(figure, form, dpi))


def _explained(figure: Figure, sql: str) -> Figure:
    """Add a footnote if the figure shows a reconstruction.

    A figure without a marked label may still show a reconstruction: the only scheme, which its query names.
    """
    labels = [label for panel in figure.axes for label in (*panel.get_xticklabels(), *panel.texts, panel.title)]
    labels += [label for legend in figure.legends for label in legend.get_texts()]
    named = sorted(provenance.named_in(sql) & provenance.reconstructions())
    marked = any(provenance.MARK in label.get_text() for label in labels)
    if note := provenance.NOTE if marked else provenance.subject(named) if named else "":
        figure.legend(
            [Line2D([], [])], [note], loc="outside lower right", handlelength=0, handletextpad=0, fontsize="small"
        )
    return figure
