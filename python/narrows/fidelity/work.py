"""Runs the cells: first all runs of the simulator, then all runs of the kernel, in real time."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import api, engine
from narrows.engine import Planned
from narrows.errors import UsageError
from narrows.fidelity import grid
from narrows.fidelity.grid import Cell
from narrows.progress import Listener
from narrows.runner import Runner
from narrows.scenario import Scenario
from narrows.toml import to_toml

FIRST_SEED = 1
ACCEPTED = "accepted: root on Linux, with a kernel that has the schemes of the cells"


@dataclass(frozen=True)
class Run:
    """A planned run of a cell."""

    cell: Cell
    seed: int
    planned: Planned


@dataclass(frozen=True)
class Measured:
    """The results of a cell in both worlds, in the order of the seeds."""

    cell: Cell
    sim: list[dict[str, Any]]
    kernel: list[dict[str, Any]]


def plan(cells: Sequence[Cell], repeats: int, on: str) -> list[Run]:
    """Return the runs seed by seed, so that changes of the machine affect all cells alike.

    Raises:
        UsageError: The kernel cannot run a cell, or this user may not.
    """
    if on == engine.KERNEL and sys.platform != "linux":
        raise UsageError(f"fidelity: this machine runs {sys.platform}, which has no Linux TCP; {ACCEPTED}")
    runs = []
    for seed in range(FIRST_SEED, FIRST_SEED + repeats):
        for cell in cells:
            scenario = Scenario(to_toml(cell.scenario()), cell.name).replaced([("seed", str(seed))])
            try:
                (planned,) = api.plan(scenario, False, on)
            except engine.HostUnable as error:
                accepted = "" if "accepted" in str(error) else f"; {ACCEPTED}"
                raise UsageError(f"fidelity: {error}{accepted}") from None
            runs.append(Run(cell, seed, planned))
    return runs


@dataclass
class KernelRunner(Runner):
    """A runner that reuses kernel runs after changes of the simulator: they depend only on kernel and emulator.

    Attributes:
        again: Repeat disturbed runs.
    """

    again: bool = False

    def saved(self, planned: Planned) -> dict[str, Any] | None:
        """Return a run's saved result if this kernel and emulator produced it; with `again`, only if undisturbed."""
        result = self.kept(planned)
        if result is None:
            return None
        host = result.get("host") or {}
        if host.get("kernel") != platform.release() or (self.again and host.get("disturbed")):
            return None
        if result.pop("emulator", None) != engine.emulator():
            return None
        return result


@dataclass(frozen=True)
class Work:
    """The runs to execute, and their folder.

    Attributes:
        cells: The cells.
        repeats: Runs of the kernel per cell.
        out: The folder of the runs.
        jobs: Simultaneous runs; all cores by default in the simulator, one on the kernel.
        again: Repeat disturbed runs of the kernel.
        listener: Makes a listener for each world.
        report: Prints a line.
    """

    cells: Sequence[Cell]
    repeats: int
    out: Path
    jobs: int | None
    again: bool
    listener: Callable[[], AbstractContextManager[Listener]]
    report: Callable[[str], None]

    def run(self) -> list[Measured]:
        """Execute all runs that are not saved yet.

        Raises:
            UsageError: The kernel cannot run a cell, or this user may not.
            Interrupted: The user pressed Ctrl-C.
            RunError: The engine failed.
            OSError: A result cannot be written.
        """
        there = plan(self.cells, self.repeats, engine.KERNEL)  # may refuse before anything runs
        ours = plan(self.cells, max(self.repeats, grid.SEEDS), engine.SIM)
        real = KernelRunner(out=self.out, jobs=self.jobs, again=self.again)
        left = [run.cell for run in there if real.saved(run.planned) is None]
        self.report(f"results go to {self.out}")
        noun = "cell" if len(self.cells) == 1 else "cells"
        self.report(
            f"{len(self.cells)} {noun}: {len(ours)} runs of the simulator, then {len(there)} of the kernel in real"
            f" time; {estimate(left, self.jobs or 1)}"
        )
        simulated = self._run(Runner(out=self.out, jobs=self.jobs), ours)
        measured = self._run(real, there)
        return [Measured(cell, simulated[cell], measured[cell]) for cell in self.cells]

    def _run(self, runner: Runner, runs: Sequence[Run]) -> dict[Cell, list[dict[str, Any]]]:
        """Return the results by cell."""
        with self.listener() as runner.listener:
            done = runner.run([run.planned for run in runs])
        results: dict[Cell, list[dict[str, Any]]] = {cell: [] for cell in self.cells}
        for run, result in zip(runs, done, strict=True):
            results[run.cell].append(result)
        return results


def estimate(left: Sequence[Cell], at_once: int) -> str:
    """Return the duration of kernel runs, `at_once` at a time, in words; one entry per run."""
    if not left:
        return "all of the kernel are saved"
    seconds = grid.wall_s(left) / at_once
    time = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
    return f"{len(left)} of the kernel are left, about {time}; disturbed ones are repeated"
