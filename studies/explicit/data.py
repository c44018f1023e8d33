"""All measures, as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import measure
import polars as pl
from contestants import ALL
from fairness import PAYLOAD
from parts import PARTS, Part, Runs, named

import narrows

Figures = dict[str, dict[str, float | None]]
"""Values by contestant and point of a grid."""

SITUATIONS = {
    "RTT 1 ms": ("rtt", "1ms"),
    "RTT 30 ms": ("rtt", "30ms"),
    "RTT 300 ms": ("rtt", "300ms"),
    "10 flows": ("flows", "10"),
    "1000 flows": ("flows", "1000"),
    "unequal RTTs": ("unequal", ""),
    "joins, leaves": ("join", ""),
    "app-limited": ("limited", ""),
    "1 % loss": ("loss", "1%"),
    "10 % loss": ("loss", "10%"),
    "30 % of ACKs lost": ("feedback", "30%"),
    "bottleneck moves": ("moving", ""),
    "unknown capacity": ("capacity", ""),
    "5G path": ("radio", ""),
    "half deployed": ("partial-half", ""),
    "beside CUBIC": ("coexist", ""),
    "unresponsive": ("deaf", ""),
    "switch dies": ("dies", ""),
}
"""The columns of the overviews: a part and a point of its grid."""

FAIR = "fair share"
"""The row of fair shares in tables."""

FILES = ("arrivals", "mice", "alone")
"""Parts with arriving files, which have no fair share."""


class Data:
    """Results, and the measures that follow from them."""

    def __init__(self, runs: Runs, marks: narrows.Results, predictions: Mapping[str, narrows.Results]) -> None:
        self.runs = runs
        self.marks = marks
        self.predictions = predictions
        self.shared = [part for part in PARTS if part.name not in FILES]

    def _each(self, figure: Callable[[Part, narrows.Results], Mapping[str, float]]) -> dict[str, Figures]:
        return {
            part.name: {who.name: dict(figure(part, self.runs[part.name][who.name])) for who in ALL}
            for part in self.shared
        }

    @cached_property
    def deficit(self) -> dict[str, Figures]:
        """The deficit by part, contestant and point."""
        return self._each(measure.deficit)

    @cached_property
    def queue(self) -> dict[str, Figures]:
        """The queueing delay by part, contestant and point."""
        return self._each(measure.queue)

    @cached_property
    def dropped(self) -> dict[str, Figures]:
        """The percentage of dropped packets by part, contestant and point."""
        return self._each(measure.dropped)

    @cached_property
    def files(self) -> dict[str, dict[str, pl.DataFrame]]:
        """The files that arrived, by part and contestant."""
        labels = {"arrivals": "file", "mice": "mouse"}
        return {
            part: {who.name: measure.files(self.runs[part][who.name], label) for who in ALL}
            for part, label in labels.items()
        }

    def overview(self, figure: Mapping[str, Figures]) -> Figures:
        """Return a measure in every situation."""
        return {
            who.name: {label: figure[part][who.name][where] for label, (part, where) in SITUATIONS.items()}
            for who in ALL
        }

    def lives(self, part: str) -> dict[str, tuple[list[float], list[list[float]]]]:
        """Return the sample times of a traced part, and the throughput of every flow over the next `WINDOW` samples."""
        found = {}
        for who in ALL:
            times, series = measure.throughputs(self.runs[part][who.name])
            found[who.name] = (times, [measure.windowed(values) for values in series])
        return found

    @cached_property
    def convergence(self) -> Figures:
        """Round trips to fair shares after joins, and to a full and fair link after leaves."""
        part = named("join")
        rows: Figures = {}
        for who in ALL:
            joins, leaves = measure.convergence(part, self.runs[part.name][who.name])
            rows[who.name] = {f"{i + 2} flows": value for i, value in enumerate(joins)}
            rows[who.name] |= {f"back to {len(joins) - i}": value for i, value in enumerate(leaves)}
        return rows

    @cached_property
    def alone(self) -> Figures:
        """Completion of a file on an idle link, in round trips."""
        part = named("alone")
        rows: Figures = {}
        for who in ALL:
            results = self.runs[part.name][who.name]
            times = measure.mean_by_place(part, results, [raw["flows"][0]["completion_s"] for raw in results.raw])
            rows[who.name] = {where: time / measure.RTT_S for where, time in times.items()}
        return rows

    @cached_property
    def arrivals(self) -> Figures:
        """Mean and 99th percentile of the slowdown, per load."""
        rows: Figures = {}
        for who in ALL:
            frame = self.files["arrivals"][who.name]
            rows[who.name] = {}
            for (case,), part in frame.group_by(["case"], maintain_order=True):
                rows[who.name] |= {f"{case}, mean": _mean(part["slowdown"]), f"{case}, p99": _p99(part["slowdown"])}
            rows[who.name]["not completed, %"] = 100 * frame["completion_s"].null_count() / frame.height
        return rows

    @cached_property
    def mice(self) -> Figures:
        """Completion of mice, and goodput of the elephants beside them."""
        part = named("mice")
        rows: Figures = {}
        for who in ALL:
            times = self.files["mice"][who.name]["completion_s"] * 1e3
            elephants = measure.goodput(part, self.runs[part.name][who.name], "elephant")[""]
            rows[who.name] = {
                "mice, mean ms": _mean(times),
                "mice, p99 ms": _p99(times),
                "elephants, Mbit/s": elephants,
            }
        return rows

    def neighbours(self) -> dict[str, tuple[Figures, float]]:
        """Return goodputs beside CUBIC and beside an unresponsive flow, with the fair share of the scheme's flows."""
        rows = {}
        for name, title, first, second, share in (
            ("coexist", "two flows beside two of CUBIC", "scheme", "cubic", 2 / 4),
            ("deaf", "three flows beside an unresponsive one", "obeys", "deaf", 3 / 4),
        ):
            part = named(name)
            got: Figures = {}
            for who in ALL:
                results = self.runs[name][who.name]
                got[who.name] = {
                    "the scheme": measure.goodput(part, results, first)[""],
                    "the others": measure.goodput(part, results, second)[""],
                }
            rows[title] = (got, 100 * PAYLOAD * share)
        return rows

    @cached_property
    def limited(self) -> Figures:
        """Goodputs where applications limit some of the flows."""
        part = named("limited")
        flows = measure.flows_of(part.scenario())
        shares = measure.fair_shares(part, {}, 1)
        fair: dict[str, float | None] = {
            f"{label}, Mbit/s": sum(share for share, flow in zip(shares, flows, strict=True) if flow.label == label)
            for label in ("bulk", "steady", "on-off")
        }
        rows: Figures = {FAIR: {**fair, "steady, RTT p95, ms": None, "dropped, %": None}}
        for who in ALL:
            results = self.runs[part.name][who.name]
            got: dict[str, float | None] = {
                f"{label}, Mbit/s": measure.goodput(part, results, label)[""] for label in ("bulk", "steady", "on-off")
            }
            steady = [flow["rtt_p95_ms"] for flow in results.raw[0]["flows"] if measure.named(flow, "steady")]
            got["steady, RTT p95, ms"] = max(steady)
            got["dropped, %"] = self.dropped[part.name][who.name][""]
            rows[who.name] = got
        return rows

    @cached_property
    def moving(self) -> Figures:
        """Deficit, queue and drops when capacity moves, is unknown, or is not controlled."""
        columns = {"moves": "moving", "unknown": "capacity", "5G": "radio", "half deployed": "partial-half"}
        return {
            who.name: {
                f"{label}: {measured}": figure[part][who.name][""]
                for label, part in columns.items()
                for measured, figure in (
                    ("deficit, %", self.deficit),
                    ("queue, ms", self.queue),
                    ("dropped, %", self.dropped),
                )
            }
            for who in ALL
        }

    @cached_property
    def aqm(self) -> Figures:
        """Queues that mark: the cases of aqm.toml."""
        joined = self.marks.links.join(self.marks.runs.select("id", "jain"), on="id")
        means = joined.group_by("case", maintain_order=True).agg(
            pl.col("utilization").mean() * 100,
            pl.col("queue_delay_p95_ms").mean(),
            pl.col("jain").mean(),
            pl.col("drop_percent").mean(),
        )
        heads = ("used, %", "queue p95, ms", "Jain", "dropped, %")
        return {str(case): dict(zip(heads, values, strict=True)) for case, *values in means.iter_rows()}

    @cached_property
    def predicted(self) -> Figures:
        """The effect of predictions: the runs of predict.toml."""
        part = Part("predict")
        rows: Figures = {}
        for name, results in self.predictions.items():
            mice, files = (measure.files(results, label)["completion_s"] * 1e3 for label in ("mouse", "file"))
            rows[name] = {
                "mice, mean ms": _mean(mice),
                "mice, p99 ms": _p99(mice),
                "files, mean ms": _mean(files),
                "elephants, Mbit/s": measure.goodput(part, results, "elephant")[""],
                "queue p95, ms": measure.queue(part, results)[""],
            }
        return rows

    @cached_property
    def dead(self) -> Figures:
        """Goodputs after the failure of the switch."""
        part = named("dies")
        shares = measure.fair_shares(part, {}, 1)
        rows: Figures = {FAIR: {f"flow {i + 1}": value for i, value in enumerate(shares)}}
        rows[FAIR] |= {"deficit, %": None, "queue, ms": None}
        for who in ALL:
            runs = [[flow["goodput_mbit_s"] for flow in raw["flows"]] for raw in self.runs[part.name][who.name].raw]
            means = [sum(column) / len(column) for column in zip(*runs, strict=True)]
            rows[who.name] = {f"flow {i + 1}": mean for i, mean in enumerate(means)}
            rows[who.name]["deficit, %"] = self.deficit[part.name][who.name][""]
            rows[who.name]["queue, ms"] = self.queue[part.name][who.name][""]
        return rows

    def tables(self) -> dict[str, Figures]:
        """Return the tables of the page, by region."""
        return {
            "convergence": self.convergence,
            "alone": self.alone,
            "arrivals": self.arrivals,
            "mice": self.mice,
            "limited": self.limited,
            "moving": self.moving,
            "dead": self.dead,
            "aqm": self.aqm,
            "predicted": self.predicted,
        }


def _mean(values: pl.Series) -> float | None:
    found = values.drop_nulls().mean()
    return found if isinstance(found, float) else None


def _p99(values: pl.Series) -> float | None:
    return values.drop_nulls().quantile(0.99)
