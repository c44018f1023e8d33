"""Writes reports: one HTML file each, with embedded figures and tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from rich.table import Table

from narrows import engine, plots, tables
from narrows.errors import UsageError
from narrows.files import write_atomic
from narrows.frames import ResultFrames
from narrows.reproduced import Mode, Reproduced, causes, sentence, tally


def environment() -> jinja2.Environment:
    """Return the environment of the templates, which escape every value."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("narrows"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def papers_html(done: Sequence[Reproduced], files: Mapping[str, bytes], mode: Mode) -> str:
    """Return the page of a reproduction: counts, then every figure with its claims, causes and plots."""
    papers: list[dict[str, Any]] = []
    for row in done:
        if not papers or papers[-1]["paper"] is not row.paper:
            papers.append({"paper": row.paper, "figures": []})
        images = [_inline(files[name]) for name in row.images]
        listed, numbers = causes(row.outcomes)
        durations = sorted(set(row.results.runs["duration_s"].to_list()))
        papers[-1]["figures"].append(
            {
                "row": row,
                "images": images,
                "claims": list(zip(row.outcomes, numbers, strict=True)),
                "causes": listed,
                "tally": tally([row]),
                "seeds": row.results.runs["seed"].n_unique(),
                "durations": " to ".join(f"{value:g}" for value in dict.fromkeys((durations[0], durations[-1]))),
            }
        )
    return (
        environment()
        .get_template("papers.html")
        .render(
            papers=papers,
            tally=tally(done),
            sentence=sentence(done, mode),
            version=engine.version(),
        )
    )


def results_html(results: ResultFrames) -> str:
    """Return the page of results."""
    figures = []
    for kind in plots.KINDS:
        try:
            figures.append((kind, _inline(plots.image(plots.plot(results, kind)))))
        except UsageError:
            continue  # the results lack the data of this kind
    scenario = results.out / "scenario.toml" if results.out is not None else None
    names = list(dict.fromkeys(results.runs["scenario"].to_list()))
    return (
        environment()
        .get_template("results.html")
        .render(
            title=", ".join(map(str, names)),
            tables=_tables(results),
            figures=figures,
            notes=tables.notes(results),
            scenario=scenario.read_text(encoding="utf-8") if scenario is not None and scenario.is_file() else None,
            version=engine.version(),
            runs=len(results),
        )
    )


def write(results: ResultFrames, path: Path) -> None:
    """Write the page of results."""
    write_atomic(path, results_html(results))


def _tables(results: ResultFrames) -> list[dict[str, Any]]:
    """Return the tables of the terminal, each with its column heads and its rows of cells."""
    found = []
    for table in tables.summary(results).renderables:
        if not isinstance(table, Table):
            continue
        heads = [str(column.header).replace(".\n", ".").replace("\n", " ") for column in table.columns]
        body = list(zip(*(list(column.cells) for column in table.columns), strict=True))
        found.append({"heads": heads, "body": body})
    return found


def _inline(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()
