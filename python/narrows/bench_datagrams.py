"""What datagrams cost on one core: DCCP in memory and over loopback, and plain UDP beside it."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows import engine
from narrows.scenario import Misuse

ROUNDS = 3
"""How often everything has its turn, where nothing is said."""
SECONDS = 1.0
"""How long one turn is measured."""


@dataclass
class Case:
    """One row: what carries the datagrams, over which path."""

    scheme: str | None
    path: str
    datagram_bytes: int = 0
    datagrams: int = 0
    mbit_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As people are told."""
        return f"{self.scheme}, {self.path}" if self.scheme else f"UDP, {self.path}"

    def turn(self) -> None:
        """Measure once."""
        begin, worked = time.perf_counter(), time.process_time()
        found = engine.bench_datagrams(self.scheme, self.path, SECONDS)
        self.busy.append(100 * (time.process_time() - worked) / (time.perf_counter() - begin))
        self.datagram_bytes = found["datagram_bytes"]
        self.datagrams += found["datagrams"]
        self.mbit_s.append(found["datagrams"] * self.datagram_bytes * 8e-6 / found["wall_s"])

    def row(self, reference: Case, core: int | None) -> dict[str, Any]:
        """What is told of it: medians."""
        mbit_s = statistics.median(self.mbit_s)
        return {
            "transport": "dccp" if self.scheme else "udp", "scheme": self.scheme, "path": self.path,
            "datagram_bytes": self.datagram_bytes, "datagrams": self.datagrams,
            "ns_per_datagram": self.datagram_bytes * 8e3 / mbit_s, "mbit_s": mbit_s,
            "ratio": statistics.median(self.ratios), "reference": reference.name,
            "cpu_percent": statistics.median(self.busy), "core": core, "mbit_s_all": self.mbit_s,
        }  # fmt: skip


def run(names: Sequence[str], repeats: int, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row for each case: plain UDP, then each scheme in memory and over loopback. The ratio is to UDP in batches.

    Raises:
        Misuse: There is no such scheme.
        engine.LiveFailed: There was no connection over loopback.
    """
    known = engine.scheme_order()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Misuse(f"SCHEME: {engine.no_scheme(unknown[0])}")
    schemes = list(dict.fromkeys(names)) or engine.datagram_schemes()
    cases = [Case(None, "batches"), Case(None, "calls")]
    cases += [Case(scheme, path) for scheme in schemes for path in ("memory", "loopback")]
    with one_core() as core:
        for number in range(repeats):
            for case in cases:
                tell(f"round {number + 1} of {repeats}: {case.name}")
                case.turn()
                case.ratios.append(case.mbit_s[-1] / cases[0].mbit_s[-1])
    return [case.row(cases[0], core) for case in cases]


@contextlib.contextmanager
def one_core() -> Iterator[int | None]:
    """Keeps this thread and those that it starts on one core: its number, or `None` where the system knows none."""
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
