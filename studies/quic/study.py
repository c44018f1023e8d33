"""Compares schemes on QUIC with the simulator, for docs/topics/quic.md: goodput, RTT, and paced rates.

    python studies/quic/study.py [--cell TEXT] [--minutes N]        measures what is missing, and writes the tables
    python studies/quic/study.py --tables                           writes the tables of what was measured

Every finished run is appended to `cells.jsonl` beside this file, and a run that was interrupted, also by SIGKILL, is
measured again by the same command. So is one that was disturbed, up to six runs in all. All cells take about two
hours on a quiet machine; with --minutes no run begins after that time.

Every cell runs three times on QUIC, and with five seeds in the simulator, which spaces packets as noq's pacer. Cells
of schemes that noq has too also run once with noq's own controllers. A cell agrees if the median of its goodput is
within 5 %, the median of each flow's mean RTT within 10 % of the simulator's, and each flow's share within 5 points,
as on the kernel. `causes.toml` says why others do not.

Of a pair, CUBIC begins two seconds later, and the measurement after 40 s: for the first half minute their shares depend
on what happened in the first 100 ms, in the simulator too. Runs of a pair, and those with random loss, differ in the
seed, which draws when BBR probes and which packets are lost.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import narrows

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))

from regions import fill

HERE = Path(__file__).resolve().parent
DATA, CAUSES = HERE / "cells.jsonl", HERE / "causes.toml"
PAGE = HERE.parents[1] / "docs" / "topics" / "quic.md"
SCHEMES = ("bbr", "bbr-gc", "bbr3", "cubic")
WINDOWED = ("newreno", "bic", "vegas", "compound", "fast")
OTHERS = (
    *WINDOWED, "bbr2", "bbq", "bbr-cws", "bbr-acw", "bbr-a", "bbr-acd", "adaptive-bbr", "da-bbr", "modest-bbr", "rfbbr",
    "bbr2-gc", "bbr3-gc",
)  # fmt: skip
"""The other schemes that noq runs."""
PACED = ("cubic", *WINDOWED)
"""Schemes that set no rate, so that noq paces them."""
NOQ: dict[str, Any] = {"tcp": {"tso": False, "max_burst": "1pkt"}}
"""noq's pacer in the simulator, for schemes that set a rate: it waits for the credit of one packet."""
NOQ_PACES: dict[str, Any] = {"params": {"paced": "on"}, "tcp": {"tso": False, "max_burst": "10pkt"}}
"""noq's pacer for other schemes: it waits for the credit of ten packets (or 2 ms, about as many at 50 Mbit/s)."""
OWN = {"bbr3", "cubic", "newreno"}
"""Schemes for which noq has its own controller."""
GOODPUT, RTT, SHARE = 0.05, 0.10, 0.05
"""The largest differences of a cell that agrees: relative for goodput and RTT, absolute for a share."""
HEADERS = 1500 / 1472
"""Bytes on the wire per byte of a QUIC packet: a paced rate leaves out IP and UDP headers."""
DURATION, RATES_DURATION = "15s", "8s"
LATER, PAIR_WARMUP, PAIR_DURATION = "2s", "40s", "100s"
"""Start of the second flow of a pair, and the times of its measurement."""
REPEATS, ATTEMPTS = 3, 6
"""The number of undisturbed runs of a cell on QUIC, and the most runs of a cell on one backend."""
SEEDS = 5
"""Seeds in the simulator, all in one run."""
KEYS = ("goodput_mbit_s", "throughput_mbit_s", "rtt_mean_ms", "loss_percent")
RATES = (5, 20, 60, 400)
"""Paced rates in Mbit/s."""
Rows = list[dict[str, Any]]
"""The measurements of each flow in a run."""


@dataclass(frozen=True)
class Cell:
    """A grid cell: the flows and their bottleneck."""

    schemes: tuple[str, ...]
    rate: str
    rtt: str
    buffer: str
    loss: str | None = None
    duration: str = DURATION

    @property
    def name(self) -> str:
        """The flows in the order in which they begin, and their bottleneck."""
        loss = f", loss {self.loss}" if self.loss else ""
        return f"{' then '.join(self.schemes)}, {self.rate}, {self.rtt}, {self.buffer}{loss}"

    @property
    def is_drawn(self) -> bool:
        """Whether its result depends on the seed."""
        return len(self.schemes) > 1 or self.loss is not None

    @property
    def places(self) -> list[str]:
        """The backends on which the cell runs."""
        return ["sim", "quic", *(["noq"] if set(self.schemes) <= OWN else [])]

    def measure(self, on: str, seed: int) -> dict[str, Any]:
        """Run the cell on a backend with this seed. Return the row to store."""
        results = narrows.run(self.scenario(on), on=on, seed=seed, repeat=SEEDS if on == "sim" else 1)
        host = results.raw[0].get("host") or {}
        return {
            "cell": self.name,
            "on": on,
            "seed": seed,
            "runs": [[{key: flow[key] for key in KEYS} for flow in one["flows"]] for one in results.raw],
            "disturbed": host.get("disturbed", False),
            "lateness_p99_us": (host.get("lateness") or {}).get("p99_us"),
            "socket_drops": host.get("socket_drops"),
        }

    def scenario(self, on: str) -> dict[str, Any]:
        """Return the scenario: of a pair, the second flow begins later."""
        starts = ("0s", LATER)[: len(self.schemes)]
        network = {"rate": self.rate, "buffer": self.buffer} | ({"loss": self.loss} if self.loss else {})
        flows = []
        for scheme, start in zip(self.schemes, starts, strict=True):
            name, _, values = scheme.partition(":")
            params = dict(value.split("=") for value in values.split(",") if value)
            own: dict[str, Any] = {"scheme": name, "rtt": self.rtt, "start": start, "params": params}
            if on == "sim":
                own |= NOQ_PACES if name in PACED else NOQ
            flows.append(own)
        times = {"duration": self.duration} if len(flows) == 1 else {"duration": PAIR_DURATION, "warmup": PAIR_WARMUP}
        return times | {"network": network, "flows": flows}


def cells() -> Iterator[Cell]:
    """Yield all cells: four schemes alone on eight paths, all others on one, all with random loss, and pairs."""
    paths = itertools.product(("10mbit", "50mbit"), ("20ms", "60ms"), ("1bdp", "4bdp"))
    for (rate, rtt, buffer), scheme in itertools.product(paths, SCHEMES):
        yield Cell((scheme,), rate, rtt, buffer)
    for scheme in (*SCHEMES, *OTHERS):
        yield Cell((scheme,), "20mbit", "40ms", "1bdp", "1%")
    for scheme in OTHERS:
        yield Cell((scheme,), "20mbit", "40ms", "1bdp")
    for scheme, buffer in itertools.product(("bbr-gc", "bbr3", "bbr"), ("1bdp", "4bdp")):
        yield Cell((scheme, "cubic"), "20mbit", "40ms", buffer)


def paced() -> list[Cell]:
    """Return the cells of paced rates: a fixed rate over a link twice as fast."""
    return [
        Cell((f"fixed:rate={rate},window=100000",), f"{2 * rate}mbit", "10ms", "10bdp", duration=RATES_DURATION)
        for rate in RATES
    ]


def stored() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the finished runs by cell and backend, in the order of the file. Truncated lines are skipped."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    lines = DATA.read_text(encoding="utf-8").splitlines() if DATA.exists() else []
    for line in lines:
        try:
            run = json.loads(line)
        except ValueError:
            continue
        found.setdefault((run["cell"], run["on"]), []).append(run)
    return found


def store(run: dict[str, Any]) -> None:
    """Append a finished run; it is on disk before the next run begins."""
    begun = DATA.read_bytes() if DATA.exists() else b""
    with DATA.open("a", encoding="utf-8") as file:
        # A truncated line stays a separate line.
        file.write(("\n" if begun and not begun.endswith(b"\n") else "") + json.dumps(run) + "\n")
        file.flush()
        os.fsync(file.fileno())


def measure(chosen: list[tuple[Cell, str]], minutes: float) -> int:
    """Execute missing runs until the time is over. Return how many runs are left."""
    end = time.monotonic() + 60 * minutes
    runs = stored()

    def is_open(cell: Cell, place: str) -> bool:
        own = runs.get((cell.name, place), [])
        wanted = REPEATS if place == "quic" else 1
        return sum(not run["disturbed"] for run in own) < wanted and len(own) < ATTEMPTS

    while (left := [one for one in chosen if is_open(*one)]) and time.monotonic() < end:
        # Cells that were never measured come first.
        cell, place = min(left, key=lambda one: len(runs.get((one[0].name, one[1]), [])))
        earlier = [run for run in runs.get((cell.name, place), []) if not run["disturbed"]]
        run = cell.measure(place, 1 + len(earlier) if cell.is_drawn else 1)
        store(run)
        runs.setdefault((cell.name, place), []).append(run)
        note = ", disturbed" if run["disturbed"] else ""
        shown = "; ".join(f"{number(flow['goodput_mbit_s'])} Mbit/s" for flow in run["runs"][0])
        print(f"{cell.name} on {place}: {shown}{note}", flush=True)
    return len(left)


def medians(runs: list[dict[str, Any]]) -> Rows | None:
    """Return the medians of each flow over the undisturbed runs, or else over all."""
    quiet = [run for run in runs if not run["disturbed"]] or runs
    repeats = [flows for run in quiet for flows in run["runs"]]
    if not repeats:
        return None
    return [{key: middle([flow[key] for flow in flows]) for key in KEYS} for flows in zip(*repeats, strict=True)]


def middle(values: list[float | None]) -> float | None:
    """Return the median; `None` if a value is missing."""
    known = [value for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def differences(own: dict[str, Any], other: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the relative differences of goodput and mean RTT; `None` for a value that was not measured."""
    keys = ("goodput_mbit_s", "rtt_mean_ms")
    first, second = (other[key] / own[key] - 1 if own[key] and other[key] else None for key in keys)
    return first, second


def shares(rows: Rows) -> list[float]:
    """Return each flow's share of the goodput."""
    values = [row["goodput_mbit_s"] for row in rows]
    return [value / sum(values) for value in values]


def agreement(sim: Rows, quic: Rows) -> tuple[bool, bool]:
    """Return whether a cell agrees, and whether the goodput of every flow agrees, even a small one."""
    apart = [differences(one, other) for one, other in zip(sim, quic, strict=True)]
    delays = all(rtt is not None and abs(rtt) <= RTT for _, rtt in apart)
    strict = delays and all(goodput is not None and abs(goodput) <= GOODPUT for goodput, _ in apart)
    before, after = (sum(row["goodput_mbit_s"] for row in rows) for rows in (sim, quic))
    moved = max(abs(one - other) for one, other in zip(shares(sim), shares(quic), strict=True))
    return delays and abs(after / before - 1) <= GOODPUT and moved <= SHARE, strict


def ranges(cell: Cell, runs: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """Format the ranges of repeated runs, in the simulator and on QUIC."""

    def of(place: str) -> str:
        repeats = [flows for run in runs[cell.name, place] if not run["disturbed"] for flows in run["runs"]]
        values = [[flow["goodput_mbit_s"] for flow in flows] for flows in zip(*repeats, strict=True)]
        return ", ".join(
            f"{scheme} {min(own):.2f} to {max(own):.2f}" for scheme, own in zip(cell.schemes, values, strict=True)
        )

    return f"Goodput in Mbit/s, simulated: {of('sim')}; on QUIC: {of('quic')}."


def number(value: float | None) -> str:
    """Format a value; a dash if it was not measured."""
    return "–" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    """Format a difference."""
    return "–" if value is None else f"{100 * value:+.1f} %"


def rows() -> list[str]:
    """Return the text between the marks of the page: the count, the table, and the causes."""
    runs, causes = stored(), tomllib.loads(CAUSES.read_text(encoding="utf-8")) if CAUSES.exists() else {}
    found, missed, judged = [], [], []
    for cell in cells():
        sim, quic, noq = (medians(runs.get((cell.name, place), [])) for place in ("sim", "quic", "noq"))
        if sim is None or quic is None:
            continue
        own = runs[cell.name, "quic"]
        is_disturbed = all(run["disturbed"] for run in own)
        pairs = list(zip(sim, quic, strict=True))
        apart = [differences(one, other) for one, other in pairs]
        agree, strict = agreement(sim, quic)
        judged.append((len(pairs) > 1, agree, strict, is_disturbed))
        if not agree:
            missed.append(f"* {cell.name}: {causes.get(cell.name, 'no cause found yet.')} {ranges(cell, runs)}")
        for place, (one, other) in enumerate(pairs):
            third = noq[place] if noq else None
            values = [flow and flow[key] for key in ("goodput_mbit_s", "rtt_mean_ms") for flow in (one, other, third)]
            name = cell.name if len(pairs) == 1 else f"{cell.name}: {cell.schemes[place]}"
            noted = ["yes" if is_disturbed else "", "yes" if agree else "**no**"]
            columns = [*map(number, values), *map(percent, apart[place]), *noted]
            found.append(f"| {name} | {' | '.join(columns)} |")
    head = (
        "| cell | goodput simulated | on QUIC | noq's own | mean RTT simulated | on QUIC | noq's own | goodput differs"
        " | RTT differs | disturbed | agrees |"
    )
    alone, together = ([agree for is_pair, agree, *_ in judged if is_pair == asked] for asked in (False, True))
    count = (
        f"{sum(alone + together)} of {len(judged)} cells agree: {sum(alone)} of {len(alone)} single flows and "
        f"{sum(together)} of {len(together)} pairs. In {sum(strict for *_, strict, _ in judged)} cells the goodput of "
        f"every flow is within 5 %, also that of a small share. {sum(one[-1] for one in judged)} cells were disturbed "
        "in every run."
    )
    return [count, "", head, "|---" + "|---:" * 8 + "|---|---|", *found, *(["", *missed] if missed else [])]


def paced_rows() -> list[str]:
    """Return the table of paced rates."""
    runs, found = stored(), []
    for rate, cell in zip(RATES, paced(), strict=True):
        own = runs.get((cell.name, "quic"), [])
        if (flows := medians(own)) is not None:
            got = flows[0]["throughput_mbit_s"] / HEADERS
            noted = "yes" if all(run["disturbed"] for run in own) else ""
            found.append(f"| {rate} | {got:.2f} | {100 * (got / rate - 1):+.2f} % | {noted} |")
    return ["| asked, Mbit/s | sent | difference | disturbed |", "|---:|---:|---:|---|", *found]


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", default="", metavar="TEXT", help="measure only cells whose name contains TEXT")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no run after this time")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.tables:
        chosen = [(cell, place) for cell in cells() for place in cell.places]
        chosen += [(cell, "quic") for cell in paced()]
        left = measure([one for one in chosen if options.cell in one[0].name], options.minutes)
        print(f"{left} runs are left" if left else "all runs are measured")
    places = {cell for cell, _ in stored()}
    for region, known, table in [("cells", cells(), rows), ("rates", paced(), paced_rows)]:
        if any(cell.name in places for cell in known):
            fill(PAGE, {region: "\n".join(table())})


if __name__ == "__main__":
    main()
