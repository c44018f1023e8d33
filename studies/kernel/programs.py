"""Compares schemes as programs of the kernel with their twins in the simulator, for docs/deploy.md.

    sudo python studies/kernel/programs.py [NAME...]     loads and measures programs: bbr_gc by default; 9 minutes each
    python studies/kernel/programs.py --print            writes the table from the stored runs

The figures are valid only on a machine without other work: each run records the load, and whether it was disturbed.
Runs are kept in `programs.jsonl` beside this file; stored runs are not repeated. A cell agrees if the means of its runs
are within 3 % in goodput and 5 % in mean RTT.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill, table

HERE = Path(__file__).resolve().parent
DATA = HERE / "programs.jsonl"
PAGE = HERE.parents[1] / "docs" / "deploy.md"
PATHS = (
    {"rate": "20mbit", "rtt": "40ms", "buffer": "1bdp"},
    {"rate": "100mbit", "rtt": "10ms", "buffer": "1bdp"},
    {"rate": "100mbit", "rtt": "40ms", "buffer": "0.5bdp"},
    {"rate": "100mbit", "rtt": "40ms", "buffer": "1bdp"},
    {"rate": "100mbit", "rtt": "40ms", "buffer": "5bdp"},
    {"rate": "100mbit", "rtt": "100ms", "buffer": "2bdp"},
    {"rate": "50mbit", "rtt": "20ms", "buffer": "2bdp"},
    {"rate": "10mbit", "rtt": "100ms", "buffer": "1bdp"},
    {"rate": "50mbit", "rtt": "40ms", "buffer": "1bdp", "loss": "0.1%"},
    {"rate": "50mbit", "rtt": "40ms", "buffer": "1bdp", "loss": "1%"},
)
PROGRAMS = {"bbr_gc": "bbr-gc", "bbr_cws": "bbr-cws", "bbr3": "bbr3"}
WORLDS = ("kernel", "sim")
RUNS = 2
LENGTH = "20s"
"""Long enough for two probes of the minimum RTT."""
GOODPUT_PERCENT = 3.0
RTT_PERCENT = 5.0

Row = dict[str, Any]


def stored() -> list[Row]:
    """Return the runs of the file."""
    return [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()] if DATA.is_file() else []


def run(program: str, path: dict[str, str], seed: int, world: str) -> Row:
    """Run one flow, and return the values of the table."""
    print(f"{program}: {', '.join(path.values())}, seed {seed}, on {world}", flush=True)
    flow = {"scheme": PROGRAMS[program], "rtt": path["rtt"]}
    network = {key: value for key, value in path.items() if key != "rtt"}
    scenario = {"name": program, "duration": LENGTH, "seed": seed, "network": network, "flows": [flow]}
    (result,) = narrows.run(scenario, on=world).raw
    host = result.get("host") or {}
    if world == "kernel" and host["schemes"] != [program]:
        raise SystemExit(f"the flow ran {host['schemes']}, not `{program}`")
    names = ("goodput_mbit_s", "rtt_mean_ms", "retransmit_percent")
    return {
        "program": program, "path": path, "seed": seed, "world": world,
        **{key: result["flows"][0][key] for key in names},
        "kernel": host.get("kernel"), "load": host.get("load"), "disturbed": host.get("disturbed"),
    }  # fmt: skip


def measure(programs: list[str]) -> None:
    """Run the flows that the file lacks."""
    narrows_command = Path(sys.executable).with_name("narrows")
    have = [(row["program"], row["path"], row["seed"], row["world"]) for row in stored()]
    for program in programs:
        subprocess.run([narrows_command, "kernel", "load", program], check=True)
        try:
            for path in PATHS:
                for seed in range(1, RUNS + 1):
                    for world in WORLDS:
                        if (program, path, seed, world) not in have:
                            with DATA.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(run(program, path, seed, world)) + "\n")
        finally:
            subprocess.run([narrows_command, "kernel", "unload", program], check=False)


def write() -> None:
    """Write the table to its region of the page."""
    rows = stored()
    heads = (
        "program, path", "goodput, Mbit/s, kernel", "simulator", "%", "mean RTT, ms, kernel", "simulator", "%",
        "retransmitted, %, kernel", "simulator", "agrees",
    )  # fmt: skip
    lines = []
    agreed = cells = 0
    for program in PROGRAMS:
        for path in PATHS:
            same = [row for row in rows if (row["program"], row["path"]) == (program, path)]
            here, there = ([row for row in same if row["world"] == world] for world in WORLDS)
            if not here or not there:
                continue
            mean = {
                key: (fmean(row[key] for row in here), fmean(row[key] for row in there))
                for key in ("goodput_mbit_s", "rtt_mean_ms", "retransmit_percent")
            }
            apart = {key: 100 * (mean[key][0] / mean[key][1] - 1) for key in ("goodput_mbit_s", "rtt_mean_ms")}
            good = abs(apart["goodput_mbit_s"]) <= GOODPUT_PERCENT and abs(apart["rtt_mean_ms"]) <= RTT_PERCENT
            agreed, cells = agreed + good, cells + 1
            fields = [
                f"{program}, {', '.join(path.values())}",
                *(f"{value:.2f}" for value in mean["goodput_mbit_s"]), f"{apart['goodput_mbit_s']:+.1f}",
                *(f"{value:.1f}" for value in mean["rtt_mean_ms"]), f"{apart['rtt_mean_ms']:+.1f}",
                *(f"{value:.2f}" for value in mean["retransmit_percent"]), "yes" if good else "**no**",
            ]  # fmt: skip
            lines.append(fields)
    text = f"{agreed} of {cells} cells agree.\n\n{table(heads, lines)}"
    print(text)
    fill(PAGE, {"programs": text})


def main() -> None:
    """Run missing flows, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("programs", nargs="*", metavar="NAME", help="bbr_gc by default")
    parser.add_argument("--print", action="store_true", help="use the stored runs")
    asked = parser.parse_args()
    if unknown := set(asked.programs) - set(PROGRAMS):
        parser.error(f"NAME: {', '.join(sorted(unknown))}; accepted: {', '.join(PROGRAMS)}")
    if not asked.print:
        measure(asked.programs or ["bbr_gc"])
    write()


if __name__ == "__main__":
    main()
