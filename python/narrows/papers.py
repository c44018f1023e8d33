"""Loads papers from data files, and judges their claims by results.

    papers/<paper>/paper.toml            title, authors, venue, year, doi, citation, order, names
    papers/<paper>/<figure>.toml         an ordinary scenario, with its [sweep] and repeat
    papers/<paper>/<figure>.claims.toml  [figure]: shorter and longer runs, plots; [[claim]]: statements of the paper

`[world]` of a paper states where its authors ran it: `name`, `why` and `set`, the keys that turn a scenario into that
world, such as the profile of an ns-3. Every figure runs there (`paper`), and without these keys in TCP as Linux deploys
it (`today`).

`literal` of a paper names the corrections that its printed form omits. The parameter `literal` of its scheme or router
selects that form.

`quick` and `full` of a figure replace values of its scenario for `--quick` and `--full`. A claim's query runs over the
tables `flows`, `links` and `runs` of its figure, over `connections` if there are multipath connections, and over
`samples` if the figure has a trace. It returns one row per seed with the columns `seed`, `value` and, to compare two
sides, `than`. Swept keys are text columns of all tables; a case of the sweep is the column `case`.

A new folder is a new paper; no code names one. `claims.py` expands tables of claims.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from narrows import claims, engine, provenance
from narrows.errors import UNSUITABLE, UsageError, unsuitable
from narrows.files import inside
from narrows.frames import ResultFrames, query
from narrows.scenario import Scenario, load
from narrows.verdicts import Claim, Outcome, judge

PAPER_KEYS = {
    "world",
    "literal",
    "title",
    "authors",
    "venue",
    "year",
    "doi",
    "citation",
    "order",
    "note",
    *claims.SHARED,
}
WORLD_KEYS = {"name", "why", "set"}
FIGURE_KEYS = {"title", "about", "scenario", "order", "trace", "quick", "full", "plot", "note"}
TEXT = (str, "a text")
NUMBER = ((int, float), "a number")
TYPES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("title", "venue", "doi", "citation", "note", "literal", "about", "scenario", "trace"), TEXT),
    **dict.fromkeys(("name", "why"), TEXT),
    **dict.fromkeys(("set", "quick", "full"), (dict, 'a table, such as { duration = "5s" }')),
    "authors": (list, 'a list of texts, such as ["A. Author"]'),
    "order": NUMBER,
    "year": (int, "a whole number"),
}
"""The types of the keys of a paper, its world and its figures."""


WorldName = Literal["paper", "today", "kernel"]
WORLDS: tuple[WorldName, ...] = ("paper", "today")
"""The world of the paper, and TCP as Linux deploys it today."""
KERNEL: WorldName = "kernel"
"""Today's world, on this machine's kernel instead of in the simulator."""
ALL_WORLDS: tuple[WorldName, ...] = (*WORLDS, KERNEL)


@dataclass(frozen=True)
class World:
    """Where a paper's authors ran it."""

    name: str = ""
    why: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a scenario with their values in this world."""


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
    world: World = field(default_factory=World)


@dataclass(frozen=True)
class Paper:
    """A paper with its reproducible figures."""

    id: str
    title: str
    authors: tuple[str, ...]
    venue: str
    year: int
    doi: str
    citation: str
    note: str
    figures: tuple[Figure, ...]
    world: World = field(default_factory=World)
    literal: str = ""
    """The corrections that the parameter `literal` omits; empty without a printed form."""


def find(requested: Path | None) -> Path:
    """Find the folder of papers: the requested one, else `papers` in the current folder, else that of the package.

    Raises:
        UsageError: No such folder holds papers.
    """
    packaged = Path(__file__).parent / "papers"
    for folder in [requested] if requested is not None else [Path("papers"), packaged]:
        if next(folder.glob("*/paper.toml"), None) is not None:
            return folder
    where = requested if requested is not None else "the current folder or the package"
    raise UsageError(f"no papers in {where}; accepted: --papers DIR, a folder that holds <paper>/paper.toml")


def locate(requested: Path | None, paper: str | None) -> tuple[Path, str | None]:
    """Return the folder of papers and a paper's name, given its name or the path of a folder with a `paper.toml`.

    Raises:
        UsageError: No folder holds papers.
    """
    if requested is None and paper is not None and os.path.lexists(Path(paper) / "paper.toml"):
        home = Path(paper)
        if home.name in ("", ".."):  # `.` and the like
            home = home.resolve()
        return home.parent, home.name
    return find(requested), paper


def load_all(
    folder: Path, paper: str | None = None, figures: Sequence[str] = (), *, allow_outside: bool = False
) -> list[Paper]:
    """Load the papers of a folder. Nothing in them is executed, and they name files of their own folders only.

    Args:
        folder: The folder.
        paper: Load this paper only.
        figures: Load these figures only.
        allow_outside: Whether figures may name files outside the folder of their paper.

    Raises:
        UsageError: There is no such paper or figure, or one of its files is invalid.
    """
    files = {path.parent.name: path for path in sorted(folder.glob("*/paper.toml"))}
    if paper is not None and paper not in files:
        raise UsageError(
            f"PAPER: there is no paper {paper!r}; accepted: {', '.join(files)}, and without --papers the path of a "
            "folder with a paper.toml"
        )
    ordered = []
    for name, path in files.items():
        if paper in (None, name):
            data = claims.read_toml(path, "paper.toml")
            claims.check_keys(path, "", data, PAPER_KEYS, {"title", "authors", "citation"})
            _check_types(path, "", data)
            _check_types(path, "figure.", data.get("figure", {}))
            ordered.append((data.get("order", 1000), name, data, path.parent))
    ordered.sort(key=lambda row: row[:2])
    papers = []
    for _, name, data, home in ordered:
        claim_files = {path.name.removesuffix(claims.ENDING): path for path in home.glob(f"*{claims.ENDING}")}
        shared = claims.shared(home / "paper.toml", data)
        unknown = [figure for figure in figures if figure not in claim_files]
        if unknown:
            known = ", ".join(sorted(claim_files, key=_natural))
            raise UsageError(f"FIGURE: the paper {name!r} has no figure {unknown[0]!r}; accepted: {known}")
        world = _world(home / "paper.toml", data.get("world", {}))
        chosen = [
            _figure(name, figure, path, shared, world, allow_outside)
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
                world,
                data.get("literal", ""),
            )
        )
    return papers


def _world(path: Path, table: Any) -> World:
    """Read the table `[world]` of a paper.

    Raises:
        UsageError: The table lacks its name or reason, has an unknown key, or `set` is no table.
    """
    if not isinstance(table, dict):
        raise UsageError(f"{path}: world = {table!r}; accepted: a table [world] with {', '.join(sorted(WORLD_KEYS))}")
    claims.check_keys(path, "world.", table, WORLD_KEYS, {"name", "why"} if table else ())
    _check_types(path, "world.", table)
    return World(**table)


def _check_types(path: Path, where: str, table: Any) -> None:
    """Check the values of known keys.

    Raises:
        UsageError: A value has an unsuitable type.
    """
    for key, value in table.items() if isinstance(table, dict) else ():
        kind, accepted = TYPES.get(key, (object, ""))
        listed = isinstance(value, list) and not all(isinstance(item, str) for item in value)
        if not isinstance(value, kind) or isinstance(value, bool) or (key == "authors" and listed):
            raise UsageError(f"{path}: {where}{key} = {value!r}; accepted: {accepted}")


def _figure(
    paper: str, name: str, path: Path, shared: claims.Shared, world: World, allow_outside: bool
) -> tuple[float, Figure]:
    sheet = claims.read(path, shared)
    head = sheet.figure
    claims.check_keys(path, "figure.", head, FIGURE_KEYS, {"title"})
    _check_types(path, "figure.", head)
    file = head.get("scenario", f"{name}.toml")
    scenario = load(inside(path.parent, file, f"{path}: figure.scenario", anywhere=allow_outside), stream=allow_outside)
    if allow_outside:
        scenario = scenario.permitting(None)
    judged: list[Claim] = []
    for stated in sheet.claims:
        try:
            judged.append(_claim(stated.keys, scenario))
        except UNSUITABLE as error:
            raise UsageError(f"{stated.place}: claim {stated.keys['id']}: {unsuitable(error)}") from None
    figure = Figure(
        id=name, paper=paper, path=path, title=head["title"], about=head.get("about", ""),
        scenario=scenario, claims=tuple(judged), plots=sheet.plots, trace=head.get("trace"),
        quick=head.get("quick", {}), full=head.get("full", {}), note=head.get("note", ""), world=world,
    )  # fmt: skip
    return head.get("order", 1000), figure


def _claim(row: Mapping[str, Any], scenario: Scenario) -> Claim:
    """Build a claim, with a remark if its schemes are reconstructions.

    Raises:
        ValueError: The claim cannot be judged, or `schemes` omits a reconstruction that the claim concerns.
    """
    printed, stated = row.get("paper"), row.get("schemes")
    schemes = _schemes(stated)
    named = provenance.named_in(row["sql"])
    omitted = sorted((named & provenance.reconstructions()) - set(schemes))
    if not named and stated is None:  # the claim is about all schemes of the scenario
        omitted = sorted(provenance.named_among(_texts(claims.parsed(scenario.text))) & provenance.reconstructions())
    if omitted:
        raise ValueError(f"{provenance.subject(omitted)}; accepted: a list of schemes with every such name")
    bound = row.get("bound", "")
    if not bound and printed == 0 and "within" in row:
        bound = f"about 0: {row['within']:g} {row.get('unit', '')}".rstrip()
    claim = Claim(
        **{
            **row,
            "bound": bound,
            "paper": tuple(printed) if isinstance(printed, list) else printed,
            "schemes": schemes,
            "remark": provenance.remark(schemes),
        }
    )
    if (error := claim.error()) is not None:
        raise ValueError(error)
    return claim


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings of a scenario."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _schemes(stated: Any) -> tuple[str, ...]:
    """Return the schemes of a claim by their primary names."""
    order, rows = engine.scheme_order(), engine.schemes()
    if stated is None:
        return ()
    if not isinstance(stated, list) or not stated or not all(isinstance(name, str) for name in stated):
        raise ValueError("schemes is not a list of names; accepted: schemes = ['NAME', ...]")
    for name in stated:
        if name not in order:
            raise ValueError(f"there is no scheme {name!r}; accepted: {', '.join(row.name for row in rows)}")
    return tuple(dict.fromkeys(rows[order[name]].name for name in stated))


def check(figure: Figure, results: ResultFrames) -> list[Outcome]:
    """Judge the claims of a figure.

    Raises:
        UsageError: The query of a claim fails, or returns unsuitable rows.
    """
    outcomes = []
    for claim in figure.claims:
        try:
            outcomes.append(judge(claim, query(results, claim.sql).to_dicts()))
        except UNSUITABLE as error:
            raise UsageError(f"{figure.path}: claim {claim.id}: {unsuitable(error)}") from None
    return outcomes


def _natural(text: str) -> list[Any]:
    """Return a sort key that puts fig9 before fig10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", text)]
