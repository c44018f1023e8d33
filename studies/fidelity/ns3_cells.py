"""Runs the cells of `narrows fidelity` in ns-3, for the columns of ns-3 in docs/fidelity.md.

    python studies/fidelity/ns3_cells.py [--grid full] [--cells REGEX] [--jobs N]

Needs libns3-dev and a C++ compiler. Every finished run is appended to `target/ns3/cells.jsonl`; the same command reuses
these runs until a source in `bench/ns3` changes. Writes `ns3.jsonl` beside this file after every run: a line per cell
of which all runs are finished, in the order of the full grid, with values in the form of a world in `cells.jsonl`. ns-3
delivers about 10 000 packets a second: a run at 100 Mbit/s takes about its duration in real time, and the full grid
about an hour of one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from narrows.bench import ns3
from narrows.errors import UsageError
from narrows.fidelity import comparison, grid
from narrows.fidelity.grid import Cell
from narrows.files import write_atomic
from narrows.quantities import quantity

SOURCE = ns3.SOURCE.with_name("cell.cc")
RUNS = ns3.ROOT / "target" / "ns3" / "cells.jsonl"
VALUES = Path(__file__).resolve().with_name("ns3.jsonl")

SCHEMES = {"reno": "TcpLinuxReno", "cubic": "TcpCubic", "bbr": "TcpBbr"}
FULL_PACKET_BITS = 8 * 1500
WARMUP = 0.1
"""The default of scenarios, as a share of the duration."""
SEEDS, SEEDS_OF_RANDOM_LOSS = 1, 3
DECIMALS = 6

Run = dict[str, Any]
Finished = dict[tuple[str, int], Run]


def arguments(cell: Cell, seed: int) -> list[str]:
    """Return the arguments of the program for a run of a cell."""
    packets = cell.rate_mbit_s * 1e3 * max(cell.rtt_ms) * cell.buffer_bdp / FULL_PACKET_BITS
    rtts = cell.rtt_ms if len(cell.rtt_ms) > 1 else cell.rtt_ms * len(cell.schemes)
    values = {
        "rate": f"{cell.rate_mbit_s:g}",
        "buffer": int(packets + 1e-9),  # whole packets, despite rounding errors of the product
        "queue": cell.queue,
        "loss": f"{cell.loss_percent:g}",
        "jitter": f"{1e3 * _number(grid.JITTER):g}",
        "schemes": ",".join(SCHEMES[scheme] for scheme in cell.schemes),
        "rtts": ",".join(f"{rtt:g}" for rtt in rtts),
        "count": cell.count,
        "spread": f"{_number(grid.SPREAD) / 1e3:g}",
        "seconds": cell.duration_s,
        "warmup": f"{WARMUP * cell.duration_s:g}",
        "seed": seed,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _number(time: str) -> float:
    """Return a time in ms."""
    found = quantity(time)
    assert found is not None, time
    return found[0]


def seeds(cell: Cell) -> range:
    """Return the seeds of a cell."""
    return range(1, 1 + (SEEDS_OF_RANDOM_LOSS if cell.loss_percent else SEEDS))


def execute(program: Path, cell: Cell, seed: int) -> Run:
    """Run a cell in ns-3.

    Raises:
        subprocess.CalledProcessError: ns-3 failed.
    """
    done = subprocess.run([str(program), *arguments(cell, seed)], capture_output=True, text=True, check=True)
    result: Run = json.loads(done.stdout)
    return result


def values(cell: Cell, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the line of a cell: the version of ns-3, and the values of its runs. ns-3 measures no fill time."""
    completed = [{**run, "flows": [{**flow, "fill_time_ms": None} for flow in run["flows"]]} for run in runs]
    found = comparison.world(completed)
    names = [name for name in comparison.VALUES if name != "fill_time_ms"]
    return {
        "cell": cell.name,
        "ns3": runs[0]["ns3"],
        "source": runs[0]["source"],
        **{name: _rounded(found[name]) for name in names},
    }


def _rounded(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {name: round(part, DECIMALS) if isinstance(part, float) else part for name, part in value.items()}


def fingerprint() -> str:
    """Return the hash of the program's sources."""
    sources = [SOURCE, *sorted(SOURCE.parent.glob("*.h"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def finished(path: Path, source: str) -> Finished:
    """Return the stored runs of this program by arguments; a line cut off by an interruption counts as absent."""
    found: Finished = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            run = json.loads(line)
        except ValueError:
            continue
        if run["source"] == source:
            found[run["cell"], run["seed"]] = run
    return found


def stored(path: Path, source: str) -> dict[str, Mapping[str, Any]]:
    """Return the values of cells that this program has measured, here or elsewhere."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return {row["cell"]: row for row in rows if row["source"] == source}


def lines(cells: Iterable[Cell], runs: Finished, before: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the content of `ns3.jsonl`: cells without all runs keep their old values."""
    rows = []
    for cell in cells:
        if all((cell.name, seed) in runs for seed in seeds(cell)):
            rows.append(values(cell, [runs[cell.name, seed] for seed in seeds(cell)]))
        elif cell.name in before:
            rows.append(before[cell.name])
    return "".join(json.dumps(row) + "\n" for row in rows)


def main() -> None:
    """Run the remaining cells, and write the values."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--grid", choices=grid.GRIDS, default=grid.FULL, help="which cells to run")
    parser.add_argument("--cells", metavar="REGEX", help="run only cells whose name matches")
    parser.add_argument("--jobs", type=int, default=1, help="simultaneous runs")
    given = parser.parse_args()
    try:
        program = ns3.build(SOURCE)
        wanted = grid.chosen(given.grid, given.cells)
    except (OSError, UsageError) as error:
        sys.exit(f"ns3_cells.py: {error}")
    source = fingerprint()
    runs, before = finished(RUNS, source), stored(VALUES, source)
    left = [
        (cell, seed)
        for cell in wanted
        for seed in seeds(cell)
        if cell.name not in before and (cell.name, seed) not in runs
    ]
    left.sort(key=lambda run: run[0].rate_mbit_s * run[0].duration_s)  # the shortest first
    print(f"{len(left)} runs are left; finished ones go to {RUNS}", flush=True)
    everything = grid.cells(grid.FULL)
    with ThreadPoolExecutor(given.jobs) as pool, RUNS.open("a", encoding="utf-8") as file:
        futures = {pool.submit(execute, program, cell, seed): (cell, seed) for cell, seed in left}
        for future in as_completed(futures):
            cell, seed = futures[future]
            run = {"cell": cell.name, "seed": seed, "source": source, **future.result()}
            file.write(json.dumps(run) + "\n")
            file.flush()
            runs[cell.name, seed] = run
            print(f"{cell.name}, seed {seed}: {comparison.goodput(run):.2f} Mbit/s", flush=True)
            write_atomic(VALUES, lines(everything, runs, before))
    write_atomic(VALUES, lines(everything, runs, before))


if __name__ == "__main__":
    main()
