"""Compares schemes on QUIC with the simulator, for docs/topics/quic.md: goodput, RTT, and paced rates.

    python studies/quic/study.py [-o DIR] [--cell TEXT]        measures, and writes the tables of the page

Finished runs in DIR are reused, so that a run that was interrupted goes on. All cells take about 25 minutes on a quiet
machine; --cell measures those whose name contains TEXT, and writes nothing.

Every cell runs in the simulator and on QUIC with the same seed; cells of a scheme that noq has too also run with its
own controller. A cell agrees if the goodput of every flow is within 5 % and its mean RTT within 10 % of the
simulator's.
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narrows

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "topics" / "quic.md"
SCHEMES = ("bbr", "bbr-gc", "bbr3", "cubic")
OWN = {"bbr3", "cubic", "newreno"}
"""Schemes of which noq has a controller of its own."""
GOODPUT, RTT = 0.05, 0.10
"""Differences within which a cell agrees."""
HEADERS = 1500 / 1472
"""Bytes on the wire per byte of a QUIC packet: a paced rate leaves out IP and UDP headers."""
DURATION, RATES_DURATION = "15s", "8s"


@dataclass(frozen=True)
class Cell:
    """One setting: the flows and their bottleneck."""

    schemes: tuple[str, ...]
    rate: str
    rtt: str
    buffer: str
    loss: str | None = None

    @property
    def name(self) -> str:
        """The flows, and their bottleneck."""
        loss = f", loss {self.loss}" if self.loss else ""
        return f"{'+'.join(self.schemes)}, {self.rate}, {self.rtt}, {self.buffer}{loss}"

    def measure(self, out: Path, on: str) -> list[dict[str, Any]]:
        """Return the flows of a run of this cell in a place."""
        folder = out / on / re.sub(r"[^\w.%-]+", "_", self.name)
        results = narrows.compare(
            *self.schemes, rate=self.rate, rtt=self.rtt, buffer=self.buffer, loss=self.loss, duration=DURATION,
            out=folder, on=on,
        )  # fmt: skip
        host = results.raw[0].get("host") or {}
        return [dict(flow, disturbed=host.get("disturbed", False)) for flow in results.raw[0]["flows"]]


def cells() -> Iterator[Cell]:
    """Yield all cells: alone on eight paths, with random loss, and in pairs."""
    paths = itertools.product(("10mbit", "50mbit"), ("20ms", "60ms"), ("1bdp", "4bdp"))
    for (rate, rtt, buffer), scheme in itertools.product(paths, SCHEMES):
        yield Cell((scheme,), rate, rtt, buffer)
    for scheme in SCHEMES:
        yield Cell((scheme,), "20mbit", "40ms", "1bdp", "1%")
    for scheme, buffer in itertools.product(("bbr-gc", "bbr3", "bbr"), ("1bdp", "4bdp")):
        yield Cell((scheme, "cubic"), "20mbit", "40ms", buffer)


def agrees(own: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two flows have the same goodput and mean RTT, within the limits."""
    limits = (("goodput_mbit_s", GOODPUT), ("rtt_mean_ms", RTT))
    return all(own[key] and other[key] and abs(other[key] / own[key] - 1) <= limit for key, limit in limits)


def number(value: float | None) -> str:
    """Format a value; a dash if nobody measured it."""
    return "–" if value is None else f"{value:.2f}"


def rows(out: Path, chosen: list[Cell]) -> tuple[list[str], int]:
    """Measure cells. Return the rows of the table, and how many cells agree."""
    found, agreeing = [], 0
    for cell in chosen:
        sim, quic = cell.measure(out, "sim"), cell.measure(out, "quic")
        own = cell.measure(out, "noq") if set(cell.schemes) <= OWN else [None] * len(sim)
        agree = all(agrees(one, other) for one, other in zip(sim, quic, strict=True))
        agreeing += agree
        for one, other, third in zip(sim, quic, own, strict=True):
            values = [flow and flow[key] for key in ("goodput_mbit_s", "rtt_mean_ms") for flow in (one, other, third)]
            note = "disturbed" if other["disturbed"] else "yes" if agree else "**no**"
            name = cell.name if one is sim[0] else f"{cell.name}: {one['flow']}"
            found.append(f"| {name} | {' | '.join(number(value) for value in values)} | {note} |")
        print(found[-1], flush=True)
    return found, agreeing


def rates(out: Path) -> list[str]:
    """Measure paced rates: a fixed rate over a faster link, and what arrives of it."""
    found = []
    for asked in (5, 20, 60, 400):
        scheme = f"fixed:rate={asked},window=100000"
        rate = f"{asked * 2}mbit"
        results = narrows.compare(
            scheme, rate=rate, rtt="10ms", buffer="10bdp", duration=RATES_DURATION, out=out / "rates" / str(asked),
            on="quic",
        )  # fmt: skip
        got = results.raw[0]["flows"][0]["throughput_mbit_s"] / HEADERS
        found.append(f"| {asked} | {got:.2f} | {100 * (got / asked - 1):+.2f} % |")
        print(found[-1], flush=True)
    return found


def write(region: str, lines: list[str]) -> None:
    """Replace a region of the page."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {region} -->\n).*?(<!-- /{region} -->)", re.DOTALL)
    body = "".join(f"{line}\n" for line in lines)
    PAGE.write_text(pattern.sub(lambda match: match[1] + body + match[2], text), encoding="utf-8")


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="out", type=Path, default=Path("results/quic"), help="the folder of the runs")
    parser.add_argument("--cell", default=None, metavar="TEXT", help="measure only cells whose name contains TEXT")
    options = parser.parse_args()
    chosen = [cell for cell in cells() if options.cell is None or options.cell in cell.name]
    found, agreeing = rows(options.out, chosen)
    print(f"{agreeing} of {len(chosen)} cells agree")
    if options.cell is not None:
        return
    head = "| cell | goodput simulated | on QUIC | noq's own | mean RTT simulated | on QUIC | noq's own | agrees |"
    write("cells", [f"{agreeing} of {len(chosen)} cells agree.", "", head, "|---" + "|---:" * 6 + "|---|", *found])
    write("rates", ["| asked, Mbit/s | sent | difference |", "|---:|---:|---:|", *rates(options.out)])


if __name__ == "__main__":
    main()
