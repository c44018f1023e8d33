"""`narrows packetdrill`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from narrows import engine
from narrows.cli.outcome import FAILURE, guarded, print_table
from narrows.errors import UsageError
from narrows.files import TEXT_BYTES, contents
from narrows.progress import Terminal, print_status

SUFFIX = ".pkt"
MOST_FILES = 20_000
"""The most files and folders below a folder of scripts."""
ACCEPTED = f"accepted: scripts ({SUFFIX}) and folders with scripts"
RESULTS = {"pass": "green", "fail": "red", "skip": "yellow"}
"""Results of a script, with the colour of each."""
KNOWN = "known"
"""Result of a script that fails or is skipped as listed among the deviations."""


LATENESS_MS = 4.0
"""Tolerance for times of the kernel's packets, unless a script allows more."""


@guarded
def packetdrill(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Run these scripts, and those in these folders (*.pkt).")
    ],
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="PLACE",
            help="Run on the endpoint in virtual time (sim), on this machine's kernel in real time, as root (kernel), "
            "or on both (sim,kernel).",
        ),
    ] = engine.SIM,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0.1, max=1000, metavar="MS", help="Set the tolerance for times on the kernel, in milliseconds."
        ),
    ] = LATENESS_MS,
    deviations: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read from this file which scripts are known not to pass (lines `SCRIPT: REASON`): they are `known`, "
            "or `fail` once they pass. With two places, the first one is judged.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per script and one with the totals, and nothing else.")
    ] = False,
) -> None:
    """Run packetdrill scripts against the TCP endpoint, or on the kernel.

    A script passes if every packet and every assertion in it is met, and is skipped if it needs what the endpoint, or
    the kernel here, does not have. The exit status is 1 if a script fails.
    """
    places = on.split(",")
    if not places or len(set(places)) != len(places) or not set(places) <= {engine.SIM, engine.KERNEL}:
        raise UsageError(f"--on: `{on}` runs no scripts; accepted: sim, kernel, or sim,kernel")
    scripts = list(_scripts(paths))
    known = {} if deviations is None else _deviations(deviations, scripts)
    outcomes = []
    progress = Terminal(print_status, sys.stderr.isatty(), noun="scripts")
    try:
        for number, script in enumerate(scripts):
            progress.progress(number / len(scripts), number, len(scripts))
            outcome = {place: _run(script, None if place == engine.SIM else tolerance) for place in places}
            outcome[places[0]] = _judged(outcome[places[0]], known.get(script))
            outcomes.append(outcome)
    finally:
        progress.close()
    counts = {place: Counter(outcome[place]["result"] for outcome in outcomes) for place in places}
    results = [*RESULTS] if deviations is None else [*RESULTS, KNOWN]
    totals = {place: {result: counts[place][result] for result in results} for place in places}
    if as_json:
        for row in _rows(scripts, outcomes, totals):
            print(json.dumps(row))
    else:
        _print(scripts, outcomes, totals)
    if any(count["fail"] for count in counts.values()):
        raise typer.Exit(FAILURE)


Outcome = dict[str, dict[str, Any]]
"""Results of a script by backend."""


def _rows(
    scripts: Sequence[Path], outcomes: Sequence[Outcome], totals: dict[str, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    """Yield rows of JSON: flat for one backend, else with an object per backend."""
    for script, outcome in zip(scripts, outcomes, strict=True):
        yield {"script": str(script), **(next(iter(outcome.values())) if len(outcome) == 1 else outcome)}
    yield {"scripts": len(scripts), **(next(iter(totals.values())) if len(totals) == 1 else totals)}


def _scripts(paths: Sequence[Path]) -> Iterator[Path]:
    """Find the scripts, each once; those of a folder in the order of their names."""
    seen = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder; {ACCEPTED}")
        found = sorted(_walk(path)) if path.is_dir() else [path]
        if not found:
            raise UsageError(f"{path}: the folder has no scripts; {ACCEPTED}")
        for script in found:
            if script not in seen:
                seen.add(script)
                yield script


def _walk(folder: Path) -> Iterator[Path]:
    """Find the scripts below a folder; refuse a folder with too many files, such as `/`."""
    seen = 0
    for place, _, files in os.walk(folder):
        seen += 1 + len(files)
        if seen > MOST_FILES:
            raise UsageError(f"{folder}: more than {MOST_FILES} files and folders; accepted: a folder of scripts")
        found = (Path(place) / file for file in files if file.endswith(SUFFIX))
        yield from filter(Path.is_file, found)


def _deviations(file: Path, scripts: Sequence[Path]) -> dict[Path, str]:
    """Read the scripts known not to pass, with reasons. A name is the end of a path: `a.pkt`, `folder/a.pkt`."""
    known: dict[Path, str] = {}
    for number, line in enumerate(_read(file).splitlines(), 1):
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
    """Compare a result with the known reason for not passing, if there is one."""
    if expected is None:
        return row
    if row["result"] == "pass":
        return {**row, "result": "fail", "reason": f"it passes; no longer true: {expected}"}
    return {**row, "result": KNOWN, "reason": f"{expected} ({row['reason']})"}


def _read(file: Path) -> str:
    try:
        return contents(file, TEXT_BYTES, stream=True).decode(errors="replace")
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None


def _run(script: Path, lateness_ms: float | None) -> dict[str, Any]:
    text = _read(script)
    outcome = engine.packetdrill(text, script.parent, lateness_ms)
    return {key: outcome[key] for key in ("result", "line", "reason", "unchecked")}


def _print(scripts: Sequence[Path], outcomes: Sequence[Outcome], totals: dict[str, dict[str, int]]) -> None:
    from rich.table import Table
    from rich.text import Text

    places = list(totals)
    several = len(places) > 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (*(places if several else ["result"]), "script", "line", "reason"):
        # Keep paths whole, so that they can be copied.
        least = max(len(str(script)) for script in scripts) if title == "script" else None
        table.add_column(title, justify="right" if title == "line" else "left", overflow="fold", min_width=least)
    for script, outcome in zip(scripts, outcomes, strict=True):
        results = [Text(row["result"], style=RESULTS.get(row["result"], RESULTS["skip"])) for row in outcome.values()]
        told = {place: row for place, row in outcome.items() if row["reason"]}
        lines = [str(row["line"] or "") for row in told.values()]
        reasons = [f"{place}: {row['reason']}" if several else row["reason"] for place, row in told.items()]
        table.add_row(*results, Text(str(script)), Text("\n".join(lines)), Text("\n".join(reasons)))
    print_table(table, 120)
    noun = "script" if len(scripts) == 1 else "scripts"
    for place, total in totals.items():
        where = f" on {place}" if several else ""
        print(f"{len(scripts)} {noun}{where}: " + ", ".join(f"{count} {result}" for result, count in total.items()))
