"""Compares our schemes on the kernel's TCP with the kernel's own, and measures the emulator, for docs/topics/kernel.md.

    sudo python studies/kernel/shim.py [--only PART]     measures both parts, or one; 13 minutes and one
    python studies/kernel/shim.py --print                writes the tables from the stored runs

The figures are valid only on a machine without other work: each run records the load and the emulator's lateness.

Runs are kept in `shim.jsonl` beside this file. A cell agrees if the means of its runs are within 3 % in goodput and
10 % in mean RTT. The kernel's own scheme and ours take turns, so that a change of the machine's load affects both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill, table

HERE = Path(__file__).resolve().parent
DATA = HERE / "shim.jsonl"
PAGE = HERE.parents[1] / "docs" / "topics" / "kernel.md"
PATHS = (
    {"rate": "100mbit", "rtt": "40ms", "buffer": "1bdp"},
    {"rate": "100mbit", "rtt": "10ms", "buffer": "4bdp"},
    {"rate": "30mbit", "rtt": "20ms", "buffer": "0.5bdp"},
    {"rate": "10mbit", "rtt": "100ms", "buffer": "2bdp"},
    {"rate": "50mbit", "rtt": "40ms", "buffer": "1bdp", "loss": "0.1%"},
)
PARTS = ("shim", "emulator", "floor")
SCHEMES = ("cubic", "bbr")
WORLDS = ("kernel", "shim")
RUNS = 2
LENGTHS = {"cubic": "15s", "bbr": "20s"}
"""BBR's runs contain a probe of the minimum RTT, which comes every 10 s."""
GOODPUT_PERCENT = 3.0
RTT_PERCENT = 10.0
LINKS = ({"rate": "100mbit", "rtt": "20ms", "buffer": "1bdp"}, {"rate": "1gbit", "rtt": "20ms", "buffer": "1bdp"})
LIGHT = "5mbit"
PAYLOAD = 1448 / 1500
"""The share of payload in a full packet: the greatest goodput relative to the link's rate."""

Row = dict[str, Any]


def run(part: str, scheme: str, path: dict[str, str], seed: int, world: str, duration: str) -> Row:
    """Run one flow, and return the values of the tables."""
    print(f"{part}: {scheme}, {', '.join(path.values())}, on {world}", flush=True)
    flow: dict[str, Any] = {"scheme": scheme, "rtt": path["rtt"]}
    if part == "floor":
        flow["app"] = {"kind": "cbr", "rate": LIGHT}
    network = {key: value for key, value in path.items() if key != "rtt"}
    scenario = {"name": part, "duration": duration, "seed": seed, "network": network, "flows": [flow]}
    done = narrows.run(scenario, on=world)
    (result,) = done.raw
    measured, host = result["flows"][0], result["host"]
    shim = host.get("shim") or {}
    names = ("goodput_mbit_s", "rtt_mean_ms", "rtt_min_ms", "retransmit_percent")
    return {
        "part": part, "scheme": scheme, "path": path, "seed": seed, "world": world, "duration": duration,
        **{name: measured[name] for name in names},
        "kernel": host["kernel"], "load": host["load"], "disturbed": host["disturbed"], "lateness": host["lateness"],
        "cpu_us_per_packet": host["cpu_us_per_packet"], "events": shim.get("events"),
        "fallbacks": shim.get("fallbacks"), "decision_delay_mean_us": shim.get("decision_delay_mean_us"),
    }  # fmt: skip


def stored() -> list[Row]:
    """Return the runs of the file."""
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()] if DATA.is_file() else []


def measure(parts: Sequence[str]) -> list[Row]:
    """Run some parts, and store their runs in place of earlier runs."""
    rows = [row for row in stored() if row["part"] not in parts]
    if "shim" in parts:
        rows += [
            run("shim", scheme, path, seed, world, LENGTHS[scheme])
            for path in PATHS
            for scheme in SCHEMES
            for seed in range(1, RUNS + 1)
            for world in WORLDS
        ]
    if "emulator" in parts:
        rows += [run("emulator", scheme, path, 1, "kernel", "15s") for path in LINKS for scheme in SCHEMES]
    if "floor" in parts:
        rows += [run("floor", "cubic", path, 1, "kernel", "5s") for path in LINKS]
    DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def name(scheme: str, path: dict[str, str]) -> str:
    """Return a cell's name."""
    return f"{scheme}, {', '.join(path.values())}"


def shims(rows: Sequence[Row]) -> str:
    """Return the comparison of ours with the kernel's own, and how many cells agree."""
    lines, agreed = [], 0
    for path in PATHS:
        for scheme in SCHEMES:
            same = [row for row in rows if row["part"] == "shim" and (row["scheme"], row["path"]) == (scheme, path)]
            own, ours = ([row for row in same if row["world"] == world] for world in WORLDS)
            values = {
                key: (fmean(row[key] for row in own), fmean(row[key] for row in ours))
                for key in ("goodput_mbit_s", "rtt_mean_ms")
            }
            apart = {key: 100 * (there / here - 1) for key, (here, there) in values.items()}
            good = abs(apart["goodput_mbit_s"]) <= GOODPUT_PERCENT and abs(apart["rtt_mean_ms"]) <= RTT_PERCENT
            agreed += good
            spread = [row["goodput_mbit_s"] for row in own]
            lines.append([
                name(scheme, path),
                *(f"{value:.2f}" for value in values["goodput_mbit_s"]), f"{apart['goodput_mbit_s']:+.1f}",
                f"{max(spread) - min(spread):.2f}",
                *(f"{value:.1f}" for value in values["rtt_mean_ms"]), f"{apart['rtt_mean_ms']:+.1f}",
                f"{fmean(row['decision_delay_mean_us'] for row in ours):.0f}",
                str(sum(row["fallbacks"] for row in ours)),
                "yes" if good else "**no**",
            ])  # fmt: skip
    heads = [
        "cell", "goodput, Mbit/s, kernel's own", "ours", "%", "spread of the kernel's own runs",
        "mean RTT, ms, kernel's own", "ours", "%", "decision delay, µs", "fallbacks", "agrees",
    ]  # fmt: skip
    return f"{agreed} of {len(lines)} cells agree.\n\n{table(heads, lines)}"


def emulator(rows: Sequence[Row]) -> str:
    """Return the emulator's results with the kernel's own schemes, and with a light flow."""
    lines = []
    for row in rows:
        if row["part"] not in ("emulator", "floor"):
            continue
        rate = {"100mbit": 100, "1gbit": 1000}[row["path"]["rate"]]
        light = row["part"] == "floor"
        lines.append([
            name(row["scheme"], row["path"]) + (f", writing {LIGHT}" if light else ""),
            f"{row['goodput_mbit_s']:.2f}",
            "–" if light else f"{100 * row['goodput_mbit_s'] / (rate * PAYLOAD):.1f}",
            f"{row['rtt_min_ms']:.2f}", f"{row['rtt_mean_ms']:.1f}", f"{row['cpu_us_per_packet']:.1f}",
            f"{row['lateness']['mean_us']:.0f}", f"{row['lateness']['p99_us']:.0f}",
            f"{row['lateness']['longest_ms']:.1f}", f"{row['load']:.2f}", "**yes**" if row["disturbed"] else "no",
        ])  # fmt: skip
    heads = [
        "flow", "goodput, Mbit/s", "% of the achievable", "least RTT, ms", "mean RTT, ms", "CPU, µs per packet",
        "late, mean µs", "99 %", "longest, ms", "load", "disturbed",
    ]  # fmt: skip
    return table(heads, lines)


def main() -> None:
    """Measure, or read stored runs, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", choices=PARTS, help="measure one part; both by default")
    parser.add_argument("--print", action="store_true", help="use the stored runs")
    asked = parser.parse_args()
    rows = stored() if asked.print else measure([asked.only] if asked.only else PARTS)
    fill(PAGE, {"shim-cells": shims(rows), "emulator": emulator(rows)})


if __name__ == "__main__":
    main()
