"""`narrows nodectl`."""

from __future__ import annotations

from typing import Annotated

import typer

from narrows.cli.numbers import parameters, whole
from narrows.cli.outcome import guarded

app = typer.Typer(
    name="nodectl",
    help="Negotiate sending rates with network nodes, by the messages of Nodectl over UDP.",
    no_args_is_help=True,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object, and nothing else.")]
Duration = Annotated[str | None, typer.Option(metavar="TIME", help="Stop after this time; by default on Ctrl-C.")]
ResponderPort = Annotated[
    int | None, whole("--responder-port", 1, 65_535, metavar="PORT", help="Set the UDP port of clients.")
]


@app.command()
@guarded
def node(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS[:PORT]", help="Listen at this IPv4 address for messages.")
    ] = "0.0.0.0",
    port: Annotated[
        str | None, typer.Option("--port", metavar="IF", help="Allocate the speed of this network interface.")
    ] = None,
    rate: Annotated[str | None, typer.Option(metavar="RATE", help="Allocate this rate, headers included.")] = None,
    next_nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--next",
            metavar="[NET/BITS=]ADDRESS[:PORT]",
            help="Forward requests for clients in this network, or all others, to this node (repeatable). Without one"
            " they go to the client.",
        ),
    ] = None,
    sets: Annotated[list[str] | None, parameters("router algorithm")] = None,
    limit: Annotated[
        int, whole("--limit", 1, 1_000_000, help="Limit messages from, and to, one address to N per second.")
    ] = 2000,
    responder_port: ResponderPort = None,
    duration: Duration = None,
    as_json: AsJson = False,
) -> None:
    """Negotiate for one port of a router. The router forwards the data; the node exchanges messages only."""
    from narrows import negotiation

    negotiation.node(
        listen, interface=port, rate=rate, next_nodes=next_nodes or [], sets=sets or [], limit=limit,
        responder_port=responder_port, duration=duration, as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
def server(
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS[:PORT]", help="Listen at this IPv4 address for clients (TCP).")
    ] = "0.0.0.0",
    via: Annotated[
        str | None,
        typer.Option(metavar="NODE[:PORT]", help="Send requests to this node, the first one on the path to clients."),
    ] = None,
    max_rate: Annotated[str | None, typer.Option("--max", metavar="RATE", help="Request at most this rate.")] = None,
    connections: Annotated[int, whole("--connections", 1, 10_000, help="Serve up to N connections at a time.")] = 256,
    no_program: Annotated[
        bool, typer.Option("--no-program", help="Pace writes instead of loading a program into the kernel.")
    ] = False,
    duration: Duration = None,
    as_json: AsJson = False,
) -> None:
    """Send to clients at the rates that the nodes grant.

    As root a program in the kernel paces each connection; otherwise the server paces its writes.
    """
    from narrows import negotiation

    negotiation.server(
        listen, via=via, max_rate=max_rate, connections=connections, program=not no_program, duration=duration,
        as_json=as_json,
    )  # fmt: skip


@app.command()
@guarded
def request(
    host: Annotated[str, typer.Argument(metavar="SERVER[:PORT]", help="Receive from this server.")],
    size: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Request this much, such as 10MB; by default until --duration.")
    ] = None,
    subflows: Annotated[int, whole("--subflows", 1, 16, help="Use N connections, which share one allocation.")] = 1,
    content: Annotated[int, whole("--content", 0, 2**32 - 1, help="Set the content ID.")] = 1,
    max_rate: Annotated[str | None, typer.Option("--max", metavar="RATE", help="Request at most this rate.")] = None,
    min_rate: Annotated[
        str | None, typer.Option("--min", metavar="RATE", help="Accept no less than this rate.")
    ] = None,
    limit: Annotated[str | None, typer.Option(metavar="RATE", help="Grant at most this rate.")] = None,
    bind: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Use this own IPv4 address.")] = None,
    responder_port: ResponderPort = None,
    duration: Annotated[str | None, typer.Option(metavar="TIME", help="Stop after this time.")] = None,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Give up on a silent server after this time.")] = "10s",
    as_json: AsJson = False,
) -> None:
    """Receive from a server, and answer the requests for a rate."""
    from narrows import negotiation

    negotiation.request(
        host, size=size, subflows=subflows, content=content, max_rate=max_rate, min_rate=min_rate, limit=limit,
        bind=bind, responder_port=responder_port, duration=duration, timeout=timeout, as_json=as_json,
    )  # fmt: skip
