"""Compares the worlds in every cell, and judges the cells.

A row is the comparison of one cell as plain data, for `--json` and `cells.jsonl`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narrows import engine
from narrows.fidelity.grid import ALONE, CROWD, KINDS, PAIR
from narrows.fidelity.work import Measured
from narrows.stats import interval

GOODPUT_PERCENT = 3.0
RTT_PERCENT = 5.0
SHARE_POINTS = 5.0
JAIN = 0.05

GOODPUT, RTT, SHARE, FAIRNESS = "goodput_mbit_s", "rtt_mean_ms", "share_percent", "jain"
CRITERIA: Mapping[str, tuple[str, ...]] = {ALONE: (GOODPUT, RTT), PAIR: (SHARE,), CROWD: (GOODPUT, RTT, FAIRNESS)}
"""The values that decide agreement, by kind of cell."""
BOUNDS = {GOODPUT: GOODPUT_PERCENT, RTT: RTT_PERCENT, SHARE: SHARE_POINTS, FAIRNESS: JAIN}
RELATIVE = (GOODPUT, RTT)
"""Values whose deviation is in percent of the kernel's; for other values it is a difference."""
SPREADING = (SHARE, FAIRNESS)
"""Values whose bound is the spread of the kernel's runs if that is larger."""
WORDS = {GOODPUT: "goodput", RTT: "mean RTT", SHARE: "share", FAIRNESS: "Jain's index"}
PAIRED = 2
TARGETS = {ALONE: 95, PAIR: 90}
"""Percentages of cells that should agree."""
ROUNDING = 1e-9
"""Tolerance for deviations at the bound, which agree."""

CRITERION = (
    f"A single flow agrees if its goodput is within {GOODPUT_PERCENT:g} % and its mean RTT within {RTT_PERCENT:g} % of "
    f"the kernel's; a pair if the first flow's share is within {SHARE_POINTS:g} points, or within the kernel's own "
    f"spread (greatest minus least of its undisturbed runs) if that is larger; a crowd if goodput and mean RTT agree "
    f"as above and Jain's index is within {JAIN:g}, or the kernel's own spread. Compared are means over runs; where "
    f"packets are lost at random, over runs with the same seeds, which lose the packets with the same numbers."
)
"""The criterion, in words."""


def _mean_over_flows(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    def value(result: Mapping[str, Any]) -> float | None:
        present = [flow[name] for flow in result["flows"] if flow[name] is not None]
        return math.fsum(present) / len(present) if len(present) == len(result["flows"]) else None

    return value


def goodput(result: Mapping[str, Any]) -> float:
    """Return the sum of the flows' goodputs."""
    return math.fsum(flow["goodput_mbit_s"] for flow in result["flows"])


def share(result: Mapping[str, Any]) -> float | None:
    """Return the first flow's share in percent, for two flows."""
    total = goodput(result)
    return (
        100 * float(result["flows"][0]["goodput_mbit_s"]) / total if len(result["flows"]) == PAIRED and total else None
    )


def retransmitted(result: Mapping[str, Any]) -> float | None:
    """Return the retransmitted share of all data packets, in percent."""
    sent = sum(flow["packets_sent"] for flow in result["flows"])
    again = math.fsum(flow["retransmit_percent"] * flow["packets_sent"] for flow in result["flows"])
    return again / sent if sent else None


VALUES: Mapping[str, Callable[[Mapping[str, Any]], float | None]] = {
    GOODPUT: goodput,
    SHARE: share,
    FAIRNESS: lambda result: result["jain"] if len(result["flows"]) > 1 else None,
    RTT: _mean_over_flows("rtt_mean_ms"),
    "rtt_p95_ms": _mean_over_flows("rtt_p95_ms"),
    "retransmit_percent": retransmitted,
    "fill_time_ms": lambda result: result["flows"][0]["fill_time_ms"],
}
"""The compared values of a run: sums and shares over its flows, their mean RTTs, and the first flow's fill time."""

Row = dict[str, Any]


def world(results: Sequence[Mapping[str, Any]]) -> Row:
    """Return mean, half-width of the 95 % interval, minimum and maximum of every value, and the means of each flow.

    A value that a run lacks is `None`. Minimum and maximum cover undisturbed runs only, and are `None` without any: a
    disturbed run would widen its own bound.
    """
    calm = [not (result.get("host") or {}).get("disturbed") for result in results]
    row: Row = {}
    for name, value in VALUES.items():
        values = [found for found in map(value, results) if found is not None]
        row[name] = None
        if len(values) == len(results):
            mean = interval(values)
            ends = [value for value, own in zip(values, calm, strict=True) if own]
            row[name] = {
                "mean": mean.mean,
                "half": mean.half,
                "n": mean.n,
                "min": min(ends, default=None),
                "max": max(ends, default=None),
            }
    if len(results[0]["flows"]) == PAIRED:
        row["flows"] = [{name: _flow_mean(results, flow, name) for name in (GOODPUT, RTT)} for flow in range(PAIRED)]
    return row


def _flow_mean(results: Sequence[Mapping[str, Any]], flow: int, name: str) -> float | None:
    values = [result["flows"][flow][name] for result in results]
    return None if None in values else interval(values).mean


def deviation(name: str, kernel: Mapping[str, Any] | None, sim: Mapping[str, Any] | None) -> float | None:
    """Return the deviation of the simulator's mean from the kernel's: in percent, points or as a difference."""
    if kernel is None or sim is None or (name in RELATIVE and not kernel["mean"]):
        return None
    if name in RELATIVE:
        return float(100 * (sim["mean"] / kernel["mean"] - 1))
    return float(sim["mean"] - kernel["mean"])


def bound(name: str, kernel: Mapping[str, Any] | None) -> float:
    """Return the largest deviation that agrees."""
    if kernel is None or name not in SPREADING or kernel["max"] is None:
        return BOUNDS[name]
    return float(max(BOUNDS[name], kernel["max"] - kernel["min"]))


def judged(kind: str, kernel: Mapping[str, Any], sim: Mapping[str, Any]) -> list[Row]:
    """Return a judgement per criterion of a kind of cells; a missing value never agrees."""
    rows = []
    for name in CRITERIA[kind]:
        found, most = deviation(name, kernel[name], sim[name]), bound(name, kernel[name])
        holds = found is not None and abs(found) <= most + ROUNDING
        rows.append({"value": name, "deviation": found, "bound": most, "agrees": holds})
    return rows


def compare(measured: Measured) -> Row:
    """Return the row of a cell.

    Under random loss a seed selects the lost packets in both worlds; further seeds of the simulator would only add
    noise.
    """
    cell = measured.cell
    simulated = measured.sim
    if cell.loss_percent:
        seeds = {result["seed"] for result in measured.kernel}
        simulated = [result for result in simulated if result["seed"] in seeds]
    kernel, sim = world(measured.kernel), world(simulated)
    criteria = judged(cell.kind, kernel, sim)
    return {
        "cell": cell.name,
        "kind": cell.kind,
        "who": cell.who,
        "path": cell.path,
        "room": cell.room,
        "flows": cell.flows,
        "rate_mbit_s": cell.rate_mbit_s,
        "rtt_ms": list(cell.rtt_ms),
        "buffer_bdp": cell.buffer_bdp,
        "queue": cell.queue,
        "loss_percent": cell.loss_percent,
        "duration_s": cell.duration_s,
        "agrees": all(row["agrees"] for row in criteria),
        "misses": [WORDS[row["value"]] for row in criteria if not row["agrees"]],
        "criteria": criteria,
        "deviations": {name: deviation(name, kernel[name], sim[name]) for name in BOUNDS},
        "kernel": kernel,
        "sim": sim,
        "hosts": [host(result) for result in measured.kernel],
    }


def host(result: Mapping[str, Any]) -> Row:
    """Return the conditions of a run on the kernel."""
    found = result["host"]
    names = ("kernel", "real_time", "load", "attempts", "disturbed")
    return {"seed": result["seed"], "id": result["id"], **{name: found[name] for name in names}, **found["lateness"]}


def disturbed(row: Mapping[str, Any]) -> int:
    """Return the number of a cell's disturbed runs on the kernel."""
    return sum(bool(one["disturbed"]) for one in row["hosts"])


def totals(rows: Sequence[Row]) -> Row:
    """Return the counts over all cells and the conditions of the kernel's runs."""
    hosts = [one for row in rows for one in row["hosts"]]
    found: Row = {"cells": len(rows)}
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        agree = sum(row["agrees"] for row in of_kind)
        percent = 100 * agree / len(of_kind) if of_kind else None
        found[kind] = {"cells": len(of_kind), "agree": agree, "percent": percent, "target_percent": TARGETS.get(kind)}
    return found | {
        "version": engine.version(),
        "kernels": sorted({one["kernel"] for one in hosts}),
        "kernel_runs": len(hosts),
        "disturbed_runs": sum(bool(one["disturbed"]) for one in hosts),
        "real_time": all(one["real_time"] for one in hosts),
        "load_min": min(one["load"] for one in hosts),
        "load_max": max(one["load"] for one in hosts),
        "lateness_mean_us": max(one["mean_us"] for one in hosts),
        "lateness_p99_us": max(one["p99_us"] for one in hosts),
        "lateness_longest_ms": max(one["longest_ms"] for one in hosts),
        "criterion": CRITERION,
    }
