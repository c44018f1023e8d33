"""Figures: a scheme has the same colour in all of them, by its place in the registry."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch
from matplotlib.ticker import MaxNLocator

from narrows import engine, evidence
from narrows.quantities import axis
from narrows.results import spec
from narrows.scenario import Misuse
from narrows.stats import interval

if TYPE_CHECKING:
    from narrows.results import Results

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, told apart with any colour vision; without their yellow, which white paper swallows."""
DARKER = ("#00466E", "#853A00", "#006248", "#7F4B68", "#8F6300", "#357090", "#808080")
LIGHTER = ("#66AAD1", "#E69E66", "#66C5AB", "#E0AFCA", "#F0C566", "#9AD2F2", "#B3B3B3")
TONES = (*COLOURS, *DARKER, *LIGHTER)
"""Colours of schemes: the seven, then darker and lighter tones of them, which have other lines and markers too."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
MANY = 40
"""More places than this on an axis make a curve without markers, on a linear axis if nothing else is said."""
HATCHES = ("//", "..", "xx", "--")

PANELS: Mapping[str, tuple[str, str, float]] = {
    "cwnd_bytes": ("cwnd", "kB", 1e-3),
    "inflight_bytes": ("inflight", "kB", 1e-3),
    "pacing_mbit_s": ("pacing", "Mbit/s", 1.0),
    "rtt_ms": ("RTT", "ms", 1.0),
    "srtt_ms": ("SRTT", "ms", 1.0),
    "min_rtt_ms": ("min RTT", "ms", 1.0),
    "goodput_mbit_s": ("goodput", "Mbit/s", 1.0),
    "queue_pkt": ("queue", "packets", 1.0),
    "queue_delay_ms": ("queue delay", "ms", 1.0),
}
"""Of series: what they are, the unit they are drawn in, and the factor to that. Others follow from their names."""
DEFAULT_PANELS = ("cwnd_bytes", "inflight_bytes", "pacing_mbit_s", "rtt_ms", "queue_pkt", "goodput_mbit_s")

BESIDE = ("#A0A0A0", "#CFCFCF")
"""Colours of further series of a lone flow in a panel; wide and below, so that lines that coincide are seen."""
TINTS = ("#D6E4F0", "#F8DFC9", "#D5EDE0", "#F1DCE9", "#F6EBC1", "#E3E3E3")
"""Backgrounds of states."""
SHORT_VISIT = 0.02
"""Share of the time shown; states that last less are shown as their family."""

RC: Any = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "lines.linewidth": 1.2, "legend.frameon": False, "svg.hashsalt": "narrows",
}  # fmt: skip


class Drawing(Figure):
    """A matplotlib figure that notebooks show without a backend."""

    def _repr_png_(self) -> bytes:
        return image(self, "png")


def colour(scheme: str) -> str:
    """The colour of a scheme."""
    return TONES[engine.scheme_order().get(scheme, 0) % len(TONES)]


def style(scheme: str) -> dict[str, Any]:
    """Colour, line and marker of a scheme."""
    place = engine.scheme_order().get(scheme, 0)
    turn = place // len(COLOURS)
    return {
        "color": colour(scheme),
        "linestyle": STYLES[turn % len(STYLES)],
        "marker": MARKERS[turn % len(MARKERS)],
    }


def plot(results: Results, kind: str | None = None, **options: Any) -> Figure:
    """A figure of some kind.

    Args:
        results: What to show.
        kind: `time`, `share`, `loss`, `delay`, `line` or `bar`.
        **options: What that kind's function takes.

    Raises:
        Misuse: There is no such kind, or the results do not hold what it shows.
    """
    kind = kind or default_kind(results)
    function: Callable[..., Figure] | None = KINDS.get(kind)
    if function is None:
        raise Misuse(f"no plot of kind {kind!r}; accepted: {', '.join(KINDS)}")
    with mpl.rc_context(RC):
        try:
            return _annotated(function(results, **options), str(options.get("sql", "")))
        except TypeError as error:
            if "unexpected keyword argument" in str(error) or "required keyword-only" in str(error):
                raise Misuse(f"plot {kind}: {str(error).partition('() ')[2]}") from None
            raise


def _annotated(figure: Figure, sql: str) -> Figure:
    """The figure, with a line on what the mark of a scheme means, where one is marked.

    Where no series is, the schemes that the plot's query names are looked at: the whole plot may be of one.
    """
    labels = [label for panel in figure.axes for label in panel.get_xticklabels()]
    labels += [label for legend in figure.legends for label in legend.get_texts()]
    named = sorted(evidence.named_in(sql) & evidence.reconstructions())
    marked = any(evidence.MARK in label.get_text() for label in labels)
    if note := evidence.NOTE if marked else evidence.subject(named) if named else "":
        figure.legend([Line2D([], [])], [note], loc="outside lower right", handlelength=0, handletextpad=0, fontsize=8)
    return figure


def default_kind(results: Results) -> str:
    """What shows most of these results."""
    if results.traced:
        return "time"
    if "network.buffer" in results.keys and results.flows["spec"].n_unique() > 1:
        return "share"
    if "network.loss" in results.keys:
        return "loss"
    return "line" if [key for key in results.keys if key != "flows.scheme"] else "delay"


def over_time(
    results: Results, *, series: Sequence[str] = DEFAULT_PANELS, run: int = 0, title: str | None = None
) -> Figure:
    """Panels over time, of one run: windows, rates, round-trip times, the queue, goodput.

    The states of a lone flow's scheme are shaded.

    Args:
        results: Made with a trace.
        series: What to show, one panel each; names joined by `+` share a panel.
        run: Which run.
        title: The head line; the scenario and its point by default.
    """
    if not 0 <= run < len(results):
        raise Misuse(f"plot time: no run {run}; accepted: 0 to {len(results) - 1}")
    asked = [name.split("+") for name in ([series] if isinstance(series, str) else series)]
    raw = results.raw[run]
    flows, specs = raw["flows"], [spec(flow, results.points[run]) for flow in raw["flows"]]
    wanted = {"state"}.union(*asked)
    rows = (
        results.scan_samples()
        .filter((pl.col("id") == raw.get("id", "")) & pl.col("series").is_in(sorted(wanted)))
        .select("time_s", "kind", "index", "series", "value", "text")
        .collect()
    )
    there = set(rows["series"].to_list())
    shown = [names for part in asked if (names := [name for name in part if name in there])]
    if not shown:
        names = results.scan_samples().select("series").unique().collect()["series"].sort().to_list()
        raise Misuse(f"plot time: none of {', '.join(map('+'.join, asked))} was sampled; accepted: {', '.join(names)}")
    figure = Drawing(figsize=(7.0, 0.7 + 1.25 * len(shown)), layout="constrained")
    panels = np.atleast_1d(figure.subplots(len(shown), 1, sharex=True))
    used: dict[str, int] = {}
    turns = []
    for flow in flows:
        turns.append(used.setdefault(colour(flow["scheme"]), 0))
        used[colour(flow["scheme"])] += 1
    for names, panel in zip(shown, panels, strict=True):
        label, unit, _ = _quantity(names[0])
        for place, name in enumerate(names):
            if _quantity(name)[1] != unit:
                raise Misuse(f"plot time: {name} has another unit than {names[0]}; accepted: series of one unit")
            part = rows.filter(pl.col("series") == name)
            if (part["kind"] == "flow").any():  # what both flows and links have is shown of flows
                part = part.filter(pl.col("kind") == "flow")
            for (kind, index), samples in part.group_by(["kind", "index"], maintain_order=True):
                number = int(str(index))
                line: dict[str, Any] = {"color": "#444444", "linewidth": 0.9}
                if kind == "flow" and place and len(flows) == 1:
                    line = {"color": BESIDE[(place - 1) % len(BESIDE)], "linewidth": 2.2, "zorder": 2 - place / 10}
                elif kind == "flow":
                    scheme, dashes = flows[number]["scheme"], STYLES[(turns[number] + place) % len(STYLES)]
                    line |= {"color": colour(scheme), "linestyle": dashes}
                    if place == 0:
                        rtt = f"{flows[number]['rtt_base_ms']:g} ms"
                        line["label"] = f"{number + 1} {evidence.marked(specs[number])}, {rtt}"
                panel.plot(samples["time_s"], samples["value"] * _quantity(name)[2], **line)
        panel.set_ylabel(f"{label}\n{unit}" if len(names) == 1 else unit)
        panel.set_ylim(bottom=0)
        panel.margins(x=0.01)
        panel.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10), min_n_ticks=3))
        if len(names) > 1:
            _tell_series(panel, names, colour(flows[0]["scheme"]) if len(flows) == 1 else None)
    panels[-1].set_xlabel("time, s")
    lines = next((panel.get_legend_handles_labels() for panel in panels if panel.get_legend_handles_labels()[0]), None)
    if lines is not None and len(lines[0]) <= 12:
        figure.legend(*lines, loc="outside upper left", ncols=min(4, len(lines[0])))
    if len(flows) == 1:
        _shade(figure, panels, rows.filter(pl.col("series") == "state"))
    point = ", ".join(f"{key} {value}" for key, value in results.points[run].items())
    head = title or " · ".join(part for part in (raw["scenario"], point, f"seed {raw['seed']}") if part)
    panels[0].set_title(head, loc="left")
    return figure


def _quantity(series: str) -> tuple[str, str, float]:
    """Of a sampled series: what it is, the unit it is drawn in, and the factor to that."""
    if series in PANELS:
        return PANELS[series]
    for ending in _UNITS:
        if series.endswith(f"_{ending}"):
            name = series.removesuffix(f"_{ending}").replace("_", " ")
            return (name, "kB", 1e-3) if ending == "bytes" else (name, _SPELLED.get(ending, ending), 1.0)
    return series.replace("_", " "), "", 1.0


def _tell_series(panel: Axes, names: Sequence[str], alone: str | None) -> None:
    """A legend of the series that share a panel: by colour if a flow is alone and has this one, else by line."""
    lines = [Line2D([], [], color=alone or "#444444")]
    for place in range(1, len(names)):
        beside = {"color": BESIDE[(place - 1) % len(BESIDE)], "linewidth": 2.2}
        lines.append(Line2D([], [], **(beside if alone else {"color": "#444444", "linestyle": STYLES[place]})))
    panel.legend(
        lines, [_quantity(name)[0] for name in names], loc="lower right", ncols=len(names), fontsize=7,
        frameon=True, framealpha=0.8, edgecolor="none", borderpad=0.2, handlelength=1.5,
    )  # fmt: skip


def _shade(figure: Figure, panels: Iterable[Axes], rows: pl.DataFrame) -> None:
    """The states of a scheme behind the panels; the one it is in for the longest time stays white."""
    spans = _spans(rows["time_s"].to_list(), rows["text"].to_list())
    total: dict[str, float] = {}
    for begin, end, name in spans:
        total[name] = total.get(name, 0.0) + end - begin
    if len(total) < 2:
        return
    common = max(total, key=lambda name: total[name])
    tints = dict(zip((name for name in total if name != common), itertools.cycle(TINTS), strict=False))
    for panel in panels:
        for name, tint in tints.items():
            bars = [(begin, end - begin) for begin, end, other in spans if other == name]
            panel.broken_barh(bars, (0, 1), transform=panel.get_xaxis_transform(), color=tint, linewidth=0.4, zorder=0)
    patches = [Patch(facecolor=tints.get(name, "white"), edgecolor="#bbbbbb", linewidth=0.5) for name in total]
    names = [name.replace("_", " ") for name in total]
    figure.legend(patches, names, loc="outside lower left", ncols=min(5, len(names)), fontsize=8, handlelength=1.2)


def _spans(times: Sequence[float], names: Sequence[str]) -> list[tuple[float, float, str]]:
    """Begin, end and name of each visit to a state.

    States of one family (`probe_bw_up`, `probe_bw_down`) are shown as one if none of them lasts: their stripes would
    be finer than a picture shows.
    """
    visits = _visits(times, names)
    families: dict[str, set[str]] = {}
    for name in names:
        families.setdefault(name.rpartition("_")[0], set()).add(name)
    longest = SHORT_VISIT * (times[-1] - times[0]) if times else 0.0
    renamed: dict[str, str] = {}
    for family, members in families.items():
        means = [np.mean([end - begin for begin, end, name in visits if name == member]) for member in members]
        if family and len(members) > 1 and max(means) < longest:
            renamed |= dict.fromkeys(members, family)
    return _visits(times, [renamed.get(name, name) for name in names])


def _visits(times: Sequence[float], names: Sequence[str]) -> list[tuple[float, float, str]]:
    starts = [i for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    ends = [*starts[1:], len(times) - 1] if starts else []
    return [(times[i], times[end], names[i]) for i, end in zip(starts, ends, strict=True)]


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


def delay(results: Results, *, by: Sequence[str] = ("spec",), title: str | None = None) -> Figure:
    """Throughput against the delay that queues add; up and to the right is better.

    A point is the mean over flows and seeds; where there are three or more, its ellipse holds one standard deviation.
    The points of a sweep are joined in its order.
    """
    by = [by] if isinstance(by, str) else list(by)
    figure = Drawing(figsize=(5.2, 4.0), layout="constrained")
    panel = figure.subplots()
    rows = results.flows.with_columns((pl.col("rtt_mean_ms") - pl.col("rtt_base_ms")).alias("added_ms"))
    rows = rows.drop_nulls(["added_ms", "throughput_mbit_s"])
    swept = [key for key in results.keys if key not in (*by, "flows.scheme")]
    for turn, (key, group) in enumerate(rows.group_by(by, maintain_order=True)):
        look = _look(str(group["spec"][0]), turn, key[:1])
        centres = []
        for _, part in group.group_by(swept, maintain_order=True) if swept else [((), group)]:
            points = part.select("added_ms", "throughput_mbit_s").to_numpy()
            centres.append(points.mean(axis=0))
            panel.plot(*points.T, alpha=0.35, markersize=3, **{**look, "linestyle": ""})
            if len(points) >= 3:
                values, vectors = np.linalg.eigh(np.cov(points.T))
                width, height = 2 * np.sqrt(np.maximum(values, 0))
                angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
                panel.add_patch(Ellipse(centres[-1], width, height, angle=angle, color=look["color"], alpha=0.15))
        panel.plot(*np.array(centres).T, markersize=7, linewidth=0.9, label=evidence.marked(_name(key)), **look)
    panel.set_xlabel("delay added by queues, ms (mean)")
    panel.set_ylabel("throughput, Mbit/s")
    most = [max([1e-9, *rows[name].drop_nulls().to_list()]) for name in ("throughput_mbit_s", "added_ms")]
    panel.set_ylim(0, 1.1 * most[0])
    panel.set_xlim(1.1 * most[1], -0.02 * most[1])
    figure.legend(loc="outside upper left", ncols=4)
    if title:
        panel.set_title(title)
    return figure


def line(results: Results, **options: Any) -> Figure:
    """A column against a swept key, a line for each series, with 95 % intervals over seeds."""
    rows, options = _rows(results, options)
    return _against(rows, results, **options)


def bar(results: Results, **options: Any) -> Figure:
    """The same as bars."""
    rows, options = _rows(results, options)
    return _against(rows, results, bars=True, **options)


def _rows(results: Results, options: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The frame that a generic plot shows: `table` (flows, links or runs), or what `sql` selects from them."""
    options = dict(options)
    table, sql = options.pop("table", "flows"), options.pop("sql", None)
    frames = {"flows": results.flows, "links": results.links, "runs": results.runs}
    if sql is not None:
        from narrows.papers import query

        rows = query(results, sql)
        named: dict[str, Any] = {key: key for key in ("x", "y", "series") if key in rows.columns}
        return rows, {"series": None, "xlabel": "", "ylabel": "", **named, **options}
    if table not in frames:
        raise Misuse(f"plot: no table {table!r}; accepted: {', '.join(frames)}")
    if table != "flows":
        options.setdefault("series", "flows.scheme" if "flows.scheme" in results.keys else None)
        options.setdefault("y", "utilization" if table == "links" else "jain")
    return frames[table], options


def _against(
    rows: pl.DataFrame,
    results: Results,
    *,
    x: str | None = None,
    y: str = "goodput_mbit_s",
    series: str | Sequence[str] | None = "spec",
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
    for name in (x, y, *by):
        if name not in rows.columns:
            raise Misuse(f"plot: no column {name!r}; accepted: {', '.join(rows.columns)}")
    rank = _ranks(results)
    names = sorted((str(value) for value in rows[x].unique().to_list()), key=rank)
    numeric = None if bars else axis(names)
    places = dict(zip(names, numeric[0] if numeric else [float(i) for i in range(len(names))], strict=True))
    figure = Drawing(figsize=(5.6, 3.6), layout="constrained")
    panel = figure.subplots()
    groups: list[tuple[tuple[Any, ...], pl.DataFrame]] = [((), rows)]
    if by:
        groups = sorted(rows.group_by(by, maintain_order=True), key=lambda group: [rank(part) for part in group[0]])
    beside = rows.select(*dict.fromkeys((x, *by))).unique().group_by(x).len()["len"].max()  # bars that share a place
    colours: dict[str, str] = {}
    shifts: dict[str, float] = {}
    for turn, (key, part) in enumerate(groups):
        name = _name(key)
        look = _look(str(key[0]) if key else "", turn, key)
        colours[name] = look["color"]
        xs, means, halves = _means(part, x, y)
        at = [places[name] for name in xs]
        label = evidence.marked(name) or None
        if bars:
            alone = beside == 1
            width = 0.6 if alone else 0.8 / len(groups)
            shifts[name] = 0.0 if alone else (turn - (len(groups) - 1) / 2) * width
            at = [place + shifts[name] for place in at]
            hatch = HATCHES[turn % len(HATCHES)] if ":" in name else None
            panel.bar(
                at, means, width, yerr=halves, color=look["color"], hatch=hatch, edgecolor="white", linewidth=0,
                label=label, error_kw={"linewidth": 0.8},
            )  # fmt: skip
        else:
            order = np.argsort(at) if numeric else np.arange(len(at))
            ordered = [np.asarray(column)[order] for column in (at, means, halves)]
            capsize = 2.0
            if len(at) > MANY:  # a curve, not points
                capsize, look = 0.0, look | {"marker": "", "linewidth": 0.9}
            panel.errorbar(ordered[0], ordered[1], yerr=ordered[2], markersize=4, capsize=capsize, label=label, **look)
    _printed(panel, points, places, colours, shifts, numeric is not None)
    if numeric is None:
        panel.set_xticks(
            range(len(names)), [evidence.marked(name) for name in names], rotation=0 if len(names) < 9 else 60
        )
    panel.set_xlabel(_label(x, numeric[1] if numeric else "") if xlabel is None else xlabel)
    panel.set_ylabel(_label(y, "") if ylabel is None else ylabel)
    least, most = min(places.values(), default=0.0), max(places.values(), default=0.0)
    if numeric is not None and least > 0 and (len(places) <= MANY and most >= 20 * least if logx is None else logx):
        panel.set_xscale("log")
        if len(places) <= 10:
            panel.set_xticks(list(places.values()), [f"{place:g}" for place in places.values()])
            panel.minorticks_off()
    if logy:
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
    lines, labels = panel.get_legend_handles_labels()
    if labels:
        figure.legend(lines, labels, loc="outside upper left", ncols=_columns(labels))
    if title:
        panel.set_title(title)
    return figure


def _ranks(results: Results) -> Callable[[Any], tuple[int, list[Any]]]:
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


def _name(key: Sequence[Any]) -> str:
    return ", ".join(f"{part:g}" if isinstance(part, float) else str(part) for part in key)


def _look(name: str, turn: int, key: Sequence[Any]) -> dict[str, Any]:
    if name.partition(":")[0] in engine.scheme_order():
        look = style(name.partition(":")[0])
        if ":" in name:  # beside the scheme as it is, which has a line of its own
            return look | {"linestyle": STYLES[1 + turn % (len(STYLES) - 1)]}
        return look if len(key) == 1 else look | {"linestyle": STYLES[turn % len(STYLES)]}
    return {
        "color": COLOURS[turn % len(COLOURS)],
        "linestyle": STYLES[turn // len(COLOURS) % len(STYLES)],
        "marker": MARKERS[turn // len(COLOURS) % len(MARKERS)],
    }


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


_UNITS = ("mbit_s", "percent", "bytes", "pkt", "ms", "s")
_SPELLED = {"mbit_s": "Mbit/s", "percent": "%", "pkt": "packets"}


def _label(column: str, unit: str) -> str:
    if unit:
        return f"{column.rpartition('.')[2]}, {unit}"
    for ending in _UNITS:
        if column.endswith(f"_{ending}"):
            name = column.removesuffix(f"_{ending}").replace("_", " ")
            return f"{re.sub(r'^rtt', 'RTT', name)}, {_SPELLED.get(ending, ending)}"
    return "scheme" if column == "spec" else column.rpartition(".")[2].replace("_", " ")


def image(figure: Figure, form: str = "png") -> bytes:
    """The figure's file as bytes, the same every time."""
    buffer = io.BytesIO()
    with mpl.rc_context(RC):
        metadata: dict[str, Any] = {"Software": None} if form == "png" else {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> None:
    """Write it, whole or not at all; the ending says in which format."""
    from narrows.runner import write_atomic

    form = path.suffix.removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise Misuse(f"{path}: accepted: a name that ends in .png, .svg or .pdf")
    write_atomic(path, image(figure, form))


KINDS: dict[str, Callable[..., Figure]] = {
    "time": over_time,
    "share": share,
    "loss": against_loss,
    "delay": delay,
    "line": line,
    "bar": bar,
}
