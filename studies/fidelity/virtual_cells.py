"""Runs the measured settings on Linux in virtual time, and keeps the runs in `virtual-cells.jsonl`.

    studies/kernel/uml/run.sh LINUX python studies/fidelity/virtual_cells.py [CELL...] [--seeds N]

A setting runs with seeds 1 to N, except runs that the file already has; CELL is the number of a cell in
docs/fidelity.md. The random delay of 0 to 50 us per packet of the variant `late` makes runs differ by their seed.
"""

from __future__ import annotations

import argparse
import json
import platform
from typing import Any

import cells

ABOUT = {
    "about": "Linux TCP in user-mode Linux with virtual time, between the hosts of `narrows run --on kernel`: the"
    " settings of kernel-cells.jsonl and more-cells.jsonl, 64 MiB of receive buffer, with a random delay of 0 to 50 us"
    " per packet, one run per line. `goodput` and `srtt_mean_ms` (tcpi_rtt, sampled every 0.1 s) leave out the first"
    " tenth; `retrans` and `losses`, the random ones, do not."
}

CHANGES = cells.VARIANTS["late"] | {"tcp.receive_autotuning": False}
"""Large buffers from the start, as in the measurements."""


def stored() -> list[dict[str, Any]]:
    """Return the runs of the file."""
    if not cells.VIRTUAL.is_file():
        return []
    return [json.loads(line) for line in cells.VIRTUAL.read_text(encoding="utf-8").splitlines()[1:]]


def main() -> None:
    """Run the settings that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cells", nargs="*", type=int, help="numbers of cells; all by default")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each setting (default 3)")
    asked = parser.parse_args()
    measured = cells.read()
    measured += cells.read(cells.MORE, first=len(measured) + 1)
    settings = {cell.setting(): cell for cell in measured if cell.number in asked.cells or not asked.cells}
    done = {json.dumps([run[key] for key in ("rate", "queue", "rtt", "cc", "loss", "seed")]) for run in stored()}
    for seed in range(1, asked.seeds + 1):
        for cell in settings.values():
            names = ["reno" if name == "newreno" else name for name in cell.schemes]
            key = [cell.rate, cell.queue, list(cell.rtt), names, cell.loss, seed]
            if json.dumps(key) in done:
                continue
            (run,) = cells.simulate(cell, CHANGES, 1, first=seed, on="kernel")
            row = dict(zip(("rate", "queue", "rtt", "cc", "loss", "seed"), key, strict=True)) | {
                "duration": cell.duration_s,
                "kernel": platform.release(),
                "goodput": [round(value, 2) for value in run.goodput],
                "srtt_mean_ms": [round(value, 2) for value in run.smoothed_rtt],
                "retrans": [round(value) for value in run.retransmitted],
                "losses": round(run.random_losses),
            }
            if not cells.VIRTUAL.is_file():
                cells.VIRTUAL.write_text(json.dumps(ABOUT) + "\n", encoding="utf-8")
            with cells.VIRTUAL.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
