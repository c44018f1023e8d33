"""All runs of a record: from `runs/`, from `scenarios/`, from the registry, and drawn at random."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drawn
import schemes

HERE = Path(__file__).parent
RUNS = HERE / "runs"
SCENARIOS = HERE.parents[1] / "scenarios"

SHORT = {"duration": "6s", "warmup": "500ms", "repeat": "1"}
"""Replaces values of the files in `scenarios/`, which run for minutes."""

DRAWN = 160
"""The number of scenarios drawn at random."""


@dataclass(frozen=True)
class Run:
    """A scenario, which makes one run or a grid of them."""

    name: str
    text: str
    directory: Path
    overrides: tuple[tuple[str, str], ...] = ()
    may_refuse: bool = False
    """Whether a build may refuse the run. A record fails if a build refuses any other run."""


def prepare(folder: Path) -> None:
    """Write the files that scenarios name into a folder."""
    for path in RUNS.iterdir():
        if path.suffix != ".toml":
            shutil.copy(path, folder)
    (folder / "cell.trace").write_text(cell())


def cell() -> str:
    """Four seconds of a cellular link in mahimahi's format: 2 to 24 Mbit/s, and nothing for 150 ms."""
    rates = (12, 18, 24, 20, 9, 5, 3, 2, 4, 8, 11, 15, 13, 7, 10, 22)  # Mbit/s, each for 250 ms
    credit, lines = 0, []
    for ms in range(1, 4001):
        credit += 0 if 1900 <= ms < 2050 else rates[(ms - 1) // 250]
        while credit >= 12:  # 1500 bytes
            credit -= 12
            lines.append(ms)
    if lines[-1] != 4000:
        lines.append(4000)  # the last line is the period too
    return "".join(f"{ms}\n" for ms in lines)


def everything(registry: Mapping[str, Any], folder: Path) -> Iterator[Run]:
    """The runs.

    Args:
        registry: `schemes` and `routers`, as the command lists them.
        folder: Where `prepare` wrote its files.
    """
    rows, routers = registry["schemes"], registry["routers"]
    for path in sorted(RUNS.glob("*.toml")):
        yield Run(path.stem, path.read_text(), folder)
    for path in sorted(SCENARIOS.glob("*.toml")):
        yield Run(f"scenarios/{path.stem}", path.read_text(), SCENARIOS, tuple(SHORT.items()))
    names = [row["name"] for row in rows]
    made = (
        *schemes.of_schemes(rows),
        *schemes.of_parameters(rows),
        *schemes.of_routers(routers),
        *drawn.of_everything(names, [row["name"] for row in routers], DRAWN),
    )
    for name, text, may_refuse in made:
        yield Run(name, text, folder, may_refuse=may_refuse)
