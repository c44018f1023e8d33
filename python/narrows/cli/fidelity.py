"""`narrows fidelity`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from narrows import engine
from narrows.cli.numbers import whole
from narrows.cli.options import Jobs
from narrows.cli.outcome import guarded, print_table
from narrows.files import check_writable
from narrows.progress import Terminal, print_status


@guarded
def fidelity(
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            metavar="GRID",
            help="Run this grid: quick (19 cells, under 20 minutes) or full (131 cells, hours).",
        ),
    ] = "quick",
    cells: Annotated[
        str | None,
        typer.Option(
            "--cells", metavar="REGEX", help="Run only cells whose name matches, such as ' 100mbit .* 1bdp$'."
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        whole("--repeat", 1, help="Run each cell N times on the kernel (default 2 of the quick grid, 3 of the full)."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run those kernel runs again that other work disturbed.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per cell and one with the totals, and nothing else.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Keep runs, cells.jsonl and the map in a folder.")
    ] = Path("fidelity"),
    jobs: Jobs = None,
) -> None:
    """Compare the simulator with this machine's kernel, cell by cell; needs root on Linux.

    The kernel's runs take real time, on a machine without other work, one at a time unless --jobs says otherwise. Each
    is saved when it ends: after an interruption, the same command continues. It also keeps them when the simulator
    changes, and repeats only those of the simulator; without DIR/runs it repeats all.
    """
    from narrows.fidelity import comparison, drawing, tables, work
    from narrows.fidelity import grid as grids

    chosen = grids.chosen(grid, cells)
    check_writable(out)
    todo = work.Work(chosen, repeat or grids.repeats(grid), out, jobs, again, _terminal, print_status)
    rows = [comparison.compare(measured) for measured in todo.run()]
    totals = comparison.totals(rows)
    files = drawing.save(rows, totals, out)
    print_status(f"wrote {', '.join(str(file) for file in files)}")
    if as_json:
        for row in [*rows, totals]:
            print(engine.json_line(row), flush=True)
        return
    print_table(tables.outcome(rows, totals))


@contextlib.contextmanager
def _terminal() -> Iterator[Terminal]:
    """Yield a listener that shows the progress."""
    listener = Terminal(print_status, sys.stderr.isatty(), None)
    try:
        yield listener
    finally:
        listener.close()
