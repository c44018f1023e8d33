"""The figures of the study, from results. Each function's head is the definition that the page refers to."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from due import PAYLOAD, capacities_of, due, flows_of, mbit, narrowest, seconds
from parts import HERE, Part

import narrows

STEADY_S = 1.0
"""What is reached has to last so long."""
WINDOW = 2
"""Samples of a traced run over which shares are judged: with a full queue of 1 BDP a round trip takes two."""
FAIR = 0.9
"""Jain's index from which on shares are fair."""
FULL = 0.95
"""The share of a link's capacity from which on it is full."""


def at_point(part: Part, point: Mapping[str, Any]) -> dict[str, Any]:
    """What the part's file says at a point of its grid, in the keys that decide who is due what."""
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
    """The part of a run that is measured."""
    return seconds(scenario["warmup"]), seconds(scenario["duration"])


def dues(part: Part, point: Mapping[str, Any], seed: int) -> list[float]:
    """What each flow of a run is due, in Mbit/s of payload."""
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
    return due(flows, capacities_of(scenario), begin, end)


def named(flow: Mapping[str, Any], label: str) -> bool:
    """Whether a flow has a label; several of one are numbered."""
    return re.fullmatch(rf"{re.escape(label)}(-\d+)?", str(flow["flow"])) is not None


DEAF = "deaf"
"""The label of a flow that is no contestant."""


def shortfall(part: Part, results: narrows.Results) -> dict[str, float]:
    """Per point: of all that max-min fairness would have given, the percentage that flows went without.

    100 · Σ max(0, due − goodput) / Σ due, over the flows that take part, averaged over seeds. It counts a link that is
    not full as well as one of which some have what belongs to others.
    """
    sums: dict[str, list[float]] = {}
    for point, raw in zip(results.points, results.raw, strict=True):
        wanted = dues(part, {key: value for key, value in point.items() if key != part.ours}, int(raw["seed"]))
        pairs = [
            (want, flow["goodput_mbit_s"])
            for want, flow in zip(wanted, raw["flows"], strict=True)
            if not named(flow, DEAF)
        ]
        missing = sum(max(0.0, want - got) for want, got in pairs)
        sums.setdefault(place(point, part), []).append(100 * missing / sum(want for want, _ in pairs))
    return {name: math.fsum(values) / len(values) for name, values in sums.items()}


def place(point: Mapping[str, Any], part: Part) -> str:
    """The name of a point: the values of its keys, but for the contestant's."""
    return ", ".join(str(value) for key, value in point.items() if key != part.ours and key.partition(".")[0] != "tcp")


def mean_by_place(part: Part, results: narrows.Results, values: Sequence[float | None]) -> dict[str, float]:
    """The means over seeds of one value per run."""
    sums: dict[str, list[float]] = {}
    for point, value in zip(results.points, values, strict=True):
        sums.setdefault(place(point, part), []).append(math.nan if value is None else float(value))
    return {name: math.fsum(row) / len(row) for name, row in sums.items()}


def queue(part: Part, results: narrows.Results) -> dict[str, float]:
    """Per point: the delay in milliseconds that 95 % of the packets do not exceed in the worst of the queues."""
    worst = [max(link["queue_delay_p95_ms"] or 0.0 for link in raw["links"]) for raw in results.raw]
    return mean_by_place(part, results, worst)


def dropped(part: Part, results: narrows.Results) -> dict[str, float]:
    """Per point: the packets that queues dropped, in percent of those that arrived at the worst of them."""
    worst = [max(link["drop_percent"] or 0.0 for link in raw["links"]) for raw in results.raw]
    return mean_by_place(part, results, worst)


def goodput(part: Part, results: narrows.Results, label: str | None = None) -> dict[str, float]:
    """Per point: the sum of the goodputs of all flows, or of those of a label, in Mbit/s."""
    sums = [
        sum(flow["goodput_mbit_s"] for flow in raw["flows"] if label is None or named(flow, label))
        for raw in results.raw
    ]
    return mean_by_place(part, results, sums)


RTT_S = 0.04
"""Of the parts with files, and of that with a trace."""
RATE_MBIT = 100.0


def files(results: narrows.Results, label: str) -> pl.DataFrame:
    """The files of a label that arrived after the warm-up and at least five seconds before the end.

    Columns: `case`, `seed`, `kB`, `completion_s` (none if it did not complete), and `slowdown`: completion over the
    least that is possible, two round trips (handshake, last byte) and the time its packets take at the link's rate.
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
    """Of the first traced run: the times of its samples, and the throughput of each flow up to them, in Mbit/s."""
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
    """Seconds from `since` to the beginning of the first sample from which on all are good for `STEADY_S`.

    None if there is no such sample before `until`.
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
    """For each sample the mean of it and those that follow, as many as make a window; fewer at the end."""
    windows = (values[i : i + WINDOW] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]


def jain(values: Sequence[float]) -> float:
    """Jain's index; 0 if there is nothing."""
    square = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * square) if square else 0.0


def convergence(part: Part, results: narrows.Results) -> tuple[list[float | None], list[float | None]]:
    """In round trips: from each join to fair shares, and from each leave to fair shares of a full link.

    Judged on windows of `WINDOW` round trips, one of which begins with every round trip: fair is Jain's index of at
    least `FAIR` among the flows that are there, full is `FULL` of the capacity together. Both last for `STEADY_S`.
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
        there = [i for i, flow in enumerate(flows) if flow.start <= event < flow.stop]
        rates = [[series[i][k] for i in there] for k in range(len(times))]
        joined = any(flow.start == event for flow in flows)
        capacity = mbit(scenario["network"]["rate"])
        good = [jain(row) >= FAIR and (joined or sum(row) >= FULL * capacity) for row in rates]
        found = settled(times, good, event, until - (WINDOW - 1) * RTT_S)
        (joins if joined else leaves).append(None if found is None else found / RTT_S)
    return joins, leaves
