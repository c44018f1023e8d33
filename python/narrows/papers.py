"""Papers as data.

    papers/<paper>/paper.toml            title, authors, venue, year, doi, citation, order, names
    papers/<paper>/<figure>.toml         an ordinary scenario, with its [sweep] and repeat
    papers/<paper>/<figure>.claims.toml  [figure]: shorter and longer runs, plots; [[claim]]: statements of the paper

`quick` and `full` of a figure replace values of its scenario for `--quick` and `--full`. A claim's query runs over the
tables `flows`, `links` and `runs` of its figure (and `connections`, if some have several subflows; `samples`, if the
figure has a trace). It gives one row per seed with the columns `seed`, `value` and, to compare two sides, `than`. Swept
keys are text columns of all tables, and a case of the sweep is the column `case`.
No code here knows a paper: a new folder is a new paper. `claims.py` writes out tables of claims.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows import claims, engine, provenance
from narrows.errors import UsageError
from narrows.frames import ResultFrames, query
from narrows.scenario import Scenario, load
from narrows.verdicts import Claim, Outcome, judge

PAPER_KEYS = {"title", "authors", "venue", "year", "doi", "citation", "order", "note", *claims.SHARED}
FIGURE_KEYS = {"title", "about", "scenario", "order", "trace", "quick", "full", "plot", "note"}


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper."""

    id: str
    paper: str
    path: Path
    title: str
    about: str
    scenario: Scenario
    claims: tuple[Claim, ...]
    plots: tuple[Mapping[str, Any], ...] = ()
    trace: str | None = None
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper and what of it can be run."""

    id: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    doi: str
    citation: str
    note: str
    figures: tuple[Figure, ...]


def find(asked: Path | None) -> Path:
    """The folder of papers: the one asked for, `papers` here, or the one that came with the package.

    Raises:
        UsageError: There is none.
    """
    packaged = Path(__file__).parent / "papers"
    for folder in [asked] if asked is not None else [Path("papers"), packaged]:
        if next(folder.glob("*/paper.toml"), None) is not None:
            return folder
    where = asked if asked is not None else "the current folder or the package"
    raise UsageError(f"no papers in {where}; accepted: --papers DIR, a folder that holds <paper>/paper.toml")


def load_all(folder: Path, paper: str | None = None, figures: Sequence[str] = ()) -> list[Paper]:
    """The papers of a folder, or one of them, or some of its figures.

    Raises:
        UsageError: There is no such paper or figure, or a file of it is not as it must be.
    """
    files = {path.parent.name: path for path in sorted(folder.glob("*/paper.toml"))}
    if paper is not None and paper not in files:
        raise UsageError(f"no paper {paper!r} in {folder}; accepted: {', '.join(files)}")
    ordered = []
    for name, path in files.items():
        if paper in (None, name):
            data = claims.read_toml(path, "paper.toml")
            claims.check_keys(path, "", data, PAPER_KEYS, {"title", "authors", "citation"})
            ordered.append((data.get("order", 1000), name, data, path.parent))
    ordered.sort(key=lambda row: row[:2])
    papers = []
    for _, name, data, home in ordered:
        claim_files = {path.name.removesuffix(claims.ENDING): path for path in home.glob(f"*{claims.ENDING}")}
        shared = claims.shared(home / "paper.toml", data)
        unknown = [figure for figure in figures if figure not in claim_files]
        if unknown:
            known = ", ".join(sorted(claim_files, key=_natural))
            raise UsageError(f"no figure {unknown[0]!r} in {home}; accepted: {known}")
        chosen = [
            _figure(name, figure, path, shared)
            for figure, path in claim_files.items()
            if figure in (figures or claim_files)
        ]
        chosen.sort(key=lambda row: (row[0], _natural(row[1].id)))
        papers.append(
            Paper(
                name,
                data["title"],
                tuple(data["authors"]),
                data.get("venue", ""),
                int(data.get("year", 0)),
                data.get("doi", ""),
                data["citation"],
                data.get("note", ""),
                tuple(figure for _, figure in chosen),
            )
        )
    return papers


def _figure(paper: str, name: str, path: Path, shared: claims.Shared) -> tuple[float, Figure]:
    sheet = claims.read(path, shared)
    head = sheet.figure
    claims.check_keys(path, "figure.", head, FIGURE_KEYS, {"title"})
    scenario = load(path.parent / head.get("scenario", f"{name}.toml"))
    judged: list[Claim] = []
    for stated in sheet.claims:
        try:
            judged.append(_claim(stated.keys, scenario))
        except ValueError as error:
            raise UsageError(f"{stated.place}: claim {stated.keys['id']}: {error}") from None
    figure = Figure(
        id=name, paper=paper, path=path, title=head["title"], about=head.get("about", ""),
        scenario=scenario, claims=tuple(judged), plots=sheet.plots, trace=head.get("trace"),
        quick=head.get("quick", {}), full=head.get("full", {}), note=head.get("note", ""),
    )  # fmt: skip
    return head.get("order", 1000), figure


def _claim(row: Mapping[str, Any], scenario: Scenario) -> Claim:
    """A claim, with what its schemes are known from.

    Raises:
        ValueError: It cannot be judged, or does not say which schemes it is about where it must.
    """
    printed, asked = row.get("paper"), row.get("schemes")
    schemes = _schemes(asked)
    named = provenance.named_in(row["sql"])
    forgotten = sorted((named & provenance.reconstructions()) - set(schemes))
    if not named and asked is None:  # about whatever the scenario runs
        forgotten = sorted(provenance.named_among(_texts(tomllib.loads(scenario.text))) & provenance.reconstructions())
    if forgotten:
        raise ValueError(f"{provenance.subject(forgotten)}; name it in schemes = [...]")
    claim = Claim(
        **{
            **row,
            "paper": tuple(printed) if isinstance(printed, list) else printed,
            "schemes": schemes,
            "remark": provenance.remark(schemes),
        }
    )
    if (fault := claim.fault()) is not None:
        raise ValueError(fault)
    return claim


def _texts(value: Any) -> Iterator[str]:
    """All texts of a scenario."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _schemes(asked: Any) -> tuple[str, ...]:
    """The schemes of a claim, by their own names."""
    order, rows = engine.scheme_order(), engine.schemes()
    if asked is None:
        return ()
    if not isinstance(asked, list) or not asked or not all(isinstance(name, str) for name in asked):
        raise ValueError("schemes is not a list of names; accepted: schemes = ['NAME', ...]")
    for name in asked:
        if name not in order:
            raise ValueError(f"there is no scheme {name!r}; accepted: {', '.join(row.name for row in rows)}")
    return tuple(dict.fromkeys(rows[order[name]].name for name in asked))


def check(figure: Figure, results: ResultFrames) -> list[Outcome]:
    """The verdicts on a figure's claims.

    Raises:
        UsageError: A claim's query fails, or does not give what a claim needs.
    """
    outcomes = []
    for claim in figure.claims:
        try:
            outcomes.append(judge(claim, query(results, claim.sql).to_dicts()))
        except ValueError as error:
            raise UsageError(f"{figure.path}: claim {claim.id}: {error}") from None
    return outcomes


def _natural(text: str) -> list[Any]:
    """A sort key that puts fig9 before fig10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]
