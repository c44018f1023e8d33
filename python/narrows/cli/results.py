"""`narrows plot` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.outcome import guarded
from narrows.files import check_writable
from narrows.progress import print_status
from narrows.scenario import split_values

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Read the results from this folder.")]


@guarded
def plot(
    directory: Directory,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Draw this kind: time, share, loss, delay, line or bar.")
    ] = None,
    x: Annotated[str | None, typer.Option(metavar="KEY", help="Select the x axis.")] = None,
    y: Annotated[str | None, typer.Option(metavar="COLUMN", help="Select the y axis.")] = None,
    series: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="Select the columns that separate lines, or the panels over time."),
    ] = None,
    run: Annotated[int | None, typer.Option(metavar="N", min=0, help="Select the run of a plot over time.")] = None,
    logx: Annotated[bool, typer.Option("--logx", help="Use a logarithmic x axis.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to a .png, .svg or .pdf file.")
    ] = None,
) -> None:
    """Draw results: cwnd and rates over time, shares, delay against throughput."""
    from narrows import plots
    from narrows.results import Results

    results = Results.load(directory)
    kind = kind or plots.default_kind(results)
    columns = None if series is None else split_values(series, "--series")
    options = {"x": x, "y": y, "series": columns, "run": run, "logx": logx or None}
    target = out or directory / f"{kind}.png"
    check_writable(target, folder=False)
    plots.save(
        plots.plot(results, kind, **{key: value for key, value in options.items() if value is not None}),
        target,
    )
    print_status(f"wrote {target}")


@guarded
def report(
    directory: Directory,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Write a report of results: one HTML file with tables, figures and scenario."""
    from narrows import report as page
    from narrows.results import Results

    target = out or directory / "report.html"
    check_writable(target, folder=False)
    page.write(Results.load(directory), target)
    print_status(f"wrote {target}")
