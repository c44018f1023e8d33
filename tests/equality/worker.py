"""The part of a record that runs inside a build's interpreter.

Reads a job as JSON from standard input: `runs`, a list of objects with `name`, `text`, `directory`, `overrides`. Writes
a line of JSON for every run that a scenario plans, or one for a scenario that is refused.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLEETING = ("wall_s", "version", "id")
"""Fields of a result that depend on the wall clock, the version or the wording of the scenario."""


def runs_of(job: dict[str, Any], scratch: Path) -> Iterator[dict[str, Any]]:
    """The rows of one scenario."""
    from narrows import engine

    overrides = [tuple(pair) for pair in job["overrides"]]
    directory = Path(job["directory"])
    try:
        planned = engine.plan(job["text"], job["name"], directory, overrides)
    except engine.ScenarioError as error:
        refused = {"key": error.key, "line": error.line}
        yield {"of": job["name"], "run": job["name"], "refused": refused, "why": str(error)}
        return
    for each in planned:
        point = "".join(f", {key}={value}" for key, value in each.point.items())
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            result = engine.run(each, Path(folder), None)
            traces = {path.name: trace(path) for path in sorted(Path(folder).iterdir())}
        for field in FLEETING:
            del result[field]
        yield {"of": job["name"], "run": f"{job['name']}{point}, seed={each.seed}", "result": result, "traces": traces}


def trace(path: Path) -> dict[str, Any]:
    """The digests of a trace file: of its bytes, of its columns, and of each of its series.

    Strings count by the order in which they first appear and are listed in `names`, so that a renamed series changes
    only the names and the bytes.
    """
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        table = stream.read_all().combine_chunks()
    names: dict[str, list[str]] = {}
    columns: dict[str, bytes] = {}
    for column in table.column_names:
        values = table[column].combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
        absent = values.is_null().to_numpy(zero_copy_only=False).tobytes()
        if pa.types.is_string(values.type):
            coded = values.dictionary_encode()
            names[column] = coded.dictionary.to_pylist()
            values = coded.indices
        if values.null_count:
            values = values.fill_null(0)
        columns[column] = absent + values.to_numpy(zero_copy_only=False).tobytes()
    row = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": table.num_rows,
        "names": names,
        "columns": {name: short(data) for name, data in columns.items()},
    }
    if "series" in table.column_names:
        row["series"] = series(table)
    return row


def series(table: Any) -> dict[str, str]:
    """The digest of each series: its times, owners and values, in the order of the file."""
    texts = table["text"].to_pylist()
    columns = [table[name].to_numpy() for name in ("time_s", "index", "value")]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(table["series"].to_pylist()):
        places.setdefault(name, []).append(place)
    return {
        name: short(
            b"".join(column[rows].tobytes() for column in columns) + json.dumps([texts[row] for row in rows]).encode()
        )
        for name, rows in places.items()
    }


def short(data: bytes) -> str:
    """A digest that is short enough to read."""
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    """Run the job."""
    from narrows import engine

    job = json.load(sys.stdin)
    print(json.dumps({"engine": engine.build()}), flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for each in job["runs"]:
            for row in runs_of(each, Path(scratch)):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
