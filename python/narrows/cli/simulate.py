"""`narrows run`, `compare` and `sweep`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.numbers import whole
from narrows.cli.options import BOTTLENECK, FLOWS, RUNS, AllowOutside, Options, Scheme, option, with_options
from narrows.cli.outcome import guarded
from narrows.scenario import Comparison, load, marking, override_text, split_values

ScenarioFile = Annotated[str, typer.Argument(metavar="FILE", help="Run this scenario file, TOML.")]


@guarded
@with_options
def run(
    file: ScenarioFile,
    scheme: Scheme = None,
    learn: Annotated[
        Path | None,
        option(
            panel=RUNS,
            metavar="FILE",
            help="Load the learned state of router algorithms, if the file exists, and save it after the run.",
        ),
    ] = None,
    allow_outside: AllowOutside = False,
    *,
    options: Options,
) -> None:
    """Run a scenario file."""
    options.execute(load(Path(file)), scheme=scheme, learn=learn, allow_outside=allow_outside)


@guarded
@with_options
def compare(
    schemes: Annotated[
        list[str],
        typer.Argument(
            metavar="SCHEME", help="Run one flow of each scheme. Parameters follow a colon: bbr:cwnd_gain=1.5."
        ),
    ],
    rate: Annotated[str, option(panel=BOTTLENECK, metavar="RATE", help="Set the bottleneck's rate.")] = "100mbit",
    rtt: Annotated[
        str, option(panel=FLOWS, metavar="TIME,...", help="Set the base RTT: one for all flows, or one per flow.")
    ] = "40ms",
    buffer: Annotated[
        str, option(panel=BOTTLENECK, metavar="SIZE", help="Set the bottleneck's buffer in bdp, pkt, bytes or ms.")
    ] = "1bdp",
    each: Annotated[bool, option("--each", panel=FLOWS, help="Run every scheme alone, with all the flows.")] = False,
    start: Annotated[
        str | None,
        option(panel=FLOWS, metavar="TIME,...", help="Start flows at this time: one for all, or one per flow."),
    ] = None,
    stop: Annotated[
        str | None,
        option(panel=FLOWS, metavar="TIME,...", help="Stop flows at this time: one for all, or one per flow."),
    ] = None,
    count: Annotated[
        int, whole("--count", 1, names=("--count", "--flows"), help="Run N copies of each flow.", panel=FLOWS)
    ] = 1,
    ack_every: Annotated[int | None, whole("--ack-every", 1, help="Acknowledge every N segments.", panel=FLOWS)] = None,
    ecn: Annotated[
        bool, option("--ecn", panel=FLOWS, help="Negotiate classic ECN, and let --queue set marks.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Run schemes against each other over one bottleneck, or each alone."""
    comparison = Comparison(
        schemes=schemes, rate=rate, rtt=split_values(rtt, "--rtt"), buffer=buffer,
        start=split_values(start, "--start"), stop=split_values(stop, "--stop"),
        count=count, each=each, ack_every=ack_every, ecn=ecn,
    )  # fmt: skip
    if ecn and options.queue is not None:
        options = replace(options, queue=override_text(marking(options.queue)))
    options.execute(comparison.scenario())


@guarded
@with_options
def sweep(
    file: ScenarioFile,
    scheme: Scheme = None,
    ray: Annotated[str | None, option(panel=RUNS, metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    allow_outside: AllowOutside = False,
    *,
    options: Options,
) -> None:
    """Run every point of a grid, defined by the file and by --set key=value,value."""
    options.execute(load(Path(file)), scheme=scheme, ray=ray, allow_outside=allow_outside)
