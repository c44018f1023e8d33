"""The measures of the study, from results. Each docstring is the definition that the page refers to."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from fairness import PAYLOAD, capacities_of, flows_of, mbit, narrowest, seconds
from fairness import fair_shares as max_min_shares
from parts import HERE, Part

import narrows

STEADY_S = 1.0
"""How long a state must last to count as reached."""
WINDOW = 2
"""Samples per window of a traced run. With a full queue of 1 BDP, a round trip takes two samples."""
FAIR = 0.9
"""Shares are fair from this value of Jain's index."""
FULL = 0.95
"""A link is full from this share of its capacity."""


def at_point(part: Part, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part's scenario at a point of its grid, as far as fair shares depend on it."""
    scenario = copy.deepcopy(part.scenario())
    cases = scenario.get("sweep", {}).get("cases", ())
    keys = next((case for case in cases if case["label"] == point.get("case")), {}) | dict(part.changed) | dict(point)
    for key, value in keys.items():
        head, _, last = key.rpartition(".")
        if head == "network":
            scenario["network"][last] = value
        elif head == "flows.arrivals":
            for flow in scenario["flows"]:
                flow["arrivals"][last] = value
    return scenario


def times_of(scenario: Mapping[str, Any]) -> tuple[float, float]:
    """Return begin and end of the measured part of a run."""
    return seconds(scenario["warmup"]), seconds(scenario["duration"])


def fair_shares(part: Part, point: Mapping[str, Any], seed: int) -> list[float]:
    """Return the fair share of each flow of a run, in Mbit/s of payload."""
    scenario = at_point(part, point)
    begin, end = times_of(scenario)
    flows = flows_of(scenario)
    traces = [link["capacity_trace"] for link in scenario.get("links", ()) if "capacity_trace" in link]
    if traces:
        texts = [(HERE / name).read_text(encoding="utf-8") for name in traces]
        return [narrowest(texts, begin, end) / len(flows)] * len(flows)
    if "radio" in scenario["network"]:
        path = narrows.radio_trace(scenario["network"]["radio"], seed=seed, duration="60s")
        return [narrowest([path.capacity], begin, end) / len(flows)] * len(flows)
    return max_min_shares(flows, capacities_of(scenario), begin, end)


def named(flow: Mapping[str, Any], label: str) -> bool:
    """Whether a flow has a label. Flows with the same label are numbered."""
    return re.fullmatch(rf"{re.escape(label)}(-\d+)?", str(flow["flow"])) is not None


DEAF = "deaf"
"""The label of a flow that ignores advice and is no contestant."""


def deficit(part: Part, results: narrows.Results) -> dict[str, float]:
    """Return the deficit per point: the percentage of the fair shares that flows did not receive.

    100 · Σ max(0, fair share − goodput) / Σ fair share over the participating flows, averaged over seeds. Both an idle
    link and an unfair allocation raise it.
    """
    sums: dict[str, list[float]] = {}
    for point, raw in zip(results.points, results.raw, strict=True):
        shares = fair_shares(part, {key: value for key, value in point.items() if key != part.ours}, int(raw["seed"]))
        pairs = [
            (share, flow["goodput_mbit_s"])
            for share, flow in zip(shares, raw["flows"], strict=True)
            if not named(flow, DEAF)
        ]
        missing = sum(max(0.0, share - goodput) for share, goodput in pairs)
        sums.setdefault(place(point, part), []).append(100 * missing / sum(share for share, _ in pairs))
    return {name: math.fsum(values) / len(values) for name, values in sums.items()}


def place(point: Mapping[str, Any], part: Part) -> str:
    """Return the name of a point: the values of its keys, except those of the contestant."""
    return ", ".join(str(value) for key, value in point.items() if key != part.ours and key.partition(".")[0] != "tcp")


def mean_by_place(part: Part, results: narrows.Results, values: Sequence[float | None]) -> dict[str, float]:
    """Average one value per run over seeds, per point."""
    sums: dict[str, list[float]] = {}
    for point, value in zip(results.points, values, strict=True):
        sums.setdefault(place(point, part), []).append(math.nan if value is None else float(value))
    return {name: math.fsum(row) / len(row) for name, row in sums.items()}


def queue(part: Part, results: narrows.Results) -> dict[str, float]:
    """Return the 95th percentile of the queueing delay in the worst queue, in milliseconds, per point."""
    worst = [max(link["queue_delay_p95_ms"] or 0.0 for link in raw["links"]) for raw in results.raw]
    return mean_by_place(part, results, worst)


def dropped(part: Part, results: narrows.Results) -> dict[str, float]:
    """Return the percentage of arriving packets that the worst queue dropped, per point."""
    worst = [max(link["drop_percent"] or 0.0 for link in raw["links"]) for raw in results.raw]
    return mean_by_place(part, results, worst)


def goodput(part: Part, results: narrows.Results, label: str | None = None) -> dict[str, float]:
    """Return the total goodput of all flows, or of those with a label, in Mbit/s, per point."""
    sums = [
        sum(flow["goodput_mbit_s"] for flow in raw["flows"] if label is None or named(flow, label))
        for raw in results.raw
    ]
    return mean_by_place(part, results, sums)


RTT_S = 0.04
"""The base RTT of the parts with files or a trace."""
RATE_MBIT = 100.0


def files(results: narrows.Results, label: str) -> pl.DataFrame:
    """Return the files of a label that arrived after the warm-up and at least five seconds before the end.

    Columns: `case`, `seed`, `kB`, `completion_s` (null if incomplete), and `slowdown`: completion time over the least
    possible time, which is two round trips (handshake, last byte) plus the packets' transmission time at the link's
    rate.
    """
    runs = results.runs.select("id", "warmup_s", "duration_s")
    frame = results.flows.filter(pl.col("label").str.contains(rf"^{label}(-\d+)?$")).join(runs, on="id")
    frame = frame.filter((pl.col("start_s") >= pl.col("warmup_s")) & (pl.col("start_s") < pl.col("duration_s") - 5))
    if "case" not in frame.columns:
        frame = frame.with_columns(case=pl.lit(""))
    least = 2 * RTT_S + pl.col("bytes_delivered") * 8 / PAYLOAD / (RATE_MBIT * 1e6)
    return frame.select(
        "case",
        "seed",
        kB=pl.col("bytes_delivered") / 1e3,
        completion_s="completion_s",
        slowdown=pl.col("completion_s") / least,
    )


def throughputs(results: narrows.Results) -> tuple[list[float], list[list[float]]]:
    """Return the sample times of the first traced run, and each flow's throughput up to each sample, in Mbit/s."""
    first = pl.col("id") == results.raw[0]["id"]
    rows = results.scan_samples().filter(first & (pl.col("kind") == "flow") & (pl.col("series") == "throughput_mbit_s"))
    rows = rows.select("time_s", "index", "value").collect()
    times = rows["time_s"].unique().sort()
    series = []
    for index in range(len(results.raw[0]["flows"])):
        own = rows.filter(pl.col("index") == index).select("time_s", "value")
        whole = times.to_frame().join(own, on="time_s", how="left").sort("time_s")
        series.append(whole["value"].fill_null(0.0).to_list())
    return times.to_list(), series


def settled(times: Sequence[float], good: Sequence[bool], since: float, until: float) -> float | None:
    """Return the seconds from `since` to the first sample from which all samples are good for `STEADY_S`.

    `None` if there is no such sample before `until`.
    """
    steps = [(left, right, ok) for left, right, ok in zip(times, times[1:], good[1:], strict=False)]
    steps = [step for step in steps if since - 1e-9 <= step[0] and step[1] <= until + 1e-9]
    for i, (left, _, _) in enumerate(steps):
        lasting = [ok for begin, end, ok in steps[i:] if end <= left + STEADY_S + 1e-9]
        if left + STEADY_S > until + 1e-9:
            return None
        if all(lasting):
            return left - since
    return None


def windowed(values: Sequence[float]) -> list[float]:
    """Average each sample with the next samples in a window of `WINDOW`; windows at the end are shorter."""
    windows = (values[i : i + WINDOW] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def jain(values: Sequence[float]) -> float:
    """Return Jain's index; 0 if all values are 0."""
    square = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * square) if square else 0.0


def convergence(part: Part, results: narrows.Results) -> tuple[list[float | None], list[float | None]]:
    """Return round trips from each join to fair shares, and from each leave to fair shares of a full link.

    The windows are `WINDOW` samples long, and every sample begins a window. Shares are fair if Jain's index of the
    present flows is at least `FAIR`; the link is full at `FULL` of its capacity. Both must last for `STEADY_S`.
    """
    scenario = part.scenario()
    flows = flows_of(scenario)
    end = seconds(scenario["duration"])
    times, samples = throughputs(results)
    series = [windowed(values) for values in samples]
    events = sorted({time for flow in flows for time in (flow.start, flow.stop) if 0 < time < end})
    joins: list[float | None] = []
    leaves: list[float | None] = []
    for event, until in zip(events, [*events[1:], end], strict=True):
        present = [i for i, flow in enumerate(flows) if flow.start <= event < flow.stop]
        rates = [[series[i][k] for i in present] for k in range(len(times))]
        joined = any(flow.start == event for flow in flows)
        capacity = mbit(scenario["network"]["rate"])
        good = [jain(row) >= FAIR and (joined or sum(row) >= FULL * capacity) for row in rates]
        found = settled(times, good, event, until - (WINDOW - 1) * RTT_S)
        (joins if joined else leaves).append(None if found is None else found / RTT_S)
    return joins, leaves
