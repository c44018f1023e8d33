"""`narrows kernel`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from narrows import hosts
from narrows.arguments import pairs
from narrows.cli.numbers import parameters
from narrows.cli.outcome import borderless, guarded, print_table
from narrows.errors import Stopped
from narrows.supervision import undivided

app = typer.Typer(
    name="kernel",
    help="Load schemes into this machine's kernel as programs that every connection can use by name.",
    no_args_is_help=True,
)

NAME = Annotated[str, typer.Argument(metavar="NAME", help="Select a program of `narrows kernel list`.")]


@app.command("list")
@guarded
def list_programs(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list, and nothing else.")] = False,
) -> None:
    """List the schemes that the kernel can run as programs."""
    programs = hosts.kernel_programs()
    if as_json:
        print(json.dumps([program.__dict__ for program in programs]))
        return
    heads = ("name", "scheme", "loaded", "")
    table = borderless(heads, left=heads)
    for program in programs:
        table.add_row(program.name, program.scheme, "yes" if program.registered else "no", program.summary)
    print_table(table)


@app.command()
@guarded
def load(name: NAME, sets: Annotated[list[str] | None, parameters("scheme")] = None) -> None:
    """Load a scheme as root. It stays until `unload` or a restart; programs choose it by TCP_CONGESTION or sysctl.

    `narrows schemes NAME` lists the parameters. They are fixed for all connections while the program is loaded.
    """
    values = pairs(sets or [])
    with undivided() as signals:
        loaded = hosts.load_program(name, values)
        if signals:
            raise Stopped(f"stopped; `{loaded}` is loaded: undo with `narrows kernel unload {loaded}`", signals[0])
        print(f"loaded `{loaded}`: sysctl net.ipv4.tcp_congestion_control={loaded}, or TCP_CONGESTION on a socket")


@app.command()
@guarded
def unload(name: NAME) -> None:
    """Unload a scheme as root. Connections that use it keep it until they end."""
    with undivided() as signals:
        unloaded, sockets = hosts.unload_program(name)
        left = f"; {sockets} connection{'s' * (sockets != 1)} will keep it to the end" if sockets else ""
        print(f"unloaded `{unloaded}`{left}")
        if signals:
            raise Stopped(f"stopped; `{unloaded}` is unloaded", signals[0])


@app.command()
@guarded
def status(
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="S", help="Measure calls and their duration for this time.")
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list, and nothing else.")] = False,
) -> None:
    """Show what loaded schemes do: connections, acknowledgements, calls and their time, errors.

    The kernel's run statistics are on meanwhile, and their clock (some 20 ns per call) is part of the time.
    """
    rows = hosts.program_status(seconds)
    if as_json:
        print(json.dumps(rows))
        return
    if not rows:
        print("no program is loaded")
        return
    heads = (
        "name", "sockets", "opened", "acks", "calls", "ns/call", "ns/ack", "cpu %", "timeouts", "errors", "parameters",
    )  # fmt: skip
    table = borderless(heads, left=("name", "parameters"))
    for row in rows:
        times = ("–" if row[key] is None else f"{row[key]:.0f}" for key in ("ns_per_call", "ns_per_ack"))
        changed = ", ".join(f"{key}={value:g}" for key, value in row["parameters"]) or "defaults"
        counts = (str(row[key]) for key in ("sockets", "opened", "acks", "calls"))
        ended = (f"{row['cpu_percent']:.2f}", str(row["timeouts"]), str(row["errors"]), changed)
        table.add_row(row["name"], *counts, *times, *ended)
    print_table(table, 140)
