"""Claims files: `papers/<paper>/<figure>.claims.toml`, with every claim and plot written out.

    [figure]    the figure, and [[figure.plot]] its plots
    [query]     SQL by name
    [cases]     variants of claims and plots, such as the columns of a printed table
    [defaults]  keys that claims leave out, and values for placeholders
    [plot]      keys that plots leave out
    [[claim]]   one claim, or with `rows` a table of them
    [causes]    why claims do not hold, by name
    [names]     how texts for people spell values, such as name = "Name"

`alternative` names the scheme that a printed figure improves on. The claim's query then also runs with that scheme as
`scheme`, which gives the column `than`.

A `[[claim]]` or `[[figure.plot]]` with `rows` stands for one claim or plot per row. Keys of a row replace those of its
table. SQL and texts hold placeholders (see `templates.py`) for keys and for queries. A claim or plot that uses a key of
the cases is expanded once per case. All tables except the claims may also be in `paper.toml`, for all figures: there
`[figure]` holds shorter and longer runs. Figures with the same scenario share these runs too.

This module needs no engine and knows no schemes: `papers.py` checks whether a claim can be judged.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from narrows.errors import UNSUITABLE, UsageError, unsuitable
from narrows.files import inside, read_text
from narrows.templates import LONE, Sql, Writer
from narrows.toml import check_controls

ENDING = ".claims.toml"
NAME = re.compile(r"[\w.-]+")
"""The name of a file in the same folder."""
TEXT_TABLES = ("names", "query", "causes")
SHARED = ("figure", "plot", "defaults", "cases", *TEXT_TABLES)
TABLES = {"claim", *SHARED}
RUNS = {"quick", "full", "trace"}
"""Keys of `[figure]` that figures of one scenario, or of one paper, share."""
CLAIM_KEYS = {
    "id", "text", "source", "kind", "sql", "paper", "unit", "cause", "tolerance", "within", "baseline", "direction",
    "schemes", "reading", "bound",
}  # fmt: skip
NEEDED = {"id", "text", "source", "sql"}
KIND = "value"
"""Kind of a claim that states none."""
DITTO = "~"
"""A value that repeats the one above it in a table with a header."""
LAYOUT = ("rows", "header", "query", "alternative")
"""Keys of a table that describe its notation, not its claims."""
DEFAULTS = CLAIM_KEYS - {"id"} | {"query", "alternative"}
"""Keys that claims may leave out, beside values for placeholders."""
TEXTS = {"id", "text", "source", "kind", "sql", "unit", "cause", "direction", "reading", "bound", "title", "xlabel",
    "ylabel",
}  # fmt: skip
AXES = ("xlabel", "ylabel")
"""Keys of a plot that `axes` lists."""
PROSE = {"text", "source", "cause", "bound", "title", *AXES}
"""Keys with texts for people; their placeholders give values as `[names]` spells them."""
NUMBERS = {"tolerance", "within", "baseline"}
HEADS = {
    "claim": re.compile(r"\s*\[\[\s*claim\s*\]\]"),
    "plot": re.compile(r"\s*\[{1,2}\s*figure\s*\.\s*plot\s*\]{1,2}\s*(#|$)"),
}
"""The lines that open a table of claims or of plots."""

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Shared:
    """Tables that the figures of a paper share."""

    figure: Table = field(default_factory=dict)
    plot: Table = field(default_factory=dict)
    defaults: Table = field(default_factory=dict)
    cases: Mapping[str, Table] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    causes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stated:
    """An expanded claim: its file and line, and its keys."""

    place: str
    keys: Table


@dataclass(frozen=True)
class Sheet:
    """A claims file: the table `[figure]`, all claims, and the options of all plots."""

    figure: Table
    claims: tuple[Stated, ...]
    plots: tuple[Table, ...]


def read(path: Path, paper: Shared) -> Sheet:
    """Read a claims file and expand its claims and plots.

    Args:
        path: The file.
        paper: Tables of the paper. The file's own runs, defaults, names, queries and causes replace the paper's of the
            same name, and its cases replace all cases of the paper.

    Raises:
        UsageError: The file cannot be read; a table, key, query, cause or placeholder is unknown, missing or unused; or
            two claims share an id.
    """
    data = read_toml(path, "claims")
    check_keys(path, "", data, TABLES, {"figure"})
    try:
        return _File(path, data, paper).sheet()
    except UsageError:
        raise
    except UNSUITABLE as error:
        raise UsageError(f"{path}: {unsuitable(error)}") from None


def shared(path: Path, data: Table) -> Shared:
    """Return the tables of a `paper.toml` or a claims file that figures may share.

    Raises:
        UsageError: A shared table is no table, or a name, query or cause is no string.
    """
    for what in SHARED:
        table = data.get(what, {})
        if what not in TEXT_TABLES:
            if not isinstance(table, dict):
                raise UsageError(f"{path}: {what} is not a table; accepted: [{what}]")
        elif not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
            raise UsageError(f"{path}: {what} is not a table of texts; accepted: [{what}] with NAME = 'TEXT'")
    return Shared(**{what: data.get(what, {}) for what in SHARED})


def stated(folder: Path) -> list[tuple[str, str, str]]:
    """Return paper, figure and id of every claim in a folder of papers.

    Raises:
        UsageError: A file of a paper is not acceptable.
    """
    found = []
    for path in sorted(folder.glob(f"*/*{ENDING}")):
        head = path.parent / "paper.toml"
        sheet = read(path, shared(head, read_toml(head, "paper.toml")))
        figure = path.name.removesuffix(ENDING)
        found += [(path.parent.name, figure, claim.keys["id"]) for claim in sheet.claims]
    return found


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file; errors call it `what`.

    Raises:
        UsageError: The file cannot be read, or is no TOML.
    """
    try:
        inside(path.parent, path.name, str(path))
        return parsed(read_text(path, f"{what}, TOML in UTF-8"))
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read as {what}: {error}; accepted: TOML") from None


def parsed(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: The text is no TOML, is nested too deeply, or has control characters in strings.
    """
    try:
        data = tomllib.loads(text)
        check_controls(data)
        return data
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_keys(place: Path | str, where: str, data: Table, known: Collection[str], needed: Collection[str]) -> None:
    """Refuse a table with an unknown key, or without a required key.

    Raises:
        UsageError: A key is unknown or missing.
    """
    for key in data:
        if key not in known:
            raise UsageError(f"{place}: {where}unknown key {key!r}; accepted: {', '.join(sorted(known))}")
    for key in sorted(set(needed) - data.keys()):
        raise UsageError(f"{place}: {where}{key} is missing")


@dataclass(frozen=True)
class _Row:
    """A row of a table of claims or plots, in one case."""

    place: str
    name: str
    levels: tuple[Table, ...]
    """The sources of its keys: a later level replaces keys of an earlier level."""
    case: Table = field(default_factory=dict)
    """Keys that the case derives from expanded keys, such as `id = "{id}-small"`."""
    first: bool = True
    """Whether this is the first case, or there are no cases."""
    own: bool = False
    """Whether the row states keys for this case."""


@dataclass
class _File:
    path: Path
    data: Table
    paper: Shared
    used: set[str] = field(default_factory=set)
    """Queries and causes that a claim or a plot has used."""

    def __post_init__(self) -> None:
        self.lines = read_text(self.path, "claims, TOML in UTF-8").splitlines()
        own = shared(self.path, self.data)
        self.names = {**self.paper.names, **own.names}
        self.queries = {**self.paper.query, **own.query}
        self.causes = {**self.paper.causes, **own.causes}
        self.own = own
        self.defaults = {**self.paper.defaults, **own.defaults}
        self.cases = own.cases or self.paper.cases
        _tables(str(self.path), "cases", list(self.cases.values()))
        self.case_keys = {key for case in self.cases.values() for key in case} - CLAIM_KEYS

    def sheet(self) -> Sheet:
        figure = self._figure()
        claims: dict[str, Stated] = {}
        for row in self._rows("claim", self.data.get("claim", []), self.defaults):
            if (claim := self._claim(row)) is None:
                continue
            if claim["id"] in claims:
                raise UsageError(f"{row.place}: two claims are called {claim['id']!r}")
            claims[claim["id"]] = Stated(row.place, claim)
        plots = figure.get("plot", [])
        keys = {**self.paper.plot, **self.own.plot}
        drawn = [self._plot(row) for row in self._rows("plot", [plots] if isinstance(plots, dict) else plots, keys)]
        for table, names in (("query", self.own.query), ("causes", self.own.causes)):
            for name in names:
                if name not in self.used:
                    raise UsageError(
                        f"{self._line(name)}: {table}.{name} is unused; accepted: what a claim or a plot uses"
                    )
        check_keys(self.path, "defaults.", self.own.defaults, DEFAULTS | self.used - set(LAYOUT) - {"id"}, ())
        return Sheet(figure, tuple(claims.values()), tuple(plot for plot in drawn if plot is not None))

    def _figure(self) -> dict[str, Any]:
        """Return `[figure]`, with runs shared by the paper and by the figure of its scenario."""
        own = self.own.figure
        check_keys(self.path.with_name("paper.toml"), "figure.", self.paper.figure, RUNS, ())
        runs = dict(self.paper.figure)
        named = str(own.get("scenario", "")).removesuffix(".toml")
        first = self.path.parent / f"{named}{ENDING}"
        if NAME.fullmatch(named) and first.is_file():
            other = shared(first, read_toml(first, "claims")).figure
            runs |= {key: value for key, value in other.items() if key in RUNS}
        texts = {key: _folded(value) for key, value in own.items() if isinstance(value, str)}
        return {**runs, **own, **texts}

    def _rows(self, what: str, tables: Any, defaults: Table) -> Iterator[_Row]:
        """Yield the rows of all tables of claims or plots, each in every case."""
        for number, table in enumerate(_tables(str(self.path), what, tables)):
            head = self._head(what, number)
            for row in self._listed(head, what, table) if "rows" in table else [{}]:
                name = str({**table, **row}.get("id", number + 1))
                place = self._row_line(head, name) if "rows" in table else head
                if not self.cases:
                    yield _Row(place, name, (defaults, table, row))
                for order, (case, changes) in enumerate(self.cases.items()):
                    values = {key: value for key, value in changes.items() if key not in CLAIM_KEYS}
                    after = {key: value for key, value in changes.items() if key in CLAIM_KEYS}
                    own = _tables(
                        place, f"{what} {name}: {case}", [level[case] for level in (table, row) if case in level]
                    )
                    yield _Row(place, name, (defaults, table, values, row, *own), after, order == 0, bool(own))

    def _listed(self, place: str, what: str, table: Table) -> list[Table]:
        """Return the rows of a table. With a `header`, a row is a list of values, then tables of further keys."""
        header = table.get("header")
        if header is None:
            return _tables(place, f"{what}: rows", table["rows"])
        if not isinstance(header, list) or not all(isinstance(name, str) for name in header):
            raise UsageError(f"{place}: {what}: header = {header!r}; accepted: a list of names, as ['id', 'paper']")
        if not isinstance(table["rows"], list):
            raise UsageError(f"{place}: {what}: rows = {table['rows']!r}; accepted: a list of rows")
        rows: list[Table] = []
        above: dict[str, Any] = {}
        for number, row in enumerate(table["rows"], 1):
            if not isinstance(row, list) or not row:
                raise UsageError(
                    f"{place}: {what}: row {number} is no list; accepted: a value for each name of its header"
                )
            line = self._row_line(place, str(row[0]))
            values = [value for value in row if not isinstance(value, dict)]
            if len(values) > len(header) or row[: len(values)] != values:
                found = f"{len(values)} values" if len(values) > len(header) else "a table before a value"
                raise UsageError(
                    f"{line}: {what} {row[0]}: {found}; accepted: {', '.join(header)}, then tables of other keys"
                )
            keys: dict[str, Any] = {}
            for key, value in (pair for others in row[len(values) :] for pair in others.items()):
                keys[key] = {**keys.get(key, {}), **value} if isinstance(value, dict) else value
            stated = dict(zip(header, values, strict=False))
            for column in [column for column, value in stated.items() if value == DITTO]:
                if column not in above:
                    raise UsageError(f"{line}: {what} {row[0]}: {column} = {DITTO!r}; accepted: below another value")
                stated[column] = above[column]
            above = stated
            for column, value in stated.items():
                case, _, key = column.partition(".")
                inside = keys.setdefault(case, {}) if case in self.cases and key else keys
                name = column if inside is keys else key
                if name in inside:
                    raise UsageError(f"{line}: {what} {row[0]}: {column} is stated twice; accepted: once")
                inside[name] = value
            rows.append(keys)
        return rows

    def _claim(self, row: _Row) -> Table | None:
        """Return a claim; `None` if a later case changes nothing."""
        try:
            keys = self._merged(row)
            written, used = self._filled({"kind": KIND, **keys}, CLAIM_KEYS - {"cause"})
            if keys.get("cause"):
                written["cause"], more = self._cause(keys)
                used |= more
            for key in [key for key in keys if key not in self.defaults]:
                if key not in CLAIM_KEYS | self.case_keys | used | {"alternative"}:
                    known = ", ".join(sorted({*CLAIM_KEYS, *LAYOUT, *self.cases}))
                    raise ValueError(f"unknown key {key!r}; accepted: {known}, and names of its placeholders")
            if alternative := keys.get("alternative"):
                written["sql"] = self._beside(keys, written, str(alternative))
            if used & self.case_keys:
                after = Writer({**keys, **written}, self.names)
                for key, text in row.case.items():
                    written[key] = _folded(after.prose(text)) if key in PROSE else after.plain(text)
            elif row.own:
                raise ValueError(f"it uses no key of the cases; accepted: {', '.join(sorted(self.case_keys))}")
            elif not row.first:
                return None
        except UNSUITABLE as error:
            raise UsageError(f"{row.place}: claim {row.name}: {unsuitable(error)}") from None
        check_keys(row.place, f"claim {row.name}: ", written, CLAIM_KEYS, NEEDED)
        return written

    def _beside(self, keys: Table, written: Table, alternative: str) -> str:
        """Return a printed figure's query; if the alternative is another scheme, join its query as column `than`."""
        if written["kind"] != KIND or alternative == keys.get("scheme"):
            return str(written["sql"])
        other = str(self._filled({**keys, "scheme": alternative}, {"sql"})[0]["sql"])
        if other == written["sql"]:
            return other
        return (
            "SELECT ours.seed AS seed, ours.value AS value, theirs.value AS than "
            f"FROM ({written['sql']}) AS ours JOIN ({other}) AS theirs ON ours.seed = theirs.seed"
        )

    def _cause(self, keys: Table) -> tuple[str, set[str]]:
        """Return a claim's cause, named in `[causes]` or a sentence, and the names that its placeholders use."""
        cause = str(keys["cause"])
        if cause not in self.causes and " " not in cause:
            raise ValueError(f"no cause {cause!r}; accepted: a sentence{_or(self.causes)}")
        writer = Writer({**keys, **self.causes}, self.names)
        written = _folded(writer.prose(f"{{{cause}}}" if cause in self.causes else cause))
        self.used |= writer.used
        return written, writer.used

    def _plot(self, row: _Row) -> Table | None:
        """Return the options of a plot; `None` if a later case changes nothing."""
        try:
            keys = self._merged(row)
            written, used = self._filled(keys, keys.keys() - self.case_keys)
            if not (row.first or used & self.case_keys):
                return None
            if isinstance(written.get("points"), dict):
                written["points"] = list(_points(written["points"]))
        except UNSUITABLE as error:
            raise UsageError(f"{row.place}: plot {row.name}: {unsuitable(error)}") from None
        return {key: value for key, value in written.items() if key not in self.case_keys | used}

    def _merged(self, row: _Row) -> dict[str, Any]:
        """Return the keys of a row, with the SQL that `query` names."""
        keys: dict[str, Any] = {}
        for level in row.levels:
            keys.update(level)
            if "query" in level:
                if "sql" in level:
                    raise ValueError("sql and query; accepted: one of them")
                if level["query"] not in self.queries:
                    raise ValueError(f"no query {level['query']!r}; accepted: sql = '…'{_or(self.queries)}")
                keys["sql"] = f"{{{level['query']}}}"
        for key in {*LAYOUT, *self.cases} - {"alternative"}:
            keys.pop(key, None)
        if "axes" in keys:
            keys |= dict(zip(AXES, _axes(keys.pop("axes")), strict=True))
        for key in keys:
            if key in self.queries:
                raise ValueError(f"{key!r} is the name of a query; accepted: another name for the value")
        return keys

    def _filled(self, keys: Table, wanted: Collection[str]) -> tuple[dict[str, Any], set[str]]:
        """Return the wanted keys with filled placeholders, and the names that the placeholders use."""
        queries = {name: Sql(text) for name, text in self.queries.items()}
        writer = Writer({**keys, **queries}, self.names)
        written: dict[str, Any] = {}
        for key in sorted(keys, key=lambda key: key not in TEXTS | {"points"}):  # these hold the placeholders
            value = keys[key]
            if key not in wanted or (key in writer.used and key not in TEXTS | CLAIM_KEYS):
                continue
            if key in TEXTS and not isinstance(value, str):
                raise ValueError(f"{key} = {value!r}; accepted: a text")
            if key in NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ValueError(f"{key} = {value!r}; accepted: a number")
            if key in NUMBERS and isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{key} = {value!r}; accepted: a finite number")
            if key == "schemes" and isinstance(value, list):
                value = [name for name in value if not (lone := LONE.fullmatch(str(name))) or lone[1] in keys]
            fill = writer.sql if key == "sql" else writer.prose if key in PROSE else writer.plain
            written[key] = str(fill(value)) if key in TEXTS else fill(value)
            if key in PROSE:
                written[key] = _folded(written[key])
        self.used |= writer.used
        return written, writer.used

    def _head(self, what: str, number: int) -> str:
        """Return file and line of a table of claims or plots; the file alone if the notation has no such line."""
        heads = [at for at, line in enumerate(self.lines, 1) if HEADS[what].match(line)]
        return f"{self.path}:{heads[number]}" if number < len(heads) else str(self.path)

    def _row_line(self, head: str, name: str) -> str:
        """Return file and line of a row of the table that begins at `head`."""
        start = head.removeprefix(f"{self.path}:")
        named = re.compile(rf"(\[|\bid\s*=)\s*[\"']{re.escape(name)}[\"']")
        after = enumerate(self.lines[int(start) :], int(start) + 1) if start.isdigit() else ()
        return next((f"{self.path}:{at}" for at, line in after if named.search(line)), head)

    def _line(self, key: str) -> str:
        """Return file and line of a key."""
        named = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        found = (f"{self.path}:{at}" for at, line in enumerate(self.lines, 1) if named.match(line))
        return next(found, str(self.path))


def _tables(place: str, what: str, data: Any) -> list[Table]:
    if not isinstance(data, list) or not all(isinstance(table, dict) for table in data):
        raise UsageError(f"{place}: {what} is not a table, or a list of tables")
    return data


def _folded(text: str) -> str:
    """Return a text for people, its lines joined by spaces."""
    return re.sub(r"\s*\n\s*", " ", text.strip())


def _axes(texts: Any) -> list[str]:
    if not isinstance(texts, list) or len(texts) != len(AXES):
        raise ValueError(f"axes = {texts!r}; accepted: axes = ['X AXIS', 'Y AXIS']")
    return texts


def _points(printed: Table) -> Iterator[Table]:
    """Yield printed figures by series; a lone number is drawn at the position that its series names."""
    for series, figures in printed.items():
        for x, y in figures.items() if isinstance(figures, dict) else [(series, figures)]:
            yield {"series": series, "x": x, "y": y}


def _or(names: Collection[str]) -> str:
    return f", or one of {', '.join(names)}" if names else ""
