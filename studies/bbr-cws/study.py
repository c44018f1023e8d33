"""What rules for scaling BBR's window achieve on the training grid of BBR-CWS.

    python studies/bbr-cws/study.py [NAME ...]

Stated before any result was looked at:

* fairness: the mean of Jain's index over all cells of duel.toml and crowd.toml, and how many of them have 0.9 or more;
* retransmissions: packets retransmitted in all cells of duel.toml and crowd.toml, as a share of BBR's;
* alone: the least utilisation over the cells of alone.toml, each as a share of BBR's in the same cell.

A rule with less than 97 % of BBR's utilisation in a cell alone is out. Of the others the one with the greatest
mean Jain index + 0.25 x (1 - retransmissions) is kept.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import narrows

HERE = Path(__file__).resolve().parent
CELL = ["case", "network.buffer", "network.loss"]


def means(part: str, scheme: str, out: Path | None) -> pl.DataFrame:
    """Means over seeds of each cell: Jain's index, retransmitted packets, utilisation, share of the first scheme."""
    results = narrows.run(
        HERE / f"{part}.toml", set={"flows.0.scheme": scheme}, out=out and out / part / scheme.replace(":", "_")
    )
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
    runs = results.runs.select("id", *cell, "jain")
    links = results.links.filter(pl.col("index") == 0).select("id", "utilization")
    frame = per_run.join(runs.drop(cell), on="id").join(links, on="id")
    return frame.drop("id").group_by(cell, maintain_order=True).mean().with_columns(part=pl.lit(part))


def measure(scheme: str, out: Path | None = None) -> pl.DataFrame:
    """All cells of one rule."""
    return pl.concat([means(part, scheme, out) for part in ("duel", "crowd", "alone")], how="diagonal")
