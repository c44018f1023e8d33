"""Measures how flows share a link in this kernel and in the simulator, for docs/fidelity.md.

    sudo python studies/kernel/shares.py           measures what the file lacks; 9 minutes
    python studies/kernel/shares.py --print        writes the table from the stored runs

Two flows share a link and a third joins. BRF's router drains queues at every allocation, as `narrows brf switch` does.
The figures are valid only on a machine without other work: each run records whether it was disturbed. Runs are kept in
`shares.jsonl` beside this file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

import narrows

HERE = Path(__file__).resolve().parent
DATA = HERE / "shares.jsonl"
PAGE = HERE.parents[1] / "docs" / "fidelity.md"
RTT_MS, BUFFER = 40, "1bdp"
JOINS_S, ENDS_S = 5, 12
SETTLED_S = 2
"""Shares after a join are averaged from this time on."""
ENOUGH = 0.9
"""The fraction of its share at which a flow has converged."""
Case = tuple[float, tuple[str, ...], bool]
"""The rate of the link in Mbit/s, the schemes of the two flows and of the one that joins, and whether receive windows
grow as in Linux (`receive_autotuning`)."""
CASES: tuple[Case, ...] = (
    (40, ("brf", "brf", "brf"), True),
    (100, ("brf", "brf", "brf"), True),
    (100, ("brf", "brf", "brf"), False),
    (40, ("nodectl", "nodectl", "nodectl"), True),
    (100, ("nodectl", "nodectl", "nodectl"), True),
    (100, ("nodectl", "nodectl", "nodectl"), False),
    (40, ("brf", "brf", "cubic"), True),
    (40, ("bbr-gc", "bbr-gc", "bbr-gc"), True),
    (40, ("bbr3", "bbr3", "bbr3"), True),
    (40, ("bbr", "bbr", "bbr"), True),
    (40, ("cubic", "cubic", "cubic"), True),
)
PROGRAMS = ("bbr_gc", "bbr3")
"""Programs that the cases need; runs of BRF and Nodectl load their own, the other schemes are the kernel's."""
WORLDS = ("kernel", "sim")
RUNS = 3

Row = dict[str, Any]


def stored() -> list[Row]:
    """Return the runs of the file."""
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()] if DATA.is_file() else []


def reached_rtts(samples: pl.DataFrame, share: float) -> float | None:
    """Return the round trips from the join until the third flow receives most of its share over a round trip."""
    third = samples.filter((pl.col("index") == 2) & (pl.col("time_s") > JOINS_S))
    there = third.filter(pl.col("value") >= ENOUGH * share).sort("time_s")["time_s"]
    return None if there.is_empty() else (there[0] - JOINS_S) * 1e3 / RTT_MS


def label(case: Case) -> str:
    """Return the name of a case in the table."""
    _, schemes, growing = case
    return ", ".join(schemes) + ("" if growing else "; fixed receive buffer")


def key(row: Row) -> tuple[Case, str]:
    """Return the case and the world of a stored run."""
    return (row["rate_mbit_s"], tuple(row["case"]), row.get("receive_autotuning", True)), row["world"]


def run(setting: Case, seed: int, world: str) -> Row:
    """Run one case, and return the values of the table."""
    rate, case, growing = setting
    print(f"{label(setting)} at {rate:g} Mbit/s: seed {seed}, on {world}", flush=True)
    tcp = {"receive_autotuning": growing}
    flows: list[dict[str, Any]] = [{"scheme": scheme, "rtt": f"{RTT_MS}ms", "tcp": tcp} for scheme in case]
    flows[2]["start"] = f"{JOINS_S}s"
    network: dict[str, Any] = {"rate": f"{rate:g}mbit", "buffer": BUFFER}
    if "brf" in case:
        network["router"] = {"kind": "brf", "drain": True}
    scenario = {
        "name": "shares", "duration": f"{ENDS_S}s", "warmup": "1s", "seed": seed,
        "network": network, "flows": flows,
    }  # fmt: skip
    done = narrows.run(scenario, on=world, trace=f"{RTT_MS}ms")
    (result,) = done.raw
    host = result.get("host") or {}
    samples = done.samples.filter((pl.col("series") == "throughput_mbit_s") & (pl.col("kind") == "flow"))

    def means(begin: float, end: float) -> list[float]:
        part = samples.filter((pl.col("time_s") > begin) & (pl.col("time_s") <= end))
        rates = dict(part.group_by("index").agg(pl.col("value").mean()).iter_rows())
        return [round(rates.get(index, 0.0), 3) for index in range(len(case))]

    link = result["links"][0]
    return {
        "case": case, "rate_mbit_s": rate, "receive_autotuning": growing, "seed": seed, "world": world,
        "before_mbit_s": means(1, JOINS_S)[:2], "after_mbit_s": means(JOINS_S + SETTLED_S, ENDS_S),
        "reached_rtts": reached_rtts(samples, rate / len(case)),
        "queue_delay_mean_ms": link["queue_delay_mean_ms"], "drops": link["drops"],
        "kernel": host.get("kernel"), "load": host.get("load"), "disturbed": host.get("disturbed"),
    }  # fmt: skip


def measure() -> None:
    """Run the cases that the file lacks."""
    have = [(*key(row), row["seed"]) for row in stored()]
    command = Path(sys.executable).with_name("narrows")
    for program in PROGRAMS:
        subprocess.run([command, "kernel", "load", program], check=True)
    try:
        for seed in range(1, RUNS + 1):
            for case in CASES:
                for world in WORLDS:
                    if (case, world, seed) not in have:
                        with DATA.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(run(case, seed, world)) + "\n")
    finally:
        for program in PROGRAMS:
            subprocess.run([command, "kernel", "unload", program], check=False)


def jain(rates: list[float]) -> float:
    """Return Jain's index."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def cells(rows: list[Row]) -> list[str]:
    """Return the values of one case in one world: medians of its runs."""
    rates = [median(row["after_mbit_s"][index] for row in rows) for index in range(3)]
    # A share that is never reached counts as an infinite time.
    reached = median(row["reached_rtts"] or float("inf") for row in rows)
    return [
        " / ".join(f"{rate:.1f}" for rate in rates),
        f"{min(jain(row['before_mbit_s']) for row in rows):.3f}",
        "never" if reached == float("inf") else f"{reached:.1f}",
        f"{median(row['queue_delay_mean_ms'] for row in rows):.1f}",
        f"{median(row['drops'] for row in rows):.0f}",
    ]


def write() -> None:
    """Write the table to its region of the page."""
    rows = stored()
    heads = (
        "two flows, and a third", "Mbit/s", "where", "after the join, Mbit/s", "least Jain's index of two",
        "RTTs to 0.9 of a third", "mean queue, ms", "drops",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---|" + "---:|" * (len(heads) - 3)]
    for case in CASES:
        for world in WORLDS:
            if same := [row for row in rows if key(row) == (case, world)]:
                where = {"kernel": "kernel", "sim": "simulator"}[world]
                lines.append(f"| {label(case)} | {case[0]:g} | {where} | {' | '.join(cells(same))} |")
    print("\n".join(lines))
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- kernel-shares -->\n).*?(<!-- /kernel-shares -->)", re.DOTALL)
    page, regions = pattern.subn(lambda match: "\n".join([match[1] + lines[0], *lines[1:], match[2]]), page)
    if regions != 1:
        raise SystemExit(f"{PAGE} has no region `kernel-shares`")
    PAGE.write_text(page, encoding="utf-8")


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--print", action="store_true", help="write the table from the stored runs")
    if not parser.parse_args().print:
        measure()
    write()


if __name__ == "__main__":
    main()
