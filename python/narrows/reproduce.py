"""Runs the figures of papers in both worlds, judges their claims and writes the report.

Each figure first runs with the seeds of its scenario. If claims that count towards the headline are inconclusive, the
figure then runs with up to `SEED_LIMIT` seeds: in both worlds, so that their verdicts remain comparable.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from narrows import ablation, engine, printed, report
from narrows.drawing import Drawing, draw
from narrows.errors import UsageError
from narrows.files import locked, write_atomic
from narrows.papers import KERNEL, WORLDS, Paper, WorldName
from narrows.plans import QUICK_REPEAT, Executor, Plan, plan, tasks, worlds
from narrows.progress import Listener
from narrows.reproduced import Mode, Reproduced, data, rows
from narrows.runner import Execute, execute_locally

SEED_LIMIT: dict[Mode, int] = {"quick": QUICK_REPEAT, "default": 4, "full": 10}
"""The most seeds of a figure with inconclusive claims."""


class Reproduction(NamedTuple):
    """The figures in all chosen worlds; on request, the options that turn verdicts and the effect of corrections."""

    done: list[Reproduced]
    turns: list[ablation.Turn] | None
    forms: list[printed.Form] | None


def reproduce(
    papers: Sequence[Paper],
    out: Path,
    *,
    mode: Mode = "default",
    seeds: int | None = None,
    chosen: Sequence[WorldName] = WORLDS,
    jobs: int | None = None,
    listener: Listener,
    execute: Execute = execute_locally,
    ablate: bool = False,
    literal: bool = False,
    command: str = "narrows reproduce",
    print_status: Callable[[str], None] = lambda text: None,
) -> Reproduction:
    """Run all figures, judge all claims and write the report.

    Finished runs stay in `out/runs`, so an interrupted reproduction resumes where it stopped.

    Args:
        papers: The papers.
        out: The folder of the report.
        mode: The length of the runs.
        seeds: The number of seeds; by default that of each scenario, and more where claims are inconclusive.
        chosen: The worlds.
        jobs: Simultaneous runs; all cores by default.
        listener: Receives the progress.
        execute: Executes one run.
        ablate: Also find the options that turn verdicts which differ between the worlds.
        literal: Also judge the printed forms of corrected schemes and routers.
        command: The command that recreates the report, for the report.
        print_status: Receives a line at each step.

    Raises:
        ScenarioError: A figure's scenario is invalid.
        HostUnable: The kernel can execute none of the runs.
        UsageError: A claim cannot be judged, or a plot cannot be drawn.
        Interrupted: The user pressed Ctrl-C.
    """
    plans, unable = [], None
    for paper in papers:
        for figure in paper.figures:
            for world in worlds(figure, chosen):
                try:
                    plans.append(plan(paper, figure, world, mode, seeds))
                except engine.HostUnable as error:
                    unable = unable or error
    if unable is not None and not any(item.world == KERNEL for item in plans):
        raise unable
    if not plans:
        raise UsageError("none of the papers has a figure with claims; accepted: a paper with a FIGURE.claims.toml")
    figures = {(item.paper.id, item.figure.id): item.figure for item in plans}.values()
    claims = sum(len(figure.claims) for figure in figures)
    print_status(
        f"{_count(len(tasks(plans)), 'run')} for {_count(claims, 'claim')} of {_count(len(figures), 'figure')}"
    )
    executor = Executor(out, jobs, listener, execute)
    with locked(out):
        return _reproduced(plans, executor, mode, seeds, ablate, literal, command, print_status)


def _reproduced(
    plans: Sequence[Plan],
    executor: Executor,
    mode: Mode,
    seeds: int | None,
    ablate: bool,
    literal: bool,
    command: str,
    print_status: Callable[[str], None],
) -> Reproduction:
    """Run planned figures, judge their claims and write the report, in a locked folder."""
    out = executor.out
    done = executor.run(plans)
    if seeds is None:
        extend(done, plans, executor, mode, print_status)
    turns = ablation.ablate(done, executor, mode, print_status) if ablate else None
    forms = printed.compare(done, executor, mode, print_status) if literal else None
    files: dict[str, bytes] = {}
    drawings: list[Drawing] = []
    for row in done:
        made, drawn = _files(row, done)
        files |= made
        drawings += drawn
    files |= draw(drawings, out, executor.jobs, print_status)
    entries = {"claims.json": [data(row, outcome) for row, outcome in rows(done)]}
    if turns is not None:
        entries["ablation.json"] = [turn.data() for turn in turns]
    if forms is not None:
        entries["literal.json"] = [form.data() for form in forms]
    for name, listed in entries.items():
        files[name] = (json.dumps(listed, indent=1, ensure_ascii=False) + "\n").encode()
    files["index.html"] = report.papers_html(done, files, mode, command).encode()
    for name, content in files.items():  # write nothing until everything is made
        write_atomic(out / name, content)
    return Reproduction(done, turns, forms)


def extend(
    done: list[Reproduced], plans: Sequence[Plan], executor: Executor, mode: Mode, print_status: Callable[[str], None]
) -> None:
    """Run figures with inconclusive claims with `SEED_LIMIT` seeds, and judge their claims again.

    Uncounted claims (second readings, reconstructions) get no further seeds.
    """
    limit = SEED_LIMIT[mode]
    open_figures = {(row.paper.id, row.figure.id) for row in done if row.world != KERNEL and _inconclusive(row)}
    places = [
        place
        for place, row in enumerate(done)
        if row.world != KERNEL and row.seeds() < limit and (row.paper.id, row.figure.id) in open_figures
    ]
    if not places:
        return
    again = [plan(plans[i].paper, plans[i].figure, plans[i].world, mode, limit) for i in places]
    claims = sum(_inconclusive(done[i]) for i in places)
    print_status(f"{_count(claims, 'inconclusive claim')}: {limit} seeds for {_count(len(open_figures), 'figure')}")
    for place, row in zip(places, executor.run(again), strict=True):
        done[place] = row


def _inconclusive(row: Reproduced) -> int:
    return sum(outcome.verdict == "inconclusive" and outcome.claim.counted for outcome in row.outcomes)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _files(row: Reproduced, done: Sequence[Reproduced]) -> tuple[dict[str, bytes], list[Drawing]]:
    """Return a figure's report files in one world: its frames as Parquet files by name, and the plots to draw.

    Plots show the paper's world if it was run, because they contain the values that the paper prints.
    """
    home = f"{row.paper.id}/{row.figure.id}"
    beside = [other.world for other in done if other.figure is row.figure]
    drawn = row.world == beside[0]
    files = {}
    for name, table in row.results.frames().items():
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        files[f"{home}{'' if drawn else f'.{row.world}'}.{name}.parquet"] = buffer.getvalue()
    digest = hashlib.sha256(b"".join(files.values())).digest()
    drawings = []
    for number, options in enumerate(row.figure.plots if drawn else (), 1):
        stem = home if number == 1 else f"{home}-{number}"
        row.images.append(f"{stem}.png")
        drawings.append(Drawing(stem, f"{row.figure.path}: plot {number}", options, row.results, digest))
    return files, drawings
