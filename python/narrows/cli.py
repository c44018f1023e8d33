"""The `narrows` command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows import engine
from narrows.options import (
    MISUSE,
    Duration,
    Jobs,
    Json,
    Loss,
    Out,
    Packets,
    Queue,
    Repeat,
    Seed,
    Sets,
    Trace,
    fail,
    go,
    guarded,
    overrides,
    show,
    spelled_out,
)
from narrows.scenario import Comparison, load, values

app = typer.Typer(
    name="narrows",
    help="A workshop for congestion control: run schemes over a simulated network, and published experiments as tests.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"narrows {engine.version()}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
@guarded
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A scenario, TOML.")],
    duration: Duration = None,
    seed: Seed = None,
    repeat: Repeat = None,
    loss: Loss = None,
    queue: Queue = None,
    sets: Sets = None,
    as_json: Json = False,
    out: Out = None,
    trace: Trace = None,
    packets: Packets = False,
    jobs: Jobs = None,
) -> None:
    """Run a scenario file."""
    scenario = load(Path(file)).replaced(overrides(sets, seed, repeat, duration, loss, queue))
    go(scenario, out=out, as_json=as_json, trace=trace, packets=packets, jobs=jobs)


@app.command()
@guarded
def compare(
    schemes: Annotated[
        list[str],
        typer.Argument(
            metavar="SCHEME...", help="One flow each; parameters go behind a colon: bbr:cwnd_gain=1.5."
        ),
    ],
    rate: Annotated[str, typer.Option(metavar="RATE", help="The bottleneck's rate.")] = "100mbit",
    rtt: Annotated[
        str, typer.Option(metavar="TIME,...", help="Base RTT, for all flows or one for each.")
    ] = "40ms",
    buffer: Annotated[
        str, typer.Option(metavar="SIZE", help="The bottleneck's buffer: bdp, pkt, bytes or ms.")
    ] = "1bdp",
    each: Annotated[bool, typer.Option("--each", help="Run every scheme alone, with all the flows.")] = False,
    start: Annotated[str | None, typer.Option(metavar="TIME,...", help="When flows start.")] = None,
    stop: Annotated[str | None, typer.Option(metavar="TIME,...", help="When flows stop.")] = None,
    count: Annotated[
        int, typer.Option("--count", "--flows", metavar="N", help="How many times each flow is there.")
    ] = 1,
    ack_every: Annotated[int | None, typer.Option(metavar="N", help="Segments per acknowledgement.")] = None,
    ecn: Annotated[bool, typer.Option("--ecn", help="Classic ECN.")] = False,
    duration: Duration = None,
    seed: Seed = None,
    repeat: Repeat = None,
    loss: Loss = None,
    queue: Queue = None,
    sets: Sets = None,
    as_json: Json = False,
    out: Out = None,
    trace: Trace = None,
    packets: Packets = False,
    jobs: Jobs = None,
) -> None:
    """Run schemes against each other over one bottleneck, or each alone."""
    comparison = Comparison(
        schemes=schemes, rate=rate, rtt=values(rtt), buffer=buffer, start=values(start), stop=values(stop),
        count=count, each=each, ack_every=ack_every, ecn=ecn,
    )  # fmt: skip
    scenario = comparison.scenario().replaced(overrides(sets, seed, repeat, duration, loss, queue))
    go(scenario, out=out, as_json=as_json, trace=trace, packets=packets, jobs=jobs)


@app.command()
@guarded
def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A scenario, TOML.")],
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    duration: Duration = None,
    seed: Seed = None,
    repeat: Repeat = None,
    loss: Loss = None,
    queue: Queue = None,
    sets: Sets = None,
    as_json: Json = False,
    out: Out = None,
    trace: Trace = None,
    packets: Packets = False,
    jobs: Jobs = None,
) -> None:
    """Run a scenario at every point of a grid: its own, and that of --set key=value,value."""
    scenario = load(Path(file)).replaced(overrides(sets, seed, repeat, duration, loss, queue))
    go(scenario, out=out, as_json=as_json, trace=trace, packets=packets, jobs=jobs, ray=ray)


@app.command()
@guarded
def schemes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One scheme.")] = None,
    as_json: Json = False,
) -> None:
    """List the schemes, or show one: its law, parameters and references."""
    from narrows import tables

    rows = engine.schemes()
    if name is not None:
        place = engine.scheme_order().get(name)
        if place is None:
            known = ", ".join(row.name for row in rows)
            fail(f"NAME: there is no scheme {name!r}; accepted: {known}", MISUSE)
        rows = (rows[place],)
    if as_json:
        keys = ("name", "aliases", "summary", "evidence", "recovery", "params")
        listed = [{key: getattr(row, key) for key in (*keys, *(("page",) if name else ()))} for row in rows]
        print(json.dumps(listed[0] if name else listed, ensure_ascii=False))
        return
    if name is None:
        show(tables.schemes_table(rows))
        return
    from rich.console import Group
    from rich.markdown import Markdown
    from rich.text import Text

    row = rows[0]
    aliases = f" (also {', '.join(row.aliases)})" if row.aliases else ""
    head = Text(f"{row.name}{aliases}: {row.summary}\nEvidence: {row.evidence}. Recovery: {row.recovery}.\n")
    parts = [head, Markdown(row.page)]
    if row.params:
        parts += [Text(""), tables.params_table(row.params)]
    show(Group(*parts))


def main() -> None:
    """Run the command."""
    try:
        app(args=spelled_out(sys.argv[1:]), prog_name="narrows")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
