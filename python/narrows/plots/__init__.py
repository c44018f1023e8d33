"""Figures of results.

`plot` draws a kind of figure, `save` writes it. `time` draws panels over time, `charts` lines and bars against a swept
key, `delay` throughput against delay; `style` gives a scheme the same colour in all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from narrows import provenance
from narrows.errors import OptionError, UsageError
from narrows.files import write_atomic
from narrows.frames import ResultFrames
from narrows.plots.charts import against_loss, bar, chart, line, share
from narrows.plots.delay import throughput_against_delay
from narrows.plots.style import RC, image
from narrows.plots.time import over_time

__all__ = ["KINDS", "default_kind", "image", "options_of", "plot", "save"]

KINDS: Mapping[str, Callable[..., Figure]] = {
    "time": over_time,
    "share": share,
    "loss": against_loss,
    "delay": throughput_against_delay,
    "line": line,
    "bar": bar,
}
"""The function of each kind of figure."""
FIXED: Mapping[str, frozenset[str]] = {"share": frozenset({"y", "series"}), "bar": frozenset({"bars"})}
"""The options of `chart` that a kind sets itself."""


def plot(results: ResultFrames, kind: str | None = None, **options: Any) -> Figure:
    """Draw a figure.

    Args:
        results: The data.
        kind: `time`, `share`, `loss`, `delay`, `line` or `bar`; by default the one that suits the results.
        **options: The options of that kind's function in `KINDS`.

    Raises:
        UsageError: There is no such kind or option, or the results lack its data.
    """
    kind = kind or default_kind(results)
    accepted = options_of(kind)
    for name in options:
        if name not in accepted:
            raise OptionError(name, f"plots of kind {kind!r} lack this option; accepted: {', '.join(accepted)}")
    with mpl.rc_context(RC):
        return _explained(KINDS[kind](results, **options), str(options.get("sql", "")))


def options_of(kind: str) -> list[str]:
    """Return the names of a kind's options.

    Raises:
        UsageError: There is no such kind.
    """
    if kind not in KINDS:
        raise OptionError("kind", f"there is no kind {kind!r}; accepted: {', '.join(KINDS)}")
    return [name for name in _options(KINDS[kind]) if name not in FIXED.get(kind, ())]


def _options(function: Callable[..., Figure]) -> list[str]:
    """Return the names of a function's options, and of those that it passes to `chart`."""
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        names += _options(chart)
    return list(dict.fromkeys(names))


def default_kind(results: ResultFrames) -> str:
    """Return the kind of figure that suits the results."""
    if results.traced:
        return "time"
    if "network.buffer" in results.keys and results.flows["spec"].n_unique() > 1:
        return "share"
    if "network.loss" in results.keys:
        return "loss"
    return "line" if [key for key in results.keys if key != "flows.scheme"] else "delay"


def save(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure to a file.

    Args:
        figure: The figure.
        path: The file; its ending selects the format.
        dpi: The resolution of PNG files, and of bitmaps in others.

    Raises:
        UsageError: The ending is not supported.
    """
    form = path.suffix.removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise UsageError(f"{path}: the ending {path.suffix!r} names no supported format; accepted: .png, .svg or .pdf")
    write_atomic(path, image(figure, form, dpi))


def _explained(figure: Figure, sql: str) -> Figure:
    """Add a footnote if the figure shows a reconstruction.

    If no label carries the mark, the figure may still show one scheme only: the one that its query names.
    """
    labels = [label for panel in figure.axes for label in panel.get_xticklabels()]
    labels += [label for legend in figure.legends for label in legend.get_texts()]
    named = sorted(provenance.named_in(sql) & provenance.reconstructions())
    marked = any(provenance.MARK in label.get_text() for label in labels)
    if note := provenance.NOTE if marked else provenance.subject(named) if named else "":
        figure.legend([Line2D([], [])], [note], loc="outside lower right", handlelength=0, handletextpad=0, fontsize=8)
    return figure
