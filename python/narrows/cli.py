"""The `narrows` command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from narrows import engine, runner
from narrows.options import (
    FAILURE,
    MISUSE,
    Jobs,
    Options,
    Scheme,
    fail,
    guarded,
    say,
    show,
    spelled_out,
    with_options,
)
from narrows.scenario import Comparison, Misuse, load, marking, override_text, values

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
@with_options
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A scenario, TOML.")],
    scheme: Scheme = None,
    learn: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What allocators have learned: read if it is there, kept after the run."),
    ] = None,
    *,
    options: Options,
) -> None:
    """Run a scenario file."""
    options.go(load(Path(file)), scheme=scheme, learn=learn)


@app.command()
@guarded
@with_options
def compare(
    schemes: Annotated[
        list[str],
        typer.Argument(metavar="SCHEME", help="One flow each; parameters go behind a colon: bbr:cwnd_gain=1.5."),
    ],
    rate: Annotated[str, typer.Option(metavar="RATE", help="The bottleneck's rate.")] = "100mbit",
    rtt: Annotated[str, typer.Option(metavar="TIME,...", help="Base RTT, for all flows or one for each.")] = "40ms",
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
    ecn: Annotated[
        bool, typer.Option("--ecn", help="Classic ECN: flows ask for marks, and --queue sets them.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Run schemes against each other over one bottleneck, or each alone."""
    comparison = Comparison(
        schemes=schemes, rate=rate, rtt=values(rtt, "--rtt"), buffer=buffer,
        start=values(start, "--start"), stop=values(stop, "--stop"),
        count=count, each=each, ack_every=ack_every, ecn=ecn,
    )  # fmt: skip
    if ecn and options.queue is not None:
        options = replace(options, queue=override_text(marking(options.queue)))
    options.go(comparison.scenario())


@app.command()
@guarded
@with_options
def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A scenario, TOML.")],
    scheme: Scheme = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on a Ray cluster.")] = None,
    *,
    options: Options,
) -> None:
    """Run a scenario at every point of a grid: its own, and that of --set key=value,value."""
    options.go(load(Path(file)), scheme=scheme, ray=ray)


@app.command()
@guarded
def schemes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One scheme.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list, or one object with NAME.")] = False,
) -> None:
    """List the schemes, or show one: its law, parameters and references."""
    rows = engine.schemes()
    if name is not None:
        place = engine.scheme_order().get(name)
        if place is None:
            fail(f"NAME: {engine.no_scheme(name)}", MISUSE)
        rows = (rows[place],)
    keys = ("name", "aliases", "summary", "evidence", "recovery", "params")
    _registry("scheme", rows, keys, one=name is not None, as_json=as_json)


@app.command()
@guarded
def allocators(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One allocator.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list, or one object with NAME.")] = False,
) -> None:
    """List what ports do to take part, or show one: its law, parameters and references."""
    rows = engine.allocators()
    if name is not None:
        rows = tuple(row for row in rows if row.name == name)
        if not rows:
            fail(f"NAME: {engine.no_allocator(name)}", MISUSE)
    keys = ("name", "summary", "evidence", "params")
    _registry("allocator", rows, keys, one=name is not None, as_json=as_json)


def _registry(kind: str, rows: Sequence[Any], keys: Sequence[str], *, one: bool, as_json: bool) -> None:
    """Show a registry, or one of its rows."""
    from narrows import tables

    if as_json:
        listed = [{key: getattr(row, key) for key in (*keys, *(("page",) if one else ()))} for row in rows]
        print(json.dumps(listed[0] if one else listed, ensure_ascii=False))
        return
    if not one:
        show(tables.registry_table(kind, rows))
        return
    from rich.console import Group
    from rich.markdown import Markdown
    from rich.text import Text

    row = rows[0]
    also = getattr(row, "aliases", ())
    aliases = f" (also {', '.join(also)})" if also else ""
    known = tables.EVIDENCE.get(row.evidence, row.evidence)
    recovery = f" Recovery: {row.recovery}." if hasattr(row, "recovery") else ""
    head = Text(f"{row.name}{aliases}: {row.summary}\nEvidence: {known}.{recovery}\n")
    parts: list[Any] = [head, Markdown(row.page)]
    if row.params:
        parts += [Text(""), tables.params_table(row.params)]
    show(Group(*parts), width=120)  # the drawings of states do not fold


@app.command()
@guarded
def trace(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which radio: 5g.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the three files.")],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed gives the same path.")] = 1,
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long it is.")] = "60s",
    mean: Annotated[str, typer.Option(metavar="RATE", help="Mean rate over the long run.")] = "150mbit",
    peak: Annotated[str, typer.Option(metavar="RATE", help="Greatest rate, at least three times the mean.")] = "1gbit",
    loss: Annotated[str, typer.Option(metavar="SHARE", help="Mean share of packets that is lost.")] = "0.5%",
    handovers: Annotated[str, typer.Option(metavar="TIME", help="Mean time to the next handover.")] = "12s",
    delay: Annotated[str, typer.Option(metavar="TIME", help="The most that a cell adds to the delay.")] = "10ms",
) -> None:
    """Write a generated radio path: capacity.trace in mahimahi's format, loss.trace and delay.trace."""
    from narrows import radio

    try:
        made = radio.radio_trace(
            kind, seed=seed, duration=duration, mean=mean, peak=peak, loss=loss, handovers=handovers, delay=delay
        )
    except engine.ScenarioError as error:
        flags = {"kind": "KIND", "period": "--duration"}
        accepted = f"\n  accepted: {error.accepted}" if error.accepted else ""
        fail(f"{flags.get(error.key or '', f'--{error.key}')}: {error.message}{accepted}", MISUSE)
    runner.writable(out)
    for path in made.write(out):
        say(f"wrote {path}")


@app.command()
@guarded
def reproduce(
    paper: Annotated[str | None, typer.Argument(metavar="PAPER", help="One paper.")] = None,
    figures: Annotated[list[str] | None, typer.Argument(metavar="FIGURE", help="Some of its figures.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One seed and shorter runs.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's durations.")] = False,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="How many seeds to run.")] = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the report.")] = Path("report"),
    papers: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of papers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per claim, and nothing else.")] = False,
) -> None:
    """Run published experiments and say which of their claims hold."""
    from narrows import reproduce as work
    from narrows.papers import find, load_all

    if quick and full:
        raise Misuse("--quick, --full: accepted: one of them, or neither")
    runner.writable(out)
    chosen = load_all(find(papers), paper, figures or ())
    listener = runner.Terminal(say, sys.stderr.isatty(), None)
    mode: work.Mode = "quick" if quick else "full" if full else "default"
    try:
        done = work.reproduce(chosen, out, mode=mode, seeds=seeds, jobs=jobs, listener=listener, tell=say)
    finally:
        listener.close()
    say(f"the report is {out / 'index.html'}")
    if as_json:
        for row, outcome in work.rows(done):
            print(json.dumps(work.data(row, outcome), ensure_ascii=False))
        return
    show(work.table(done))
    show(work.sentence(done, mode))


@app.command()
@guarded
def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of results.")],
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="time, share, loss, delay, line or bar.")] = None,
    x: Annotated[str | None, typer.Option(metavar="KEY", help="What is on the x axis.")] = None,
    y: Annotated[str | None, typer.Option(metavar="COLUMN", help="What is on the y axis.")] = None,
    series: Annotated[str | None, typer.Option(metavar="COLUMN,...", help="One line or panel each.")] = None,
    run: Annotated[int | None, typer.Option(metavar="N", min=0, help="Which run, for plots over time.")] = None,
    logx: Annotated[bool, typer.Option("--logx", help="A logarithmic x axis.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="A .png, .svg or .pdf.")] = None,
) -> None:
    """Draw results: windows over time, shares, delay against throughput."""
    from narrows import plots
    from narrows.results import Results

    results = Results.load(directory)
    kind = kind or plots.default_kind(results)
    columns = None if series is None else values(series, "--series")
    options = {"x": x, "y": y, "series": columns, "run": run, "logx": logx or None}
    target = out or directory / f"{kind}.png"
    runner.writable(target, folder=False)
    plots.save(
        plots.plot(results, kind, **{key: value for key, value in options.items() if value is not None}),
        target,
    )
    say(f"wrote {target}")


@app.command()
@guarded
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of results.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = None,
) -> None:
    """Write results as one HTML file with everything inside."""
    from narrows import report as page
    from narrows.results import Results

    target = out or directory / "report.html"
    runner.writable(target, folder=False)
    page.write(Results.load(directory), target)
    say(f"wrote {target}")


@app.command()
@guarded
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE|SCHEME|ALLOCATOR", help="Some of the cases, schemes or allocators."),
    ] = None,
    schemes: Annotated[
        bool, typer.Option("--schemes", help="Measure what an acknowledgement costs each scheme instead.")
    ] = False,
    allocators: Annotated[
        bool, typer.Option("--allocators", help="Measure what each allocator costs its link instead.")
    ] = False,
    dccp: Annotated[
        bool, typer.Option("--dccp", help="Measure what datagrams cost: DCCP in memory and over loopback, beside UDP.")
    ] = False,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Runs of each case, 3, or rounds: schemes 201, allocators 51, datagrams 3; the median counts.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row, and nothing else.")] = False,
    ns3: Annotated[bool, typer.Option("--ns3/--no-ns3", help="Compare with ns-3, if that is installed.")] = True,
) -> None:
    """Measure the engine: data packets delivered per wall-second on one core."""
    from narrows import bench as work
    from narrows import tables

    if schemes + allocators + dccp > 1:
        raise Misuse("--schemes, --allocators, --dccp: accepted: one of them, or none")
    if schemes or allocators or dccp:
        if schemes:
            costs, table = work.costs(list(names or ()), repeats or work.ROUNDS), tables.costs_table
        elif allocators:
            costs, table = work.ports(list(names or ()), repeats or work.TURNS), tables.ports_table
        else:
            from narrows import bench_datagrams

            try:
                costs = bench_datagrams.run(list(names or ()), repeats or bench_datagrams.ROUNDS, say)
            except engine.LiveFailed as error:
                fail(str(error), FAILURE)
            table = tables.datagrams_table
        if as_json:
            for row in costs:
                print(json.dumps(row))
        else:
            show(table(costs))
        return
    rows = work.run(list(names or ()), repeats or work.REPEATS, say)
    if not as_json:
        show(tables.bench_table(rows))
    if ns3:
        for line in work.beside_ns3(rows):
            say(line)
    if as_json:
        for row in rows:
            print(json.dumps(row))
    failed = [row["case"] for row in rows if row["failed"]]
    if failed:
        fail(f"these cases failed: {', '.join(failed)}", FAILURE)


dccp = typer.Typer(
    name="dccp", help="Send and receive DCCP over UDP (RFC 6773), on real networks.", no_args_is_help=True
)
app.add_typer(dccp)

LiveDuration = Annotated[str | None, typer.Option(metavar="TIME", help="End after this; else with Ctrl-C.")]
Patience = Annotated[
    str, typer.Option(metavar="TIME", help="How long to wait for an answer, or for a sender that is silent.")
]
Capture = Annotated[Path | None, typer.Option(metavar="FILE", help="Keep all packets, as pcap.")]
LiveJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per connection, and nothing else.")]


@dccp.command()
@guarded
def send(
    host: Annotated[
        str, typer.Argument(metavar="HOST[:PORT]", help="Where to; an IPv6 address with a port: [::1]:6511.")
    ],
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", metavar="NAME[:KEY=VALUE,...]", help="What controls the data; else CCID 2."),
    ] = None,
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="Send at a constant rate.")] = None,
    video: Annotated[
        str | None, typer.Option(metavar="RATE", help="Send a video of variable rate, this the mean.")
    ] = None,
    size: Annotated[int, typer.Option(metavar="BYTES", min=8, max=65000, help="Payload of a datagram.")] = 1400,
    queue: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Datagrams that wait at most; else a frame of the video, or 100 ms of the rate, 64 MiB at most.",
        ),
    ] = None,
    overflow: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="What a full queue of a --rate or --video drops: drop-oldest (the default), drop-newest.",
        ),
    ] = None,
    duration: LiveDuration = None,
    timeout: Patience = "10s",
    capture: Capture = None,
    as_json: LiveJson = False,
) -> None:
    """Send datagrams: as many as the network takes, or those of a source."""
    from narrows import live

    live.send(
        host, scheme=scheme, rate=rate, video=video, size=size, queue=queue, overflow=overflow,
        run=live.Run(duration=duration, timeout=timeout, capture=capture, as_json=as_json),
    )  # fmt: skip


@dccp.command()
@guarded
def recv(
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where to listen.")] = "0.0.0.0:6511",
    once: Annotated[bool, typer.Option("--once", help="Serve one connection, then end.")] = False,
    connections: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Serve so many at a time; others are told: too busy.")
    ] = 64,
    duration: LiveDuration = None,
    timeout: Patience = "10s",
    capture: Capture = None,
    as_json: LiveJson = False,
) -> None:
    """Receive datagrams, of several connections at a time."""
    from narrows import live

    live.receive(
        listen, once=once, connections=connections,
        run=live.Run(duration=duration, timeout=timeout, capture=capture, as_json=as_json),
    )  # fmt: skip


@dccp.command()
def dissector() -> None:
    """Print where the file is that makes Wireshark and tshark read DCCP in UDP.

    tshark -X "lua_script:$(narrows dccp dissector)" -r capture.pcap
    """
    from narrows import live

    print(live.DISSECTOR)


def main() -> None:
    """Run the command."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who called: narrows … >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (until the end)
    try:
        app(args=spelled_out(sys.argv[1:]), prog_name="narrows")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
