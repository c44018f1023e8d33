"""The data of runs as polars frames: the base of `Results`, and the only input of plots, tables and claims."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl
from polars import selectors

from narrows import checksums, engine
from narrows.arguments import check_arguments
from narrows.errors import DamagedError, UsageError
from narrows.files import write_atomic
from narrows.sql import check

TEXT = (
    "version", "scenario", "id", "label", "scheme", "spec", "params", "link", "connection", "event_hash", "run_hash",
)  # fmt: skip
"""Columns of text."""
WHOLE = (
    "seed", "index", "events", "data_packets", "drops", "peak_flow_bytes", "packets_sent",
    "timeouts", "datagrams.delivered", "datagrams.unsent", "subflows", *engine.CONNECTION_COUNTS,
)  # fmt: skip
"""Columns of whole numbers."""
DIGITS = 12
"""Significant digits of query results."""


class ResultFrames:
    """Raw results, frames and samples of one or many runs. `narrows.Results` documents them and draws them."""

    stepwise = False
    """Whether samples record changes, so that each value lasts until the next sample."""

    def __init__(
        self,
        points: Sequence[Mapping[str, str]],
        results: Sequence[Mapping[str, Any]],
        out: Path | None = None,
        keep: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.raw: list[dict[str, Any]] = [dict(result) for result in results]
        """The engine's results, unchanged."""
        self.out = out
        """The folder of the results, if there is one."""
        self._keep = keep
        self.checked_traces: dict[str, dict[str, Path]] = {}
        """Trace files that matched their checksums, by run and name."""
        self.complete = True
        """Whether all runs are known to be present; a folder of interrupted work has only the finished runs."""
        self.points = [column_names(point) for point in points]
        self.keys: list[str] = list(dict.fromkeys(key for point in self.points for key in point))
        """The swept keys, in scenario order."""
        flows: list[dict[str, Any]] = []
        links: list[dict[str, Any]] = []
        connections: list[dict[str, Any]] = []
        runs: list[dict[str, Any]] = []
        for point, result in zip(self.points, self.raw, strict=True):
            head = {"id": result.get("id", ""), "seed": result["seed"], **{key: point.get(key) for key in self.keys}}
            joined = _subflows(result)
            for index, flow in enumerate(result["flows"]):
                label = str(flow.get("label", flow["flow"]))
                own = {"index": index, "label": label, "spec": spec(flow, point), "params": flow.get("params", "")}
                if joined:
                    own["connection"] = joined.get(label)
                flows.append({**head, **own, **_flat(flow), "flow": str(flow["flow"])})
            for index, link in enumerate(result["links"]):
                links.append({**head, "index": index, **_flat(link), "link": str(link["link"])})
            for index, connection in enumerate(result.get("connections", [])):
                connections.append({**head, "index": index, **connection, "connection": str(connection["connection"])})
            apart = ("flows", "links", "connections", "point", "id", "seed", "host")
            rest = {key: value for key, value in result.items() if key not in apart}
            runs.append({**head, **_flat(rest)})
        self.flows: pl.DataFrame = frame(
            flows, ["id", "seed", *self.keys, "index", "label", "spec", *engine.FLOW_FIELDS], self.keys
        )
        """One row per flow of every run."""
        self.links: pl.DataFrame = frame(links, ["id", "seed", *self.keys, "index", *engine.LINK_FIELDS], self.keys)
        """One row per reported link of every run; index 0 is the bottleneck."""
        self.connections: pl.DataFrame = frame(
            connections, ["id", "seed", *self.keys, "index", *engine.CONNECTION_FIELDS], self.keys
        )
        """One row per multipath connection of every run; its subflows are rows of `flows`."""
        self.runs: pl.DataFrame = frame(runs, ["id", "seed", *self.keys], self.keys)
        """One row per run."""

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load the results that `-o DIR` or `out=DIR` saved; after an interruption, the finished runs.

        Raises:
            UsageError: There is no such folder, or it has no results.
            DamagedError: A file in it is damaged, or has no checksum.
        """
        check_arguments(directory=directory)
        directory = Path(directory)
        accepted = "accepted: a folder that run, compare or sweep wrote with -o"
        if not directory.is_dir():
            problem = "this is a file" if directory.exists() else "there is no such folder"
            raise UsageError(f"{directory}: {problem}; {accepted}")
        results = checksums.saved_results(directory)
        whole = results is not None or (directory / "claims.json").is_file()
        if results is None:
            results = checksums.saved_runs(directory / "runs")
        if not results:
            raise UsageError(f"{directory}: no results in this folder; {accepted}")
        try:
            loaded = cls([result.get("point", {}) for result in results], results, directory)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            raise DamagedError(directory, f"its results make no tables: {error}") from None
        loaded.complete = whole
        return loaded

    def save(self, directory: str | Path, scenario: str | None = None) -> None:
        """Write `results.jsonl`, the frames as Parquet files, and their checksums.

        Args:
            directory: The folder.
            scenario: The text of `scenario.toml`; `None` writes no such file.

        Raises:
            UsageError: A file is a symbolic link.
            OSError: A file cannot be written.
        """
        check_arguments(directory=directory)
        directory = Path(directory)
        files = {} if scenario is None else {"scenario.toml": scenario.encode()}
        files[checksums.RESULTS] = "".join(engine.json_line(result) + "\n" for result in self.raw).encode()
        for name, table in self.frames().items():
            buffer = io.BytesIO()
            table.write_parquet(buffer)
            files[f"{name}.parquet"] = buffer.getvalue()
        checksums.write_all(directory, files)

    def save_csv(self, directory: str | Path) -> None:
        """Write the frames as CSV files with a header line; missing values are empty."""
        for name, table in self.frames().items():
            write_atomic(Path(directory) / f"{name}.csv", table.write_csv())

    def frames(self) -> dict[str, pl.DataFrame]:
        """Return the frames by name; `connections` only if there are multipath connections."""
        frames = {"flows": self.flows, "links": self.links, "runs": self.runs}
        return {**frames, "connections": self.connections} if len(self.connections) else frames

    @property
    def samples(self) -> pl.DataFrame:
        """The samples in long form: one row per time, flow or link, and series.

        Raises:
            UsageError: The runs have no trace.
        """
        return self.scan_samples().collect()

    def scan_samples(self) -> pl.LazyFrame:
        """Scan the samples lazily, for traces that exceed memory."""
        return self._scan("samples")

    def scan_packets(self) -> pl.LazyFrame:
        """Scan the packet events lazily, if the scenario records them."""
        return self._scan("packets")

    @property
    def traced(self) -> bool:
        """Whether the runs have samples."""
        folder = None if self.out is None else self.out / "traces"
        return folder is not None and any(
            (folder / str(result.get("id", "")) / "samples.parquet").is_file() for result in self.raw
        )

    def _scan(self, name: str) -> pl.LazyFrame:
        """Scan the traces of all runs that have one, after checking their checksums.

        Raises:
            UsageError: No run has a trace.
            DamagedError: A trace is damaged.
        """
        frames = []
        for point, result in zip(self.points, self.raw, strict=True):
            run = str(result.get("id", ""))
            if run not in self.checked_traces and self.out is not None:
                self.checked_traces[run] = checksums.traces_of(self.out, run)
            path = self.checked_traces.get(run, {}).get(f"{name}.parquet")
            if path is not None:
                head = {"id": run, "seed": result["seed"], **point}
                columns = [pl.lit(value).alias(key) for key, value in head.items()]
                scan = pl.scan_parquet(path, glob=False)  # a name may contain a star
                frames.append(scan.with_columns(pl.col(pl.Categorical).cast(pl.String), *columns))
        if not frames:
            raise UsageError(
                f"{name}: the runs have no trace; accepted: runs with trace=True, or with --trace and -o DIR"
            )
        return pl.concat(frames, how="diagonal_relaxed")

    def __len__(self) -> int:
        return len(self.raw)


def spec(flow: Mapping[str, Any], point: Mapping[str, str]) -> str:
    """Return a flow's scheme as on the command line. Swept parameters are left out: they have columns."""
    swept = {key.rpartition(".params.")[2] for key in point if ".params." in key}
    kept = [part for part in str(flow.get("params", "")).split(",") if part and part.partition("=")[0] not in swept]
    return f"{flow['scheme']}:{','.join(kept)}" if kept else str(flow["scheme"])


COLUMNS = frozenset({"id", "seed", "index", "flow", "link", "value", "time_s", *TEXT, *engine.FLOW_FIELDS,
                     *engine.LINK_FIELDS, *engine.CONNECTION_FIELDS, *engine.RUN_FIELDS})  # fmt: skip


def column_names(point: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a point; a swept key that clashes with another column gets a prefix."""
    named = {}
    for key, value in point.items():
        if key in ("seed", "repeat"):
            continue
        named[f"point.{key}" if key in COLUMNS else key] = str(value)
    return named


def frame(rows: Sequence[Mapping[str, Any]], first: Iterable[str], keys: Iterable[str]) -> pl.DataFrame:
    """Build a frame whose columns and types depend neither on the rows nor on the values present."""
    columns = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    text = {*TEXT, "flow", *keys}
    data = {}
    for name in columns:
        values = [row.get(name) for row in rows]
        present = [value for value in values if value is not None]
        kind: Any
        if name in text or any(isinstance(value, str) for value in present):
            kind, values = pl.String, [None if value is None else str(value) for value in values]
        elif name in WHOLE or name.startswith("counters."):
            kind = pl.Int64
        elif present and all(isinstance(value, bool) for value in present):
            kind = pl.Boolean
        else:
            kind, values = pl.Float64, [None if value is None else float(value) for value in values]
        data[name] = pl.Series(name, values, dtype=kind, strict=False)
    return pl.DataFrame(data)


def _subflows(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the connection of each subflow, by label."""
    found: dict[str, str] = {}
    for row in result.get("connections", []):
        name = str(row["connection"])
        found |= {f"{name}/{number}": name for number in range(1, row["subflows"] + 1)}
    return found


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            flat[prefix + key] = json.dumps(value)
        else:
            flat[prefix + key] = value
    return flat


def query(results: ResultFrames, sql: str) -> pl.DataFrame:
    """Run a query over the frames, with `samples` if the runs have a trace. Equal results give bit-identical values.

    Sums of floats depend on the order of rows, which polars' streaming engine and parallel reads of Parquet files do
    not keep. So the columns of `samples` that the query names are read first, and the query runs in memory. Joins and
    groups still run on several threads, which changes the last digits: values are rounded to `DIGITS`.

    Raises:
        ValueError: The query is invalid, or does not select from these frames.
    """
    check(sql)
    frames: dict[str, Any] = dict(results.frames())
    try:
        if "samples" in sql and results.traced:
            scan = results.scan_samples()
            named = [name for name in scan.collect_schema().names() if "*" in sql or name in sql]
            frames["samples"] = scan.select(named).collect(engine="in-memory")
        answer = pl.SQLContext(frames=frames).execute(sql, eager=False).collect(engine="in-memory")
    except pl.exceptions.PolarsError as error:
        raise ValueError((str(error).strip().splitlines() or [type(error).__name__])[0]) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a panic of polars is no `Exception`: a table without columns
            raise
        raise ValueError(f"polars cannot run the query: {error}") from None
    answer = answer.cast({selectors.decimal(): pl.Float64})  # polars reads 1.0 in a query as a decimal
    answer = answer.with_columns(pl.col(pl.Float64).round_sig_figs(DIGITS))
    return answer.sort("seed") if "seed" in answer.columns else answer
