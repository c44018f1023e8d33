"""Columns against each other: lines and bars with 95 % intervals over seeds, in one panel or several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from narrows import evidence, looks
from narrows.looks import SPELLED, UNITS, Drawing
from narrows.quantities import axis
from narrows.scenario import Misuse
from narrows.stats import interval

if TYPE_CHECKING:
    from narrows.results import Results

MANY = 40
"""More places than this on an axis make a curve without markers, on a linear axis if nothing else is said."""
HATCHES = ("//", "..", "xx", "--")


def share(
    results: Results, *, x: str = "network.buffer", by: str | Sequence[str] | None = None, **options: Any
) -> Figure:
    """The share of all goodput that each scheme gets, against the buffer or another swept key.

    Where schemes ran alone the flows of a run are told apart by their round-trip times.
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
    return _against(rows, results, x=x, y="share_percent", series=columns, **options)


def against_loss(results: Results, *, x: str = "network.loss", y: str = "goodput_mbit_s", **options: Any) -> Figure:
    """Goodput against the random loss."""
    return _against(results.flows, results, x=x, y=y, **options)


def line(results: Results, **options: Any) -> Figure:
    """A column against a swept key, a line for each series, with 95 % intervals over seeds."""
    rows, options = _rows(results, options)
    return _against(rows, results, **options)


def bar(results: Results, **options: Any) -> Figure:
    """The same as bars."""
    rows, options = _rows(results, options)
    return _against(rows, results, bars=True, **options)


def _rows(results: Results, options: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The frame that a generic plot shows: `table` (one of the results' frames), or what `sql` selects from them."""
    options = dict(options)
    table, sql = options.pop("table", "flows"), options.pop("sql", None)
    frames = results.frames()
    if sql is not None:
        from narrows.papers import query

        rows = query(results, sql)
        named: dict[str, Any] = {key: key for key in ("x", "y", "series", "panel", "row") if key in rows.columns}
        return rows, {"series": None, "xlabel": "", "ylabel": "", **named, **options}
    if table not in frames:
        raise Misuse(f"plot: no table {table!r}; accepted: {', '.join(frames)}")
    if table != "flows":
        options.setdefault("series", "flows.scheme" if "flows.scheme" in results.keys else None)
        options.setdefault("y", {"links": "utilization", "connections": "goodput_mbit_s"}.get(table, "jain"))
    return frames[table], options


@dataclass(frozen=True)
class _Places:
    """Where the values of x stand on the axis, and the axis' unit if they are numbers."""

    at: Mapping[str, float]
    unit: str | None


@dataclass(frozen=True)
class _Face:
    """A panel: its values of `panel` and `row`, its rows, where it is drawn, and at which edges it stands."""

    panel: str
    row: str
    rows: pl.DataFrame
    axes: Axes
    top: bool
    left: bool
    bottom: bool

    def has(self, point: Mapping[str, Any]) -> bool:
        """Whether a printed point belongs here."""
        return bool(point.get("panel", self.panel) == self.panel and point.get("row", self.row) == self.row)


@dataclass
class _Drawn:
    """Colours of the series, and how far beside their place bars stand."""

    colours: dict[str, str] = field(default_factory=dict)
    shifts: dict[str, float] = field(default_factory=dict)


def _against(
    rows: pl.DataFrame,
    results: Results,
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
    if x is None:
        free = [key for key in results.keys if key != "flows.scheme"]
        x = free[0] if free else "spec"
    by = [] if series is None else [series] if isinstance(series, str) else list(series)
    for name in (x, y, *by, *filter(None, (panel, row))):
        if name not in rows.columns:
            raise Misuse(f"plot: no column {name!r}; accepted: {', '.join(rows.columns)}")
    rank = _ranks(results)
    names = sorted((str(value) for value in rows[x].unique().to_list()), key=rank)
    numeric = None if bars else axis(names)
    places = _Places(
        dict(zip(names, numeric[0] if numeric else [float(i) for i in range(len(names))], strict=True)),
        numeric[1] if numeric else None,
    )
    keys = sorted(rows.select(by).unique().rows(), key=lambda key: [rank(part) for part in key]) if by else [()]
    beside = rows.select(*dict.fromkeys((x, *by))).unique().group_by(x).len()["len"].max()  # bars that share a place
    drawn = _Drawn()
    figure, faces = _faces(rows, rank, panel, row, columns, own_axes)
    for face in faces:
        groups = dict(face.rows.group_by(by)) if by else {(): face.rows}
        for turn, key in enumerate(keys):
            if key in groups:
                means = _means(groups[key], x, y)
                if bars:
                    width = 0.6 if beside == 1 else 0.8 / len(keys)
                    drawn.shifts[looks.name(key)] = 0.0 if beside == 1 else (turn - (len(keys) - 1) / 2) * width
                    _bars(face.axes, key, turn, means, places, width, drawn)
                else:
                    _curve(face.axes, key, turn, means, places, drawn)
    for face in faces:  # now that all is drawn, and shared axes know what they hold
        mine = [point for point in points if face.has(point)]
        _printed(face.axes, mine, places.at, drawn.colours, drawn.shifts, places.unit is not None)
        _axes(face.axes, places, logx, logy, 10 if len(faces) == 1 else 6)
        if face.top and face.panel:
            face.axes.set_title(evidence.marked(face.panel), fontsize=9)
        if face.bottom:
            face.axes.set_xlabel(_label(x, places.unit or "") if xlabel is None else xlabel)
        if face.left:
            face.axes.set_ylabel(face.row or (_label(y, "") if ylabel is None else ylabel))
    pairs = [pair for face in faces for pair in zip(*face.axes.get_legend_handles_labels(), strict=True)]
    if pairs:
        first = {label: handle for handle, label in reversed(pairs)}
        labels = list(dict.fromkeys(label for _, label in pairs))
        place: Any = "outside upper left" if len(faces) == 1 else "outside lower left"  # above panels is their title
        figure.legend([first[label] for label in labels], labels, loc=place, ncols=_columns(labels))
    if title and len(faces) == 1:
        faces[0].axes.set_title(title)
    elif title:
        figure.suptitle(title, fontsize=10)
    return figure


def _faces(
    rows: pl.DataFrame, rank: _Rank, panel: str | None, row: str | None, columns: int, own_axes: bool
) -> tuple[Figure, list[_Face]]:
    """The figure with its panels.

    Values of `panel` stand beside each other, those of `row` below each other; without `row` the panels are wrapped
    after so many columns.
    """
    if panel is None and row is None:
        figure = Drawing(figsize=(5.6, 3.6), layout="constrained")
        return figure, [_Face("", "", rows, figure.subplots(), top=True, left=True, bottom=True)]
    heads, sides = (
        [None] if column is None else sorted(rows[column].unique().to_list(), key=rank) for column in (panel, row)
    )
    cells = [(side, head) for side in sides for head in heads]
    across = min(columns, len(heads)) if row is None else len(heads)
    down = -(-len(cells) // across)
    figure = Drawing(figsize=(0.6 + (2.5 if across > 2 else 3.4) * across, 0.9 + 1.9 * down), layout="constrained")
    share: Any = False if own_axes else "row" if row is not None else True
    grid = figure.subplots(down, across, squeeze=False, sharex=not own_axes, sharey=share).flat
    faces = []
    for i, ((side, head), axes) in enumerate(zip(cells, grid, strict=False)):
        part = rows.filter(*(pl.col(name) == value for name, value in ((row, side), (panel, head)) if name is not None))
        left, bottom = own_axes or i % across == 0, own_axes or i + across >= len(cells)
        axes.tick_params(labelbottom=bottom)
        top = row is None or i < across
        faces.append(_Face(_text(head), _text(side), part, axes, top=top, left=left, bottom=bottom))
    for axes in grid[len(cells) :]:
        axes.set_axis_off()
    return figure, faces


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _bars(
    face: Axes,
    key: tuple[Any, ...],
    turn: int,
    means: tuple[list[str], list[float], list[float]],
    places: _Places,
    width: float,
    drawn: _Drawn,
) -> None:
    name = looks.name(key)
    look = looks.look(str(key[0]) if key else "", turn, key)
    drawn.colours[name] = look["color"]
    hatch = HATCHES[turn % len(HATCHES)] if ":" in name else None
    xs, heights, halves = means
    face.bar(
        [places.at[place] + drawn.shifts[name] for place in xs], heights, width, yerr=halves, color=look["color"],
        hatch=hatch, edgecolor="white", linewidth=0, label=evidence.marked(name) or None, error_kw={"linewidth": 0.8},
    )  # fmt: skip


def _curve(
    face: Axes,
    key: tuple[Any, ...],
    turn: int,
    means: tuple[list[str], list[float], list[float]],
    places: _Places,
    drawn: _Drawn,
) -> None:
    name = looks.name(key)
    look = looks.look(str(key[0]) if key else "", turn, key)
    drawn.colours[name] = look["color"]
    at = [places.at[place] for place in means[0]]
    order = np.argsort(at) if places.unit is not None else np.arange(len(at))
    ordered = [np.asarray(column)[order] for column in (at, *means[1:])]
    capsize = 2.0
    if len(at) > MANY:  # a curve, not points
        capsize, look = 0.0, look | {"marker": "", "linewidth": 0.9}
    label = evidence.marked(name) or None
    face.errorbar(ordered[0], ordered[1], yerr=ordered[2], markersize=4, capsize=capsize, label=label, **look)


def _axes(face: Axes, places: _Places, logx: bool | None, logy: bool, most_ticks: int) -> None:
    """Ticks and scales; so many values of a logarithmic axis may have a tick each."""
    values = list(places.at.values())
    if places.unit is None:
        face.set_xticks(
            range(len(values)), [evidence.marked(name) for name in places.at], rotation=0 if len(values) < 9 else 60
        )
    least, most = min(values, default=0.0), max(values, default=0.0)
    wide = len(values) <= MANY and most >= 20 * least if logx is None else logx
    if places.unit is not None and least > 0 and wide:
        face.set_xscale("log")
        if len(values) <= most_ticks:
            face.set_xticks(values, [f"{value:g}" for value in values])
            face.minorticks_off()
    if logy:
        face.set_yscale("log")
    else:
        face.set_ylim(bottom=min(0.0, face.get_ylim()[0]))


_Rank = Callable[[Any], tuple[int, list[Any]]]
"""Sorts what is on an axis or in a legend."""


def _ranks(results: Results) -> _Rank:
    """Sorts what is on an axis or in a legend: in the order of the scenario, else numbers by size, else as text."""
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


def _columns(labels: Sequence[str]) -> int:
    """How many columns of a legend fit beside each other."""
    return len(labels) if sum(len(label) + 6 for label in labels) <= 64 else max(1, 64 // (max(map(len, labels)) + 6))


def _means(rows: pl.DataFrame, x: str, y: str) -> tuple[list[str], list[float], list[float]]:
    """Per place on the axis: the mean over seeds of the mean within a seed, and its half-width."""
    by = [x, "seed"] if "seed" in rows.columns else [x]
    per_seed = rows.drop_nulls(y).group_by(by, maintain_order=True).agg(pl.col(y).cast(pl.Float64).mean())
    names, means, halves = [], [], []
    for (name,), part in per_seed.group_by([x], maintain_order=True):
        found = interval(part[y].to_list())
        names.append(str(name))
        means.append(found.mean)
        halves.append(found.half or 0.0)
    return names, means, halves


def _printed(
    panel: Axes,
    points: Sequence[Mapping[str, Any]],
    places: Mapping[str, float],
    colours: Mapping[str, str],
    shifts: Mapping[str, float],
    numeric: bool,
) -> None:
    """Figures that a paper prints, as hollow diamonds."""
    for i, point in enumerate(points):
        place = places.get(str(point["x"]))
        if place is None and numeric:
            single = axis([str(point["x"])])
            place = single[0][0] if single else None
        if place is None:
            raise Misuse(f"plot: the point at x = {point['x']!r} is not on the axis; accepted: {', '.join(places)}")
        series = str(point.get("series", ""))
        place += shifts.get(series, 0.0)
        edge = "#222222" if shifts else colours.get(series, "#444444")
        label = "printed in the paper" if i == 0 else None
        panel.plot(
            [place], [float(point["y"])], marker="D", markersize=7,
            markerfacecolor="white" if shifts else "none", markeredgecolor=edge,
            linestyle="", label=label, zorder=5,
        )  # fmt: skip


def _label(column: str, unit: str) -> str:
    if unit:
        return f"{column.rpartition('.')[2]}, {unit}"
    for ending in UNITS:
        if column.endswith(f"_{ending}"):
            name = column.removesuffix(f"_{ending}").replace("_", " ")
            return f"{re.sub(r'^rtt', 'RTT', name)}, {SPELLED.get(ending, ending)}"
    return "scheme" if column == "spec" else column.rpartition(".")[2].replace("_", " ")
