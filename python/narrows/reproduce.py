"""Runs the figures of papers and says which of their claims hold."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from narrows import engine
from narrows.errors import UsageError
from narrows.files import write_atomic
from narrows.papers import Figure, Paper, check
from narrows.progress import Listener
from narrows.runner import Execute, Runner, execute_locally
from narrows.scenario import override_text
from narrows.verdicts import Outcome

if TYPE_CHECKING:
    from rich.console import Group

    from narrows.results import Results

Mode = Literal["default", "quick", "full"]
QUICK_REPEAT = 1


@dataclass
class Done:
    """A figure that was run."""

    paper: Paper
    figure: Figure
    results: Results
    outcomes: list[Outcome]
    images: list[str] = field(default_factory=list)
    """Files of its plots, relative to the report."""


def overrides(figure: Figure, mode: Mode, seeds: int | None) -> list[tuple[str, str]]:
    """What replaces the values of a figure's scenario."""
    chosen: dict[str, Any] = {}
    if mode == "quick":
        chosen = {"repeat": QUICK_REPEAT, **figure.quick}
    elif mode == "full":
        chosen = dict(figure.full)
    if seeds is not None:
        chosen["repeat"] = seeds
    if figure.trace is not None:
        chosen["trace.samples"] = figure.trace
    return [(key, override_text(value)) for key, value in chosen.items()]


def reproduce(
    papers: Sequence[Paper],
    out: Path,
    *,
    mode: Mode = "default",
    seeds: int | None = None,
    jobs: int | None = None,
    listener: Listener,
    execute: Execute = execute_locally,
    tell: Callable[[str], None] = lambda text: None,
) -> list[Done]:
    """Run all figures, check all claims and write the report.

    Finished runs are kept in `out/runs`, so an interrupted reproduction is taken up where it stopped.

    Raises:
        ScenarioError: A figure's scenario is not acceptable.
        UsageError: A claim cannot be checked, or a plot not drawn.
        Interrupted: Ctrl-C.
    """
    from narrows import report
    from narrows.results import Results

    plans: list[tuple[Paper, Figure, list[engine.Planned]]] = []
    for paper in papers:
        for figure in paper.figures:
            scenario = figure.scenario.replaced(overrides(figure, mode, seeds))
            traced = figure.trace is not None
            plans.append(
                (
                    paper,
                    figure,
                    engine.plan(scenario.text, scenario.source, scenario.directory, scenario.overrides, traced),
                )
            )
    if not plans:
        raise UsageError("none of the papers has a figure with claims")
    tasks: dict[str, engine.Planned] = {}
    for _, _, planned in plans:
        for item in planned:  # figures may share runs
            if item.id not in tasks or item.trace:
                tasks[item.id] = item
    claims, plots = (sum(len(getattr(figure, what)) for _, figure, _ in plans) for what in ("claims", "plots"))
    tell(f"{_count(len(tasks), 'run')} for {_count(claims, 'claim')} of {_count(len(plans), 'figure')}")
    finished = Runner(out=out, jobs=jobs, listener=listener, execute=execute).run(list(tasks.values()))
    tell(f"checking {_count(claims, 'claim')}, drawing {_count(plots, 'plot')}")
    by_id = dict(zip(tasks, finished, strict=True))
    done = []
    for paper, figure, planned in plans:
        results = Results([item.point for item in planned], [by_id[item.id] for item in planned], out)
        done.append(Done(paper, figure, results, check(figure, results)))
    files = {name: content for row in done for name, content in _files(row)}
    outcomes = [data(row, outcome) for row, outcome in rows(done)]
    files["claims.json"] = (json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n").encode()
    files["index.html"] = report.papers_html(done, files, mode).encode()
    for name, content in files.items():  # all of it was made, now all of it is written
        write_atomic(out / name, content)
    return done


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def rows(done: Sequence[Done]) -> Iterator[tuple[Done, Outcome]]:
    """All outcomes, with their figures."""
    for row in done:
        for outcome in row.outcomes:
            yield row, outcome


def data(row: Done, outcome: Outcome) -> dict[str, Any]:
    """An outcome as it is written."""
    return {"paper_id": row.paper.id, "figure": row.figure.id, **outcome.data()}


def _files(row: Done) -> Iterator[tuple[str, bytes]]:
    """The frames and the plots of a figure, by their names in the report."""
    from narrows import plots

    home = f"{row.paper.id}/{row.figure.id}"
    for name, table in row.results.frames().items():
        buffer = io.BytesIO()
        table.write_parquet(buffer)
        yield f"{home}.{name}.parquet", buffer.getvalue()
    for number, options in enumerate(row.figure.plots, 1):
        options = dict(options)
        kind = options.pop("kind", "line")
        try:
            image = plots.image(plots.plot(row.results, kind, **options))
        except (UsageError, ValueError) as error:
            raise UsageError(f"{row.figure.path}: plot {number}: {error}") from None
        row.images.append(f"{home}.png" if number == 1 else f"{home}-{number}.png")
        yield row.images[-1], image


SHORT = {
    "holds": ("✓ holds", "green"),
    "holds in direction": ("≈ direction", "yellow"),
    "does not hold": ("✗ no", "red"),
}
"""A verdict in a column of the terminal."""


def causes(outcomes: Sequence[Outcome]) -> tuple[list[str], list[int | None]]:
    """The different causes, and for each outcome the number of its own, from 1."""
    different = list(dict.fromkeys(outcome.cause for outcome in outcomes if outcome.cause))
    return different, [different.index(outcome.cause) + 1 if outcome.cause else None for outcome in outcomes]


def table(done: Sequence[Done]) -> Group:
    """One row per claim, a table for each figure, and under it why claims do not hold as printed."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = []
    seen: dict[tuple[str, str], str] = {}
    for row in done:
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
        shown.add_column("claim", ratio=1, overflow="fold")
        shown.add_column("paper", overflow="fold", max_width=14)
        shown.add_column("ours", overflow="fold", max_width=22)
        shown.add_column("verdict", no_wrap=True)
        listed, numbers = causes(row.outcomes)
        for outcome, number in zip(row.outcomes, numbers, strict=True):
            word, colour = SHORT[outcome.verdict]
            verdict = Text.assemble((word, colour), f" [{number}]" if number else "")
            ours = outcome.measured().replace(" against ", "\nagainst ")
            shown.add_row(Text(outcome.claim.words()), Text(outcome.claim.printed()), Text(ours), verdict)
        name = f"{row.paper.id} {row.figure.id}"
        parts += [Text(f"{name}: {row.figure.title}", style="bold"), shown]
        for number, cause in enumerate(listed, 1):
            mark = f"[{number}] "
            earlier = seen.setdefault((row.paper.id, cause), f"{name} {mark.strip()}")
            text = cause if earlier == f"{name} {mark.strip()}" else f"as {earlier}"
            parts.append(Text.assemble((mark, "bold"), text))
        parts.append(Text(""))
    return Group(*parts)


def tally(done: Sequence[Done]) -> Mapping[str, int]:
    """How many claims there are of each verdict."""
    counts = {"holds": 0, "holds in direction": 0, "does not hold": 0}
    for _, outcome in rows(done):
        counts[outcome.verdict] += 1
    return counts


def sentence(done: Sequence[Done], mode: Mode) -> str:
    """The table in one line, with what it rests on."""
    counts = tally(done)
    seeds = sorted({row.results.runs["seed"].n_unique() for row in done})
    runs = len({key for row in done for key in row.results.runs["id"].to_list()})
    span = str(seeds[0]) if seeds[0] == seeds[-1] else f"{seeds[0]} to {seeds[-1]}"
    shorter = " --quick shortens them." if mode == "quick" else ""
    lone = " One seed gives no interval: each value stands alone." if seeds[0] == 1 else ""
    return (
        f"{sum(counts.values())} claims: {counts['holds']} hold, {counts['holds in direction']} hold in direction, "
        f"{counts['does not hold']} do not hold. {runs} runs, {span} seed{'s' if span != '1' else ''} each."
        f"{shorter}{lone}"
    )
