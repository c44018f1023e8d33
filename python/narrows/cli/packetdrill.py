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
KNOWN = "known"
"""Result of a script that fails or is skipped as the list of deviations says."""


@guarded
def packetdrill(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Run these scripts, and those in these folders (*.pkt).")
    ],
    deviations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read from this file which scripts are known not to pass (lines `SCRIPT: REASON`): they are `known`, "
            "or `fail` once they pass.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per script and one with the totals, and nothing else.")
    ] = False,
) -> None:
    """Run packetdrill scripts against the TCP endpoint.

    A script passes if every packet and every assertion in it is met, and is skipped if it needs what the endpoint does
    not have. The exit status is 1 if a script fails.
    """
    scripts = list(_scripts(paths))
    known = {} if deviations is None else _deviations(deviations, scripts)
    rows = [_judged(_run(script), known.get(script)) for script in scripts]
    counts = Counter(row["result"] for row in rows)
    results = [*RESULTS] if deviations is None else [*RESULTS, KNOWN]
    totals = {"scripts": len(rows), **{result: counts[result] for result in results}}
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


def _deviations(file: Path, scripts: Sequence[Path]) -> dict[Path, str]:
    """Read which scripts shall not pass, and why. A name is the end of a path: `a.pkt`, `folder/a.pkt`."""
    known: dict[Path, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, reason = (part.strip() for part in line.partition(": "))
        if not colon or not reason:
            raise UsageError(f"{file}:{number}: no reason; accepted: lines `SCRIPT: REASON`, and comments with `#`")
        parts = Path(name).parts
        named = [script for script in scripts if script.parts[-len(parts) :] == parts]
        if len(named) != 1:
            count = "none" if not named else "several"
            raise UsageError(f"{file}:{number}: {name}: {count} of the scripts; accepted: the end of one script's path")
        known[named[0]] = reason
    return known


def _judged(row: dict[str, Any], expected: str | None) -> dict[str, Any]:
    """Compare a result with the reason why the script shall not pass, if there is one."""
    if expected is None:
        return row
    if row["result"] == "pass":
        return {**row, "result": "fail", "reason": f"it passes; no longer true: {expected}"}
    return {**row, "result": KNOWN, "reason": f"{expected} ({row['reason']})"}


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
        result = Text(row["result"], style=RESULTS.get(row["result"], RESULTS["skip"]))
        table.add_row(result, Text(row["script"]), line, Text(row["reason"]))
    print_table(table, 120)
    noun = "script" if totals["scripts"] == 1 else "scripts"
    print(
        f"{totals['scripts']} {noun}: "
        + ", ".join(f"{count} {result}" for result, count in totals.items() if result != "scripts")
    )
