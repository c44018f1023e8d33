"""The cells of the comparison: schemes over a dumbbell, alone, in pairs and in crowds. `grid.toml` lists them."""

from __future__ import annotations

import functools
import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows.errors import UsageError

ALONE, PAIR, CROWD = KINDS = ("alone", "pair", "crowd")
"""Kinds of cells, by their number of flows."""

SPREAD = "1s"
"""The flows of a crowd start evenly spread over this time."""
JITTER = "50us"
"""Random delay in both worlds. Without it, simulations of loss-based schemes would not depend on the seed.

Its mean, 25 µs, is about the emulator's lateness.
"""
QUICK, FULL = GRIDS = ("quick", "full")
SEEDS = 5
"""The least number of simulated runs per cell."""

ROUND_TRIPS = 250
"""Length of a run in round trips with a full buffer, within the limits below."""
LONGEST_S = 60
SHORTEST_S = {ALONE: 15, PAIR: 30, CROWD: 30}
STEP_S = 5
SETUP_S = 0.5
"""Wall time of a run on the kernel in addition to its duration."""


@functools.cache
def _data() -> dict[str, Any]:
    """Return the content of `grid.toml`."""
    return tomllib.loads(Path(__file__).with_name("grid.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Cell:
    """A grid cell: the flows and their bottleneck."""

    schemes: tuple[str, ...]
    """One flow of each, or `count` flows."""
    rate_mbit_s: float = 100
    rtt_ms: tuple[float, ...] = (40,)
    """Base RTT: one for all flows, or one per scheme."""
    buffer_bdp: float = 1
    """In bandwidth-delay products of the longest base RTT."""
    loss_percent: float = 0
    queue: str = "droptail"
    count: int = 1
    """Flows of each scheme."""

    @property
    def flows(self) -> int:
        """Number of flows."""
        return self.count * len(self.schemes)

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return (ALONE, PAIR)[self.flows - 1] if self.flows <= 2 else CROWD

    @property
    def who(self) -> str:
        """The flows: schemes joined by `+`, with the number of flows in a crowd."""
        each = f"{self.count} " if self.count > 1 else ""
        return "+".join(f"{each}{scheme}" for scheme in self.schemes)

    @property
    def path(self) -> str:
        """Rate, RTT and random loss of the bottleneck: `100mbit 10/50ms 0.1%`."""
        loss = f" {self.loss_percent:g}%" if self.loss_percent else ""
        return f"{self.rate_mbit_s:g}mbit {'/'.join(f'{rtt:g}' for rtt in self.rtt_ms)}ms{loss}"

    @property
    def room(self) -> str:
        """The buffer, or the queue discipline: `1bdp`, `codel`."""
        return f"{self.buffer_bdp:g}bdp" if self.queue == "droptail" else self.queue

    @property
    def name(self) -> str:
        """The stable name: flows, rate, RTT, buffer or queue discipline, and loss."""
        path, _, loss = self.path.partition("ms")
        return f"{self.who} {path}ms {self.room}{loss}"

    @property
    def duration_s(self) -> int:
        """Length of a run: long enough for several cycles of the schemes, as far as the limits allow."""
        full = 1.0 if self.queue != "droptail" else 1 + self.buffer_bdp
        wanted = ROUND_TRIPS * max(self.rtt_ms) * full / 1e3
        least = max(SHORTEST_S[self.kind], *(_data()["shortest_s"].get(scheme, 0) for scheme in self.schemes))
        return int(min(LONGEST_S, max(least, STEP_S * math.ceil(wanted / STEP_S))))

    def scenario(self) -> dict[str, Any]:
        """Return the scenario, which is the same in both worlds."""
        rtts = self.rtt_ms if len(self.rtt_ms) > 1 else self.rtt_ms * len(self.schemes)
        many = {"count": self.count, "spread": SPREAD} if self.count > 1 else {}
        return {
            "name": self.name,
            "duration": f"{self.duration_s}s",
            "network": {
                "rate": f"{self.rate_mbit_s:g}mbit",
                "buffer": f"{self.buffer_bdp:g}bdp",
                "queue": self.queue,
                "loss": f"{self.loss_percent:g}%",
                "jitter": JITTER,
            },
            # Receive buffers are large from the start, as in the first measurements, so they never limit a flow.
            "tcp": {"receive_autotuning": False},
            "flows": [
                {"scheme": scheme, "rtt": f"{rtt:g}ms", **many} for scheme, rtt in zip(self.schemes, rtts, strict=True)
            ],
        }


def _block(
    schemes: str | Sequence[Sequence[str]],
    paths: Sequence[tuple[float, Any]] = ((100, 40),),
    buffers: Sequence[float] = (1,),
    losses: Sequence[float] = (0,),
    queue: str = "droptail",
    flows: int = 0,
) -> Iterator[Cell]:
    """Return all combinations of the values of a block, with the schemes changing fastest."""
    named = _data()["lists"][schemes] if isinstance(schemes, str) else schemes
    for (rate, rtt), buffer, loss, flow in itertools.product(paths, buffers, losses, named):
        rtts = tuple(rtt) if isinstance(rtt, list) else (rtt,)
        yield Cell(tuple(flow), rate, rtts, buffer, loss, queue, flows // len(flow) or 1)


def cells(grid: str) -> list[Cell]:
    """Return the cells of a grid, each once.

    Raises:
        UsageError: There is no such grid.
    """
    if grid not in GRIDS:
        raise UsageError(f"--grid: there is no grid `{grid}`; accepted: {', '.join(GRIDS)}")
    names = (QUICK, FULL) if grid == FULL else (grid,)
    return list(dict.fromkeys(cell for name in names for block in _data()[name]["blocks"] for cell in _block(**block)))


def repeats(grid: str) -> int:
    """Return the number of kernel runs per cell of a grid."""
    return int(_data()[grid]["repeats"])


def chosen(grid: str, pattern: str | None) -> list[Cell]:
    """Return the cells of a grid whose names match a regular expression.

    Raises:
        UsageError: There is no such grid, the expression is invalid, or it matches no cell.
    """
    everything = cells(grid)
    if pattern is None:
        return everything
    example = f"accepted: a regular expression that matches names such as `{everything[-2].name}`"
    try:
        matches = re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"--cells: `{pattern}` is no regular expression: {error}; {example}") from None
    found = [cell for cell in everything if matches(cell.name)]
    if not found:
        raise UsageError(f"--cells: `{pattern}` matches no cell of the grid {grid}; {example}")
    return found


def wall_s(runs: Sequence[Cell]) -> float:
    """Return the wall time of kernel runs, one entry per run, if none of them is disturbed."""
    return sum(cell.duration_s + SETUP_S for cell in runs)
