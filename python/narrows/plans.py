"""Plans and executes the runs of figures: in the paper's world, in today's world, or in today's world on the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows import engine
from narrows.frames import query
from narrows.papers import KERNEL, WORLDS, Figure, Paper, WorldName, check
from narrows.progress import Listener
from narrows.reproduced import Mode, Reproduced
from narrows.results import Results
from narrows.runner import Execute, Runner, execute_locally
from narrows.scenario import override_text

QUICK_REPEAT = 1
"""The number of seeds of `--quick`."""


def overrides(figure: Figure, world: WorldName, mode: Mode, seeds: int | None) -> list[tuple[str, str]]:
    """Return the keys and values that replace those of a figure's scenario."""
    chosen: dict[str, Any] = dict(figure.world.set) if world == "paper" else {}
    if mode == "quick":
        chosen |= {"repeat": QUICK_REPEAT, **figure.quick}
    elif mode == "full":
        chosen |= dict(figure.full)
    if seeds is not None:
        chosen["repeat"] = seeds
    if figure.trace is not None:
        chosen["trace.samples"] = figure.trace
    return [(key, override_text(value)) for key, value in chosen.items()]


def worlds(figure: Figure, chosen: Sequence[WorldName] = WORLDS) -> list[WorldName]:
    """Return the chosen worlds of a figure: without a `[world]` of its paper, today's only."""
    return [world for world in chosen if world != "paper" or figure.world.name]


def on_kernel(runs: Sequence[engine.Planned]) -> list[engine.Planned]:
    """Return the simulated runs that the kernel can execute, as kernel runs.

    Raises:
        HostUnable: The kernel can execute none of them; the message gives the reason for the first run.
    """
    found, reason = [], None
    for run in runs:
        try:
            engine.check_place(run.text, run.directory, engine.KERNEL, run.outside)
        except engine.HostUnable as error:
            reason = reason or error
        else:
            found.append(dataclasses.replace(run, id=engine.run_id(run.id, engine.KERNEL), on=engine.KERNEL))
    if not found and reason is not None:
        raise reason
    return found


@dataclass(frozen=True)
class Plan:
    """The runs of a figure in one world."""

    paper: Paper
    figure: Figure
    world: WorldName
    runs: tuple[engine.Planned, ...]
    simulated: tuple[engine.Planned, ...] = ()
    """On the kernel: all runs of today's world, of which the kernel can execute `runs`."""


def plan(paper: Paper, figure: Figure, world: WorldName, mode: Mode, seeds: int | None) -> Plan:
    """Plan the runs of a figure in one world.

    Raises:
        ScenarioError: The scenario is invalid in that world.
        HostUnable: The kernel can execute none of its runs.
    """
    scenario = figure.scenario.replaced(overrides(figure, world, mode, seeds))
    traced = figure.trace is not None
    runs = engine.plan(
        scenario.text, scenario.source, scenario.directory, scenario.overrides, traced, outside=scenario.outside
    )
    if world == KERNEL:
        return Plan(paper, figure, world, tuple(on_kernel(runs)), tuple(runs))
    return Plan(paper, figure, world, tuple(runs))


@dataclass
class Executor:
    """Executes the runs of plans and judges the claims of their figures."""

    out: Path
    jobs: int | None
    listener: Listener
    execute: Execute = execute_locally

    def run(self, plans: Sequence[Plan]) -> list[Reproduced]:
        """Execute all runs, shared ones once, and judge all claims.

        Raises:
            UsageError: A claim cannot be judged.
            Interrupted: The user pressed Ctrl-C.
        """
        todo = tasks(plans)
        runner = Runner(out=self.out, jobs=self.jobs, listener=self.listener, execute=self.execute)
        by_id: dict[str, Any] = {}
        for place in engine.BACKENDS:  # simulated runs would disturb those in real time
            here = [run for run in todo.values() if run.on == place]
            if here:
                by_id |= zip((run.id for run in here), runner.run(here), strict=True)

        def of(runs: Sequence[engine.Planned]) -> Results:
            return Results([run.point for run in runs], [by_id[run.id] for run in runs], self.out)

        done = []
        for item in plans:
            results, figure = of(item.runs), item.figure
            if item.world == KERNEL:
                there = {run.id for run in item.runs}
                same = of([run for run in item.simulated if engine.run_id(run.id, engine.KERNEL) in there])
                figure = judgeable(figure, of(item.simulated), same)
            done.append(Reproduced(item.paper, item.figure, results, check(figure, results), world=item.world))
        return done


def judgeable(figure: Figure, whole: Results, part: Results) -> Figure:
    """Return the figure with the claims that `part` decides: their queries return the same rows over `whole`."""

    def found(results: Results, sql: str) -> Any:
        try:
            return query(results, sql).to_dicts()
        except ValueError:  # the part lacks a column or a side
            return None

    kept = tuple(
        claim for claim in figure.claims if (rows := found(part, claim.sql)) and rows == found(whole, claim.sql)
    )
    return dataclasses.replace(figure, claims=kept)


def tasks(plans: Sequence[Plan]) -> dict[str, engine.Planned]:
    """Return the runs of all plans by id. A run with a trace replaces the same run without one."""
    tasks: dict[str, engine.Planned] = {}
    for item in plans:
        for run in (*item.runs, *item.simulated):
            if run.id not in tasks or run.trace:
                tasks[run.id] = run
    return tasks
