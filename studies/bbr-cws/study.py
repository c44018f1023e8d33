"""Rules for scaling BBR's cwnd, measured on the training grid of BBR-CWS.

    python studies/bbr-cws/study.py [-o DIR]        writes the tables and the figure of docs/studies/bbr-cws.md

Finished runs in DIR are reused. Criteria, fixed before any result was known:

* fairness: the mean of Jain's index over all cells of duel.toml and crowd.toml, and how many of them have 0.9 or more;
* retransmissions: packets retransmitted in all cells of duel.toml and crowd.toml, by all flows, as a share of BBR's;
* alone: the least utilisation over the cells of alone.toml, each as a share of BBR's in the same cell.

A rule is rejected if alone it has less than 97 % of BBR's utilisation in any cell. Of the others, the rule with the
greatest mean Jain index + 0.25 x (1 - retransmissions) is kept.

discarded.json holds the measurements of rules that no parameters of bbr-cws select any more, with the version of the
scheme that gave each of them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import polars as pl

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
PAGE = DOCS / "studies" / "bbr-cws.md"
FIGURE = DOCS / "images" / "bbr-cws-rules.png"
CELL = ["case", "network.buffer", "network.loss"]
LAW = "cut=0.7,speed=0.4,first=0,push=0,drain_rounds=0"

STEPS = {
    "6": f"bbr-cws:{LAW},congested=0,converge=off",
    "7": f"bbr-cws:{LAW},congested=0",
    "8": f"bbr-cws:{LAW}",
    "9": "bbr-cws:first=0,push=0,drain_rounds=0",
    "10": "bbr-cws:first=0,push=0",
    "11": "bbr-cws:push=0",
    "kept": "bbr-cws",
}
"""Rules that parameters select. Each adds one idea to the rule before."""

AROUND = (
    "cut=0.7,speed=0.4",
    "cut=0.8,speed=0.26",
    "cut=0.85,speed=0.19",
    "push=1",
    "first=0",
    "drain_rounds=0",
    "congested=0",
    "converge=off",
    "scale_min=0.5",
    "queue=1.25",
)
"""Single changes of the rule that was kept."""


def means(part: str, scheme: str, out: Path | None) -> pl.DataFrame:
    """Return means over seeds per cell: the rule's share, Jain's index, utilisation, and retransmitted packets."""
    folder = out and out / part / re.sub(r"[:,=]", "_", scheme)
    results = narrows.run(HERE / f"{part}.toml", set={"flows.0.scheme": scheme}, out=folder)
    cell = [key for key in CELL if key in results.runs.columns]
    flows = results.flows.with_columns(
        ours=pl.when(pl.col("scheme") != "cubic").then(pl.col("goodput_mbit_s")),
        again=pl.col("retransmit_percent") * pl.col("packets_sent") / 100,
    )
    per_run = flows.group_by("id", *cell).agg(
        share=pl.col("ours").sum() / pl.col("goodput_mbit_s").sum(),
        again=pl.col("again").sum(),
        ours_again=pl.col("again").filter(pl.col("scheme") != "cubic").sum(),
    )
    links = results.links.filter(pl.col("index") == 0).select("id", "utilization")
    frame = per_run.join(results.runs.select("id", "jain"), on="id").join(links, on="id")
    return frame.drop("id").group_by(cell, maintain_order=True).mean().sort(cell).with_columns(part=pl.lit(part))


def measure(scheme: str, out: Path | None = None) -> pl.DataFrame:
    """Measure all cells of a rule."""
    return pl.concat([means(part, scheme, out) for part in ("duel", "crowd", "alone")], how="diagonal")


def shared(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the cells with competing flows."""
    return cells.filter(pl.col("part") != "alone")


def figures(cells: pl.DataFrame, base: pl.DataFrame) -> dict[str, float]:
    """Return the figures of a rule, as the module docstring defines them; `base` are BBR's cells."""
    jain = shared(cells)["jain"]
    again = float(shared(cells)["again"].sum()) / float(shared(base)["again"].sum())
    alone = cells.filter(pl.col("part") == "alone").join(
        base.filter(pl.col("part") == "alone"), on=CELL, suffix="_bbr", nulls_equal=True
    )
    used = (alone["utilization"] / alone["utilization_bbr"]).min()
    assert isinstance(used, float)
    mean = jain.mean()
    assert isinstance(mean, float)
    return {
        "jain": mean,
        "least": float(jain.to_numpy().min()),
        "fair": float((jain >= 0.9).sum()),
        "again": again,
        "alone": used,
        "score": mean + 0.25 * (1 - again),
    }


def line(name: str, row: dict[str, float]) -> str:
    """Format a line of a table."""
    out = row["alone"] < 0.97
    score = f"{row['score']:.3f}" if not out else f"({row['score']:.3f})"
    return (
        f"| {name} | {row['jain']:.3f} | {row['least']:.2f} | {row['fair']:.0f} of 23 | {100 * row['again']:.1f} % "
        f"| {100 * row['alone']:.1f} % | {score} |"
    )


def table(rows: dict[str, dict[str, float]], first: str) -> str:
    """Format a Markdown table. Parentheses mark the scores of rejected rules."""
    head = f"| {first} | Jain, mean | least | 0.9 or more | retransmitted, of BBR's | alone, of BBR's | score |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *(line(name, row) for name, row in rows.items())])


def draw(curves: dict[str, pl.DataFrame]) -> None:
    """Draw Jain's index of one flow against one of CUBIC over the buffer."""
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
    for panel, case in zip(panels, ("50 Mbit/s, 20 ms", "200 Mbit/s, 60 ms"), strict=True):
        for name, cells in curves.items():
            mine = cells.filter((pl.col("part") == "duel") & (pl.col("case") == case))
            mine = mine.with_columns(x=pl.col("network.buffer").str.strip_suffix("bdp").cast(pl.Float64)).sort("x")
            panel.plot(mine["x"], mine["jain"], marker="o", markersize=4, label=name)
        panel.set_xscale("log")
        panel.set_xlabel("buffer, BDP")
        panel.set_title(case)
        panel.axhline(0.9, color="grey", linewidth=0.8, linestyle=":")
    panels[0].set_ylabel("Jain's index with CUBIC")
    panels[0].legend(fontsize=8, loc="lower right")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=100, metadata={"Software": None})


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("-o", "--out", type=Path, help="keep the runs in a folder")
    out: Path | None = parser.parse_args().out

    def cells_of(scheme: str) -> pl.DataFrame:
        print(scheme, flush=True)
        return measure(scheme, out)

    data: dict[str, Any] = json.loads((HERE / "discarded.json").read_text(encoding="utf-8"))
    old = {name: pl.DataFrame(rule["cells"], infer_schema_length=None) for name, rule in data["rules"].items()}
    base = cells_of("bbr")
    steps = {name: cells_of(scheme) for name, scheme in STEPS.items()}
    tried = {"BBR v1": figures(base, base), "CUBIC itself": figures(cells_of("cubic"), base)}
    tried |= {name: figures(cells, base) for name, cells in old.items()}
    tried |= {name: figures(cells, base) for name, cells in steps.items()}
    around = {f"`{change}`": figures(cells_of(f"bbr-cws:{change}"), base) for change in AROUND}
    around = {"kept": tried["kept"], **around}
    fit = {name: row["score"] for name, row in {**tried, **around}.items() if row["alone"] >= 0.97}
    del fit["BBR v1"]
    print("greatest score:", max(fit, key=lambda name: fit[name]))
    per_cell = ["| cell | buffer | share of BBR | Jain | share of BBR-CWS | Jain |", "|---|---:|---:|---:|---:|---:|"]
    both = shared(base).join(shared(steps["kept"]), on=["part", "case", "network.buffer"], suffix="_cws")
    order = pl.col("network.buffer").str.strip_suffix("bdp").cast(pl.Float64)
    for row in both.sort("part", "case", order, descending=[True, False, False]).iter_rows(named=True):
        per_cell.append(
            f"| {row['case']} | {row['network.buffer'].removesuffix('bdp')} BDP | {100 * row['share']:.0f} % "
            f"| {row['jain']:.2f} | {100 * row['share_cws']:.0f} % | {row['jain_cws']:.2f} |"
        )
    fill(PAGE, {"tried": table(tried, "rule"), "around": table(around, "changed"), "cells": "\n".join(per_cell)})
    draw({"BBR": base, "1 stand-in": old["1"], "6 CUBIC's law": steps["6"], "kept": steps["kept"]})


if __name__ == "__main__":
    main()
