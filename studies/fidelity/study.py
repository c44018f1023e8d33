"""Compares every measured cell of Linux with the same cell here, by the defaults of TCP alone.

    python studies/fidelity/study.py [-o DIR]        writes the tables of docs/fidelity.md, and its figure

Finished runs in DIR are reused. A cell agrees if the means over the seeds are within these bounds of the kernel's run:

* goodput, the sum of the flows: 3 %;
* the share of the first flow: 5 points;
* mean of the smoothed RTT of every flow, sampled every 0.1 s: 5 %.

All three leave out the first tenth of the run.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import cells
import matplotlib.pyplot as plt
from cells import Cell, Sample

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill, table

DOCS = cells.DATA.parents[2] / "docs"
PAGE = DOCS / "fidelity.md"
FIGURE = DOCS / "images" / "fidelity.png"

SEEDS = 10
PROFILE_SEEDS = 3
AIM = 0.9
"""The share of the cells that should agree."""
OFFSETS_MS = (0.3, 1, 2, 3, 5, 8, 15, 30, 60, 100, 200)
SHIFTED = (3, 5, 15, 16)  # the numbers of the cells whose starts are shifted
MORE_SEEDS = 40
REPEATED = (3, 4, 5, 15, 16)  # cells with shares near or beyond the bound, run with `MORE_SEEDS`
MSS_BITS = 8 * 1448
RANDOM_LOSS_CONSTANT = 1.31  # of Reno under independent losses: Mathis et al., CCR 27(3), 1997

Runs = dict[int, list[Sample]]


class Bench:
    """Runs cells, and keeps finished runs in a folder if there is one."""

    def __init__(self, out: Path | None) -> None:
        self.out = out

    def run(self, part: str, cell: Cell, changes: Mapping[str, object], seeds: int) -> list[Sample]:
        """Return a sample per run of one cell."""
        print(f"{part}: {cell.title()}", flush=True)
        folder = self.out and self.out / part / str(cell.number)
        return cells.simulate(cell, changes, seeds, folder, jobs=2)

    def variant(self, name: str, measured: Iterable[Cell], seeds: int) -> Runs:
        """Return the runs of every cell in one of the variants."""
        return {cell.number: self.run(name, cell, cells.VARIANTS[name], seeds) for cell in measured}


def span(values: Sequence[float], digits: int = 1) -> str:
    """Format a mean with the range, unless all values are alike."""
    low, high, middle = (f"{value:.{digits}f}" for value in (min(values), max(values), fmean(values)))
    return middle if low == high else f"{middle} ({low}–{high})"


def per_flow(values: Iterable[float], form: str = ".1f") -> str:
    """Format one value per flow."""
    return " / ".join(f"{value:{form}}" for value in values)


def agreement(measured: Sequence[Cell], runs: Runs) -> int:
    """Return the number of cells that meet all criteria."""
    return sum(not cells.deviation(cell, cells.mean(runs[cell.number])).misses() for cell in measured)


def comparison(measured: Sequence[Cell], runs: Runs) -> str:
    """Return a table with a row per cell."""
    rows = []
    for cell in measured:
        samples = runs[cell.number]
        ours = cells.mean(samples)
        apart = cells.deviation(cell, ours)
        good = sum(not cells.deviation(cell, sample).misses() for sample in samples)
        flows = range(len(cell.rtt))
        rows.append(
            [
                cell.title(),
                per_flow(cell.goodput),
                " / ".join(span([sample.goodput[flow] for sample in samples]) for flow in flows),
                f"{apart.goodput:+.1f}",
                f"{apart.share:+.2f}" if len(flows) > 1 else "–",
                per_flow(cell.smoothed_rtt),
                " / ".join(span([sample.smoothed_rtt[flow] for sample in samples]) for flow in flows),
                per_flow(apart.rtt, "+.1f"),
                per_flow(ours.mean_rtt),
                per_flow(cell.retransmitted, "d"),
                per_flow(ours.retransmitted, ".0f"),
                f"{good}/{len(samples)}",
                "**" + ", ".join(apart.misses()) + "**" if apart.misses() else "all hold",
            ]
        )
    heads = [
        "cell", "goodput, Linux", "goodput, ours", "sum, %", "share, points", "RTT, Linux", "RTT, ours", "RTT, %",
        "mean of RTT samples", "retransmitted, Linux", "retransmitted, ours", "runs within", "misses",
    ]  # fmt: skip
    return table(heads, rows)


def kernel_repeats(measured: Sequence[Cell], runs: Runs) -> str:
    """Return a row per setting that Linux ran several times: all its shares of the first flow, and ours."""
    again = cells.read(cells.REPEATS)
    rows = []
    for cell in measured:
        same = [one for one in [*measured, *again] if one.setting() == cell.setting()]
        if len(cell.rtt) < 2 or len(same) < 2 or same[0] is not cell:
            continue
        shares = sorted(cells.share(one.goodput) for one in same)
        ours = [cells.share(sample.goodput) for sample in runs[cell.number]]
        apart = f"{fmean(ours) - fmean(shares):+.1f}"
        rows.append([cell.title().partition(" ")[2], ", ".join(f"{x:.1f}" for x in shares), f"{fmean(shares):.1f}",
                     span(ours), apart])  # fmt: skip
    return table(["setting", "shares of the first flow, Linux, %", "mean", "ours", "points"], rows)


def in_virtual_time(settings: Mapping[tuple[object, ...], Sequence[Cell]], runs: Runs) -> dict[str, str]:
    """Return the table that compares `late` with the means of Linux's runs in virtual time, and the count."""
    repeats: dict[tuple[object, ...], list[Cell]] = {}
    for one in cells.read(cells.VIRTUAL):
        repeats.setdefault(one.setting(), []).append(one)
    rows, agreeing = [], []
    for setting, same in settings.items():
        there = repeats.get(setting)
        if not there:
            continue
        middle, samples = cells.middle(there), runs[same[0].number]
        apart = cells.deviation(middle, cells.mean(samples))
        agreeing += [not apart.misses()] * len(same)
        pair = len(middle.rtt) > 1
        shares = [cells.share(one.goodput) for one in there]
        rows.append(
            [
                f"{', '.join(str(cell.number) for cell in same)}. {same[0].title().partition(' ')[2]}",
                str(len(there)),
                per_flow(middle.goodput),
                per_flow(cells.mean(samples).goodput),
                f"{apart.goodput:+.1f}",
                span(shares) if pair else "–",
                span([cells.share(sample.goodput) for sample in samples]) if pair else "–",
                f"{apart.share:+.2f}" if pair else "–",
                per_flow(middle.smoothed_rtt),
                per_flow(apart.rtt, "+.1f"),
                "**" + ", ".join(apart.misses()) + "**" if apart.misses() else "all hold",
            ]
        )
    heads = [
        "cells", "runs of Linux", "goodput, Linux", "goodput, ours", "sum, %", "share, Linux, %", "share, ours, %",
        "points", "RTT, Linux", "RTT, %", "misses",
    ]  # fmt: skip
    count = f"{sum(agreeing)} of {len(agreeing)} cells meet all three criteria against Linux in virtual time."
    return {"virtual-count": count, "virtual": table(heads, rows)}


def started(samples: Sequence[Sample]) -> Sample:
    """Return the mean of runs, with the smoothed RTT from the start, warm-up included."""
    ours = cells.mean(samples)
    return replace(ours, smoothed_rtt=ours.whole_rtt)


def misses(measured: Sequence[Cell], shown: Mapping[str, Runs]) -> str:
    """Return the deviation of ours from the kernel's run, in every cell that misses a criterion in a variant."""
    rows = []
    for cell in measured:
        found = {name: cells.deviation(cell, cells.mean(runs[cell.number])).misses() for name, runs in shown.items()}
        for criterion in dict.fromkeys(name for names in found.values() for name in names):
            assert criterion != "RTT", "the table knows no miss of the RTT"
            measure = sum if criterion == "goodput" else cells.share
            there = measure(cell.goodput)
            for name, runs in shown.items():
                ours = [measure(sample.goodput) for sample in runs[cell.number]]
                spread = stdev(ours) if len(ours) > 1 else 0.0
                rows.append(
                    [
                        cell.title(),
                        f"`{name}`",
                        {"goodput": "goodput, Mbit/s", "share": "share, %"}[criterion],
                        f"{there:.1f}",
                        span(ours),
                        f"{spread:.1f}" if spread else "0",
                        f"{(there - fmean(ours)) / spread:+.1f}" if spread else "–",
                        "no" if criterion in found[name] else "yes",
                    ]
                )
    heads = [
        "cell", "variant", "measure", "Linux", "ours", "standard deviation of ours", "Linux's distance in these",
        "holds",
    ]  # fmt: skip
    return table(heads, rows)


def worth(measured: Sequence[Cell], variants: Mapping[str, Runs]) -> str:
    """Return the table of variants: cells within the criteria, one by one and together, and one BBR flow's RTT."""
    alone = next(cell for cell in measured if cell.schemes == ("bbr",) and not cell.loss)
    rows = []
    for name, runs in variants.items():
        missed = [cells.deviation(cell, cells.mean(runs[cell.number])).misses() for cell in measured]
        held = [sum(criterion not in row for row in missed) for criterion in ("goodput", "share", "RTT")]
        held.append(sum("RTT" not in cells.deviation(cell, started(runs[cell.number])).misses() for cell in measured))
        rtt = cells.mean(runs[alone.number]).smoothed_rtt[0]
        total = len(measured)
        rows.append(
            [f"`{name}`", f"{agreement(measured, runs)}/{total}", *(f"{n}/{total}" for n in held), f"{rtt:.1f}"]
        )
    rows.append(["Linux", *[""] * 5, f"{alone.smoothed_rtt[0]:.1f}"])
    heads = [
        "variant",
        "all criteria",
        "goodput",
        "share",
        "RTT",
        "RTT, from the start on",
        f"RTT of cell {alone.number}, one BBR flow, ms",
    ]
    return table(heads, rows)


def shifted(bench: Bench, chosen: Sequence[Cell]) -> str:
    """Return the goodput of the first flow where one of the flows starts later, a column per cell."""
    later = [f"{offset:g}ms" for offset in OFFSETS_MS]
    columns = []
    for cell in chosen:
        first, second = (bench.run(f"shift-{flow}", cell, {f"flows.{flow}.start": later}, 1) for flow in (0, 1))
        runs = [*reversed(first), bench.run("exact", cell, {}, 1)[0], *second]
        columns.append([run.goodput[0] for run in runs])
    offsets = [*(f"the first {offset:g} ms later" for offset in reversed(OFFSETS_MS)), "both at once"]
    offsets += [f"the second {offset:g} ms later" for offset in OFFSETS_MS]
    rows = [["Linux", *(f"{cell.goodput[0]:.1f}" for cell in chosen)], ["mean (range)", *map(span, columns)]]
    rows += [[offset, *(f"{x:.1f}" for x in row)] for offset, *row in zip(offsets, *columns, strict=True)]
    return table(["starts", *(f"cell {cell.number}, {' + '.join(cell.schemes)}" for cell in chosen)], rows)


def repeated(bench: Bench, chosen: Iterable[Cell]) -> str:
    """Return the share of the first flow in `late` over more seeds, with the standard error of its mean."""
    rows = []
    for cell in chosen:
        runs = bench.run("late", cell, cells.VARIANTS["late"], MORE_SEEDS)
        ours = [cells.share(run.goodput) for run in runs]
        there = cells.share(cell.goodput)
        rows.append(
            [
                cell.title(),
                f"{there:.1f}",
                span(ours),
                f"{fmean(ours) - there:+.2f} ± {stdev(ours) / math.sqrt(len(ours)):.2f}",
                f"{sum(share <= there for share in ours)}/{len(ours)}",
                f"{sum(not cells.deviation(cell, run).misses() for run in runs)}/{len(runs)}",
            ]
        )
    heads = ["cell", "share, Linux", "share, ours", "points, with standard error", "not above Linux", "runs within"]
    return table(heads, rows)


def random_loss(bench: Bench, cell: Cell, exact: Sequence[Sample]) -> str:
    """Return the effect of the number of drawn losses in the cell of Reno under random loss."""
    drawn = cell.drops / cell.packets
    there = bench.run("drawn", cell, {"network.loss": f"{100 * drawn:.4f}%"}, SEEDS)
    rows = []
    for loss, runs in ((cell.loss, exact), (drawn, there)):
        theory = RANDOM_LOSS_CONSTANT * MSS_BITS / (cell.smoothed_rtt[0] / 1e3 * math.sqrt(loss)) / 1e6
        goodput = [run.goodput[0] for run in runs]
        rows.append(
            [
                f"{100 * loss:.3f}",
                f"{theory:.1f}",
                span(goodput),
                f"{100 * stdev(goodput) / fmean(goodput):.1f}",
                span([run.random_losses for run in runs], 0),
                f"{100 * (fmean(goodput) / cell.goodput[0] - 1):+.1f}",
            ]
        )
    heads = [
        "loss, %", "theory, Mbit/s", "ours, Mbit/s", "standard deviation, %", "losses in the last 90 %",
        f"to Linux's {cell.goodput[0]:.1f}, %",
    ]  # fmt: skip
    return table(heads, rows)


def draw(measured: Sequence[Cell], variants: Mapping[str, Runs]) -> None:
    """Draw ours over the kernel's: shares and smoothed RTTs, with the range over seeds."""
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    for (name, runs), colour, marker in zip(variants.items(), ("#0072b2", "#d55e00"), ("o", "s"), strict=True):
        points: tuple[list[tuple[float, list[float]]], ...] = ([], [])
        for cell in measured:
            samples = runs[cell.number]
            if len(cell.rtt) > 1:
                points[0].append((cells.share(cell.goodput), [cells.share(sample.goodput) for sample in samples]))
            for flow, there in enumerate(cell.smoothed_rtt):
                points[1].append((there, [sample.smoothed_rtt[flow] for sample in samples]))
        for panel, found in zip(panels, points, strict=True):
            middles = [fmean(values) for _, values in found]
            around = [
                [abs(bound(values) - middle) for (_, values), middle in zip(found, middles, strict=True)]
                for bound in (min, max)
            ]
            panel.errorbar(
                [x for x, _ in found], middles, around,
                fmt=marker, color=colour, label=name, markersize=4, elinewidth=1, alpha=0.8,
            )  # fmt: skip
    for panel, low, high, title in ((panels[0], 0, 100, "share of the first flow, %"), (panels[1], 15, 200, "RTT, ms")):
        x = [low, high]
        panel.plot(x, x, color="grey", linewidth=0.8)
        off = (
            ([low - 5, high - 5], [low + 5, high + 5])
            if high == 100
            else ([v * 0.95 for v in x], [v * 1.05 for v in x])
        )
        panel.fill_between(x, *off, color="grey", alpha=0.2, linewidth=0)
        panel.set(xlabel="Linux", ylabel="ours", title=title, xlim=x, ylim=x)
    panels[1].set(xscale="log", yscale="log")
    ticks = [20, 50, 100, 200]
    panels[1].minorticks_off()
    panels[1].set_xticks(ticks, map(str, ticks))
    panels[1].set_yticks(ticks, map(str, ticks))
    panels[0].legend()
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=100, metadata={"Software": None})


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("-o", "--out", type=Path, help="keep the runs in a folder")
    bench = Bench(parser.parse_args().out)
    measured = cells.read()
    more = cells.read(cells.MORE, first=len(measured) + 1)
    further = bench.variant("exact", more, SEEDS)
    shown = {name: bench.variant(name, measured, SEEDS) for name in ("exact", "late")}
    everything = [*measured, *more]
    settings: dict[tuple[object, ...], list[Cell]] = {}
    for cell in everything:
        settings.setdefault(cell.setting(), []).append(cell)
    late = shown["late"] | bench.variant("late", more, SEEDS)
    profiles = {name: bench.variant(name, measured, PROFILE_SEEDS) for name in ("rfc", "ns3")}
    lossy = next(cell for cell in measured if cell.schemes == ("newreno",) and cell.loss)
    draw(measured, shown)
    met = {name: agreement(measured, runs) for name, runs in shown.items()}
    counts = ", ".join(f"{count} of {len(measured)} in `{name}`" for name, count in met.items())
    aim = math.ceil(AIM * len(measured))
    reached = " and ".join(f"`{name}`" for name, count in met.items() if count >= aim) or "no variant"
    fill(
        PAGE,
        {
            "count": f"Cells that meet all three criteria: {counts}.\n"
            f"The aim is {100 * AIM:g} %, {aim} cells; {reached} reaches it.",
            **{name: comparison(measured, runs) for name, runs in shown.items()},
            "further-count": f"{agreement(more, further)} of {len(more)} further cells meet all three criteria in"
            " `exact`.",
            "further": comparison(more, further),
            "kernel-repeats": kernel_repeats(measured, shown["late"]),
            "misses": misses(measured, shown),
            "worth": worth(measured, shown | profiles),
            "repeated": repeated(bench, [cell for cell in measured if cell.number in REPEATED]),
            "shifted": shifted(bench, [cell for cell in measured if cell.number in SHIFTED]),
            **in_virtual_time(settings, late),
            "loss": random_loss(bench, lossy, shown["exact"][lossy.number]),
        },
    )


if __name__ == "__main__":
    main()
