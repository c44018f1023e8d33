"""Panels over time, from the trace of one run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from narrows import engine, provenance
from narrows.errors import OptionError
from narrows.frames import ResultFrames, spec
from narrows.plots.names import SPELLED, UNITS, pair
from narrows.plots.panels import broken
from narrows.plots.rows import Data, Where
from narrows.plots.style import COLOURS, LINES, NEUTRAL, Drawing, scheme_colour, size_of

PANELS: Mapping[str, tuple[str, str, float]] = {
    "cwnd_bytes": ("cwnd", "kB", 1e-3),
    "inflight_bytes": ("inflight", "kB", 1e-3),
    "pacing_rate_mbit_s": ("pacing", "Mbit/s", 1.0),
    "rtt_sample_ms": ("RTT", "ms", 1.0),
    "rtt_ms": ("smoothed RTT", "ms", 1.0),
    "min_rtt_ms": ("min RTT", "ms", 1.0),
    "throughput_mbit_s": ("throughput", "Mbit/s", 1.0),
    "goodput_mbit_s": ("goodput", "Mbit/s", 1.0),
    "queue_pkt": ("queue", "packets", 1.0),
    "queue_delay_ms": ("queue delay", "ms", 1.0),
    "bw_estimate_mbit_s": ("bw estimate", "Mbit/s", 1.0),
    "losses_pkt": ("losses", "packets", 1.0),
}
"""Label, unit and scale of common series, which a trace may lack. Those of other series follow from their names."""
DEFAULT_PANELS = (
    "cwnd_bytes", "inflight_bytes", "pacing_rate_mbit_s", "rtt_sample_ms", "queue_pkt", "throughput_mbit_s",
    "losses_pkt",
)  # fmt: skip
"""Series that are drawn by default. Throughput shows what the link carries; goodput is per run and on request."""
HELD = frozenset({"cwnd_bytes", "pacing_rate_mbit_s", "ssthresh_bytes"})
"""Series drawn as steps if their samples record changes."""

SECOND_COLOURS = ("#A0A0A0", "#CFCFCF")
"""Colours of a lone flow's further series in a panel. Wide lines below the first keep coinciding series visible."""
TINTS = ("#D6E4F0", "#F8DFC9", "#D5EDE0", "#F1DCE9", "#F6EBC1", "#E3E3E3")
"""Background colours of states."""
SHORT_VISIT = 0.02
"""Share of the visible time. States with shorter visits are drawn as their family."""


def over_time(
    results: ResultFrames,
    *,
    series: str | Sequence[str] | None = DEFAULT_PANELS,
    run: int | None = None,
    where: Where | None = None,
    title: str | None = None,
    size: str | None = None,
) -> Figure:
    """Draw series of one run over time: cwnd, rates, RTT, queue, throughput, readings of router algorithms.

    The states of a lone flow's scheme shade the background. A series of states becomes a step line between their names.

    Args:
        results: The data, with a trace.
        series: One series per panel; names joined by `+` share a panel. A series of `PANELS` that the scheme does not
            report is left out. `None` selects the default ones.
        run: The index of the run; by default the first.
        where: Values of swept keys, instead of `run`; the first run that has them is drawn.
        title: The title; by default the scenario, the swept keys and the seed of the run.
        size: `column` or `page` of a paper.

    Raises:
        UsageError: There is no such run or series, or series of different units share a panel.
    """
    run = _chosen(results, run, where)
    raw = results.raw[run]
    samples = results.scan_samples().filter(pl.col("id") == raw.get("id", ""))
    present = samples.select("series").unique().collect()["series"].sort().to_list()
    asked = DEFAULT_PANELS if series is None else series
    requested = [name.split("+") for name in ([asked] if isinstance(asked, str) else asked)]
    absent = [name for part in requested for name in part if name not in present]
    unknown = [name for name in absent if name not in PANELS]
    shown = [names for part in requested if (names := [name for name in part if name in present])]
    if unknown or not shown:
        named = ", ".join(unknown or absent)
        raise OptionError("series", f"the trace has no series {named}; accepted: {', '.join(present)}")
    rows = (
        samples.filter(pl.col("series").is_in(sorted({"state"}.union(*shown))))
        .select("time_s", "kind", "index", "series", "value", "text")
        .collect()
    )
    look = size_of(size)
    width, height = (7.0, 1.25) if look.width is None else (look.width, 0.75 * look.panel[1])
    figure = Drawing(look, (width, 0.7 + height * len(shown)))
    panels = np.atleast_1d(figure.subplots(len(shown), 1, sharex=True))
    specs = [str(flow.get("spec", spec(flow, results.points[run]))) for flow in raw["flows"]]
    lines = _Lines(raw["flows"], specs, results.stepwise)
    for names, panel in zip(shown, panels, strict=True):
        _draw_panel(panel, names, rows, lines)
    panels[-1].set_xlabel("time, s")
    handles = next((found for panel in panels if (found := panel.get_legend_handles_labels())[0]), None)
    if handles is not None and len(handles[0]) <= 12:
        figure.legend(*handles, loc="outside upper left", ncols=min(max(1, int(width / 1.7)), len(handles[0])))
    if lines.lone:
        _shade(figure, panels, rows.filter(pl.col("series") == "state"))
    point = ", ".join(pair(key, value, results.keys) for key, value in results.points[run].items())
    seed = "" if raw["seed"] is None else f"seed {raw['seed']}"
    head = title or " · ".join(part for part in (raw["scenario"], point, seed) if part)
    panels[0].set_title(broken(head, width - 0.6, 9 if look.width is None else 8), loc="left")
    return figure


def _chosen(results: ResultFrames, run: int | None, where: Where | None) -> int:
    """Return the index of the run to draw."""
    if where:
        if run is not None:
            raise OptionError("run", "run and where both select the run; accepted: one of them")
        return int(Data(results.runs.with_row_index("run"), results).where(where).rows["run"][0])
    if run is not None and not 0 <= run < len(results):
        raise OptionError("run", f"there is no run {run}; accepted: 0 to {len(results) - 1}")
    return run or 0


class _Lines:
    """Chooses line styles of a run: colour by scheme, dashes by flow within the scheme and by position in the panel."""

    def __init__(self, flows: Sequence[Mapping[str, Any]], specs: Sequence[str], stepwise: bool) -> None:
        self.flows, self.specs, self.stepwise = flows, specs, stepwise
        self.lone = len(flows) == 1
        used: dict[str, int] = {}
        self.turns: list[int] = []
        known = engine.scheme_order()
        taken = [scheme_colour(flow["scheme"]) for flow in flows if flow["scheme"] in known]
        others = itertools.cycle([colour for colour in COLOURS if colour not in taken] or COLOURS)
        self.colours: list[str] = []
        for flow in flows:
            colour = scheme_colour(flow["scheme"]) if flow["scheme"] in known else next(others)
            self.colours.append(colour)
            self.turns.append(used.setdefault(colour, 0))
            used[colour] += 1

    def style(self, kind: str, index: int, place: int) -> dict[str, Any]:
        """Return the style of a line.

        Args:
            kind: `flow` or `link`.
            index: The number of the flow or link.
            place: The position of the series in its panel; the first series has the flow's label.
        """
        if place and self.lone:
            return {
                "color": SECOND_COLOURS[(place - 1) % len(SECOND_COLOURS)],
                "linewidth": 2.2,
                "linestyle": LINES[0],
                "zorder": 2 - place / 10,
            }
        line: dict[str, Any] = {"color": NEUTRAL, "linewidth": 0.9, "linestyle": LINES[place % len(LINES)]}
        if kind == "flow":
            flow = self.flows[index]
            line |= {"color": self.colours[index], "linestyle": LINES[(self.turns[index] + place) % len(LINES)]}
            if place == 0:
                base = "" if flow["rtt_base_ms"] is None else f", {flow['rtt_base_ms']:g} ms"
                line["label"] = f"{index + 1} {provenance.marked(self.specs[index])}{base}"
        return line


def _draw_panel(panel: Axes, names: Sequence[str], rows: pl.DataFrame, lines: _Lines) -> None:
    label, unit, _ = _quantity(names[0])
    states: list[str] = []
    for place, name in enumerate(names):
        if _quantity(name)[1] != unit:
            raise OptionError(
                "series", f"{name} and {names[0]} have different units; accepted: series of one unit in a panel"
            )
        part = rows.filter(pl.col("series") == name)
        if (part["kind"] == "flow").any():  # flows take precedence over links of the same series
            part = part.filter(pl.col("kind") == "flow")
        states = part["text"].drop_nulls().unique(maintain_order=True).to_list()
        if states and len(names) > 1:
            raise OptionError("series", f"{name} is a series of states; accepted: a panel of its own")
        for (kind, index), samples in part.group_by(["kind", "index"], maintain_order=True):
            style = lines.style(str(kind), int(str(index)), place)
            if states or (lines.stepwise and name in HELD):
                style["drawstyle"] = "steps-post"
            if states:
                heights = [states.index(text) for text in samples["text"]]
            else:
                heights = (samples["value"] * _quantity(name)[2]).to_list()
            panel.plot(samples["time_s"], heights, **style)
    panel.set_ylabel(f"{label}\n{unit}" if len(names) == 1 else unit)
    panel.margins(x=0.01)
    if states:
        panel.set_yticks(range(len(states)), [text.replace("_", " ") for text in states])
    else:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=(1, 2, 5, 10), min_n_ticks=3))
    if len(names) > 1:
        _series_legend(panel, names, str(panel.lines[0].get_color()) if lines.lone else None)


def _quantity(series: str) -> tuple[str, str, float]:
    """Return label, unit and scale of a series."""
    if series in PANELS:
        return PANELS[series]
    for unit in UNITS:
        if series.endswith(f"_{unit}"):
            name = series.removesuffix(f"_{unit}").replace("_", " ")
            return (name, "kB", 1e-3) if unit == "bytes" else (name, SPELLED.get(unit, unit), 1.0)
    return series.replace("_", " "), "", 1.0


def _series_legend(panel: Axes, names: Sequence[str], lone_colour: str | None) -> None:
    """Add a legend of the series in a panel, by colour for a lone flow of that colour, else by dashes."""
    lines = [Line2D([], [], color=lone_colour or NEUTRAL)]
    for place in range(1, len(names)):
        second = {"color": SECOND_COLOURS[(place - 1) % len(SECOND_COLOURS)], "linewidth": 2.2}
        lines.append(Line2D([], [], **(second if lone_colour else {"color": NEUTRAL, "linestyle": LINES[place]})))
    panel.legend(
        lines, [_quantity(name)[0] for name in names], loc="lower right", ncols=len(names), fontsize="x-small",
        frameon=True, framealpha=0.8, edgecolor="none", borderpad=0.2, handlelength=1.5,
    )  # fmt: skip


def _shade(figure: Figure, panels: Iterable[Axes], rows: pl.DataFrame) -> None:
    """Shade the states of a scheme behind the panels; the state with the longest total time stays white."""
    spans = state_spans(rows["time_s"].to_list(), rows["text"].to_list())
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
    figure.legend(
        patches,
        names,
        loc="outside lower left",
        ncols=min(max(2, int(figure.get_figwidth() / 1.4)), len(names)),
        fontsize="small",
        handlelength=1.2,
    )


def state_spans(times: Sequence[float], names: Sequence[str]) -> list[tuple[float, float, str]]:
    """Return begin, end and name of each visit to a state.

    States of a family (`probe_bw_up`, `probe_bw_down`) merge if the mean visit of each is shorter than `SHORT_VISIT`:
    single stripes would be thinner than a pixel.
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
