"""Runs the figures of papers, judges their claims and writes the report."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from narrows import engine, plots, report
from narrows.errors import UsageError
from narrows.files import write_atomic
from narrows.papers import Figure, Paper, check
from narrows.progress import Listener
from narrows.reproduced import Mode, Reproduced, data, rows
from narrows.results import Results
from narrows.runner import Execute, Runner, execute_locally
from narrows.scenario import override_text

QUICK_REPEAT = 1
"""The number of seeds of `--quick`."""


def overrides(figure: Figure, mode: Mode, seeds: int | None) -> list[tuple[str, str]]:
    """Return the keys and values that replace those of a figure's scenario."""
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
    print_status: Callable[[str], None] = lambda text: None,
) -> list[Reproduced]:
    """Run all figures, judge all claims and write the report.

    Finished runs stay in `out/runs`, so an interrupted reproduction resumes where it stopped.

    Raises:
        ScenarioError: A figure's scenario is invalid.
        UsageError: A claim cannot be judged, or a plot cannot be drawn.
        Interrupted: The user pressed Ctrl-C.
    """
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
        raise UsageError("none of the papers has a figure with claims; accepted: a paper with a FIGURE.claims.toml")
    tasks: dict[str, engine.Planned] = {}
    for _, _, planned in plans:
        for item in planned:  # figures may share runs
            if item.id not in tasks or item.trace:
                tasks[item.id] = item
    claims = sum(len(figure.claims) for _, figure, _ in plans)
    drawings = sum(len(figure.plots) for _, figure, _ in plans)
    print_status(f"{_count(len(tasks), 'run')} for {_count(claims, 'claim')} of {_count(len(plans), 'figure')}")
    finished = Runner(out=out, jobs=jobs, listener=listener, execute=execute).run(list(tasks.values()))
    print_status(f"checking {_count(claims, 'claim')}, drawing {_count(drawings, 'plot')}")
    by_id = dict(zip(tasks, finished, strict=True))
    done = []
    for paper, figure, planned in plans:
        results = Results([item.point for item in planned], [by_id[item.id] for item in planned], out)
        done.append(Reproduced(paper, figure, results, check(figure, results)))
    files = {name: content for row in done for name, content in _files(row)}
    outcomes = [data(row, outcome) for row, outcome in rows(done)]
    files["claims.json"] = (json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n").encode()
    files["index.html"] = report.papers_html(done, files, mode).encode()
    for name, content in files.items():  # write nothing until everything is made
        write_atomic(out / name, content)
    return done


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _files(row: Reproduced) -> Iterator[tuple[str, bytes]]:
    """Yield the frames and plots of a figure as files of the report: name and content."""
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
