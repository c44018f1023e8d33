"""The measured cells of Linux, the same cells as scenarios, and the criteria of agreement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

import narrows

FOLDER = Path(__file__).resolve().parent
DATA = FOLDER / "kernel-cells.jsonl"
MORE = FOLDER / "more-cells.jsonl"
REPEATS = FOLDER / "kernel-repeats.jsonl"
VIRTUAL = FOLDER / "virtual-cells.jsonl"
VARIANTS: dict[str, dict[str, str]] = {
    "exact": {},
    "late": {"network.jitter": "50us"},  # its mean is the mean lateness of the emulator, 20 to 25 us
    "rfc": {"tcp.profile": "rfc"},
    "ns3": {"tcp.profile": "ns3"},
}
GOODPUT_PERCENT = 3.0
SHARE_POINTS = 5.0
RTT_PERCENT = 5.0
WARMUP = 0.1


@dataclass(frozen=True)
class Cell:
    """A measurement of Linux. Rates in Mbit/s, times in ms unless named otherwise; one entry per flow in tuples."""

    number: int
    rate: float
    queue: int
    schemes: tuple[str, ...]
    rtt: tuple[float, ...]
    loss: float
    duration_s: float
    goodput: tuple[float, ...]
    smoothed_rtt: tuple[float, ...]
    retransmitted: tuple[int, ...]
    packets: int = 0
    drops: int = 0

    def scenario(self) -> dict[str, Any]:
        """Return the cell as a scenario that states nothing about TCP."""
        return {
            "name": f"cell-{self.number}",
            "duration": f"{self.duration_s:g}s",
            "warmup": f"{100 * WARMUP:g}%",
            "network": {
                "rate": f"{self.rate:g}mbit",
                "buffer": f"{self.queue}pkt",
                "loss": f"{100 * self.loss:g}%",
                "loss_at": "ingress",
                "reverse_rate": "10gbit",  # the emulator does not limit the return path
            },
            "flows": [
                {"scheme": scheme, "rtt": f"{rtt:g}ms"} for scheme, rtt in zip(self.schemes, self.rtt, strict=True)
            ],
        }

    def setting(self) -> tuple[object, ...]:
        """Return the values that identify a setting."""
        return self.rate, self.queue, self.schemes, self.rtt, self.loss, self.duration_s

    def title(self) -> str:
        """Return the number, the schemes and the path in one line."""
        rtts = "/".join(f"{rtt:g}" for rtt in self.rtt) if len(set(self.rtt)) > 1 else f"{self.rtt[0]:g}"
        loss = f", {100 * self.loss:g} % loss" if self.loss else ""
        return f"{self.number}. {' + '.join(self.schemes)}, {self.rate:g} Mbit/s, {self.queue} packets, {rtts} ms{loss}"


@dataclass(frozen=True)
class Sample:
    """One run: goodput in Mbit/s, RTTs in ms and retransmitted packets, one entry per flow.

    All fields leave out the warm-up, except `whole_rtt` (mean of the smoothed RTT from the start) and `retransmitted`.
    """

    goodput: tuple[float, ...]
    smoothed_rtt: tuple[float, ...]
    whole_rtt: tuple[float, ...]
    mean_rtt: tuple[float, ...]
    retransmitted: tuple[float, ...]
    random_losses: float = 0.0


@dataclass(frozen=True)
class Deviation:
    """Ours minus the kernel's: goodput in percent, the first flow's share in points, the RTT per flow in percent."""

    goodput: float
    share: float
    rtt: tuple[float, ...]

    def misses(self) -> list[str]:
        """Return the criteria that do not hold."""
        held = {
            "goodput": abs(self.goodput) <= GOODPUT_PERCENT,
            "share": abs(self.share) <= SHARE_POINTS,
            "RTT": max(map(abs, self.rtt)) <= RTT_PERCENT,
        }
        return [name for name, holds in held.items() if not holds]


def read(path: Path = DATA, first: int = 1) -> list[Cell]:
    """Return the cells of a data file, whose first line describes the method, numbered from `first` on."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return [
        Cell(
            number=number,
            rate=row["rate"],
            queue=row["queue"],
            schemes=tuple("newreno" if name == "reno" else name for name in row["cc"]),
            rtt=tuple(row["rtt"]),
            loss=float(row["loss"]),
            duration_s=row["duration"],
            goodput=tuple(row["goodput"]),
            smoothed_rtt=tuple(row["srtt_mean_ms"]),
            retransmitted=tuple(row["retrans"]),
            **{key: row["emu"][key] for key in ("packets", "drops") if "emu" in row},
        )
        for number, row in enumerate(rows, start=first)
    ]


def simulate(
    cell: Cell,
    changes: Mapping[str, Any],
    seeds: int,
    out: Path | None = None,
    jobs: int | None = None,
    *,
    first: int = 1,
    on: str = "sim",
) -> list[Sample]:
    """Run a cell with `seeds` seeds from `first` on, and return a sample per run; finished runs in `out` are reused.

    `changes` are keys of the scenario with their values; a list sweeps, and gives the samples of all its points in
    order.
    """
    results = narrows.run(
        cell.scenario(), seed=first, repeat=seeds, set=dict(changes), trace="100ms", out=out, jobs=jobs, on=on
    )
    traced = results.samples.filter(pl.col("kind") == "flow").sort("time_s")
    rtt = traced.filter(pl.col("series") == "rtt_ms")
    series = (
        rtt.filter(pl.col("time_s") > WARMUP * cell.duration_s).group_by("id", "index").agg(pl.col("value").mean()),
        rtt.group_by("id", "index").agg(pl.col("value").mean()),
        traced.filter(pl.col("series") == "retrans_total")
        .group_by("id", "index", maintain_order=True)
        .agg(pl.col("value").last()),
    )
    samples = []
    for run in results.runs["id"]:
        flows = results.flows.filter(pl.col("id") == run).sort("index")
        smoothed, whole, again = (tuple(frame.filter(pl.col("id") == run).sort("index")["value"]) for frame in series)
        first_link = results.links.filter((pl.col("id") == run) & (pl.col("index") == 0))
        samples.append(
            Sample(
                goodput=tuple(flows["goodput_mbit_s"]),
                smoothed_rtt=smoothed,
                whole_rtt=whole,
                mean_rtt=tuple(flows["rtt_mean_ms"]),
                retransmitted=again,
                random_losses=first_link["random_losses"][0],
            )
        )
    return samples


def mean(samples: Sequence[Sample]) -> Sample:
    """Return the mean of runs, flow by flow."""

    def per_flow(name: str) -> tuple[float, ...]:
        return tuple(map(fmean, zip(*(getattr(sample, name) for sample in samples), strict=True)))

    return Sample(
        *(per_flow(name) for name in ("goodput", "smoothed_rtt", "whole_rtt", "mean_rtt", "retransmitted")),
        fmean(sample.random_losses for sample in samples),
    )


def middle(runs: Sequence[Cell]) -> Cell:
    """Return the mean of the kernel's runs of one setting."""

    def per_flow(values: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(map(fmean, zip(*values, strict=True)))

    return replace(
        runs[0], goodput=per_flow(run.goodput for run in runs), smoothed_rtt=per_flow(run.smoothed_rtt for run in runs)
    )


def share(goodput: Sequence[float]) -> float:
    """Return the first flow's share in percent."""
    return 100 * goodput[0] / sum(goodput)


def deviation(cell: Cell, ours: Sample) -> Deviation:
    """Compare a run, or a mean of runs, with the kernel's."""
    return Deviation(
        100 * (sum(ours.goodput) / sum(cell.goodput) - 1),
        share(ours.goodput) - share(cell.goodput),
        tuple(100 * (a / b - 1) for a, b in zip(ours.smoothed_rtt, cell.smoothed_rtt, strict=True)),
    )
