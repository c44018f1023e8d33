"""Writes reports: one HTML file each, with tables and embedded plots, and the vector versions of plots beside it."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import jinja2
from rich.table import Table

from narrows import checksums, engine, plots, tables
from narrows.errors import UsageError
from narrows.files import inside, read_text, write_atomic
from narrows.frames import ResultFrames
from narrows.papers import ALL_WORLDS, WorldName
from narrows.pictures import VECTORS, Picture, picture
from narrows.reproduced import Mode, Reproduced, sentence, tally

TITLES: Mapping[str, str] = {
    "time": "Traced series of the first run over time",
    "share": "Share of each scheme of the total goodput",
    "loss": "Goodput against random loss",
    "delay": "Throughput against queueing delay",
    "line": "Goodput against the swept key",
    "bar": "Goodput against the swept key, as bars",
    "cdf": "Distribution of goodput over flows",
    "box": "Spread of goodput over flows and seeds",
    "heatmap": "Goodput over two swept keys",
}
"""The captions of plots without a title, by kind."""


def environment() -> jinja2.Environment:
    """Return the environment of the templates, which escape every value."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("narrows"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def papers_html(done: Sequence[Reproduced], files: Mapping[str, bytes], mode: Mode, command: str) -> str:
    """Return the page of a reproduction: the verdicts by paper and world, findings, then every figure.

    Args:
        done: The figures in all worlds.
        files: The files of their plots, by name.
        mode: The length of the runs.
        command: The command that recreates the report.
    """
    by_figure: dict[tuple[str, str], list[Reproduced]] = {}
    for row in done:
        by_figure.setdefault((row.paper.id, row.figure.id), []).append(row)
    present = [world for world in ALL_WORLDS if any(row.world == world for row in done)]
    papers: list[dict[str, Any]] = []
    for rows in by_figure.values():
        paper = rows[0].paper
        if not papers or papers[-1]["paper"] is not paper:
            papers.append(
                {
                    "paper": paper,
                    "tallies": _tallies([row for row in done if row.paper is paper], present),
                    "figures": [],
                }
            )
        papers[-1]["figures"].append(_figure(rows, files, present))
    folder = done[0].figure.path.parent.parent
    return (
        environment()
        .get_template("papers.html")
        .render(
            papers=papers,
            totals=_tallies(done, present),
            worlds=present,
            findings=findings(folder / "findings.md", {entry["paper"].id for entry in papers}),
            about=[*about(), ("run it again", command)],
            sentence=sentence(done, mode),
            version=engine.version(),
        )
    )


def _tallies(rows: Sequence[Reproduced], present: Sequence[WorldName]) -> list[tuple[Any, ...]]:
    """Return per world its name, the counted claims by verdict, and the number of uncounted claims."""
    return [
        (world, tally(rows, world), sum(tally(rows, world, counted=False).values()))
        for world in present
        if any(row.world == world for row in rows)
    ]


def _figure(rows: Sequence[Reproduced], files: Mapping[str, bytes], present: Sequence[WorldName]) -> dict[str, Any]:
    """Return the page's data of a figure that ran in one or more worlds."""
    by_world = {row.world: {outcome.claim.id: outcome for outcome in row.outcomes} for row in rows}
    figure = rows[0].figure
    outcomes = [[by_world.get(world, {}).get(claim.id) for world in present] for claim in figure.claims]
    causes: list[str] = []
    claims = []
    for claim, both in zip(figure.claims, outcomes, strict=True):
        cause = next((outcome.cause for outcome in both if outcome is not None and outcome.cause), "")
        if cause and cause not in causes:
            causes.append(cause)
        verdicts = {outcome.verdict for outcome in both if outcome is not None}
        number = causes.index(cause) + 1 if cause else None
        claims.append({"claim": claim, "outcomes": both, "number": number, "differs": len(verdicts) > 1})
    plots = [
        picture(files[name], name.removesuffix(".png"), *_described(row, options))
        for row in rows
        for name, options in zip(row.images, row.figure.plots, strict=False)
    ]
    durations = sorted({value for row in rows for value in row.results.runs["duration_s"].to_list()})
    span = " to ".join(f"{value:g}" for value in dict.fromkeys((durations[0], durations[-1])))
    numbers = list(dict.fromkeys(row.seeds() for row in rows))
    seeds = f"{' and '.join(map(str, numbers))} seed{'' if numbers == [1] else 's'}"
    runs = sum(len(row.results) for row in rows)
    return {
        "figure": figure,
        "claims": claims,
        "causes": causes,
        "bounds": any(claim.bound for claim in figure.claims),
        "plots": plots,
        "runs": f"{runs} runs of {span} s, {seeds}",
    }


def _described(row: Reproduced, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the caption and the description of a figure's plot."""
    title = str(options.get("title", row.figure.title))
    kind = options.get("kind", "line")
    points = " Hollow diamonds are printed values." if options.get("points") else ""
    return title, f"{kind} plot for {row.paper.id} {row.figure.id}: {title}.{points} The table above has the numbers."


def findings(path: Path, papers: Set[str]) -> list[dict[str, str]]:
    """Read the numbered findings of a folder of papers: headline, sentences and command of each.

    Without this file there are no findings. A report on some papers shows only findings about those papers.
    """
    if not path.is_file():
        return []
    whole = papers >= {other.parent.name for other in path.parent.glob("*/paper.toml")}
    # The page cannot link other documents.
    text = re.sub(
        r"\[([^\]]*)\]\([^)]*\)", "", read_text(inside(path.parent, path.name, str(path)), "Markdown in UTF-8")
    )
    found = []
    for item in re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]:
        line = " ".join(item.split())
        if match := re.fullmatch(r"\*\*(.+?)\*\*\s*(.*?)[\s:]*(?:`([^`]+)`)?", line):
            about = (match[3] or "").removeprefix("narrows reproduce ").split(" ")[0]
            if not whole and about not in papers:
                continue
            found.append({"head": match[1], "text": match[2].replace("`", ""), "command": match[3] or ""})
    return found


def about() -> list[tuple[str, str]]:
    """Return the origin of a report: version, sources, date and machine."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        model = match[1] if match else model
    sources = commit()
    return [
        ("version", f"narrows {engine.version()}" + (f", commit {sources}" if sources else "")),
        ("date", datetime.datetime.now(datetime.UTC).date().isoformat()),
        ("machine", f"{os.cpu_count()} × {model}, {platform.system()} {platform.release()}"),
    ]


def commit(package: Path = Path(__file__).parent) -> str:
    """Return the commit of the sources if the package runs from them, with `-dirty` if they have changes.

    A repository's configuration can name programs that git runs, so git sees only the repository of these sources: a
    package that is installed inside another repository does not belong to it.
    """
    root = package.parents[1]
    if (
        not (root / ".git").exists()
        or not (root / "pyproject.toml").is_file()
        or package != root / "python" / "narrows"
    ):
        return ""
    git = ["git", f"--git-dir={root / '.git'}", f"--work-tree={root}", "-c", "core.fsmonitor=false"]
    try:
        # The first command fails unless the repository tracks these sources.
        for command in (
            ["ls-files", "--error-unmatch", "python/narrows/report.py"],
            ["describe", "--always", "--dirty", "--exclude=*"],
        ):
            done = subprocess.run([*git, *command], cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def results_html(results: ResultFrames, drawn: Sequence[Picture] = ()) -> str:
    """Return the page of results.

    Args:
        results: The data.
        drawn: Its plots.
    """
    scenario = results.out / "scenario.toml" if results.out is not None else None
    shown = None
    if scenario is not None and scenario.is_file():
        checksums.check_inside(scenario.parent, scenario)
        shown = read_text(scenario, "a TOML file in UTF-8")
    again = [("make this page again", shlex.join(["narrows", "report", str(results.out)]))] if results.out else []
    names = list(dict.fromkeys(results.runs["scenario"].to_list()))
    return (
        environment()
        .get_template("results.html")
        .render(
            title=", ".join(map(str, names)),
            tables=_tables(results),
            plots=drawn,
            about=[*about(), *again],
            notes=tables.notes(results),
            scenario=shown,
            version=engine.version(),
            runs=len(results),
        )
    )


def write(results: ResultFrames, path: Path) -> None:
    """Write the page of results, and the vector versions of its plots to a folder beside it."""
    beside = f"{path.stem}-plots"
    drawn = []
    for kind in plots.KINDS:
        try:
            figure = plots.plot(results, kind)
        except UsageError:
            continue  # the results lack data for this kind
        title = TITLES[kind]
        alt = f"{kind} plot: {title}. The tables above have the means."
        drawn.append(picture(plots.image(figure), f"{beside}/{kind}", title, alt))
        for form in VECTORS:
            write_atomic(path.parent / beside / f"{kind}.{form}", plots.image(figure, form))
    write_atomic(path, results_html(results, drawn))


def _tables(results: ResultFrames) -> list[dict[str, Any]]:
    """Return the terminal's tables: caption, heads and rows, each cell marked as number or word."""
    shown = [part for part in tables.summary(results).renderables if isinstance(part, Table)]
    captions = ("Flows", "Links") if len(shown) == 2 else ("Flows", "Connections", "Links")
    found = []
    for caption, table in zip(captions, shown, strict=False):
        kinds = ["number" if column.justify == "right" else "word" for column in table.columns]
        heads = [str(column.header).replace(".\n", ". ").replace("\n", " ") for column in table.columns]
        rows = zip(*(list(column.cells) for column in table.columns), strict=True)
        body = [list(zip(row, kinds, strict=True)) for row in rows]
        found.append({"caption": caption, "heads": list(zip(heads, kinds, strict=True)), "body": body})
    return found
