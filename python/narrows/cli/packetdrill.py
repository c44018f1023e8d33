"""`narrows packetdrill`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from narrows import engine
from narrows.cli.outcome import FAILURE, guarded, print_table
from narrows.errors import UsageError

SUFFIX = ".pkt"
ACCEPTED = f"accepted: scripts ({SUFFIX}) and folders with scripts"
RESULTS = {"pass": "green", "fail": "red", "skip": "yellow"}
"""Results of a script, with the colour of each."""


@guarded
def packetdrill(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Run these scripts, and those in these folders (*.pkt).")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per script and one with the totals, and nothing else.")
    ] = False,
) -> None:
    """Run packetdrill scripts against the TCP endpoint.

    A script passes if every packet and every assertion in it is met, and is skipped if it needs what the endpoint does
    not have. The exit status is 1 if a script fails.
    """
    scripts = list(_scripts(paths))
    rows = [_run(script) for script in scripts]
    counts = Counter(row["result"] for row in rows)
    totals = {"scripts": len(rows), **{result: counts[result] for result in RESULTS}}
    if as_json:
        for row in [*rows, totals]:
            print(json.dumps(row))
    else:
        _print(rows, totals)
    if counts["fail"]:
        raise typer.Exit(FAILURE)


def _scripts(paths: Sequence[Path]) -> Iterator[Path]:
    """Find the scripts, each once and those of a folder in the order of their names."""
    seen = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder; {ACCEPTED}")
        found = sorted(filter(Path.is_file, path.rglob(f"*{SUFFIX}"))) if path.is_dir() else [path]
        if not found:
            raise UsageError(f"{path}: the folder has no scripts; {ACCEPTED}")
        for script in found:
            if script not in seen:
                seen.add(script)
                yield script


def _run(script: Path) -> dict[str, Any]:
    text = script.read_text(encoding="utf-8", errors="replace")
    outcome = engine.packetdrill(text, script.parent)
    return {"script": str(script), **{key: outcome[key] for key in ("result", "line", "reason", "unchecked")}}


def _print(rows: Sequence[dict[str, Any]], totals: dict[str, int]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("result", "script", "line", "reason"):
        table.add_column(title, justify="right" if title == "line" else "left", overflow="fold")
    for row in rows:
        line = "" if row["line"] is None else str(row["line"])
        result = Text(row["result"], style=RESULTS[row["result"]])
        table.add_row(result, Text(row["script"]), line, Text(row["reason"]))
    print_table(table, 120)
    noun = "script" if totals["scripts"] == 1 else "scripts"
    print(f"{totals['scripts']} {noun}: " + ", ".join(f"{totals[result]} {result}" for result in RESULTS))
