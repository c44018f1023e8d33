"""Figures: a scheme has the same colour in all of them, by its place in the registry."""

from __future__ import annotations

import itertools
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

from narrows import evidence, looks
from narrows.curves import against_loss, bar, line, share
from narrows.looks import COLOURS, DARKER, LIGHTER, RC, SPELLED, STYLES, TONES, UNITS, Drawing, colour, image, style
from narrows.results import spec
from narrows.scenario import Misuse

if TYPE_CHECKING:
    from narrows.results import Results

__all__ = [
    "COLOURS", "DARKER", "KINDS", "LIGHTER", "TONES", "Drawing", "colour", "default_kind", "image",
    "plot", "save", "style",
]  # fmt: skip

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
    """Panels over time, of one run: windows, rates, round-trip times, the queue, goodput, readings of allocators.

    The states of a lone flow's scheme are shaded. Series of states are steps between their names.

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
            states = part["text"].drop_nulls().unique(maintain_order=True).to_list()
            if states and len(names) > 1:
                raise Misuse(f"plot time: {name} names states; accepted: a panel of its own")
            for (kind, index), samples in part.group_by(["kind", "index"], maintain_order=True):
                number = int(str(index))
                line: dict[str, Any] = {"color": "#444444", "linewidth": 0.9, "linestyle": STYLES[place % len(STYLES)]}
                if place and len(flows) == 1:
                    line = {"color": BESIDE[(place - 1) % len(BESIDE)], "linewidth": 2.2, "zorder": 2 - place / 10}
                elif kind == "flow":
                    scheme, dashes = flows[number]["scheme"], STYLES[(turns[number] + place) % len(STYLES)]
                    line |= {"color": colour(scheme), "linestyle": dashes}
                    if place == 0:
                        rtt = f"{flows[number]['rtt_base_ms']:g} ms"
                        line["label"] = f"{number + 1} {evidence.marked(specs[number])}, {rtt}"
                if states:
                    line["drawstyle"] = "steps-post"
                    heights = [states.index(text) for text in samples["text"]]
                else:
                    heights = (samples["value"] * _quantity(name)[2]).to_list()
                panel.plot(samples["time_s"], heights, **line)
        panel.set_ylabel(f"{label}\n{unit}" if len(names) == 1 else unit)
        panel.margins(x=0.01)
        if states:
            panel.set_yticks(range(len(states)), [text.replace("_", " ") for text in states])
        else:
            panel.set_ylim(bottom=0)
            panel.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10), min_n_ticks=3))
        if len(names) > 1:
            _tell_series(panel, names, str(panel.lines[0].get_color()) if len(flows) == 1 else None)
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
    for ending in UNITS:
        if series.endswith(f"_{ending}"):
            name = series.removesuffix(f"_{ending}").replace("_", " ")
            return (name, "kB", 1e-3) if ending == "bytes" else (name, SPELLED.get(ending, ending), 1.0)
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
        look = looks.look(str(group["spec"][0]), turn, key[:1])
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
        panel.plot(*np.array(centres).T, markersize=7, linewidth=0.9, label=evidence.marked(looks.name(key)), **look)
    panel.set_xlabel("delay added by queues, ms (mean)")
    panel.set_ylabel("throughput, Mbit/s")
    most = [max([1e-9, *rows[name].drop_nulls().to_list()]) for name in ("throughput_mbit_s", "added_ms")]
    panel.set_ylim(0, 1.1 * most[0])
    panel.set_xlim(1.1 * most[1], -0.02 * most[1])
    figure.legend(loc="outside upper left", ncols=4)
    if title:
        panel.set_title(title)
    return figure


def save(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write it, whole or not at all; the ending says in which format. `dpi`: dots per inch, of what is made of dots."""
    from narrows.runner import write_atomic

    form = path.suffix.removeprefix(".")
    if form not in ("png", "svg", "pdf"):
        raise Misuse(f"{path}: accepted: a name that ends in .png, .svg or .pdf")
    write_atomic(path, image(figure, form, dpi))


KINDS: dict[str, Callable[..., Figure]] = {
    "time": over_time,
    "share": share,
    "loss": against_loss,
    "delay": delay,
    "line": line,
    "bar": bar,
}
