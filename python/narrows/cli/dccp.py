"""`narrows dccp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.numbers import whole
from narrows.cli.outcome import guarded

app = typer.Typer(name="dccp", help="Send and receive DCCP over UDP (RFC 6773) on real networks.", no_args_is_help=True)

Duration = Annotated[str | None, typer.Option(metavar="TIME", help="Stop after this time; by default on Ctrl-C.")]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Give up on a silent peer after this time.")]
Capture = Annotated[Path | None, typer.Option(metavar="FILE", help="Write all packets to a pcap file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per connection, and nothing else.")]


@app.command()
@guarded
def send(
    host: Annotated[
        str, typer.Argument(metavar="HOST[:PORT]", help="Send to this host. An IPv6 address with a port: [::1]:6511.")
    ],
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", metavar="NAME[:KEY=VALUE,...]", help="Select the scheme; CCID 2 by default."),
    ] = None,
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="Send at a constant rate.")] = None,
    video: Annotated[
        str | None, typer.Option(metavar="RATE", help="Send a video of variable rate with this mean.")
    ] = None,
    size: Annotated[int, whole("--size", 8, 65_000, metavar="BYTES", help="Set the payload of a datagram.")] = 1400,
    queue: Annotated[
        int | None,
        whole(
            "--queue",
            1,
            1_000_000,
            help="Limit the queue to N datagrams; by default to one video frame or 100 ms of the rate, and to 64 MiB.",
        ),
    ] = None,
    overflow: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Set the drop rule of a full queue of --rate or --video: drop-oldest (default) or drop-newest.",
        ),
    ] = None,
    duration: Duration = None,
    timeout: Timeout = "10s",
    capture: Capture = None,
    as_json: AsJson = False,
) -> None:
    """Send datagrams: as many as the scheme permits, or those of a live source."""
    from narrows import live

    live.send(
        host, scheme=scheme, rate=rate, video=video, size=size, queue=queue, overflow=overflow,
        session=live.Session(duration=duration, timeout=timeout, capture=capture, as_json=as_json),
    )  # fmt: skip


@app.command()
@guarded
def recv(
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Listen at this address.")] = "0.0.0.0:6511",
    once: Annotated[bool, typer.Option("--once", help="Serve one connection, then exit.")] = False,
    connections: Annotated[
        int, whole("--connections", 1, 10_000, help="Serve up to N connections at a time; refuse others as too busy.")
    ] = 64,
    duration: Duration = None,
    timeout: Timeout = "10s",
    capture: Capture = None,
    as_json: AsJson = False,
) -> None:
    """Receive datagrams of several connections at a time."""
    from narrows import live

    live.receive(
        listen, once=once, connections=connections,
        session=live.Session(duration=duration, timeout=timeout, capture=capture, as_json=as_json),
    )  # fmt: skip


@app.command()
def dissector() -> None:
    """Print the path of the script with which Wireshark and tshark decode DCCP in UDP.

    tshark -X "lua_script:$(narrows dccp dissector)" -r capture.pcap
    """
    from narrows import live

    print(live.DISSECTOR)
