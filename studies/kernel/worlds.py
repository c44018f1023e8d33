"""Draws one scenario in both worlds, second by second: BBR beside CUBIC on the kernel and in the simulator.

    studies/kernel/uml/run.sh LINUX python studies/kernel/worlds.py kernel      # Linux in virtual time
    python studies/kernel/worlds.py sim                                         # the simulator's half again
    python studies/kernel/worlds.py                                             # draws the measured seconds

Writes `worlds.csv` beside this file and docs/images/worlds.png. The kernel's run is one draw of chance; the simulator
shows its first seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl

import narrows
from narrows.plots import style

HERE = Path(__file__).resolve().parent
DATA = HERE / "worlds.csv"
FIGURE = HERE.parents[1] / "docs" / "images" / "worlds.png"
WORLDS = {"kernel": "Linux", "sim": "simulator"}
COLOURS = dict(zip(WORLDS, style.COLOURS, strict=False))
SECONDS = 60


def measure(worlds: Sequence[str]) -> pl.DataFrame:
    """Return the goodput of every flow in every second, in some of the worlds."""
    parts = []
    for world in worlds:
        done = narrows.compare(
            "bbr", "cubic", rate="100mbit", rtt="40ms", buffer="4bdp", duration=f"{SECONDS}s", trace="100ms", on=world
        )
        schemes = dict(enumerate(done.flows["scheme"].to_list()))
        samples = done.samples.filter((pl.col("series") == "goodput_mbit_s") & (pl.col("kind") == "flow"))
        seconds = samples.with_columns((pl.col("time_s") - 1e-6).floor().cast(pl.Int32).alias("second"))
        means = seconds.group_by("index", "second").agg(pl.col("value").mean().round(3).alias("goodput_mbit_s"))
        parts.append(
            means.sort("index", "second").select(
                pl.lit(world).alias("world"),
                pl.col("index").replace_strict(schemes, return_dtype=pl.String).alias("scheme"),
                "second",
                "goodput_mbit_s",
            )
        )
    return pl.concat(parts)


def draw(rows: pl.DataFrame) -> None:
    """Write the picture: a panel per scheme, a line per world."""
    with plt.rc_context(style.RC):
        figure, axes = plt.subplots(2, 1, figsize=(7.5, 4.2), sharex=True, sharey=True, layout="constrained")
        for axis, scheme in zip(axes, rows["scheme"].unique(maintain_order=True), strict=True):
            for world, dashes in zip(WORLDS, ("-", "--"), strict=True):
                part = rows.filter((pl.col("scheme") == scheme) & (pl.col("world") == world))
                axis.plot(
                    part["second"] + 0.5,
                    part["goodput_mbit_s"],
                    linestyle=dashes,
                    color=COLOURS[world],
                    label=WORLDS[world],
                )
            axis.set_ylabel(f"{scheme}\nMbit/s")
            axis.set_ylim(0, 100)
        axes[0].legend(loc="upper right", ncols=2)
        axes[-1].set_xlabel("seconds")
        axes[-1].set_xlim(0, SECONDS)
        title = "BBR beside CUBIC, 100 Mbit/s, 40 ms, 4 BDP: goodput in every second (Linux 6.18 in virtual time)"
        figure.suptitle(title, fontsize=10)
        figure.savefig(FIGURE, dpi=130)


def main() -> None:
    """Measure the given worlds, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", help="measure these worlds again: kernel (as root), sim")
    worlds = parser.parse_args().worlds
    measured = measure(worlds).with_columns(pl.col("second").cast(pl.Int64)) if worlds else None
    rows = pl.read_csv(DATA)
    if measured is not None:
        rows = pl.concat([rows.filter(~pl.col("world").is_in(worlds)), measured]).sort("world", maintain_order=True)
        rows.write_csv(DATA)
    draw(rows)


if __name__ == "__main__":
    main()
