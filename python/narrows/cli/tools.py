"""`narrows trace` and `bench`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from narrows import engine
from narrows.cli.numbers import whole
from narrows.cli.outcome import FAILURE, USAGE_ERROR, fail, guarded, located, print_table
from narrows.errors import UsageError
from narrows.files import check_writable
from narrows.progress import print_status


@guarded
def trace(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Generate the path of this radio: 5g.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Write the three files to a folder.")],
    seed: Annotated[int, whole("--seed", 0, help="Select the path; the same seed gives the same path.")] = 1,
    duration: Annotated[str, typer.Option(metavar="TIME", help="Set the length.")] = "60s",
    mean: Annotated[str, typer.Option(metavar="RATE", help="Set the long-term mean rate.")] = "150mbit",
    peak: Annotated[
        str, typer.Option(metavar="RATE", help="Set the highest rate, at least three times the mean.")
    ] = "1gbit",
    loss: Annotated[str, typer.Option(metavar="SHARE", help="Set the mean share of lost packets.")] = "0.5%",
    handovers: Annotated[str, typer.Option(metavar="TIME", help="Set the mean time between handovers.")] = "12s",
    delay: Annotated[str, typer.Option(metavar="TIME", help="Set the largest delay that a cell adds.")] = "10ms",
) -> None:
    """Generate a radio path: capacity.trace in mahimahi's format, loss.trace and delay.trace."""
    from narrows import radio

    try:
        made = radio.radio_trace(
            kind, seed=seed, duration=duration, mean=mean, peak=peak, loss=loss, handovers=handovers, delay=delay
        )
    except engine.ScenarioError as error:
        flags = {"kind": "KIND", "period": "--duration"}
        fail(located(error, flags.get(error.key or "", f"--{error.key}")), USAGE_ERROR)
    check_writable(out)
    for path in made.write(out):
        print_status(f"wrote {path}")


@guarded
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE|SCHEME|ROUTER", help="Measure these cases, schemes or router algorithms only."),
    ] = None,
    schemes: Annotated[
        bool, typer.Option("--schemes", help="Measure the cost of an acknowledgement per scheme instead.")
    ] = False,
    routers: Annotated[
        bool, typer.Option("--routers", help="Measure the cost of router algorithms at a link instead.")
    ] = False,
    dccp: Annotated[
        bool,
        typer.Option(
            "--dccp", help="Measure the cost of datagrams instead: DCCP in memory and over loopback, beside UDP."
        ),
    ] = False,
    repeats: Annotated[
        int | None,
        whole(
            "--repeats",
            1,
            help="Run each case N times (default 3), or N rounds (201 of schemes, 51 of router algorithms, 3 of "
            "datagrams), and report medians.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, and nothing else.")] = False,
    ns3: Annotated[bool, typer.Option("--ns3/--no-ns3", help="Compare with ns-3, if it is installed.")] = True,
) -> None:
    """Measure the engine: data packets delivered per wall-second on one core."""
    from narrows.bench import cases, tables
    from narrows.bench import ns3 as other

    if schemes + routers + dccp > 1:
        raise UsageError("--schemes, --routers, --dccp: these exclude each other; accepted: one of them, or none")
    if schemes or routers or dccp:
        rows, table = _costs(list(names or ()), repeats, schemes=schemes, routers=routers)
        _print_rows(rows, table, as_json)
        return
    rows = cases.run(list(names or ()), repeats or cases.REPEATS, print_status)
    if not as_json:
        print_table(tables.case_table(rows))
    if ns3:
        for line in other.compare(rows):
            print_status(line)
    if as_json:  # rows include the comparison, so print them last
        _print_rows(rows, tables.case_table, as_json)
    failed = [row["case"] for row in rows if row["failed"]]
    if failed:
        fail(f"these cases failed: {', '.join(failed)}", FAILURE)


Row = dict[str, Any]
Format = Callable[[Sequence[Row]], Any]


def _costs(names: list[str], repeats: int | None, *, schemes: bool, routers: bool) -> tuple[list[Row], Format]:
    """Measure schemes, router algorithms or datagrams; return the rows and their format."""
    from narrows.bench import costs, datagrams, tables

    if schemes:
        return costs.schemes(names, repeats or costs.SCHEME_ROUNDS), tables.scheme_table
    if routers:
        return costs.routers(names, repeats or costs.ROUTER_ROUNDS), tables.router_table
    return datagrams.run(names, repeats or datagrams.ROUNDS, print_status), tables.datagram_table


def _print_rows(rows: Sequence[Row], table: Format, as_json: bool) -> None:
    if not as_json:
        print_table(table(rows))
        return
    for row in rows:
        print(json.dumps(row))
