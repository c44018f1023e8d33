"""Measures datagrams on one core: DCCP in memory and over loopback, beside plain UDP."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows import engine
from narrows.bench.costs import check_schemes

ROUNDS = 3
"""Default number of rounds; every case takes one turn per round."""
TURN_S = 1.0
"""Wall time of a turn."""


@dataclass
class Case:
    """A row of the benchmark: a transport and a path."""

    scheme: str | None
    """The scheme that controls DCCP; `None` for plain UDP."""
    path: str
    datagram_bytes: int = 0
    datagrams: int = 0
    mbit_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    busy_percent: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.scheme}, {self.path}" if self.scheme else f"UDP, {self.path}"

    def turn(self) -> None:
        """Measure once."""
        begin, worked = time.perf_counter(), time.process_time()
        found = engine.bench_datagrams(self.scheme, self.path, TURN_S)
        self.busy_percent.append(100 * (time.process_time() - worked) / (time.perf_counter() - begin))
        self.datagram_bytes = found["datagram_bytes"]
        self.datagrams += found["datagrams"]
        self.mbit_s.append(found["datagrams"] * self.datagram_bytes * 8e-6 / found["wall_s"])

    def row(self, reference: Case, core: int | None) -> dict[str, Any]:
        """Return the medians."""
        mbit_s = statistics.median(self.mbit_s)
        return {
            "transport": "dccp" if self.scheme else "udp", "scheme": self.scheme, "path": self.path,
            "datagram_bytes": self.datagram_bytes, "datagrams": self.datagrams,
            "ns_per_datagram": self.datagram_bytes * 8e3 / mbit_s, "mbit_s": mbit_s,
            "ratio": statistics.median(self.ratios), "reference": reference.name,
            "cpu_percent": statistics.median(self.busy_percent), "core": core, "mbit_s_all": self.mbit_s,
        }  # fmt: skip


def run(names: Sequence[str], repeats: int, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure plain UDP, then schemes in memory and over loopback. Ratios refer to UDP in batches.

    Args:
        names: The schemes; none selects those made for datagrams.
        repeats: Rounds.
        report: Prints a line of progress.

    Raises:
        UsageError: There is no such scheme.
        engine.LiveFailed: No connection over loopback was established.
    """
    check_schemes(names)
    schemes = list(dict.fromkeys(names)) or engine.datagram_schemes()
    cases = [Case(None, "batches"), Case(None, "calls")]
    cases += [Case(scheme, path) for scheme in schemes for path in ("memory", "loopback")]
    with one_core() as core:
        for number in range(repeats):
            for case in cases:
                report(f"round {number + 1} of {repeats}: {case.name}")
                case.turn()
                case.ratios.append(case.mbit_s[-1] / cases[0].mbit_s[-1])
    return [case.row(cases[0], core) for case in cases]


@contextlib.contextmanager
def one_core() -> Iterator[int | None]:
    """Pin this thread and its children to one core. Yield its number, or `None` on systems without affinity."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)
