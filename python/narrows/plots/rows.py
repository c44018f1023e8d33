"""The rows that a figure shows: their choice, the axes that vary between them, their intervals.

No figure averages over a swept key. Means are over the flows of a run first, then over seeds; only seeds count for
intervals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from narrows.errors import OptionError, UsageError
from narrows.frames import ResultFrames, query
from narrows.quantities import quantity
from narrows.stats import interval

MOST_PANELS = 12
"""More panels are drawn on request only."""
MOST_RTTS = 6
"""Base RTTs that separate series by default; the flows of a scheme with more of them are averaged within each run."""
NON_NEGATIVE = ("_mbit_s", "_ms", "_s", "_bytes", "_pkt", "_gain")
"""Endings of columns without negative values."""
PLACES = ("x", "time_s", "rtt_base_ms")
"""Columns of numbers that may be positions on an axis: of a query, of a trace, and of the network."""
AUTO = "auto"
"""The columns that separate series by default; see `Data.schemes`."""
Bounds = tuple[float, float]
ANY: Bounds = (float("-inf"), float("inf"))

Where = Mapping[str, str | float | Sequence[str | float]]
"""Selected values by key; a row is drawn if it has one of the selected values for every key."""


class UndrawnError(UsageError):
    """Rows differ in swept keys that a figure neither draws nor selects.

    Attributes:
        keys: The keys.
        problem: The problem, without the key and the accepted options.
        value: A value of the first key.
    """

    def __init__(self, keys: Sequence[str], problem: str, value: str) -> None:
        self.keys, self.problem, self.value = list(keys), problem, value
        key = self.keys[0]
        super().__init__(
            f"{', '.join(keys)}: {problem}; accepted: panel={key!r}, row={key!r} or where={{{key!r}: {value!r}}}"
        )


@dataclass(frozen=True)
class Data:
    """The rows of a figure: one per value, with the columns that the figure names, and `seed` for intervals."""

    rows: pl.DataFrame
    results: ResultFrames
    bounds: Bounds | None = None
    """The possible values; `None` derives them from the drawn column."""

    def column(self, option: str, name: str) -> str:
        """Return a column by its name, or a swept key by its last part: `network.buffer` for `buffer`.

        Raises:
            OptionError: There is no such column.
        """
        if name in self.rows.columns:
            return name
        alike = [key for key in self.results.keys if key.rpartition(".")[2] == name and key in self.rows.columns]
        if len(alike) != 1:
            raise OptionError(option, f"there is no column {name!r}; accepted: {', '.join(self.rows.columns)}")
        return alike[0]

    def columns(self, option: str, names: str | Iterable[str] | None) -> list[str]:
        """Return columns by their names, as `column` does."""
        names = [] if names is None else [names] if isinstance(names, str) else names
        return [self.column(option, name) for name in names]

    def numbers(self, option: str, name: str) -> str:
        """Return a column of numbers.

        Raises:
            OptionError: There is no such column, or it holds text or nothing.
        """
        name = self.column(option, name)
        if name == "seed":
            raise OptionError(option, "seed tells runs apart; accepted: a measured column")
        if not (self.rows[name].dtype.is_numeric() or self.rows[name].dtype == pl.Null):
            known = [column for column in self.rows.columns if self.rows[column].dtype.is_numeric()]
            raise OptionError(option, f"column {name!r} holds no numbers; accepted: {', '.join(known)}")
        if self.rows[name].drop_nulls().is_empty():
            raise OptionError(option, f"column {name!r} holds no values here; accepted: a column with values")
        return name

    def limits(self, name: str) -> Bounds:
        """Return the possible values of a column."""
        return bounds(name, self.rows[name].to_list()) if self.bounds is None else self.bounds

    def where(self, selection: Where | None) -> Data:
        """Return the rows with the selected values.

        Raises:
            OptionError: No row has these values.
        """
        rows = self.rows
        for name, values in (selection or {}).items():
            column = self.column("where", name)
            known = rows[column].unique(maintain_order=True).to_list()
            kept = _matching(known, values)
            if not kept:
                wanted = values if isinstance(values, str) else ", ".join(map(str, _listed(values)))
                shown = ", ".join(str(value) for value in known[:20])
                raise OptionError("where", f"no row has {name} = {wanted}; accepted: {shown}")
            rows = rows.filter(pl.any_horizontal([pl.col(column).eq_missing(pl.lit(value)) for value in kept]))
        return Data(rows, self.results, self.bounds)

    def place(self, option: str, name: str) -> str:
        """Return a column whose values are positions on an axis, unlike a measurement, which differs between runs.

        Raises:
            OptionError: There is no such column, or it is measured.
        """
        column = self.column(option, name)
        if column not in (*self.results.keys, *PLACES) and self.rows[column].dtype.is_float():
            keys = ", ".join(self.results.keys) or "scheme"
            raise OptionError(option, f"{name} is measured; accepted: a key that runs differ in, such as {keys}")
        return column

    def schemes(self) -> list[str]:
        """Return the columns that separate series by default.

        These are the scheme and, if a run has flows of one scheme with different base RTTs, the base RTT.
        """
        if "spec" not in self.rows.columns:
            return ["flows.scheme"] if "flows.scheme" in self.rows.columns else []
        if not {"id", "rtt_base_ms"} <= set(self.rows.columns):
            return ["spec"]
        differ = self.rows.group_by("id", "spec").agg(pl.col("rtt_base_ms").n_unique())["rtt_base_ms"].max()
        some = 1 < self.rows["rtt_base_ms"].n_unique() <= MOST_RTTS
        return ["spec", "rtt_base_ms"] if some and differ != 1 and len(self.rows) else ["spec"]

    def free(self, drawn: Iterable[str]) -> list[str]:
        """Return the swept keys, and the scheme, that differ between rows of equal values in the drawn columns."""
        drawn = list(dict.fromkeys(drawn))
        axes = [name for name in (*self.results.keys, "spec") if name in self.rows.columns and name not in drawn]
        found: list[str] = []
        for name in axes:
            if self._varies(name, [*drawn, *found]):
                found.append(name)
        for name in list(found):  # drop a key whose value the other keys determine
            others = [other for other in found if other != name]
            if not self._varies(name, [*drawn, *others]):
                found = others
        return found

    def _varies(self, name: str, within: Sequence[str]) -> bool:
        values = (
            self.rows.group_by(within).agg(pl.col(name).n_unique())[name] if within else [self.rows[name].n_unique()]
        )
        return max(values, default=0) > 1

    def split(
        self, drawn: Sequence[str], series: str | Sequence[str] | None, panel: str | None, row: str | None
    ) -> tuple[list[str], str | None, str | None]:
        """Return the columns of series, panels and rows of panels.

        Args:
            drawn: The columns that the figure draws otherwise.
            series: The chosen columns of series; `AUTO` stands for the scheme.
            panel: The chosen column of panels side by side, if any.
            row: The chosen column of rows of panels, if any.

        Raises:
            UsageError: A column does not exist, or a swept key would be averaged over.
        """
        panel = None if panel is None else self.column("panel", panel)
        row = None if row is None else self.column("row", row)
        if series == AUTO:
            by = [name for name in self.schemes() if name not in (panel, row)]
            by = [name for name in by if name == by[0] or name not in drawn]
        else:
            by = self.columns("series", series)
        return by, *self.facets([*drawn, *by], panel, row)

    def facets(self, drawn: Iterable[str], panel: str | None, row: str | None) -> tuple[str | None, str | None]:
        """Return the columns of panels and of their rows, so that no swept key is averaged over.

        Args:
            drawn: The columns that the figure draws otherwise.
            panel: The column of panels side by side, if it is chosen.
            row: The column of rows of panels, if it is chosen.

        Raises:
            UndrawnError: There are more keys than panels can show.
        """
        free = self.free([*drawn, *(name for name in (panel, row) if name is not None)])
        if not free:
            return panel, row
        slots = [name for name in (panel, row) if name is None]
        count = {name: self.rows[name].n_unique() for name in free}
        if len(free) > len(slots):
            room = f", of which panels can show {len(slots)} more" if slots else ""
            raise UndrawnError(
                free, f"{_varies(free)} between rows and would be averaged over{room}", self._one(free[0])
            )
        if (panels := self.rows.select(*free, *(name for name in (panel, row) if name)).n_unique()) > MOST_PANELS:
            most = sorted(free, key=lambda name: -count[name])
            raise UndrawnError(most, f"{_varies(free)} between rows, which makes {panels} panels", self._one(most[0]))
        if len(free) == 2:
            panel, row = sorted(free, key=lambda name: count[name])
        elif panel is None:
            panel = free[0]
        else:
            row = free[0]
        return panel, row

    def series(self, by: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the values of these columns, one tuple per series, in the order of legends."""
        rank = ranks(self.results)
        return (
            sorted(self.rows.select(by).unique().rows(), key=lambda key: [rank(part) for part in key]) if by else [()]
        )

    def _one(self, name: str) -> str:
        return str(self.rows[name].drop_nulls().unique(maintain_order=True)[0])


def grouped(
    rows: pl.DataFrame, by: Sequence[str], keys: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, tuple[Any, ...], pl.DataFrame]]:
    """Yield number, key and rows of each series in a panel."""
    groups = dict(rows.group_by(by)) if by else {(): rows}
    yield from ((turn, key, groups[key]) for turn, key in enumerate(keys) if key in groups)


def _varies(keys: Sequence[str]) -> str:
    return "this key varies" if len(keys) == 1 else f"these {len(keys)} keys vary"


def _listed(values: Any) -> list[Any]:
    return [values] if isinstance(values, str | int | float) else list(values)


def _matching(known: Sequence[Any], values: Any) -> list[Any]:
    """Return the known values that a selection names; a string that is no known value is split at its commas."""
    wanted = _listed(values)
    if isinstance(values, str) and not any(_equal(value, values) for value in known):
        wanted = [part.strip() for part in values.split(",")]
    if any(not any(_equal(value, one) for value in known) for one in wanted):
        return []
    return [value for value in known if any(_equal(value, one) for one in wanted)]


def _equal(value: Any, wanted: Any) -> bool:
    """Whether a value equals a string or number; quantities are compared, so 0.04s equals 40ms."""
    if str(value) == str(wanted):
        return True
    if isinstance(value, str):
        first, second = quantity(value), quantity(str(wanted))
        return "@" not in f"{value}{wanted}" and first is not None and first == second
    try:
        return value is not None and float(value) == float(wanted)
    except ValueError:
        return False


def table(results: ResultFrames, name: str, column: str | None = None) -> Data:
    """Return the rows of a table.

    Args:
        results: The results.
        name: A frame of the results, or `samples`: samples of a series after the warm-up, in a column of that name.
        column: The series of samples.

    Raises:
        UsageError: There is no such table, or the runs have no trace.
    """
    frames = results.frames()
    if name == "samples" and column is not None:
        return Data(_samples(results, column), results)
    if name not in frames:
        raise OptionError("table", f"there is no table {name!r}; accepted: {', '.join(frames)}")
    return Data(frames[name], results)


def _samples(results: ResultFrames, series: str) -> pl.DataFrame:
    scan = results.scan_samples()
    known = scan.select("series").unique().collect()["series"].sort().to_list()
    if series not in known:
        raise OptionError("table", f"the trace has no series {series!r}; accepted: {', '.join(known)}")
    rows = scan.filter(pl.col("series") == series).drop("series", "text").rename({"value": series}).collect()
    if (rows["kind"] == "flow").any():  # flows take precedence over links of the same series
        flows = results.flows.select("id", "index", "scheme", "spec", "rtt_base_ms", "label")
        rows = rows.filter(pl.col("kind") == "flow").with_columns(pl.col("index").cast(pl.Int64))
        rows = rows.join(flows, on=["id", "index"], how="left", maintain_order="left")
    if "warmup_s" in results.runs.columns:
        rows = rows.join(results.runs.select("id", "warmup_s"), on="id", how="left", maintain_order="left")
        rows = rows.filter(pl.col("time_s") >= pl.col("warmup_s").fill_null(0.0)).drop("warmup_s")
    return rows


def queried(results: ResultFrames, sql: str) -> Data:
    """Return the rows of a query.

    Raises:
        OptionError: The query is invalid.
    """
    try:
        return Data(query(results, sql), results, bounds_in(sql))
    except ValueError as error:
        raise OptionError("sql", f"{error}; accepted: a query over the frames") from None


def bounds(column: str, values: Iterable[float | None] = ()) -> Bounds:
    """Return the possible values of a column, by its name.

    Args:
        column: The column.
        values: Its values. A negative value shows that negative values are possible.
    """
    if column in ("jain", "utilization"):
        return 0.0, 1.0
    lowest = min((value for value in values if value is not None), default=0.0)
    if lowest < 0:
        return ANY
    if column.endswith("_percent"):
        return 0.0, 100.0
    return (0.0, float("inf")) if column.endswith(NON_NEGATIVE) else ANY


_COLUMN = re.compile(
    r'(?:(\d+(?:\.\d+)?)\s*\*\s*)?(?:(?:AVG|MIN|MAX|MEDIAN)\s*\(\s*)?(?:\w+\.)?"?(\w+(?:\.\w+)*)"?\s*\)?', re.IGNORECASE
)
"""A column or its mean, least or greatest value, with or without a factor."""
_POSITIVE = re.compile(r"[\w\s.\"*/+(),]+")
"""An expression that has no negative value if none of its columns has one."""
_AS_Y = re.compile(r"\s+AS\s+y\b", re.IGNORECASE)


def bounds_in(sql: str) -> Bounds:
    """Return the possible values of the column `y` of a query, by the columns in its expressions."""
    found = {_bounds_of(_expression(sql[: match.start()])) for match in _AS_Y.finditer(sql)}
    return found.pop() if len(found) == 1 else ANY


def _expression(before: str) -> str:
    """The expression at the end of a text: back to a comma or SELECT outside parentheses."""
    depth = 0
    for place in range(len(before) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(before[place], 0)
        if depth < 0 or (depth == 0 and (before[place] == "," or before[: place + 1].upper().endswith("SELECT"))):
            return before[place + 1 :].strip()
    return before.strip()


def _bounds_of(expression: str) -> Bounds:
    expression = re.sub(r"\bCASE\s+WHEN\b.*?\bTHEN\b|\bEND\b", "", expression, flags=re.IGNORECASE | re.DOTALL).strip()
    if (match := _COLUMN.fullmatch(expression)) is not None:
        factor = float(match[1] or 1)
        low, high = bounds(match[2])
        return low * factor, high * factor
    columns = [name.rpartition(".")[2] for name in re.findall(r"[A-Za-z_][\w.]*(?![\w.]*\s*\()", expression)]
    positive = _POSITIVE.fullmatch(expression) and columns and all(bounds(name)[0] >= 0 for name in columns)
    return (0.0, float("inf")) if positive else ANY


@dataclass(frozen=True)
class Means:
    """Means with the ends of their 95 % intervals, by position; ends equal the mean if there is one seed only."""

    places: list[str]
    means: list[float]
    lows: list[float]
    highs: list[float]

    @property
    def errors(self) -> list[list[float]]:
        """Distances from the means to the ends, shape (2, n), as matplotlib expects them."""
        below = [mean - low for mean, low in zip(self.means, self.lows, strict=True)]
        return [below, [high - mean for mean, high in zip(self.means, self.highs, strict=True)]]


def means(rows: pl.DataFrame, x: str, y: str, limits: Bounds) -> Means:
    """Average within each seed, then over seeds, at each value of `x`; clip the intervals to the possible values."""
    by = list(dict.fromkeys([x, "seed"])) if "seed" in rows.columns else [x]
    per_seed = rows.drop_nulls(y).group_by(by, maintain_order=True).agg(pl.col(y).cast(pl.Float64).mean())
    found = Means([], [], [], [])
    for (name,), part in per_seed.group_by([x], maintain_order=True):
        mean, low, high = clipped(part[y].to_list(), limits)
        found.places.append(str(name))
        found.means.append(mean)
        found.lows.append(low)
        found.highs.append(high)
    return found


def clipped(values: Sequence[float], limits: Bounds) -> tuple[float, float, float]:
    """Return the mean of seeds and the ends of its 95 % interval, clipped to the possible values."""
    found = interval(values)
    return found.mean, min(found.mean, max(found.low, limits[0])), max(found.mean, min(found.high, limits[1]))


Rank = Callable[[Any], tuple[int, list[Any]]]
"""A sort key for the values on an axis or in a legend."""


def ranks(results: ResultFrames) -> Rank:
    """Return a sort key: scenario order first, then numbers by size, then text."""
    order: dict[str, int] = {}
    for name in [*results.keys, "spec", "scheme", "label"]:
        for value in results.flows[name].unique(maintain_order=True).to_list():
            order.setdefault(str(value), len(order))

    def rank(value: Any) -> tuple[int, list[Any]]:
        parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
        natural: list[Any] = [(float(part), "") if i % 2 else (0.0, part) for i, part in enumerate(parts)]
        first = str(value).partition(",")[0]
        return order.get(str(value), order.get(first, len(order))), natural

    return rank
