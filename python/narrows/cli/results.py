"""`narrows plot` and `report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from narrows.cli.numbers import whole
from narrows.cli.outcome import guarded
from narrows.errors import OptionError, UsageError
from narrows.files import check_writable
from narrows.progress import print_status
from narrows.scenario import split_values

if TYPE_CHECKING:
    from narrows.results import Results

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Read the results from this folder.")]
Places = Annotated[
    list[Path],
    typer.Argument(metavar="DIR|FILE...", help="Read the results from this folder, or from qlog files of any stack."),
]


@guarded
def plot(
    places: Places,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Draw this kind: time, share, loss, delay, line, bar, cdf, box or heatmap."),
    ] = None,
    x: Annotated[str | None, typer.Option(metavar="KEY", help="Select the x axis.")] = None,
    y: Annotated[str | None, typer.Option(metavar="COLUMN", help="Select the y axis.")] = None,
    z: Annotated[str | None, typer.Option(metavar="COLUMN", help="Select the colours of a heatmap.")] = None,
    series: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="Select the columns that separate lines, or the panels over time."),
    ] = None,
    panel: Annotated[
        str | None, typer.Option(metavar="KEY", help="Draw a panel per value of this key, side by side.")
    ] = None,
    row: Annotated[str | None, typer.Option(metavar="KEY", help="Draw a row of panels per value of this key.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE,...", help="Draw only rows with these values; repeatable.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="Draw this table: flows, links, runs or connections; for cdf and box also samples."
        ),
    ] = None,
    run: Annotated[int | None, whole("--run", 0, help="Select the run of a plot over time.")] = None,
    logx: Annotated[bool, typer.Option("--logx", help="Use a logarithmic x axis.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Set the title.")] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Set the size for a paper: column (3.5 in wide) or page (7.16 in)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to a .png, .svg or .pdf file.")
    ] = None,
) -> None:
    """Draw results: cwnd and rates over time, shares, delay against throughput, distributions, heatmaps.

    Swept keys that are neither drawn nor selected get panels of their own. The connections of several qlog files share
    the panels over time.
    """
    from narrows import plots

    results, beside = _source(places)
    kind = kind or plots.default_kind(results)
    columns = None if series is None else split_values(series, "--series")
    options = {
        "x": x, "y": y, "z": z, "series": columns, "panel": panel, "row": row, "where": _where(where), "table": table,
        "run": run, "logx": logx or None, "title": title, "size": size,
    }  # fmt: skip
    try:
        taken = _taken(kind, options, plots.options_of(kind))
        target = out or (beside / f"{kind}.png" if beside.is_dir() else beside.with_suffix(".png"))
        check_writable(target, folder=False)
        figure = plots.plot(results, kind, **taken)
    except plots.UndrawnError as error:
        key = error.keys[0]
        raise UsageError(
            f"{', '.join(error.keys)}: {error.problem}; "
            f"accepted: --panel {key}, --row {key} or --where {key}={error.value}"
        ) from None
    except OptionError as error:
        raise UsageError(f"--{SPELLED.get(error.option, error.option)}: {error.problem}") from None
    plots.save(figure, target)
    print_status(f"wrote {target}")


SPELLED = {"by": "series"}
"""Command-line names of plot options, where they differ from Python's."""


def _where(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Split the `KEY=VALUE` of `--where`.

    Raises:
        UsageError: A text has no key or value, or a key is given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value):
            raise UsageError(f"--where: `{text}` selects nothing; accepted: KEY=VALUE, such as network.buffer=1bdp")
        if key in found:
            raise UsageError(f"--where: {key} is given twice; accepted: once, with several values: {key}=A,B")
        found[key] = value
    return found or None


def _taken(kind: str, options: Mapping[str, Any], accepted: Sequence[str]) -> dict[str, Any]:
    """Return the given options under the names that the plot function of a kind uses.

    Raises:
        UsageError: The plots of this kind lack an option.
    """
    names = {SPELLED.get(name, name): name for name in accepted}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in names:
            known = ", ".join(f"--{name}" for name in options if name in names) or "none of these options"
            raise UsageError(f"--{name}: plots of kind {kind!r} lack this option; accepted: {known}")
    return {names[name]: value for name, value in given.items()}


def _source(places: Sequence[Path]) -> tuple[Results, Path]:
    """Load a folder of results or qlog files; return them and the path beside which the figure is written.

    Raises:
        UsageError: There are several paths, and not all are qlog files.
    """
    from narrows import qlog

    logs = [place for place in places if not place.is_dir() and (qlog.accepts(place) or place.is_file())]
    if logs and len(logs) == len(places):
        logged = qlog.load(places)
        for hint in logged.hints:
            print_status(f"narrows: warning: {hint}")
        return logged, places[0]
    if len(places) > 1:
        other = next((place for place in places if place not in logs), places[0])
        raise UsageError(f"{other} is no qlog file; accepted: one folder of results, or one or several qlog files")
    return _load(places[0]), places[0]


def _load(directory: Path) -> Results:
    """Load results; warn if runs are missing."""
    from narrows.results import Results

    results = Results.load(directory)
    if not results.complete:
        print_status(
            f"narrows: warning: {directory} holds the {len(results)} finished runs of interrupted work; "
            "the same command as before executes the others"
        )
    return results


@guarded
def report(
    directory: Directory,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write to a .html or .htm file.")
    ] = None,
) -> None:
    """Write a report of results: one HTML file with tables, plots and scenario; SVG and PDF of each plot beside it."""
    from narrows import report as page

    if out is not None and out.suffix not in (".html", ".htm"):
        raise UsageError(f"--out: {out}: the ending {out.suffix!r} is not that of a page; accepted: .html or .htm")
    if out is not None:
        check_writable(out, folder=False)
    results = _load(directory)
    target = out or directory / "report.html"
    check_writable(target, folder=False)
    page.write(results, target)
    print_status(f"wrote {target}")
